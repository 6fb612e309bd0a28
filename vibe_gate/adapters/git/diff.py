"""What differs between two trees, file by file and line by line.

Only object ids, names, modes and bytes decide what is seen here. Nothing in
.gitattributes or in any configuration can hide, shorten or rewrite a change: the
contents are compared as plain buffers, so no attribute is ever looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pygit2
from pygit2.enums import DiffFlag, DiffOption

from vibe_gate.adapters.git import renames
from vibe_gate.domain import paths
from vibe_gate.domain.change import SUBMODULE_MODE, ChangeType, FileChange, FileVersion, Hunk, Line
from vibe_gate.errors import RevisionError

MAX_HUNK_BYTES = 1_000_000  # a binary side above this is for machines: no model and no person reads it line by line
BINARY_PROBE_BYTES = 8_000  # git's own buffer_is_binary looks this far for a NUL
_TYPE_MASK = 0o170000
_TREE_FLAGS = DiffOption.INCLUDE_TYPECHANGE | DiffOption.SKIP_BINARY_CHECK
_TEXT_FLAGS = DiffOption.FORCE_TEXT | DiffOption.INDENT_HEURISTIC
_ORIGINS = frozenset(" +-")  # libgit2's other origins are its "no newline" markers
_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a raw difference: path as bytes, object id in hex, mode as git prints it."""

    path: bytes
    id: str
    mode: int


Pair = tuple[Side | None, Side | None]


def files(repo: pygit2.Repository, before_tree: str, after_tree: str) -> tuple[FileChange, ...]:
    """Every path that differs between two trees, with its hunks, in the order in which git prints them.

    The same files, types and old paths as `git diff --name-status -M -l0` (git 2.39, default
    configuration) prints; `renames.pair` says how that is decided. `git diff` without `-l0` gives up
    inexact renames when deleted x added files exceed 1,000 x 1,000 and shows them as deleted and added:
    here they stay renames, however many there are.

    Counts are those of `git diff --numstat --text`. A binary file with a side over `MAX_HUNK_BYTES` has
    no hunks and counts 0, as git's `-` says. Raises `RevisionError` where an object is missing.
    """
    read = reader(repo)
    return tuple(_file_change(before, after, read) for before, after in pairs(repo, before_tree, after_tree))


def pairs(repo: pygit2.Repository, before_tree: str, after_tree: str) -> list[Pair]:
    """Both sides of every difference, renames paired, sorted by the path of the after side."""
    raw = list(_raw(repo, before_tree, after_tree))
    deleted = [before for before, after in raw if before and not after]
    added = [after for before, after in raw if after and not before]
    sources = renames.pair(deleted, added, reader(repo)) if deleted and added else {}
    used = {deleted[source].path for source in sources.values()}
    source_of = {added[target].path: deleted[source] for target, source in sources.items()}
    return [
        (source_of.get(after.path) if after and not before else before, after)
        for before, after in raw
        if after or (before and before.path not in used)
    ]


def reader(repo: pygit2.Repository) -> Callable[[Side], bytes]:
    """A function that gives the content of a side; for a submodule git's `Subproject commit` line."""

    def read(side: Side) -> bytes:
        if side.mode == SUBMODULE_MODE:
            return b"Subproject commit %s\n" % side.id.encode("ascii")
        try:
            found = repo[side.id]
        except KeyError:
            raise RevisionError(
                f"The object {side.id} of {paths.quote(paths.decode(side.path))} is missing here; fetch it first."
            ) from None
        if not isinstance(found, pygit2.Blob):
            raise RevisionError(f"{paths.quote(paths.decode(side.path))} names {side.id}, which is no file content.")
        return found.data

    return read


def is_binary(content: bytes) -> bool:
    """Whether git calls this content binary: a NUL byte near its start."""
    return b"\0" in content[:BINARY_PROBE_BYTES]


def _raw(repo: pygit2.Repository, before_tree: str, after_tree: str) -> Iterator[Pair]:
    before = repo[before_tree].peel(pygit2.Tree)
    after = repo[after_tree].peel(pygit2.Tree)
    found = [
        (_side(delta.old_file), _side(delta.new_file)) for delta in before.diff_to_tree(after, flags=_TREE_FLAGS).deltas
    ]
    yield from sorted(found, key=_sort_path)


def _sort_path(pair: Pair) -> bytes:
    side = pair[1] or pair[0]
    assert side is not None
    return side.path


def _side(file: pygit2.DiffFile) -> Side | None:
    if not file.flags & DiffFlag.EXISTS:
        return None
    return Side(file.raw_path, str(file.id), int(file.mode))


def _file_change(before: Side | None, after: Side | None, read: Callable[[Side], bytes]) -> FileChange:
    old = read(before) if before else b""
    new = read(after) if after else b""
    binary = is_binary(old) or is_binary(new)
    hunks = () if binary and max(len(old), len(new)) > MAX_HUNK_BYTES else _hunks(old, new)
    origins = [line.origin for hunk in hunks for line in hunk.lines]
    kept = after or before
    assert kept is not None
    return FileChange(
        path=paths.decode(kept.path),
        old_path=paths.decode(before.path) if before and after and before.path != after.path else None,
        change_type=_change_type(before, after),
        before=_version(before, old),
        after=_version(after, new),
        binary=binary,
        added=origins.count("+"),
        deleted=origins.count("-"),
        hunks=hunks,
    )


def _version(side: Side | None, content: bytes) -> FileVersion | None:
    if side is None:
        return None
    return FileVersion(side.id, side.mode, 0 if side.mode == SUBMODULE_MODE else len(content))


def _change_type(before: Side | None, after: Side | None) -> ChangeType:
    if before is None:
        return "added"
    if after is None:
        return "deleted"
    if (before.mode & _TYPE_MASK) != (after.mode & _TYPE_MASK):
        return "type_changed"
    return "renamed" if before.path != after.path else "modified"


def _hunks(old: bytes, new: bytes) -> tuple[Hunk, ...]:
    if old == new:
        return ()
    patch = pygit2.Patch.create_from(old, new, flag=_TEXT_FLAGS, context_lines=_CONTEXT_LINES)
    return tuple(
        Hunk(
            hunk.old_start,
            hunk.old_lines,
            hunk.new_start,
            hunk.new_lines,
            tuple(Line(line.origin, line.raw_content) for line in hunk.lines if line.origin in _ORIGINS),
        )
        for hunk in patch.hunks
    )
