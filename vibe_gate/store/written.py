"""Which blobs a tool call wrote: git's ids of the contents, as the event tells them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MAX_FILE_BYTES = 10 << 20
"""Of a file whose content is read back from disk."""

MAX_TEXT = 10 << 20
"""Letters that an edit may lead to: a bundle keeps no larger content. A line may tell of edits that make terabytes."""

MAX_EDITING = 128 << 20
"""Letters that all edits of one call may go through."""

SETTLING_MS = 2_000
"""A file that changed no later than this after the call is still the agent's (formatters run as hooks, too)."""

_PATHS = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}


def blobs_of(event: Mapping[str, Any], ts: int) -> Iterator[tuple[str, str]]:
    """Blob ids with the path, of an event at `ts` (milliseconds since 1970); nothing for one that wrote nothing."""
    asked, answer = event.get("tool_input"), event.get("tool_response")
    tool = event.get("tool_name")
    if event.get("hook_event_name") != "PostToolUse" or not isinstance(tool, str) or not isinstance(asked, dict):
        return
    path = asked.get(_PATHS.get(tool))
    if not isinstance(path, str):
        return
    content = _content(tool, asked, answer if isinstance(answer, dict) else {})
    if content is not None:
        for data in filter(None, _as_stored(content)):  # whoever makes an empty file makes the same one
            yield blob_id(data), path
    found = _on_disk(path, ts)
    if found:
        yield blob_id(found), path


def blob_id(data: bytes) -> str:
    """The id that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _content(tool: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    """The file's whole text after the call, where the event tells it."""
    if tool == "Write":
        return _text(answer, "content") or _text(asked, "content")
    original = _text(answer, "originalFile")
    if original is None or tool == "NotebookEdit":
        return None
    edits = asked.get("edits") if tool == "MultiEdit" else [asked]
    if not isinstance(edits, list):
        return None
    done = 0
    for edit in edits:
        done += len(original)
        original = _edited(original, edit, answer if tool == "Edit" else {}) if done <= MAX_EDITING else None
        if original is None:
            return None
    return original


def _edited(text: str, edit: object, answer: Mapping[str, Any]) -> str | None:
    if not isinstance(edit, dict):
        return None
    # What the answer tells is what was done: the user may have changed the proposal.
    old = _text(answer, "oldString", _text(edit, "old_string"))
    new = _text(answer, "newString", _text(edit, "new_string"))
    if old is None or new is None or (old and old not in text):
        return None
    if not old:
        return new if not text else None
    times = text.count(old) if edit.get("replace_all") is True else 1
    if len(text) + times * (len(new) - len(old)) > MAX_TEXT:
        return None
    return text.replace(old, new, times)


def _text(values: Mapping[str, Any], key: str, default: str | None = None) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else default


def _as_stored(text: str) -> set[bytes]:
    """The bytes that git may have stored: the events tell line ends as LF whatever the file has."""
    plain = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    return {plain, plain.replace(b"\n", b"\r\n"), text.encode("utf-8", "surrogatepass")}


def _on_disk(path: str, ts: int) -> bytes | None:
    """The file's content, if nobody has changed it since the call."""
    try:
        descriptor = os.open(Path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            return None
        if found.st_mtime_ns // 1_000_000 > ts + SETTLING_MS:
            return None
        return file.read()
