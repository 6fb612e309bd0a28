"""Claude Code's settings files: our hooks go in and out, everything else keeps its bytes."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vibe_gate.domain import paths
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.faces.claude_hook.settings.json_text import appended, parts, removed, skip
from vibe_gate.faces.claude_hook.settings.undo import Undo, Undos, regular_bytes

__all__ = ["SCRIPTS", "Undo", "Undos", "add_hooks", "drop_hooks", "hooks_of", "read_settings", "write_settings"]

SCRIPTS = ("vibe_gate/faces/claude_hook/capture.py", "vibe_gate/faces/claude_hook/guard.py")
"""How the last argument of our own hooks ends, wherever vibe-gate is installed."""

Groups = Mapping[str, Sequence[Mapping[str, Any]]]
"""Event -> groups of hooks, as the settings hold them."""


def read_settings(path: Path, below: Path) -> str | None:
    """The text of a settings file; None where there is none. UsageError where it leads elsewhere or cannot be read."""
    _no_links(path, below)
    try:
        return regular_bytes(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{_shown(path)} cannot be read: {error}. Nothing was changed.") from error


def write_settings(path: Path, below: Path, text: str | None) -> None:
    """Put the text there, whole or not at all; None removes the file. StorageError."""
    _no_links(path, below)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        if text is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)  # whatever the umask takes away: the file keeps who may read and write it
                file.write(text.encode("utf-8"))
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(f"{_shown(path)} cannot be written: {error.strerror or error}.") from error


def add_hooks(text: str | None, wanted: Groups, name: str) -> str:
    """The settings with our hooks as `wanted` in place of those that are there. UsageError, naming the file `name`."""
    if text is None:
        return json.dumps({"hooks": wanted}, indent=2) + "\n"
    if hooks_of(text, name) == {event: list(groups) for event, groups in wanted.items()}:
        return text
    text = drop_hooks(text, name)
    for event, groups in wanted.items():
        for group in groups:
            text = _with_group(text, event, group)
    _document(text, name)
    return text


def drop_hooks(text: str, name: str) -> str:
    """The settings without our hooks. UsageError, naming the file `name`."""
    _document(text, name)
    while (place := _last_of_ours(text)) is not None:
        text = _without(text, place)
    return text


def hooks_of(text: str, name: str) -> dict[str, list[Any]]:
    """Our own groups by event, in the order of the text. UsageError, naming the file `name`."""
    hooks = _document(text, name).get("hooks", {})
    ours = {event: [group for group in groups if _is_ours(group)] for event, groups in hooks.items()}
    return {event: groups for event, groups in ours.items() if groups}


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


def _is_ours(group: object) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(hooks, list) and any(_runs_ours(hook) for hook in hooks)


def _runs_ours(hook: object) -> bool:
    arguments = hook.get("args") if isinstance(hook, dict) else None
    return isinstance(arguments, list) and any(
        isinstance(argument, str) and argument.endswith(SCRIPTS) for argument in arguments
    )


def _with_group(text: str, event: str, group: Mapping[str, Any]) -> str:
    root = skip(text, 0)
    hooks = next((part for part in parts(text, root) if part.key == "hooks"), None)
    if hooks is None:
        return appended(text, root, 0, "hooks", {event: [group]})
    groups = next((part for part in parts(text, hooks.value) if part.key == event), None)
    if groups is None:
        return appended(text, hooks.value, 1, event, [group])
    return appended(text, groups.value, 2, None, group)


def _last_of_ours(text: str) -> tuple[str, int, int] | None:
    """Event, group and place in the group of our last hook."""
    for event, groups in json.loads(text).get("hooks", {}).items():
        for index in reversed(range(len(groups))):
            if _is_ours(groups[index]):
                ours = [place for place, hook in enumerate(groups[index]["hooks"]) if _runs_ours(hook)]
                return event, index, ours[-1]
    return None


def _without(text: str, place: tuple[str, int, int]) -> str:
    """The text without that hook, and without the lists and objects that only held it."""
    event, index, inside = place
    root = skip(text, 0)
    at_root, hooks = _named(text, root, "hooks")
    at_hooks, groups = _named(text, hooks, event)
    _, group = _named(text, parts(text, groups)[index].value, "hooks")
    if len(parts(text, group)) > 1:
        return removed(text, group, inside)
    if len(parts(text, groups)) > 1:
        return removed(text, groups, index)
    if len(parts(text, hooks)) > 1:
        return removed(text, hooks, at_hooks)
    return removed(text, root, at_root)


def _named(text: str, opening: int, key: str) -> tuple[int, int]:
    """Index of a member and where its value begins."""
    return next((index, part.value) for index, part in enumerate(parts(text, opening)) if part.key == key)


def _no_links(path: Path, below: Path) -> None:
    for place in (path, *path.parents):
        if place == below:
            return
        if place.is_symlink():
            raise UsageError(f"{_shown(place)} is a symbolic link and may lead anywhere; nothing was changed.")


def _shown(path: Path) -> str:
    return paths.quote(str(path))
