"""Claude Code's settings files: our hooks go in and out, everything else stays in its order, with its indentation."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vibe_gate.domain import paths
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.faces.claude_hook import capture, guard, spool

SCRIPTS = ("vibe_gate/faces/claude_hook/capture.py", "vibe_gate/faces/claude_hook/guard.py")
"""How an argument of our own hooks ends, wherever vibe-gate is installed."""

CAPTURED = (
    "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PermissionDenied", "Notification",
    "SubagentStart", "SubagentStop", "PreCompact", "Stop", "SessionEnd",
)  # fmt: skip
"""What is kept of a session. PostToolUse says all that PreToolUse does, and how long the call took."""

LAST = frozenset({"Stop", "SessionEnd"})
"""Claude Code may end right after them, and takes hooks in the background with it."""

GUARDED_TOOLS = "Bash|Edit|MultiEdit|Write|NotebookEdit"
"""A matcher. Names alone are compared whole; in a pattern "Edit" would stand for other tools as well."""

CAPTURE_TIMEOUT_S = 10
GUARD_TIMEOUT_S = 5  # it takes a hundredth of a second; when time is up, Claude Code goes on without it

Groups = Mapping[str, Sequence[Mapping[str, Any]]]
"""Event -> groups of hooks, as the settings hold them."""

_HALF = re.compile("[\ud800-\udfff]")
_INDENTED = re.compile(r"\n([ \t]+)\S")


def own_hooks(*, shared: bool = False, user: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Our groups by event, in exec form: no shell. `shared`: what every machine has, `vibe-gate` on PATH.

    Otherwise a bare interpreter, which starts in a tenth of the time: no site, nothing from the repository. `user`:
    they do nothing where vibe-gate is not used.
    """
    more = (spool.USER,) if user else ()
    seen = _hook("capture" if shared else capture.__file__, CAPTURE_TIMEOUT_S, *more)
    guarded = _hook("guard" if shared else guard.__file__, GUARD_TIMEOUT_S, *more)
    groups: dict[str, list[dict[str, Any]]] = {
        event: [{"hooks": [seen if event in LAST else seen | {"async": True}]}] for event in CAPTURED
    }
    return groups | {"PreToolUse": [{"matcher": GUARDED_TOOLS, "hooks": [guarded]}]}


def user_settings(environ: Mapping[str, str]) -> Path:
    """The settings of Claude Code that are the user's own, with links resolved: they are the user's. UsageError."""
    home = environ.get("CLAUDE_CONFIG_DIR") or (f"{environ['HOME']}/.claude" if environ.get("HOME") else "")
    if not home:
        raise UsageError("neither HOME nor CLAUDE_CONFIG_DIR is set, so there is no place for settings of your own.")
    if not home.startswith("/"):
        raise UsageError(f"{_shown(Path(home))} is a relative path: set HOME or CLAUDE_CONFIG_DIR to an absolute one.")
    return Path(os.path.realpath(f"{home}/settings.json"))


def _hook(script: str, timeout_s: int, *more: str) -> dict[str, Any]:
    """`script`: a file for a bare interpreter, or a command of `vibe-gate`."""
    own = [sys.executable, "-I", "-S", script, *more] if script.endswith(".py") else ["vibe-gate", script]
    return {"type": "command", "command": own[0], "args": own[1:], "timeout": timeout_s}


def read_settings(path: Path, below: Path) -> str | None:
    """The text of a settings file; None if there is none. UsageError if it leads elsewhere or cannot be read."""
    content = read_file(path, below)
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{_shown(path)} cannot be read: {error}. Nothing was changed.") from error


def write_settings(path: Path, below: Path, text: str | None) -> None:
    """As `write_file`."""
    write_file(path, below, None if text is None else text.encode("utf-8"))


def read_file(path: Path, below: Path) -> bytes | None:
    """What is in a file; None if there is none. UsageError if it leads elsewhere (`below` may) or cannot be read."""
    _no_links(path, below)
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no ordinary file")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{_shown(path)} cannot be read: {error}. Nothing was changed.") from error


def write_file(path: Path, below: Path, content: bytes | None) -> None:
    """Put the bytes there, whole or not at all; None removes the file, and its folder if it is empty. StorageError."""
    _no_links(path, below)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        if content is None:
            path.unlink(missing_ok=True)
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # whatever the umask takes away: the file keeps who may read and write it
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"{_shown(path)} cannot be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def add_hooks(text: str | None, wanted: Groups, name: str) -> str:
    """The settings with our hooks as `wanted` in place of those that are there. UsageError, naming the file `name`."""
    if text is None:
        return json.dumps({"hooks": wanted}, indent=2) + "\n"
    if hooks_of(text, name) == wanted:
        return text
    document = _document(drop_hooks(text, name) or "{}", name)
    hooks = document.setdefault("hooks", {})
    for event, groups in wanted.items():
        hooks[event] = [*hooks.get(event, []), *groups]
    return _laid_out(document, text)


def drop_hooks(text: str, name: str) -> str | None:
    """The settings without our hooks; None if nothing else is in them. UsageError, naming the file `name`."""
    if not hooks_of(text, name):
        return text
    document = _document(text, name)
    left = {event: _without_ours(groups) for event, groups in document["hooks"].items()}
    document["hooks"] = {event: groups for event, groups in left.items() if groups}
    if not document["hooks"]:
        del document["hooks"]
    return _laid_out(document, text) if document else None


def hooks_of(text: str, name: str) -> dict[str, list[Any]]:
    """Our own groups by event, in the order of the text. UsageError, naming the file `name`."""
    hooks = _document(text, name).get("hooks", {})
    ours = {event: [group for group in groups if any(map(_is_ours, _hooks(group)))] for event, groups in hooks.items()}
    return {event: groups for event, groups in ours.items() if groups}


def _without_ours(groups: list[Any]) -> list[Any]:
    left = []
    for group in groups:
        others = [hook for hook in _hooks(group) if not _is_ours(hook)]
        if len(others) == len(_hooks(group)):
            left.append(group)
        elif others:
            left.append({**group, "hooks": others})
    return left


def _document(text: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no valid JSON ({error}); mend it first. Nothing was changed.") from error
    if not isinstance(document, dict):
        raise UsageError(f"{name} is no JSON object; mend it first. Nothing was changed.")
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise UsageError(f'"hooks" in {name} is not what Claude Code reads (event -> list). Nothing was changed.')
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _laid_out(document: dict[str, Any], like: str) -> str:
    """The document with the indentation, the line ends and the last line feed of a text."""
    indented = _INDENTED.search(like)
    indent = indented[1] if indented else 2
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    if _HALF.search(text):  # an escape in the JSON that no UTF-8 can spell
        text = json.dumps(document, indent=indent)
    text += "\n" if like.endswith("\n") else ""
    return text.replace("\n", "\r\n") if "\r\n" in like else text


def _hooks(group: object) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def _is_ours(hook: object) -> bool:
    arguments = hook.get("args") if isinstance(hook, dict) else None
    if not isinstance(hook, dict) or not isinstance(arguments, list):
        return False
    shared = hook.get("command") == "vibe-gate" and arguments in (["capture"], ["guard"])
    return shared or any(str(argument).endswith(SCRIPTS) for argument in arguments)


def _no_links(path: Path, below: Path) -> None:
    for place in (path, *path.parents):
        if place == below:
            return
        if place.is_symlink():
            raise UsageError(f"{_shown(place)} is a symbolic link and may lead anywhere; nothing was changed.")


def _shown(path: Path) -> str:
    return paths.quote(str(path))
