"""What differs between two trees, file by file and line by line.

Only object ids, names, modes and bytes decide what is seen here. Nothing in
.gitattributes or in any configuration can hide, shorten or rewrite a change: the
contents are compared as plain buffers, so no attribute is ever looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from vibe_gate import git as rooms
from vibe_gate.domain import paths
from vibe_gate.domain.change import (
    EMPTY_TREE,
    EXECUTABLE_MODE,
    REGULAR_MODE,
    SUBMODULE_MODE,
    SYMLINK_MODE,
    ChangeType,
    FileChange,
    FileVersion,
    Hunk,
    Line,
)
from vibe_gate.domain.expressions import expression
from vibe_gate.errors import IntegrityError, RevisionError
from vibe_gate.git import compiled
from vibe_gate.git.compiled import Objects

MAX_HUNK_BYTES = 1_000_000  # a binary side above this is for machines: no model and no person reads it line by line
CONTEXT_LINES = 3  # git's default

_KINDS = {compiled.BLOB: "blob", compiled.TREE: "tree"}
_TYPE_MASK = 0o170000
_TREE_MODE = 0o040000
_EXECUTABLE_BIT = 0o100
_TREE_ENTRY = expression(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
_ORIGINS: dict[str, Literal[" ", "+", "-"]] = {" ": " ", "+": "+", "-": "-"}  # others are "no newline" markers


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a difference: path as bytes, object id in hex, mode as git prints it."""

    path: bytes
    id: str
    mode: int


@dataclass(frozen=True, slots=True)
class Delta:
    """A path that differs, before its lines are compared. `percent` is git's similarity index of a rename."""

    before: Side | None
    after: Side | None
    percent: int = 0

    @property
    def kept(self) -> Side:
        """The side that names the file: after, or before where it was deleted."""
        side = self.after or self.before
        assert side is not None
        return side

    @property
    def change_type(self) -> ChangeType:
        """What happened to the file, by git's rules."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "deleted"
        if (self.before.mode & _TYPE_MASK) != (self.after.mode & _TYPE_MASK):
            return "type_changed"
        return "renamed" if self.before.path != self.after.path else "modified"


def files(objects: Objects, before_tree: str, after_tree: str) -> tuple[FileChange, ...]:
    """Every path that differs between two trees, with its hunks, in the order in which git prints them.

    The same files, types and old paths as `git diff --name-status -M -l0` (git 2.39, default configuration)
    prints; `renames.pair` says how that is decided. Without `-l0` git gives up on renames with edits when
    deleted x added files (that are not renamed by id or name already) exceed 1,000 x 1,000, and shows them as
    deleted and added: here they stay renames, however many there are.

    Counts are those of `git diff --numstat`, and of `git diff --text` for binary files. A binary file with a
    side over `MAX_HUNK_BYTES` has no hunks and counts 0, as git's `-` says. A type change is the difference of
    the two contents (a symlink's is its target, a submodule's git's `Subproject commit` line). Raises
    `RevisionError` where an object is missing, `IntegrityError` where a tree is not well formed.
    """
    read = reader(objects)
    return tuple(_file_change(delta, read) for delta in deltas(objects, before_tree, after_tree))


def deltas(objects: Objects, before_tree: str, after_tree: str) -> list[Delta]:
    """What differs, renames paired, sorted by the path of the after side (of the before side if deleted)."""
    raw = sorted(_raw(objects, before_tree, after_tree), key=lambda delta: delta.kept.path)
    deleted = [delta.before for delta in raw if delta.before and not delta.after]
    added = [delta.after for delta in raw if delta.after and not delta.before]
    matches = rooms.renames.pair(deleted, added, reader(objects)) if deleted and added else {}
    gone = {deleted[match.source].path for match in matches.values()}
    renamed = {
        added[target].path: Delta(deleted[match.source], added[target], match.percent)
        for target, match in matches.items()
    }
    # A path can be deleted as a file and added as another; only the added one is a rename's target.
    return [
        delta if delta.before else renamed.get(delta.kept.path, delta)
        for delta in raw
        if delta.after or delta.kept.path not in gone
    ]


def reader(objects: Objects) -> Callable[[Side], bytes]:
    """A function that gives the content of a side; for a submodule git's `Subproject commit` line."""

    def read(side: Side) -> bytes:
        if side.mode == SUBMODULE_MODE:
            return b"Subproject commit %s\n" % side.id.encode("ascii")
        return _read_object(objects, side.id, compiled.BLOB, side.path)

    return read


def _read_object(objects: Objects, identity: str, kind: int, path: bytes) -> bytes:
    try:
        found, content = objects.read(identity)
    except KeyError:
        raise RevisionError(f"Object {identity} ({_shown(path)}) is missing here; fetch it first.") from None
    if found != kind:
        raise IntegrityError(f"Object {identity} ({_shown(path)}) is not a {_KINDS[kind]}; run `git fsck`.")
    return bytes(content)


def _shown(path: bytes) -> str:
    return paths.quote(paths.decode(path)) if path else "the top of the tree"


def _raw(objects: Objects, before_tree: str, after_tree: str) -> Iterator[Delta]:
    """Files that differ, unpaired. Trees are read as bytes: no configuration (`diff.ignoreSubmodules`) has a say."""
    waiting = [(b"", before_tree, after_tree)]
    while waiting:
        prefix, before_id, after_id = waiting.pop()
        before = _entries(objects, before_id, prefix)
        after = _entries(objects, after_id, prefix)
        for name in {name for name, _ in before.items() ^ after.items()}:
            path = prefix + name
            old = before.get(name)
            new = after.get(name)
            old_tree = old[1] if old and old[0] == _TREE_MODE else EMPTY_TREE
            new_tree = new[1] if new and new[0] == _TREE_MODE else EMPTY_TREE
            if old_tree != new_tree:
                waiting.append((path + b"/", old_tree, new_tree))
            delta = Delta(_side(path, old), _side(path, new))
            if delta.before or delta.after:
                yield delta


def _side(path: bytes, entry: tuple[int, str] | None) -> Side | None:
    return None if entry is None or entry[0] == _TREE_MODE else Side(path, entry[1], entry[0])


def _entries(objects: Objects, identity: str, path: bytes) -> dict[bytes, tuple[int, str]]:
    """A tree's entries: name -> (mode, object id)."""
    if identity == EMPTY_TREE:
        return {}
    content = _read_object(objects, identity, compiled.TREE, path)
    rows = _TREE_ENTRY.findall(content)
    entries = {name: (_canonical(int(mode, 8)), raw.hex()) for mode, name, raw in rows}
    # What is skipped, or named twice, could be checked out and yet not be shown here.
    length = sum(len(mode) + len(name) for mode, name, _ in rows) + 22 * len(rows)
    if length != len(content) or len(entries) != len(rows) or any(b"/" in name for name in entries):
        raise IntegrityError(f"The tree {identity} is not well formed; run `git fsck`.")
    return entries


def _canonical(mode: int) -> int:
    """The mode that git takes an entry for: old repositories hold others, such as 100664."""
    kind = mode & _TYPE_MASK
    if kind == REGULAR_MODE & _TYPE_MASK:
        return EXECUTABLE_MODE if mode & _EXECUTABLE_BIT else REGULAR_MODE
    return kind if kind in (SYMLINK_MODE, _TREE_MODE) else SUBMODULE_MODE


def _file_change(delta: Delta, read: Callable[[Side], bytes]) -> FileChange:
    before, after = delta.before, delta.after
    old = read(before) if before else b""
    new = read(after) if after else b""
    binary = compiled.is_binary(old) or compiled.is_binary(new)
    unread = binary and max(len(old), len(new)) > MAX_HUNK_BYTES
    hunks, added, deleted = ((), 0, 0) if unread or old == new else _compare(old, new)
    return FileChange(
        path=paths.decode(delta.kept.path),
        old_path=paths.decode(before.path) if before and delta.change_type == "renamed" else None,
        change_type=delta.change_type,
        before=_version(before, old),
        after=_version(after, new),
        binary=binary,
        added=added,
        deleted=deleted,
        hunks=hunks,
    )


def _version(side: Side | None, content: bytes) -> FileVersion | None:
    if side is None:
        return None
    return FileVersion(side.id, side.mode, 0 if side.mode == SUBMODULE_MODE else len(content))


def _compare(old: bytes, new: bytes) -> tuple[tuple[Hunk, ...], int, int]:
    """The hunks between two contents, and how many lines they add and delete."""
    patch = compiled.compare(old, new, CONTEXT_LINES)
    _, added, deleted = patch.line_stats
    hunks = tuple(
        Hunk(
            hunk.old_start,
            hunk.old_lines,
            hunk.new_start,
            hunk.new_lines,
            tuple(Line(_ORIGINS[line.origin], line.raw_content) for line in hunk.lines if line.origin in _ORIGINS),
        )
        for hunk in patch.hunks
    )
    return hunks, added, deleted
