"""`install git` and `uninstall git`: hooks for repositories without a framework."""

from __future__ import annotations

import contextlib
import shlex
import site
import sys
from pathlib import Path

from vibe_gate.domain.escape import safe
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.faces.git_hook.githooks import KEPT, Owner, check_room, owner, put, stands, take_away, take_away_moved
from vibe_gate.faces.git_hook.scripts import HOOKS, PASSED, Home, script
from vibe_gate.git import Repository

PACKAGE = Path(__file__).resolve().parents[2]

CONFIG = """\
  - repo: https://github.com/vibe-gate/vibe-gate
    rev: v{version}
    hooks: [{{id: vibe-gate}}, {{id: vibe-gate-msg}}, {{id: vibe-gate-push}}, {{id: vibe-gate-record}}]"""

ADVICE: dict[Owner, str] = {
    "pre-commit": "add this to .pre-commit-config.yaml under `repos:`, then `pre-commit install -t pre-commit "
    "-t pre-merge-commit -t commit-msg -t pre-push -t post-commit -t post-rewrite`:\n{config}",
    "prek": "add this to .pre-commit-config.yaml under `repos:`, then `prek install -t pre-commit "
    "-t pre-merge-commit -t commit-msg -t pre-push -t post-commit -t post-rewrite`:\n{config}",
    "husky": 'add this line to .husky/{name}:\n  vibe-gate hook {name} -- "$@"',
    "lefthook": "add this to lefthook.yml under `{name}:` `commands:`:\n  vibe-gate: {{run: vibe-gate hook {name}}}",
}
"""What to do instead where a framework owns a hook."""


def install(repository: Repository, version: str, names: tuple[str, ...] = HOOKS) -> list[str]:
    """Write the hooks; sentences for people. UsageError if another tool owns one of them."""
    folder = _folder(repository)
    for name in names:
        check_room(folder, name)
        whose = "husky" if ".husky" in folder.parts else owner(folder / name)
        if whose in ADVICE:
            advice = ADVICE[whose].format(name=name, config=CONFIG.format(version=version))
            raise UsageError(f"{whose} owns the hook {name} here. Instead of installing it, {advice}")
    state = repository.common_dir / "vibe-gate"
    try:
        state.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"{state} could not be made: {error.strerror}.") from error
    scripts = _scripts(repository, folder)
    if all(stands(folder, name, scripts[name]) for name in names):
        return [f"unchanged: hooks in {safe(str(folder))}: {', '.join(names)}"]
    lines = [f"Hooks in {safe(str(folder))}: {', '.join(names)}"]
    for name in names:
        if put(folder, name, scripts[name]):
            lines.append(f"Your hook {name} is kept as {name}{KEPT} and runs first.")
    if folder.is_relative_to(repository.root) and not folder.is_relative_to(repository.common_dir):
        lines.append("They are in the working tree (core.hooksPath) and name this machine's paths: do not commit them.")
    return lines


def outdated(repository: Repository) -> tuple[str, ...] | None:
    """The hooks here that are not what this vibe-gate would write; None where none of them is ours."""
    folder = repository.hooks_folder()
    ours = [name for name in HOOKS if owner(folder / name) == "vibe-gate"]
    scripts = _scripts(repository, folder)
    return tuple(name for name in HOOKS if not stands(folder, name, scripts[name])) if ours else None


def _scripts(repository: Repository, folder: Path) -> dict[str, bytes]:
    state = _as_sh(repository.common_dir / "vibe-gate", folder, repository.common_dir)
    home = Home(sys.executable, _flags(), PACKAGE, state)
    return {name: script(name, home) for name in HOOKS}


def has_gate(repository: Repository) -> bool:
    """Whether the pre-commit hook here is ours: then `install git` has written all of them."""
    return owner(repository.hooks_folder() / "pre-commit") == "vibe-gate"


def uninstall(repository: Repository, names: tuple[str, ...] = HOOKS) -> list[str]:
    """Take the hooks away and put back what was there before; sentences for people."""
    folder = _folder(repository)
    done = {name: take_away(folder, name) for name in names}
    moved = [name for name in names if done[name] == "foreign" and take_away_moved(folder, name) != "absent"]
    state = repository.common_dir / "vibe-gate"
    with contextlib.suppress(OSError):
        (repository.common_dir / PASSED).unlink()
    with contextlib.suppress(OSError):  # records stay, and the folder with them
        state.rmdir()
    lines = [f"Your hook {name} is back." for name, how in done.items() if how == "restored"]
    lines += [f"The hook {name} is not vibe-gate's; kept." for name, how in done.items() if how == "foreign"]
    lines += [f"Removed vibe-gate's part, which ran before the hook {name}." for name in moved]
    gone = [name for name, how in done.items() if how in ("removed", "restored")] + moved
    first = f"Removed from {safe(str(folder))}: {', '.join(gone)}" if gone else "No hooks of vibe-gate are installed."
    return [first, *lines]


def _folder(repository: Repository) -> Path:
    """Git's folder of hooks, which must belong to this repository alone."""
    folder = repository.hooks_folder()
    real = folder.resolve()
    if not any(real.is_relative_to(own.resolve()) for own in (repository.common_dir, repository.root)):
        raise UsageError(
            f"git takes its hooks from {safe(str(folder))} (core.hooksPath), outside of this repository: hooks there "
            "would run in others too. Use a folder of its own, `git config --local core.hooksPath .git/hooks`, or add "
            'this line to each hook there: vibe-gate hook NAME -- "$@"'
        )
    return folder


def _flags() -> str:
    user = site.getusersitepackages()
    return "-EP" if PACKAGE.is_relative_to(user) else "-I"


def _as_sh(state: Path, folder: Path, common_dir: Path) -> str:
    """The folder of records as sh reads it: beside the hooks where they are in their usual place, so that it moves
    with them."""
    return '"${0%/*}/../vibe-gate"' if folder == common_dir / "hooks" else shlex.quote(str(state))
