"""The files that a captured tool call wrote: where they are, their texts, and git's ids of these.

Whole texts of a file are known only if the agent tells them; the blob ids are all that git may have
stored for the file after the call.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from vibe_gate.store.agent_events import CapturedEvent, read_written_files
from vibe_gate.store.event_parts import MAX_FILE_BYTES, PatchedLines, WrittenFile, text_in
from vibe_gate.store.folder import Folder

MAX_FILES = 2_000
"""Files of one call whose lines are followed: a patch may name any number, and the next command
folds it.
"""

MAX_HUNKS = 200
"""Hunks of one file by which its text before a call is worked out."""

SETTLING_S = 2.0
"""A file that changed no later than this after a call is still the agent's (formatters run as
hooks, too).
"""


class FileWrite(Struct, frozen=True):
    """One file that one tool call wrote."""

    path: str
    tool: str
    tool_use_id: str
    before: str | None
    """The whole text before the call; "" of a new file, None if the event does not have it. Some
    agents give all line ends as LF.
    """
    after: str | None
    """The whole text after the call, as `before`."""
    blobs: frozenset[str]
    """The ids that git may give to what the call left."""
    settled: bytes | None = None
    """What lay on the disk right after the call, formatters included, if nothing has changed it
    since.
    """


def read_writes(event: CapturedEvent) -> tuple[FileWrite, ...]:
    """The files that the call wrote; one call of some tools writes several. () of an event that
    tells of none.

    Reads the file back, if nothing has changed it since; of more than `MAX_FILES` in one call no
    text is told.
    """
    files = read_written_files(event)
    writes = [_read_write(file, event) for file in files[:MAX_FILES]]
    writes += [_write_without_texts(file, event) for file in files[MAX_FILES:]]
    return tuple(writes)


def paths_written(event: CapturedEvent) -> tuple[str, ...]:
    """The absolute paths of the files that the call wrote. Reads none of them."""
    return tuple(str(_real_path(file, event)) for file in read_written_files(event))


def written_blobs_of(event: CapturedEvent) -> set[str]:
    """Git's ids of what a call wrote; nothing for one that wrote nothing."""
    blobs: set[str] = set()
    for write in read_writes(event):
        blobs.update(write.blobs)
    return blobs


def blob_id(data: bytes) -> str:
    """The id that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def open_file(path: Path) -> BinaryIO:
    """The regular file, for reading; a link is not followed. OSError, ValueError."""
    return open(Folder.at(path.parent).reading(path.name), "rb")


def _read_write(file: WrittenFile, event: CapturedEvent) -> FileWrite:
    path = _real_path(file, event)
    settled = _read_settled(path, event.at)
    before = file.before
    if before is None and file.hunks:
        before = _text_before(_text_after(file, settled), file.hunks)
    contents = _contents_in_git(file.after)
    if settled is not None:
        contents.add(settled)
    return FileWrite(
        path=str(path),
        tool=text_in(event.data, "tool_name") or "",
        tool_use_id=text_in(event.data, "tool_use_id") or "",
        before=before,
        after=file.after,
        blobs=_blob_ids(contents),
        settled=settled,
    )


def _write_without_texts(file: WrittenFile, event: CapturedEvent) -> FileWrite:
    """A file of a call that wrote very many."""
    return FileWrite(
        path=os.path.normpath(_named_path(file, event)),
        tool=text_in(event.data, "tool_name") or "",
        tool_use_id=text_in(event.data, "tool_use_id") or "",
        before=None,
        after=None,
        blobs=_blob_ids(_contents_in_git(file.after)),
    )


# Where a file is, and what lies there


def _named_path(file: WrittenFile, event: CapturedEvent) -> str:
    return os.path.join(text_in(event.data, "cwd") or "/", file.path)  # noqa: PTH118


def _real_path(file: WrittenFile, event: CapturedEvent) -> Path:
    """Where the file is: agents write through links and `..`, and git knows neither."""
    path = _named_path(file, event)
    with contextlib.suppress(ValueError):  # a NUL, which no path has
        return Path(os.path.realpath(path))
    return Path(path)


def _read_settled(path: Path, at: datetime) -> bytes | None:
    """The file's content, if nobody has changed it since the call."""
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            if status.st_size > MAX_FILE_BYTES or status.st_mtime > at.timestamp() + SETTLING_S:
                return None
            return file.read()
    except (OSError, ValueError):
        return None


# Texts and contents


def _text_after(file: WrittenFile, settled: bytes | None) -> str | None:
    if settled is None:
        return file.after
    return settled.decode("utf-8", "replace")


def _text_before(text: str | None, hunks: tuple[PatchedLines, ...]) -> str | None:
    """The text of which the hunks made this one; None if they do not fit, or fit in several
    places.
    """
    if text is None or len(hunks) > MAX_HUNKS:
        return None
    lines_between_breaks = "\n" + text.replace("\r\n", "\n").removesuffix("\n") + "\n"
    parts: list[str] = []
    start = 0
    for hunk in hunks:
        if not hunk.new:
            return None
        new_part = _between_breaks(hunk.new)
        offset = lines_between_breaks.find(new_part, start)
        is_ambiguous = lines_between_breaks.find(new_part, offset + 1) >= 0
        if offset < 0 or is_ambiguous:
            return None
        parts.append(lines_between_breaks[start:offset])
        parts += [f"\n{line}" for line in hunk.old]
        start = offset + len(new_part) - 1  # the last break begins what follows
    parts.append(lines_between_breaks[start:])
    return "".join(parts)[1:]


def _between_breaks(lines: tuple[str, ...]) -> str:
    """The lines with a break before each, and one at the end."""
    return "".join(f"\n{line}" for line in lines) + "\n"


def _contents_in_git(text: str | None) -> set[bytes]:
    """What git may have stored: the events tell line ends as LF whatever the file has."""
    if not text:
        return set()
    lf_content = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    crlf_content = lf_content.replace(b"\n", b"\r\n")
    return {lf_content, crlf_content, text.encode("utf-8", "surrogatepass")}


def _blob_ids(contents: set[bytes]) -> frozenset[str]:
    """Empty files are all the same: an id of theirs would say nothing."""
    return frozenset(blob_id(content) for content in contents if content)
