"""Agents' settings files: our hooks go in and out, everything else stays in its order, with its
indentation.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vibe_gate.domain import paths
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.faces.agent_hook import spool
from vibe_gate.faces.agent_hook.hooked_agents import Groups

_HALF = re.compile("[\ud800-\udfff]")
_INDENTED = re.compile(r"\n([ \t]+)\S")


def read_settings(path: Path, below: Path) -> str | None:
    """The text of a settings file; None if there is none. UsageError if it leads elsewhere or
    cannot be read.
    """
    content = read_file(path, below)
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{_quoted_path(path)} cannot be read: {error}.") from error


def write_settings(path: Path, below: Path, text: str | None) -> None:
    """As `write_file`."""
    write_file(path, below, None if text is None else text.encode("utf-8"))


def read_file(path: Path, below: Path) -> bytes | None:
    """What is in a file; None if there is none. UsageError if it leads elsewhere (`below` may) or
    cannot be read.
    """
    _no_links(path, below)
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no ordinary file")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{_quoted_path(path)} cannot be read: {error}.") from error


def write_file(path: Path, below: Path, content: bytes | None) -> None:
    """Put the bytes there, whole or not at all; None removes the file, and its folder if it is
    empty. StorageError.
    """
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
            os.fchmod(
                descriptor, mode
            )  # whoever may read and write it keeps that despite the umask
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(
            f"{_quoted_path(path)} cannot be written: {error.strerror or error}."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _unchanged_on_error() -> Iterator[None]:
    """Say of settings that are refused that they stay as they are."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{error} Nothing was changed.") from error


@_unchanged_on_error()
def add_hooks(text: str | None, hook_groups: Groups, name: str) -> str:
    """The settings with these hooks in place of those of ours that are there. UsageError, naming
    the file `name`.
    """
    if text is None:
        return json.dumps({"hooks": hook_groups}, indent=2) + "\n"
    if hooks_of(text, name) == hook_groups:
        return text
    document = _document(drop_hooks(text, name) or "{}", name)
    hooks = document.setdefault("hooks", {})
    for event, groups in hook_groups.items():
        hooks[event] = [*hooks.get(event, []), *groups]
    return _laid_out(document, text)


@_unchanged_on_error()
def drop_hooks(text: str, name: str) -> str | None:
    """The settings without our hooks; None if nothing else is in them. UsageError, naming the file
    `name`.
    """
    if not hooks_of(text, name):
        return text
    document = _document(text, name)
    remaining: dict[str, list[Any]] = {}
    for event, groups in document["hooks"].items():
        other_groups = _without_ours(groups)
        if other_groups:
            remaining[event] = other_groups
    if remaining:
        document["hooks"] = remaining
    else:
        del document["hooks"]
    if not document:
        return None
    return _laid_out(document, text)


def hooks_of(text: str, name: str) -> dict[str, list[Any]]:
    """Our own groups by event, in the order of the text. UsageError, naming the file `name`."""
    our_hooks: dict[str, list[Any]] = {}
    for event, groups in _document(text, name).get("hooks", {}).items():
        our_groups = [group for group in groups if any(map(_is_ours, _hooks(group)))]
        if our_groups:
            our_hooks[event] = our_groups
    return our_hooks


def has_script(hooks: Groups, script: str) -> bool:
    """Whether our hooks start this script."""
    return any(spool.runs(spool.words_of(hook), script) for hook in _all_hooks(hooks))


def missing_scripts(hooks: Groups) -> bool:
    """Whether our hooks name a script that is not there any more: vibe-gate was moved."""
    for hook in _all_hooks(hooks):
        if not _is_ours(hook):
            continue
        scripts = [word for word in spool.words_of(hook) if word.endswith(".py")]
        if not all(Path(script).is_file() for script in scripts):
            return True
    return False


def _all_hooks(hooks: Groups) -> Iterator[Any]:
    """The hooks of all events."""
    for groups in hooks.values():
        for group in groups:
            yield from _hooks(group)


def _without_ours(groups: list[Any]) -> list[Any]:
    remaining = []
    for group in groups:
        other_hooks = [hook for hook in _hooks(group) if not _is_ours(hook)]
        if len(other_hooks) == len(_hooks(group)):
            remaining.append(group)
        elif other_hooks:
            remaining.append({**group, "hooks": other_hooks})
    return remaining


def _document(text: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no valid JSON ({error}); mend it first.") from error
    if not isinstance(document, dict):
        raise UsageError(f"{name} is no JSON object; mend it first.")
    if not _is_lists_by_event(document.get("hooks", {})):
        raise UsageError(
            f'"hooks" in {name} is not an object of lists by event. Nothing was changed.'
        )
    return document


def _is_lists_by_event(hooks: object) -> bool:
    return isinstance(hooks, dict) and all(isinstance(groups, list) for groups in hooks.values())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return members


def _laid_out(document: dict[str, Any], like: str) -> str:
    """The document with the indentation, the line ends and the last line feed of a text."""
    indented = _INDENTED.search(like)
    indent = indented[1] if indented else 2
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    if _HALF.search(text):  # an escape in the JSON that no UTF-8 can spell
        text = json.dumps(document, indent=indent)
    if like.endswith("\n"):
        text += "\n"
    if "\r\n" in like:
        text = text.replace("\n", "\r\n")
    return text


def _hooks(group: object) -> list[Any]:
    """The hooks of a group; none of what is no group."""
    if not isinstance(group, dict):
        return []
    hooks = group.get("hooks")
    return hooks if isinstance(hooks, list) else []


def _is_ours(hook: object) -> bool:
    if not isinstance(hook, dict):
        return False
    words = spool.words_of(hook)
    return any(spool.runs(words, script) for script in spool.SCRIPT_NAMES)


def _no_links(path: Path, below: Path) -> None:
    for place in (path, *path.parents):
        if place == below:
            return
        if place.is_symlink():
            raise UsageError(
                f"{_quoted_path(place)} is a symbolic link and may lead anywhere; nothing was changed."
            )


def _quoted_path(path: Path) -> str:
    return paths.quote(str(path))
