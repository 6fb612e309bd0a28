"""What a person adds to a framework's settings, so that its hooks run vibe-gate."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from vibe_gate.domain.escape import safe
from vibe_gate.faces.git_hook.frameworks import (
    REVIEWING,
    TRANSACTION,
    Framework,
    InstalledHooks,
    hooks_waiting_for_husky,
    husky_script,
    keeps_unused_hooks,
    lefthook_settings_have,
    simple_settings,
)

CONFIG = """\
  - repo: https://github.com/vibe-gate/vibe-gate
    rev: v{version}
    hooks: [{{id: vibe-gate}}, {{id: vibe-gate-msg}}, {{id: vibe-gate-push}}, {{id: vibe-gate-record}}]"""

_PRE_COMMIT = """\
Add this to .pre-commit-config.yaml under `repos:`, if it is not there:
{config}
then run:
  {framework} install {types}"""

_NOT_INSTALLED = "vibe-gate is not installed: this commit is not reviewed (pipx install vibe-gate)"
"""For people who have the committed settings and not the program: CI reviews what they push."""

_HUSKY = """\
Run this in {root}, then commit {scripts}:
  for hook in {names}; do
    printf '\\n{command}\\n' $hook >>{scripts}/$hook
  done"""

_LEFTHOOK_ARGUMENTS: Mapping[str, str] = {
    "commit-msg": " -- {1}",
    "pre-push": " -- {0}",
    "post-rewrite": " -- {0}",
}
"""What lefthook puts in place of git's arguments, at the hooks that have some."""

_LEFTHOOK_INPUT = ("pre-push", "post-rewrite")
"""The hooks whose input has lines of git's."""

_UNUSED = f'"preserveUnused": ["{TRANSACTION}"]'

KEEP_UNUSED = (
    f"simple-git-hooks deletes {TRANSACTION} whenever it runs, unless its settings have {_UNUSED}."
)


def advise_framework(hooks: InstalledHooks, root: Path, folder: Path, version: str) -> str:
    """What to add for the hooks that do not run vibe-gate; "" if nothing is missing."""
    if hooks.framework is None or not hooks.missing:
        return ""
    if waiting := hooks_waiting_for_husky(hooks, folder):
        names = ", ".join(waiting)
        return f"husky has not written its hooks in {safe(str(root))} (missing: {names}). Run `npx husky` there."
    first = f"{hooks.framework} manages the hooks here, and does not run vibe-gate at {', '.join(hooks.missing)}."
    return f"{first} {_ADVISERS[hooks.framework](hooks, root, folder, version)}"


def settings_with_gate(hooks: InstalledHooks, root: Path, folder: Path) -> str:
    """The files whose lines make the framework run vibe-gate."""
    match hooks.framework:
        case "pre-commit" | "prek":
            return ".pre-commit-config.yaml"
        case "lefthook":
            return "lefthook.yml"
        case "simple-git-hooks":
            return f"the settings of simple-git-hooks ({simple_settings(root)})"
    scripts = [husky_script(folder, name) for name in hooks.running]
    return ", ".join(safe(_relative(script, root)) for script in scripts)


def _advise_pre_commit(hooks: InstalledHooks, _root: Path, _folder: Path, version: str) -> str:
    types = " ".join(f"-t {name}" for name in REVIEWING)
    return _PRE_COMMIT.format(
        config=CONFIG.format(version=version), framework=hooks.framework, types=types
    )


def _advise_husky(hooks: InstalledHooks, root: Path, folder: Path, _version: str) -> str:
    scripts = _relative(husky_script(folder, "pre-commit").parent, root)
    names = " ".join(hooks.missing)
    command = _if_installed('vibe-gate hook %s -- "$@"')
    advice = _HUSKY.format(
        root=safe(str(root)), scripts=safe(shlex.quote(scripts)), names=names, command=command
    )
    if "pre-commit" not in hooks.missing:
        return advice
    sentence = f"  echo '{_say_not_installed()}' >>{safe(shlex.quote(scripts))}/pre-commit"
    return f"{advice}\n{sentence}"


def _advise_lefthook(hooks: InstalledHooks, root: Path, _folder: Path, _version: str) -> str:
    lines = ["Add this to lefthook.yml, then run `lefthook install`:"]
    present = [name for name in hooks.missing if lefthook_settings_have(root, name)]
    if present:
        names = ", ".join(present)
        lines.insert(
            0,
            f"lefthook.yml has {names} already: add the command below the key that is there, as a line",
        )
        lines.insert(
            1,
            "of its `commands:`, or as `- run: ...` of its `jobs:`. A second key breaks the file.",
        )
    for name in hooks.missing:
        lines += [f"{name}:", "  commands:", f"    vibe-gate: {_lefthook_command(name)}"]
    return "\n".join(lines)


def _lefthook_command(name: str) -> str:
    """The entry of a hook as YAML writes it on one line."""
    command = _if_installed(f"vibe-gate hook {name}{_LEFTHOOK_ARGUMENTS.get(name, '')}")
    if name == "pre-commit":
        command = f"{_say_not_installed()}; {command}"
    use_input = ", use_stdin: true" if name in _LEFTHOOK_INPUT else ""
    return f"{{run: {json.dumps(command)}{use_input}}}"


def _advise_simple(hooks: InstalledHooks, root: Path, _folder: Path, _version: str) -> str:
    entries = [f'    "{name}": {json.dumps(_simple_command(name))}' for name in hooks.missing]
    if not keeps_unused_hooks(root):
        entries.append(f"    {_UNUSED}")
    body = ",\n".join(entries)
    settings = simple_settings(root)
    first = f"Add this to {settings} (to a command that is there, with `&&`), then run `npx simple-git-hooks`:"
    if settings != "package.json":
        return f"{first}\n{body}"
    return f'{first}\n  "simple-git-hooks": {{\n{body}\n  }}'


def _simple_command(name: str) -> str:
    command = _if_installed(f'vibe-gate hook {name} -- "$@"')
    if name == "pre-commit":
        return f"{{ {_say_not_installed()}; }} && {command}"
    return command


def _if_installed(command: str) -> str:
    """Shell that runs a command of vibe-gate's, and passes where the program is not installed."""
    return f"if command -v vibe-gate >/dev/null; then {command}; fi"


def _say_not_installed() -> str:
    """Shell that says, where the program is not installed, that nothing is reviewed."""
    return f'command -v vibe-gate >/dev/null || echo "{_NOT_INSTALLED}" >&2'


_ADVISERS: dict[Framework, Callable[[InstalledHooks, Path, Path, str], str]] = {
    "pre-commit": _advise_pre_commit,
    "prek": _advise_pre_commit,
    "husky": _advise_husky,
    "lefthook": _advise_lefthook,
    "simple-git-hooks": _advise_simple,
}


def _relative(path: Path, root: Path) -> str:
    if path.is_relative_to(root):
        return str(path.relative_to(root))
    return str(path)
