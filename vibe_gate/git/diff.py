"""Which two trees a selection means, and what differs between them: files, lines, renames, patch and patch-id;
and what stands around a change: its enclosing functions, lines elsewhere that name a word.

Git is asked in a bare repository of our own that has the objects and nothing else, so that no attribute and no
configuration can hide, shorten or rewrite a change. Any number of changes takes the same few processes.
"""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from threading import Timer
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import patch as patches
from vibe_gate.domain import paths
from vibe_gate.domain.change import (
    CASES,
    EMPTY_TREE,
    LARGEST_READ,
    NUL_WINDOW,
    SUBMODULE_MODE,
    Change,
    ChangeKind,
    ChangeType,
    FileDiff,
    FileVersion,
    Hunk,
    NamedLine,
    Selection,
)
from vibe_gate.domain.escape import expression
from vibe_gate.errors import GateError, InfrastructureError, IntegrityError, RevisionError
from vibe_gate.git.hooks import HookQueries
from vibe_gate.git.objects import Objects
from vibe_gate.git.program import PATTERNS, Finished, finish
from vibe_gate.git.snapshot import WorkingTree, index_tree

if TYPE_CHECKING:
    from vibe_gate.git.libgit2 import Merging

MAX_HUNK_BYTES = 1_000_000  # a binary side above this is for machines: no model and no person reads it line by line
MAX_BYTES_READ_AT_ONCE = 8_000_000  # of contents that are in memory together; a larger one is alone

RENAMES = ("-M", "-l0")
"""Renames are found however many there are; git's own limit is 1,000 x 1,000 files."""

_DIFF = ("diff-tree", "--stdin", "-r", "-z", "--raw", "-p", "--full-index", *RENAMES)
_NAMES = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", "--no-renames")
_PATCHES = ("diff-tree", "--stdin", "--root", "-r", "-p", "--full-index", *RENAMES)
_ID = expression(r"\b[0-9a-f]{40}\b")
_NO_MEMORY = expression(r"[Oo]ut of memory|[Cc]annot allocate memory|mmap failed")
_DAMAGE = expression(r"corrupt|is empty|inflate|mismatch|malformed|garbage|truncated|too-short|empty filename")
_TYPES: dict[str, ChangeType] = {
    "A": "added", "M": "modified", "D": "deleted", "R": "renamed", "T": "type_changed",
}  # fmt: skip
_NO_MODE = "000000"

LINES_AROUND = 10
"""Unchanged lines that are shown around a change at least."""

MAX_FOUND_BYTES = 2_000_000
"""Of a search's output: a word with more occurrences tells a judge nothing."""

_FOUND_LINE = expression(rb"\0(\d{1,9})\0(.*)(?:\n|\Z)")
_SEARCH_S = 10.0  # a search that takes longer gives nothing

_SCRIPT = (
    r"!^[ \t]*(if|for|while|switch|catch|return|else|do|await|throw|new)[ \t(]"
    "\n"
    r"^[ \t]*((export[ \t]+)?(default[ \t]+)?(declare[ \t]+)?(abstract[ \t]+)?(async[ \t]+)?"
    r"((function|class|interface|enum|namespace)[ \t*].*"
    r"|(const|let|var)[ \t]+[A-Za-z_$][A-Za-z0-9_$]*[^=]*=.*(=>|function).*"
    r"|((static|public|private|protected|readonly|override|get|set)[ \t]+)*[A-Za-z_$#][A-Za-z0-9_$]*[ \t]*\(.*\).*\{))"
)
_LANGUAGES = {
    "bash": "sh bash", "cpp": "c h cc cpp cxx hh hpp hxx", "csharp": "cs", "elixir": "ex exs", "golang": "go",
    "java": "java", "kotlin": "kt kts", "perl": "pl pm", "php": "php", "python": "py pyi", "ruby": "rb", "rust": "rs",
    "script": "js jsx ts tsx mjs cjs mts cts",
}  # fmt: skip
"""Git's names of what it knows (gitattributes(5)), and one of our own, by extension."""


class Trees(Struct, frozen=True):
    """The ids of the trees before and after a change."""

    before: str
    after: str


class Diff(Struct, frozen=True):
    """What differs between two trees. `patch` only names binary files; `patch_id` is "" if nothing differs."""

    files: tuple[FileDiff, ...] = ()
    patch: bytes = b""
    patch_id: str = ""


def compare(objects: Objects, pairs: Sequence[Trees]) -> dict[Trees, Diff]:
    """What differs in each pair: the files that `git diff --name-status -M -l0` lists, in its order, with their hunks.

    Counts are those of the hunks; binary files have those of `git diff --text`, but none with a side over
    `MAX_HUNK_BYTES`. A type change has the hunks of a deletion and an addition.

    `patch_id` is what `git diff -l0 --full-index BEFORE AFTER | git patch-id --stable` prints: without `--full-index`
    git hashes the ids of binary files as they are abbreviated in this repository today.

    RevisionError if an object is missing, IntegrityError if one is damaged or a tree is not well formed.
    """
    diffs = dict.fromkeys(pairs, Diff())
    differing = [pair for pair in diffs if pair.before != pair.after]
    if not differing:
        return diffs
    names = _run_on(objects, differing, *_NAMES)
    named_rows = dict(_rows_of(names, differing))
    blobs = {blob for rows in named_rows.values() for row in rows for blob in row.blobs}
    sizes = objects.known_sizes(blobs)
    large_blobs = {blob for blob, size in sizes.items() if size > LARGEST_READ}
    readable = {pair: pair for pair in differing}
    stand_ins: dict[str, str] = {}
    if large_blobs:
        stand_ins = _write_stand_ins(objects, large_blobs)
        readable = {pair: _readable_trees(objects, pair, named_rows[pair], stand_ins) for pair in differing}
    done = _run_on(objects, list(readable.values()), *_DIFF)
    output = _Output(done.out)
    listed: dict[Trees, tuple[list[_RawEntry], bytes]] = {}
    for pair, following in zip(differing, [*differing[1:], None], strict=True):
        if not output.skip_header(readable[pair]):
            raise _failure(done)
        rows, patch = output.rows(), output.patch(readable[following] if following else None)
        listed[pair] = [row.with_blobs(stand_ins) for row in rows], _with_blobs(patch, stand_ins)
    numbered = b"".join(b"commit %040x\n%s" % (at, patch) for at, (_, patch) in enumerate(listed.values()))
    hashing = objects.bare.start("patch-id", "--stable", reads=True)
    ids = _patch_ids(hashing, numbered)
    if len(sizes) < len(blobs):
        sizes = objects.sizes(blobs)  # says which is missing
    for at, (pair, (rows, patch)) in enumerate(listed.items()):
        diffs[pair] = Diff(_files(objects, rows, patch, sizes), patch, ids.get(f"{at:040x}", ""))
    return diffs


def _run_on(objects: Objects, pairs: Sequence[Trees], *command: str) -> Finished:
    """Run a `diff-tree --stdin` on the pairs."""
    lines = "".join(f"{pair.before} {pair.after}\n" for pair in pairs)
    done = objects.bare.run(*command, stdin=lines.encode())
    if done.code:
        raise _failure(done)
    return done


def _rows_of(done: Finished, pairs: Sequence[Trees]) -> Iterator[tuple[Trees, list[_RawEntry]]]:
    """The rows that `_NAMES` prints of each pair."""
    output = _Output(done.out)
    for pair in pairs:
        if not output.skip_header(pair):
            raise _failure(done)
        yield pair, output.rows()


# Of an added file git reads all of the content, only to say that it is binary. So large contents are compared by
# small ones that stand for them, and their ids are put back into what git prints.


def _write_stand_ins(objects: Objects, blobs: Iterable[str]) -> dict[str, str]:
    """The ids of these blobs by those of the small ones that stand for them."""
    from vibe_gate.git.libgit2 import Merging  # large files are rare, and loading it takes as long as a diff

    merging = Merging(objects)
    return {merging.stand_in(blob): blob for blob in blobs}


def _readable_trees(objects: Objects, pair: Trees, rows: Sequence[_RawEntry], stand_ins: Mapping[str, str]) -> Trees:
    """The two trees with small contents in place of those that are not read."""
    from vibe_gate.git.libgit2 import Merging

    stand_in_of = {blob: stand_in for stand_in, blob in stand_ins.items()}
    sides: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for row in rows:
        for side, blob in zip(sides, row.ids, strict=True):
            if blob in stand_in_of:
                side[paths.decode(row.path)] = stand_in_of[blob]
    merging = Merging(objects)
    return Trees(merging.tree_with(pair.before, sides[0]), merging.tree_with(pair.after, sides[1]))


def _with_blobs(patch: bytes, stand_ins: Mapping[str, str]) -> bytes:
    """A patch with the ids of the blobs themselves."""
    for stand_in, blob in stand_ins.items():
        patch = patch.replace(stand_in.encode(), blob.encode())
    return patch


def _patch_ids(hashing: subprocess.Popen[bytes], patches_of_commits: bytes) -> dict[str, str]:
    """What `git patch-id` says of patches, each below a commit's id, by that id."""
    return dict(line.split()[::-1] for line in finish(hashing, patches_of_commits).line.split("\n") if line)


class _RawEntry(Struct, frozen=True):
    """A path that differs, as `--raw` lists it."""

    change_type: ChangeType
    modes: tuple[str, str]
    ids: tuple[str, str]
    old_path: bytes
    path: bytes

    @property
    def blobs(self) -> list[str]:
        """The ids of its contents; a submodule has none here."""
        sides = zip(self.modes, self.ids, strict=True)
        return [name for mode, name in sides if mode not in (_NO_MODE, "160000")]

    def with_blobs(self, stand_ins: Mapping[str, str]) -> _RawEntry:
        """The row with the ids of the blobs themselves."""
        before, after = self.ids
        return replace(self, ids=(stand_ins.get(before, before), stand_ins.get(after, after)))

    def versions(self, sizes: dict[str, int]) -> list[FileVersion | None]:
        """Both sides; a submodule's size is 0."""
        sides = zip(self.modes, self.ids, strict=True)
        return [
            None if mode == _NO_MODE else FileVersion(name, int(mode, 8), sizes.get(name, 0)) for mode, name in sides
        ]


def _header(pair: Trees) -> bytes:
    """What `_DIFF` prints before each pair, but for the newline or NUL behind it."""
    return f"{pair.before} {pair.after}".encode()


class _Output:
    """What `_DIFF` prints: for each pair a header, the rows of `--raw`, a NUL, and the patch."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def skip_header(self, pair: Trees) -> bool:
        """Whether the header of this pair comes next; git leaves it out if a tree is missing."""
        header = _header(pair)
        found = self._data.startswith(header, self._at)
        self._at += len(header) + 1 if found else 0
        return found

    def rows(self) -> list[_RawEntry]:
        """The rows. IntegrityError if a path stands there twice."""
        rows: list[_RawEntry] = []
        while self._data[self._at : self._at + 1] == b":":
            old_mode, new_mode, old, new, status = self._take().decode()[1:].split(" ")
            path = self._take()
            kept = self._take() if status[:1] == "R" else path
            rows.append(_RawEntry(_TYPES[status[:1]], (old_mode, new_mode), (old, new), path, kept))
        if len({row.path for row in rows}) != len(rows):
            raise IntegrityError("A tree of this change is not well formed; run `git fsck`.")
        return rows

    def patch(self, following: Trees | None) -> bytes:
        """The patch, up to the header of the pair that follows: no line of a patch begins with an id."""
        start = self._at + (self._data[self._at : self._at + 1] == b"\0")
        end = self._data.find(b"\n" + _header(following), start - 1) + 1 if following else 0
        self._at = end or len(self._data)
        return self._data[start : self._at]

    def _take(self) -> bytes:
        end = self._data.index(b"\0", self._at)
        field, self._at = self._data[self._at : end], end + 1
        return field


def _files(objects: Objects, rows: list[_RawEntry], patch: bytes, sizes: dict[str, int]) -> tuple[FileDiff, ...]:
    sections = patches.by_path(patch)
    return tuple(_file(objects, row, sections.get(paths.decode(row.path), b""), sizes) for row in rows)


def _file(objects: Objects, row: _RawEntry, section: bytes, sizes: dict[str, int]) -> FileDiff:
    before, after = row.versions(sizes)
    binary = b"\nBinary files " in section  # no line of a hunk begins so
    hunks = _hunks_as_text(objects, before, after) if binary else patches.hunks(section)
    return FileDiff(
        path=paths.decode(row.path),
        old_path=paths.decode(row.old_path) if row.change_type == "renamed" else None,
        change_type=row.change_type,
        before=before,
        after=after,
        binary=binary,
        added=sum(hunk.added for hunk in hunks),
        deleted=sum(hunk.deleted for hunk in hunks),
        hunks=hunks,
    )


def _hunks_as_text(objects: Objects, before: FileVersion | None, after: FileVersion | None) -> tuple[Hunk, ...]:
    """The hunks that a binary file has as text, so that nothing hides behind a NUL byte."""
    from vibe_gate.git import libgit2  # binary files are rare, and loading it takes as long as a diff

    if max(side.size for side in (before, after) if side) > MAX_HUNK_BYTES:
        return ()
    return libgit2.compare_as_text(content_of(objects, before), content_of(objects, after))


def content_of(objects: Objects, version: FileVersion | None) -> bytes:
    """The content of one side of a file; of a submodule the line that git's diffs show for it."""
    return next(contents_of(objects, [version]), b"") if version else b""


def contents_of(objects: Objects, versions: Iterable[FileVersion]) -> Iterator[bytes]:
    """The content of each, in order; git is asked for many at once."""
    waiting = deque(versions)
    while waiting:
        some = [waiting.popleft()]
        size = some[0].size
        while waiting and (size := size + waiting[0].size) <= MAX_BYTES_READ_AT_ONCE:
            some.append(waiting.popleft())
        found = objects.read_all([each.blob for each in some if each.mode != SUBMODULE_MODE])
        for each in some:
            submodule = each.mode == SUBMODULE_MODE
            yield b"Subproject commit %s\n" % each.blob.encode() if submodule else found[each.blob]


def _needs_memory(done: Finished) -> bool:
    """Whether git ran out of memory, or was ended by a signal, as the kernel does then."""
    return done.code < 0 or (done.code > 0 and _NO_MEMORY.search(done.err) is not None)


def _failure(done: Finished) -> GateError:
    """The error for what git could not compare: an object that is missing, or that is not what it should be."""
    said = " ".join(done.err.split())
    if _needs_memory(done):
        return InfrastructureError("git ran out of memory while it compared the files of this change.")
    name = _ID.search(said)
    if name is None or _DAMAGE.search(said):
        return IntegrityError(f"Objects of this change are damaged; run `git fsck` ({paths.quote(said)}).")
    return RevisionError(f"Object {name[0]} is missing here; fetch it first.")


def _named_lines(output: bytes, prefix: int) -> Iterator[NamedLine]:
    """Rows of `git grep -z -n`: path, NUL, number, NUL, line, LF. A path may hold line feeds, too."""
    start = 0
    for match in _FOUND_LINE.finditer(output):
        path = output[start + prefix : match.start()]
        yield NamedLine(paths.decode(path), int(match[1]), match[2])
        start = match.end()


# Changes


class _Ends(Struct, frozen=True):
    """Between what a change lies. A commit is "" if there is none on that side.

    `alone`: what differs is one commit's change, made or about to be made.
    """

    kind: ChangeKind
    trees: Trees
    base_commit: str
    head_commit: str
    alone: bool


class ChangeQueries(HookQueries):
    """What `Repository` says about changes."""

    _latest: tuple[Trees, Diff] | None = None
    _working_tree: WorkingTree | None = None

    def change(self, selection: Selection) -> Change:
        """The change that was asked for, with its files. RevisionError: no such revision, or history cut short."""
        ends = self._ends(selection)
        return _change(ends, self._compared(ends.trees))

    def between(self, before: str, after: str) -> Change:
        """What differs between two trees; it has no commits."""
        found = self._compared(Trees(before, after))
        return Change("range", before, after, "", "", "", found.patch_id, found.files)

    def patch_ids(self, commits: Sequence[str]) -> dict[str, str]:
        """The patch-id of each commit's change (full ids) against its first parent; none of one that changes nothing.

        Two processes for all of them, and no file is looked at here: `changes_of` costs five times as much.
        """
        asked = "".join(f"{commit} {self.first_parent(commit)}\n" for commit in commits)
        done = self._objects.bare.run(*_PATCHES, stdin=asked.encode())
        if done.code:
            raise _failure(done)
        return _patch_ids(self._objects.bare.start("patch-id", "--stable", reads=True), done.out)

    def changes_of(self, commits: Sequence[str]) -> dict[str, Change]:
        """The change of each commit (full ids) against its first parent, in a few processes for all of them."""
        ends = {commit: self._commit_ends(commit) for commit in commits}
        found = compare(self._objects, [one.trees for one in ends.values()])
        return {commit: _change(one, found[one.trees]) for commit, one in ends.items()}

    def read(self, version: FileVersion) -> bytes:
        """Content of one side of a file; of a submodule the line that git's diffs show for it."""
        return content_of(self._objects, version)

    def digest(self, version: FileVersion) -> str:
        """The sha-256 of one side of a file that may be too large for `read`, in hex."""
        return self._objects.digest(version.blob, version.size)

    def is_binary(self, version: FileVersion) -> bool:
        """Whether git calls the content binary, of any size: a NUL stands among its first bytes."""
        return b"\0" in self._objects.read_start(version.blob, NUL_WINDOW)

    def read_all(self, versions: Iterable[FileVersion]) -> Iterator[bytes]:
        """What `read` gives of each, in order."""
        return contents_of(self._objects, versions)

    def patch(self, change: Change) -> bytes:
        """The change as a patch that `git apply --index` accepts, binary files included.

        A file that is not read is only named: to apply its section, git must have its content already.
        """
        if not any(file.binary for file in change.files):
            return self._text_patch(change)
        unread_files = [file for file in change.files if not file.is_read]
        unread_paths = {path for file in unread_files for path in file.names}
        before = self._tree_without(change.before, unread_paths)
        after = self._tree_without(change.after, unread_paths)
        done = self._objects.bare.run("diff-tree", "-r", "-p", "--binary", "--full-index", *RENAMES, before, after)
        if done.code:
            raise _failure(done)
        if not unread_files:
            return done.out
        sections = patches.by_path(self._text_patch(change))
        return done.out + b"".join(sections.get(file.path, b"") for file in unread_files)

    def _tree_without(self, tree: str, file_paths: set[str]) -> str:
        return self._merging.tree_without(tree, file_paths) if file_paths else tree

    def file_patch(self, change: Change, file: FileDiff) -> str:
        """One file's section of the patch, to be shown by `escape.show_block`; binary files are only named."""
        return paths.decode(patches.by_path(self._text_patch(change)).get(file.path, b""))

    def in_context(self, change: Change) -> dict[str, tuple[Hunk, ...]]:
        """By path, the change's hunks with the whole functions around them, or 10 lines; not of binary files.

        Git's own patterns for each language tell which line begins a function, by the file's name and by nothing
        that the repository says.
        """
        attributes = self._objects.folder / "attributes"
        if not attributes.exists():
            rows = [f"*.{end} diff={name}\n" for name, ends in _LANGUAGES.items() for end in ends.split()]
            attributes.write_text("".join(rows))
        unread_paths = {path for file in change.files if not file.is_read for path in file.names}
        before = self._tree_without(change.before, unread_paths)
        after = self._tree_without(change.after, unread_paths)
        done = self._objects.bare.run(
            "-c", f"core.attributesFile={attributes}", "-c", f"diff.script.xfuncname={_SCRIPT}", "diff-tree", "-r",
            "-p", "-W", f"-U{LINES_AROUND}", "--full-index", *RENAMES, before, after,
        )  # fmt: skip
        return {path: patches.hunks(section) for path, section in patches.by_path(done.out).items()}

    def search(self, tree: str, words: Sequence[str]) -> list[NamedLine]:
        """The lines of a tree's text files that hold one of the words as a whole word, in the order of the paths.

        Those of labelled cases are left out. Less if there are too many, none if it takes too long.
        """
        asked = [argument for word in words for argument in ("-e", word)]
        process = self._objects.bare.start(
            *("grep", "-z", "-n", "-I", "-w", "-F", *asked, tree, "--", f":(exclude){CASES}"),
            environ=PATTERNS,
        )
        assert process.stdout is not None
        timer = Timer(_SEARCH_S, process.kill)
        timer.start()
        try:
            found = process.stdout.read(MAX_FOUND_BYTES)
        finally:
            timer.cancel()
            process.kill()
            process.communicate()
        return list(_named_lines(found.rpartition(b"\n")[0], len(tree) + 1))

    def snapshot(self) -> str:
        """Tree id of the working tree, untracked files that are not ignored included (see `snapshot`)."""
        self._working_tree = WorkingTree(self._place, self._objects)
        return self._working_tree.tree(self.tree_of(self.head()))

    def still_holds(self, tree: str) -> bool:
        """Whether the files of the working tree are those of `tree`; for less if a snapshot was taken before.

        A quick look that says no may be wrong: where names differ in case alone, git's index says something else then.
        """
        return (self._working_tree is not None and self._working_tree.holds(tree)) or self.snapshot() == tree

    def index_tree(self) -> str:
        """Tree id that `git commit` would make of the index that git means here (GIT_INDEX_FILE in a hook)."""
        return index_tree(self._place, self._objects)

    @cached_property
    def _merging(self) -> Merging:
        from vibe_gate.git.libgit2 import Merging

        return Merging(self._objects)

    def _text_patch(self, change: Change) -> bytes:
        return self._compared(Trees(change.before, change.after)).patch

    def _compared(self, trees: Trees) -> Diff:
        """What differs, kept for whoever asks the same next: the patch of a change, the change of a turn."""
        if self._latest is None or self._latest[0] != trees:
            self._latest = trees, compare(self._objects, [trees])[trees]
        return self._latest[1]

    def _ends(self, selection: Selection) -> _Ends:
        if selection.kind == "worktree":
            return self._worktree_ends(selection.left or "HEAD")
        if selection.kind == "staged":
            head = self.head()
            return _Ends("staged", Trees(self.tree_of(head), self.index_tree()), head, "", alone=True)
        if selection.kind == "commit":
            return self._commit_ends(self.resolve(selection.left))
        right = self.resolve(selection.right)
        if selection.left == EMPTY_TREE:  # from nothing: a first push
            return self._range_ends("", right)
        left = self.resolve(selection.left)
        if selection.kind == "merge_base":
            shown = f"{selection.left or 'HEAD'}...{selection.right or 'HEAD'}"
            left = self.merge_base(left, right, shown)
        ends = self._range_ends(left, right)
        merged = self._merging.merged((left, selection.also), ours=True) if selection.also else ""
        return replace(ends, trees=Trees(merged, ends.trees.after)) if merged else ends

    def _worktree_ends(self, left: str) -> _Ends:
        head = self.head()
        after = self.snapshot()
        base = head if left == "HEAD" else self.resolve(left)
        clean = bool(head) and after == self.tree_of(head)
        alone = base == head or (clean and self.parents(head)[:1] == [base])
        return _Ends("worktree", Trees(self.tree_of(base), after), base, head if clean else "", alone)

    def _commit_ends(self, commit: str) -> _Ends:
        parent = self.first_parent(commit)
        trees = Trees(self.tree_of(parent), self.tree_of(commit))
        return _Ends("commit", trees, parent, commit, alone=True)

    def _range_ends(self, left: str, right: str) -> _Ends:
        trees = Trees(self.tree_of(left), self.tree_of(right))
        alone = (self.parents(right) or [""])[0] == left
        return _Ends("range", trees, left, right, alone)


def _change(ends: _Ends, found: Diff) -> Change:
    return Change(
        kind=ends.kind,
        before=ends.trees.before,
        after=ends.trees.after,
        base_commit=ends.base_commit,
        head_commit=ends.head_commit,
        patch_id=found.patch_id if ends.alone else "",
        range_patch_id=found.patch_id,
        files=found.files,
    )
