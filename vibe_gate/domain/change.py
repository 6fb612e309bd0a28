"""A change: its files with hunks, modes and renames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import groupby
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression

TREE_MODE = 0o040000
SYMLINK_MODE = 0o120000
SUBMODULE_MODE = 0o160000
REGULAR_MODE = 0o100644
EXECUTABLE_MODE = 0o100755

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

LARGEST_CONTENT = 10_000_000
"""Bytes: of larger files a bundle has the hash and the size only."""

LARGEST_READ = 100_000_000
"""Bytes: larger files are hashed and named, and neither compared nor read. GitHub takes up to
104,857,600.
"""

MAX_COMMITS = 10_000
"""Commits of one change whose authors and messages are read, the newest first."""

MAX_RANGE = 100_000
"""Commits of one `verify`, or of one `review --each`: a longer range is looked at in parts."""

NUL_WINDOW = 8_000
"""Bytes: content with a NUL among the first of them is binary, as git says."""

CASES = ".vibe-gate/cases"
"""The folder of labelled cases."""


DEFINITIONS = ".vibe-gate/"
"""The folder of the gate's own definitions."""

RULE_FILES = (
    "/.vibe-gate/gate.toml",
    "/.vibe-gate/suppressions.toml",
    "/.vibe-gate/rubrics/*.toml",
    "/.vibe-gate/agents/*.toml",
    "/.vibe-gate/workflows/*.toml",
)
"""The definitions that are read as data: they name what the gate refuses, and are no code of the
project.
"""


def is_case(path: str) -> bool:
    """Whether the file is part of a labelled case."""
    return path.startswith(f"{CASES}/")


ChangeType = Literal["added", "modified", "deleted", "renamed", "type_changed"]
Origin = Literal[" ", "+", "-"]
Side = Literal["before", "after"]
SIDES: tuple[Side, ...] = ("before", "after")
ChangeKind = Literal["worktree", "range", "staged", "commit"]


class HunkLine(Struct, frozen=True):
    """One line of a hunk, with its bytes as they are (line ending included)."""

    origin: Origin
    content: bytes


_LINES = expression(rb"[^\n]*\n|[^\n]+")
_NO_NEWLINE = b"\\ No newline at end of file\n"
_RUN = expression(rb"(?:\+.*+\n?)++|(?:-.*+\n?)++|(?: .*+\n?)++|\\.*\n?")


class Hunk(Struct, frozen=True):
    """One run of changed lines with its context."""

    old_start: int
    """From 1, as git's."""

    old_lines: int

    new_start: int
    """From 1, as git's."""

    new_lines: int

    body: bytes
    """As git writes it: a change may have a million lines, and few readers look at each."""

    @classmethod
    def of(
        cls,
        old_start: int,
        old_lines: int,
        new_start: int,
        new_lines: int,
        lines: Iterable[HunkLine],
    ) -> Hunk:
        """A hunk of these lines; one without its line feed is the last of its file."""
        rows = []
        for line in lines:
            row = line.origin.encode() + line.content
            rows.append(row if row.endswith(b"\n") else row + b"\n" + _NO_NEWLINE)
        return cls(old_start, old_lines, new_start, new_lines, b"".join(rows))

    @property
    def rows(self) -> list[bytes]:
        """Its lines, each after its origin. A line without its line feed ends a file that has none
        there.
        """
        rows: list[bytes] = []
        for row in BytesIO(self.body):
            if not row.startswith(b"\\"):
                rows.append(row)
            elif rows:
                rows[-1] = rows[-1].removesuffix(b"\n")
        return rows

    @property
    def lines(self) -> list[HunkLine]:
        """The same, taken apart."""
        lines = []
        for row in self.rows:
            origin = cast("Origin", chr(row[0]))
            lines.append(HunkLine(origin, row[1:]))
        return lines

    @property
    def added(self) -> int:
        """How many lines it adds."""
        return self.body.count(b"\n+") + self.body.startswith(b"+")

    @property
    def deleted(self) -> int:
        """How many lines it takes away."""
        return self.body.count(b"\n-") + self.body.startswith(b"-")

    @property
    def before(self) -> bytes:
        """The lines that it replaces, with their context, as they stand before the change."""
        return b"".join(content for origin, content in self._runs() if origin != "+")

    def added_runs(self) -> Iterator[tuple[int, bytes]]:
        """Added lines that follow one another: the number of the first, and their bytes after the
        change.
        """
        number = self.new_start
        for origin, content in self._runs():
            if origin == "+":
                yield number, content
            if origin != "-":
                number += content.count(b"\n")

    def _runs(self) -> Iterator[tuple[Origin, bytes]]:
        """Lines of one origin that follow one another, as one text."""
        for match in _RUN.finditer(self.body):
            run = match[0]
            origin = run[:1]
            if origin == b"\\":
                continue
            ends_file = self.body.startswith(b"\\", match.end())
            content = run[1:-1] if ends_file else run[1:]
            yield cast("Origin", origin.decode()), content.replace(b"\n" + origin, b"\n")


class FileVersion(Struct, frozen=True):
    """One side of a changed file."""

    blob: str
    """A git object id; for a submodule, its commit."""

    mode: int

    size: int


class FileDiff(Struct, frozen=True):
    """One path that differs.

    A file that git calls binary carries hunks, too, so that nothing hides from a judge behind an
    attribute or a NUL; only one of more than `MAX_HUNK_BYTES` has none, and one that is not read.
    """

    path: str
    """That of the after side; of the before side if deleted."""

    old_path: str | None
    """That of the before side, if it is another one."""

    change_type: ChangeType

    before: FileVersion | None

    after: FileVersion | None

    binary: bool

    added: int

    deleted: int

    hunks: tuple[Hunk, ...]

    @property
    def shown_path(self) -> str:
        """The path as text that is safe anywhere."""
        return paths.quote(self.path)

    def version_on(self, side: Side) -> FileVersion | None:
        """The file on that side of the change; None if it is not there."""
        if side == "before":
            return self.before
        return self.after

    def name_on(self, side: Side) -> str:
        """Its path on that side."""
        if side == "before":
            return self.old_name
        return self.path

    @property
    def old_name(self) -> str:
        """The path on the before side."""
        if self.old_path is None:
            return self.path
        return self.old_path

    @property
    def names(self) -> tuple[str, ...]:
        """The path before and the one after; one if they are the same."""
        return tuple(dict.fromkeys((self.old_name, self.path)))

    @property
    def is_read(self) -> bool:
        """Whether both sides are small enough to be read; else the file is hashed and named
        only.
        """
        versions = [version for version in (self.before, self.after) if version]
        return all(version.size <= LARGEST_READ for version in versions)

    @property
    def unread_version(self) -> FileVersion | None:
        """The content that is new here and that nothing compared or read, or None; see
        `is_read`.
        """
        if self.is_read or not self.brought_blob:
            return None
        return self.after

    @property
    def has_unseen_lines(self) -> bool:
        """Whether its new content is binary, and too large for hunks (`MAX_HUNK_BYTES`)."""
        if self.after is None or not self.brought_blob or not self.is_read:
            return False
        return self.binary and not self.hunks and self.after.size > 0

    @property
    def is_case(self) -> bool:
        """Whether it is part of a labelled case, by both names: material for the rubrics, not code
        of the project.
        """
        return all(map(is_case, self.names))

    @property
    def brought_blob(self) -> str:
        """The id of the content that is new here; "" of a file that is gone, only moved, or given
        another mode.
        """
        if self.after is None:
            return ""
        if self.before is not None and self.before.blob == self.after.blob:
            return ""
        return self.after.blob

    def touches(self, globs: tuple[str, ...]) -> bool:
        """Whether either name matches: a move out of the way takes a file out of no check."""
        return any(paths.matches_any_glob(name, globs) for name in self.names)

    def moves_into(self, *all_globs: tuple[str, ...]) -> bool:
        """Whether it moves to where some of these globs look alone, or out of a labelled case.

        Then nobody who looks there (everywhere, without globs) saw the lines that did not change.
        """
        if self.after is None:
            return False
        old, new = self.old_name, self.path
        if is_case(old) and not is_case(new):
            return True
        for globs in filter(None, all_globs):
            is_moved_in = not paths.matches_any_glob(old, globs)
            if is_moved_in and paths.matches_any_glob(new, globs):
                return True
        return False

    def as_new(self, content: bytes) -> FileDiff:
        """The file with all lines of `content`, its after side, as added ones, between them those
        that were removed.
        """
        lines = tuple(HunkLine("+", line) for line in _LINES.findall(content))
        hunks: list[Hunk] = []
        shown_lines = 0
        for removed in self._removed_runs():
            hunks.append(_added_hunk(lines, shown_lines, removed.new_start))
            hunks.append(removed)
            shown_lines = removed.new_start
        hunks.append(_added_hunk(lines, shown_lines, len(lines)))
        return replace(self, hunks=tuple(hunk for hunk in hunks if hunk.body), added=len(lines))

    def _removed_runs(self) -> Iterator[Hunk]:
        """The removed lines that follow one another, as hunks of their own."""
        for hunk in self.hunks:
            old = hunk.old_start + (not hunk.old_lines)
            new = hunk.new_start + (not hunk.new_lines)
            for is_removed, run in groupby(hunk.lines, key=lambda line: line.origin == "-"):
                run_lines = tuple(run)
                if is_removed:
                    yield Hunk.of(old, len(run_lines), new - 1, 0, run_lines)
                else:
                    new += len(run_lines)
                old += sum(line.origin != "+" for line in run_lines)


def _added_hunk(lines: tuple[HunkLine, ...], start: int, end: int) -> Hunk:
    return Hunk.of(0, 0, start + 1, end - start, lines[start:end])


class Change(Struct, frozen=True):
    """What is under review."""

    kind: ChangeKind

    before: str
    """A tree id."""

    after: str
    """A tree id."""

    base_commit: str
    """"" if that side is no commit."""

    head_commit: str
    """"" if that side is no commit."""

    patch_id: str
    """The stable patch-id of one commit's change, or of an uncommitted one against HEAD; "" of an
    empty change.
    """

    range_patch_id: str
    """That of before..after; "" of an empty change."""

    files: tuple[FileDiff, ...]

    @property
    def key(self) -> str:
        """The bundle folder's name: the head commit, or the tree while uncommitted."""
        return self.head_commit or f"tree-{self.after}"

    def file(self, path: str) -> FileDiff | None:
        """The file changed at `path` on its after side (or before side, if deleted)."""
        return next((file for file in self.files if file.path == path), None)


class Selection(Struct, frozen=True):
    """Which change a user asked for, before any revision is resolved."""

    kind: Literal["worktree", "range", "merge_base", "staged", "commit"]
    """`worktree`: from `left` to the working tree, untracked files included. `range`:
    `left`..`right`. `merge_base`: from the merge base of both to `right`. `staged`: the index
    against HEAD. `commit`: `left` against its first parent.
    """

    left: str = "HEAD"
    """May be `EMPTY_TREE`: from nothing."""

    right: str = "HEAD"

    also: str = ""
    """Of a range: a second commit that is no part of the change, so that `right` is compared with
    both merged.
    """


class NamedLine(Struct, frozen=True):
    """A line of a tree that names a word that was looked for."""

    path: str

    line: int
    """From 1."""

    text: bytes


class FoundLines(Struct, frozen=True):
    """What a search of a tree found."""

    lines: tuple[NamedLine, ...] = ()

    is_whole: bool = True
    """False if there were too many, or the search took too long."""
