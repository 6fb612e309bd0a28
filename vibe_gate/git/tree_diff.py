"""What differs between two trees, by libgit2: files with their renames and hunks, and the text of
the patch.

libgit2 sees a bare repository of our own that has the objects and nothing else, so that no
attribute and no configuration can hide, shorten or rewrite a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pygit2
from msgspec import Struct
from pygit2.enums import DeltaStatus, DiffFind, DiffOption, FileMode

from vibe_gate.domain import patch as patches
from vibe_gate.domain import paths
from vibe_gate.domain.change import (
    EMPTY_TREE,
    LARGEST_READ,
    REGULAR_MODE,
    SUBMODULE_MODE,
    SYMLINK_MODE,
    ChangeType,
    FileDiff,
    FileVersion,
    Hunk,
)
from vibe_gate.domain.escape import expression
from vibe_gate.errors import IntegrityError
from vibe_gate.git.database import ObjectDatabase, damage_as_error
from vibe_gate.git.git_object import canonical_mode

MAX_HUNK_BYTES = 1_000_000
"""A binary side above this is for machines: no model and no person reads it line by line."""

_RENAME_PERCENT = 50
"""How much of a file must be in another one for a rename, as in git."""

_ANY_NUMBER = 1_000_000
"""Of files that are compared for renames; git's own limit is 1,000 x 1,000."""

_CONTEXT_LINES = 3
"""As in git."""

_TYPES = DiffOption.INCLUDE_TYPECHANGE
_RENAMES = DiffFind.FIND_RENAMES | DiffFind.FIND_DONT_IGNORE_WHITESPACE
_CHANGE_TYPES: dict[DeltaStatus, ChangeType] = {
    DeltaStatus.ADDED: "added",
    DeltaStatus.DELETED: "deleted",
    DeltaStatus.MODIFIED: "modified",
    DeltaStatus.RENAMED: "renamed",
    DeltaStatus.TYPECHANGE: "type_changed",
}
_SPACED_NAME = expression(rb"(?m)^((?:---|\+\+\+) .* .*)$")
"""A line with a name behind which git writes a tab, so that programs other than git see where the
name ends.
"""


class FileSection(Struct, frozen=True):
    """A file that differs, and its section of the patch."""

    file: FileDiff
    text: bytes


class _ChangedPath(Struct, frozen=True):
    """A path that differs, before contents are compared."""

    change_type: ChangeType
    old_path: bytes
    path: bytes
    before: FileVersion | None
    after: FileVersion | None

    @property
    def versions(self) -> list[FileVersion]:
        """The sides that there are."""
        return [version for version in (self.before, self.after) if version is not None]

    @property
    def is_link(self) -> bool:
        """Whether one side is a symbolic link or a submodule."""
        return any(version.mode in (SYMLINK_MODE, SUBMODULE_MODE) for version in self.versions)

    @property
    def has_odd_mode(self) -> bool:
        """Whether git takes the mode of a side for another than the tree has."""
        return any(version.mode != canonical_mode(version.mode) for version in self.versions)

    @property
    def large_blobs(self) -> list[str]:
        """The ids of the contents that are not read."""
        return [version.blob for version in self.versions if version.size > LARGEST_READ]


def diff_trees(database: ObjectDatabase, before: str, after: str) -> list[FileSection]:
    """The files that differ, in git's order.

    Counts are those of the hunks; binary files have those of `git diff --text`, but none with a
    side over `MAX_HUNK_BYTES`. A type change has the hunks of a deletion and an addition. The text
    names binary files only. RevisionError if an object is missing, IntegrityError if one is damaged
    or a tree is not well formed.
    """
    with damage_as_error():
        comparison = _Comparison(database, before, after)
        sections = [_file_section(database, path, text) for path, text in comparison.texts()]
    if len({section.file.path for section in sections}) != len(sections):
        raise IntegrityError("A tree of this change is not well formed; run `git fsck`.")
    return sections


def patch_text(
    database: ObjectDatabase, before: str, after: str, *, whole_binaries: bool = False
) -> bytes:
    """The sections of all files that differ, as `diff_trees` gives them.

    `whole_binaries`: those of binary files hold their contents, unless the file is too large to be
    read.
    """
    with damage_as_error():
        comparison = _Comparison(database, before, after)
        return b"".join(text for _, text in comparison.texts(whole_binaries=whole_binaries))


class _Comparison:
    """Two trees, compared.

    libgit2 reads all of a content to compare it, or to find a rename. So those that are too large
    are compared by small ones that stand for them, whose ids are put back into what libgit2 writes.
    """

    def __init__(self, database: ObjectDatabase, before: str, after: str) -> None:
        self._database = database
        self._before = before
        self._after = after
        self._large_blobs: dict[str, str] = {}
        """Ids of large contents by those of their stand-ins."""

        self._stand_ins: dict[str, str] = {}
        """Ids of stand-ins by those of the large contents."""

        self._sizes: dict[str, int] = {}
        """Of contents in bytes, by id."""

        diff = self._diff(before, after, _TYPES)
        changed_paths = self._changed_paths(diff)
        if any(path.has_odd_mode for path in changed_paths):
            self._before = database.write_canonical_tree(before)
            self._after = database.write_canonical_tree(after)
            diff = self._diff(self._before, self._after, _TYPES)
            changed_paths = self._changed_paths(diff)
        for path in changed_paths:
            for blob in path.large_blobs:
                self._add_stand_in(blob)
        if self._stand_ins:
            self._replace_large_contents(changed_paths)
            diff = self._diff(self._before, self._after, _TYPES)
        _find_renames(diff)
        self._diff_with_renames = diff

    def _replace_large_contents(self, changed_paths: Sequence[_ChangedPath]) -> None:
        """Write trees that have stand-ins for contents that are too large."""
        old_blobs = {}
        new_blobs = {}
        for path in changed_paths:
            old_blobs[paths.decode(path.old_path)] = path.before
            new_blobs[paths.decode(path.path)] = path.after
        small_before = self._small_contents(old_blobs)
        small_after = self._small_contents(new_blobs)
        self._before = self._database.tree_with(self._before, small_before)
        self._after = self._database.tree_with(self._after, small_after)

    def _add_stand_in(self, blob: str) -> None:
        if blob not in self._stand_ins:
            stand_in = self._database.write_stand_in(blob)
            self._stand_ins[blob] = stand_in
            self._large_blobs[stand_in] = blob

    def texts(self, *, whole_binaries: bool = False) -> Iterator[tuple[_ChangedPath, bytes]]:
        """The paths that differ, in git's order, with their sections of the patch."""
        diff = self._diff_with_renames
        content_diff = diff
        if whole_binaries:
            flags = _TYPES | DiffOption.SHOW_BINARY
            content_diff = self._diff(self._before, self._after, flags)
            _find_renames(content_diff)
        changed_paths = self._changed_paths(diff)
        moves = _moved_links(changed_paths)
        moved_away = {path.old_path for path in moves.values()}
        in_order = sorted(enumerate(changed_paths), key=lambda row: row[1].path)
        for position, path in in_order:
            if path.change_type == "deleted" and path.path in moved_away:
                continue
            move = moves.get(path.path)
            if move is not None:
                yield move, self._move(move)
                continue
            if path.change_type == "type_changed":
                text = self._type_change(path, whole_binaries=whole_binaries)
            elif path.large_blobs:
                text = _as_git_writes(diff[position])
            else:
                text = _as_git_writes(content_diff[position])
            yield path, self._with_large_ids(path, text)

    def _with_large_ids(self, path: _ChangedPath, text: bytes) -> bytes:
        """The section with the ids of large contents in the place of their stand-ins'."""
        for blob in path.large_blobs:
            text = text.replace(self._stand_ins[blob].encode(), blob.encode())
        return text

    def _diff(self, before: str, after: str, flags: DiffOption) -> pygit2.Diff:
        old_tree = self._database.tree(before)
        new_tree = self._database.tree(after)
        return old_tree.diff_to_tree(
            new_tree, flags=flags | DiffOption.INDENT_HEURISTIC, context_lines=_CONTEXT_LINES
        )

    def _type_change(self, path: _ChangedPath, *, whole_binaries: bool) -> bytes:
        """The section of a deletion and that of an addition: `git apply` takes no other form."""
        flags = DiffOption.NORMAL
        if whole_binaries and not path.large_blobs:
            flags = DiffOption.SHOW_BINARY
        deletion = self._diff(self._tree_of(path.path, path.before), EMPTY_TREE, flags)
        addition = self._diff(EMPTY_TREE, self._tree_of(path.path, path.after), flags)
        return _join_sections(deletion) + _join_sections(addition)

    def _move(self, path: _ChangedPath) -> bytes:
        """The section of a link or submodule that moved, which libgit2 writes for a file that
        moved.
        """
        content = self._database.write_stand_in(path.versions[0].blob)
        old_tree = self._database.write_tree_of(path.old_path, REGULAR_MODE, content)
        new_tree = self._database.write_tree_of(path.path, REGULAR_MODE, content)
        diff = self._diff(old_tree, new_tree, _TYPES)
        diff.find_similar(flags=_RENAMES)
        return _join_sections(diff)

    def _tree_of(self, path: bytes, version: FileVersion | None) -> str:
        """A tree that holds this version of a file alone; the empty tree of none."""
        if version is None:
            return EMPTY_TREE
        blob = self._stand_ins.get(version.blob, version.blob)
        return self._database.write_tree_of(path, version.mode, blob)

    def _small_contents(self, versions: Mapping[str, FileVersion | None]) -> dict[str, str]:
        """The stand-ins of the large contents, by path."""
        stand_ins = {}
        for path, version in versions.items():
            if version is not None and version.blob in self._stand_ins:
                stand_ins[path] = self._stand_ins[version.blob]
        return stand_ins

    def _changed_paths(self, diff: pygit2.Diff) -> list[_ChangedPath]:
        """The paths that differ, before moves of links are found."""
        return [self._changed_path(delta) for delta in diff.deltas]

    def _changed_path(self, delta: pygit2.DiffDelta) -> _ChangedPath:
        return _ChangedPath(
            change_type=_CHANGE_TYPES[delta.status],
            old_path=delta.old_file.raw_path,
            path=delta.new_file.raw_path,
            before=self._version(delta.old_file),
            after=self._version(delta.new_file),
        )

    def _version(self, file: pygit2.DiffFile) -> FileVersion | None:
        mode = int(file.mode)
        if mode == FileMode.UNREADABLE:  # there is no file on this side
            return None
        stored_blob = str(file.id)
        blob = self._large_blobs.get(stored_blob, stored_blob)
        if blob not in self._sizes:
            is_submodule = canonical_mode(mode) == SUBMODULE_MODE
            self._sizes[blob] = 0 if is_submodule else self._database.size(blob)
        return FileVersion(blob, mode, self._sizes[blob])


def _find_renames(diff: pygit2.Diff) -> None:
    """Make deletions and additions of alike files in the diff renames."""
    statuses = {delta.status for delta in diff.deltas}
    if {DeltaStatus.ADDED, DeltaStatus.DELETED} <= statuses:
        diff.find_similar(
            flags=_RENAMES, rename_threshold=_RENAME_PERCENT, rename_limit=_ANY_NUMBER
        )


def _moved_links(changed_paths: Sequence[_ChangedPath]) -> dict[bytes, _ChangedPath]:
    """By their new path, the links and submodules that moved: libgit2 finds the renames of files
    alone.
    """
    deleted = [path for path in changed_paths if path.change_type == "deleted" and path.is_link]
    moves: dict[bytes, _ChangedPath] = {}
    for path in changed_paths:
        if path.change_type != "added" or not path.is_link:
            continue
        sources = [source for source in deleted if source.before == path.after]
        if not sources:
            continue
        namesakes = [
            source for source in sources if _file_name(source.path) == _file_name(path.path)
        ]
        source = namesakes[0] if namesakes else sources[0]
        deleted.remove(source)
        moves[path.path] = _ChangedPath(
            "renamed", source.path, path.path, source.before, path.after
        )
    return moves


def _file_name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _join_sections(diff: pygit2.Diff) -> bytes:
    return b"".join(_as_git_writes(patch) for patch in diff)


def _as_git_writes(patch: pygit2.Patch | None) -> bytes:
    """A section of the patch as git writes it: contents are named if they differ, names with spaces
    end in a tab.
    """
    if patch is None:
        return b""
    section = patch.data
    hunks_start = section.find(b"\n@@ -") + 1
    if hunks_start:
        return _SPACED_NAME.sub(rb"\1\t", section[:hunks_start]) + section[hunks_start:]
    if patch.delta.old_file.id == patch.delta.new_file.id:
        return _cut_before(b"\nBinary files ", section)
    if b"\nBinary files " in section or b"\nGIT binary patch\n" in section:
        return section
    return _cut_before(b"\n--- ", section)  # an empty file that appears or goes


def _cut_before(mark: bytes, section: bytes) -> bytes:
    """The section up to the mark, ended by a line feed."""
    return section.partition(mark)[0].removesuffix(b"\n") + b"\n"


def _file_section(database: ObjectDatabase, path: _ChangedPath, text: bytes) -> FileSection:
    binary = b"\nBinary files " in text  # no line of a hunk begins so
    if binary:
        hunks = _hunks_as_text(database, path.before, path.after)
    else:
        hunks = patches.hunks(text)
    old_path = None
    if path.change_type == "renamed":
        old_path = paths.decode(path.old_path)
    file = FileDiff(
        path=paths.decode(path.path),
        old_path=old_path,
        change_type=path.change_type,
        before=path.before,
        after=path.after,
        binary=binary,
        added=sum(hunk.added for hunk in hunks),
        deleted=sum(hunk.deleted for hunk in hunks),
        hunks=hunks,
    )
    return FileSection(file, text)


def _hunks_as_text(
    database: ObjectDatabase, before: FileVersion | None, after: FileVersion | None
) -> tuple[Hunk, ...]:
    """The hunks that a binary file has as text, so that nothing hides behind a NUL byte."""
    if max(version.size for version in (before, after) if version) > MAX_HUNK_BYTES:
        return ()
    old_content = database.content(before) if before else b""
    new_content = database.content(after) if after else b""
    if old_content == new_content:
        return ()
    flags = DiffOption.FORCE_TEXT | DiffOption.INDENT_HEURISTIC
    patch = pygit2.Patch.create_from(
        old_content, new_content, flag=flags, context_lines=_CONTEXT_LINES
    )
    return patches.hunks(patch.data)
