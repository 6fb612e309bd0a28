"""Changes made of plain bytes, for tests of whatever looks at a Change; git has no part in it."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable

from vibe_gate.domain import paths
from vibe_gate.domain.change import (
    REGULAR_MODE,
    Change,
    ChangeKind,
    ChangeType,
    FileDiff,
    FileVersion,
    Hunk,
    HunkLine,
)

_BLOBS: dict[str, bytes] = {}


def blob_id(data: bytes) -> str:
    """The object id that git gives these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def version(data: bytes, mode: int = REGULAR_MODE) -> FileVersion:
    """One side of a file, which `read` will give back."""
    _BLOBS[blob_id(data)] = data
    return FileVersion(blob=blob_id(data), mode=mode, size=len(data))


def read(side: FileVersion) -> bytes:
    """The content of a side made by `version`."""
    return _BLOBS[side.blob]


def file_change(
    path: str | bytes,
    before: bytes | None,
    after: bytes | None,
    *,
    old_path: str | None = None,
    modes: tuple[int, int] = (REGULAR_MODE, REGULAR_MODE),
) -> FileDiff:
    """The change of one file from `before` to `after` (None: not there), with hunks of three lines
    of context.
    """
    name = paths.decode(path) if isinstance(path, bytes) else path
    hunks = tuple(_hunks(_lines(before), _lines(after)))
    origins = [line.origin for hunk in hunks for line in hunk.lines]
    return FileDiff(
        path=name,
        old_path=old_path,
        change_type=_change_type(before, after, old_path, modes),
        before=None if before is None else version(before, modes[0]),
        after=None if after is None else version(after, modes[1]),
        binary=any(b"\0" in (side or b"")[:8000] for side in (before, after)),
        added=origins.count("+"),
        deleted=origins.count("-"),
        hunks=hunks,
    )


def added(path: str | bytes, after: bytes, mode: int = REGULAR_MODE) -> FileDiff:
    """A file that was not there before."""
    return file_change(path, None, after, modes=(mode, mode))


def deleted(path: str | bytes, before: bytes) -> FileDiff:
    """A file that is gone."""
    return file_change(path, before, None)


def change(*files: FileDiff, kind: ChangeKind = "commit") -> Change:
    """A change of these files; its ids are made up, but stay the same for the same files."""
    digest = hashlib.sha1(
        repr(files).encode("utf-8", "surrogateescape"), usedforsecurity=False
    ).hexdigest()
    return Change(
        kind=kind, before="1" * 40, after=digest, base_commit="2" * 40, head_commit="3" * 40,
        patch_id=digest, range_patch_id=digest, files=files,
    )  # fmt: skip


def _change_type(
    before: bytes | None, after: bytes | None, old_path: str | None, modes: tuple[int, int]
) -> ChangeType:
    if before is None:
        return "added"
    if after is None:
        return "deleted"
    if old_path is not None:
        return "renamed"
    return "modified" if modes[0] & 0o170000 == modes[1] & 0o170000 else "type_changed"


def _lines(data: bytes | None) -> list[bytes]:
    if not data:
        return []
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


def _hunks(old: list[bytes], new: list[bytes]) -> Iterable[Hunk]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(3):
        lines: list[HunkLine] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [HunkLine(" ", content) for content in old[i1:i2]]
            else:
                lines += [HunkLine("-", content) for content in old[i1:i2]]
                lines += [HunkLine("+", content) for content in new[j1:j2]]
        first, last = group[0], group[-1]
        old_lines, new_lines = last[2] - first[1], last[4] - first[3]
        yield Hunk.of(
            first[1] + (old_lines > 0),
            old_lines,
            first[3] + (new_lines > 0),
            new_lines,
            tuple(lines),
        )
