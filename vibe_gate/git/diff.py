"""Which two trees a selection means, and what differs between them: files, lines, renames, patch
and patch-id; and the lines of a tree that name a word.

libgit2 compares (`tree_diff`). Git finds words, in a bare repository of our own that has the
objects and nothing else, so that no attribute and no configuration can hide one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from threading import Timer
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.change import (
    CASES,
    EMPTY_TREE,
    NUL_WINDOW,
    Change,
    ChangeKind,
    FileDiff,
    FileVersion,
    FoundLines,
    NamedLine,
    Selection,
)
from vibe_gate.domain.escape import expression
from vibe_gate.git.hooks import HookQueries
from vibe_gate.git.object_store import Objects
from vibe_gate.git.program import PATTERNS
from vibe_gate.git.snapshot import WorkingTree, index_tree

if TYPE_CHECKING:
    from vibe_gate.git.merging import Merging
    from vibe_gate.git.tree_diff import FileSection

_PATCHES_AT_ONCE = 500
"""Commits whose patches are in memory together."""

MAX_FOUND_BYTES = 2_000_000
"""Of a search's output: a word with more occurrences tells a judge nothing."""

_FOUND_LINE = expression(rb"\0(\d{1,9})\0(.*)(?:\n|\Z)")
_SEARCH_S = 10.0  # a search that takes longer is cut off
_SPECIAL = str.maketrans({character: "\\" + character for character in ".[]{}()\\*+?^$|"})
_PLAIN_WORD = expression(r"[A-Za-z0-9_]+\Z")
_SEARCH_ENDS = (0, 1)  # git grep's exit codes: something found, nothing found


class Trees(Struct, frozen=True):
    """The ids of the trees before and after a change."""

    before: str
    after: str


class Diff(Struct, frozen=True):
    """What differs between two trees."""

    files: tuple[FileDiff, ...] = ()

    sections: dict[str, bytes] = {}
    """The text of the patch about each file, by path; it only names binary files."""

    patch_id: str = ""
    """What `git patch-id --stable` makes of the text; "" if nothing differs."""


def compare_trees(objects: Objects, pairs: Collection[Trees]) -> dict[Trees, Diff]:
    """What differs in each pair; see `diff_trees` for files, hunks and errors."""
    from vibe_gate.git.tree_diff import diff_trees

    sections_by_pair: dict[Trees, list[FileSection]] = {}
    for pair in pairs:
        if pair not in sections_by_pair:
            sections_by_pair[pair] = diff_trees(objects.database, pair.before, pair.after)
    texts = []
    for sections in sections_by_pair.values():
        texts.append(b"".join(section.text for section in sections))
    patch_ids = patch_ids_of(objects, texts)
    diffs: dict[Trees, Diff] = {}
    for (pair, sections), patch_id in zip(sections_by_pair.items(), patch_ids, strict=True):
        files = tuple(section.file for section in sections)
        texts_by_path = {section.file.path: section.text for section in sections}
        diffs[pair] = Diff(files, texts_by_path, patch_id)
    return diffs


def patch_ids_of(objects: Objects, texts: Sequence[bytes]) -> list[str]:
    """What `git patch-id --stable` makes of each text; "" of an empty one.

    libgit2's own `patchid` is the same for all contents of a binary file, and hashes empty files in
    another way.
    """
    # As long as a commit's id, of a hash for which nobody can make two texts.
    digests = [hashlib.sha256(text).hexdigest()[:40] for text in texts]
    known_ids = objects.patch_ids
    new_texts = {}
    for digest, text in zip(digests, texts, strict=True):
        if text and digest not in known_ids:
            new_texts[digest] = b"commit %s\n%s" % (digest.encode(), text)
    if new_texts:
        answer = objects.bare.run("patch-id", "--stable", stdin=b"".join(new_texts.values()))
        for line in answer.line.split("\n"):
            patch_id, digest = line.split()
            known_ids[digest] = patch_id
    return [known_ids.get(digest, "") for digest in digests]


def _named_lines(output: bytes, prefix: int) -> Iterator[NamedLine]:
    """Rows of `git grep -z -n`: path, NUL, number, NUL, line, LF. A path may hold line feeds,
    too.
    """
    start = 0
    for match in _FOUND_LINE.finditer(output):
        path = output[start + prefix : match.start()]
        yield NamedLine(paths.decode(path), int(match[1]), match[2])
        start = match.end()


# Changes


class _Ends(Struct, frozen=True):
    """Between what a change lies."""

    kind: ChangeKind

    trees: Trees

    base_commit: str
    """ "" if there is none on that side."""

    head_commit: str
    """ "" if there is none on that side."""

    alone: bool
    """Whether what differs is one commit's change, made or about to be made."""


class ChangeQueries(HookQueries):
    """What `Repository` says about changes."""

    _latest: tuple[Trees, Diff] | None = None
    _working_tree: WorkingTree | None = None

    def change(self, selection: Selection) -> Change:
        """The change that was asked for, with its files. RevisionError: no such revision, or
        history cut short.
        """
        ends = self._ends(selection)
        return _change(ends, self._compared(ends.trees))

    def between(self, before: str, after: str) -> Change:
        """What differs between two trees; it has no commits."""
        diff = self._compared(Trees(before, after))
        return Change("range", before, after, "", "", "", diff.patch_id, diff.files)

    def patch_ids(self, commits: Sequence[str]) -> dict[str, str]:
        """The patch-id of each commit's change (full ids) against its first parent; none of one
        that changes nothing.

        No file is looked at here: `changes_of` costs more.
        """
        from vibe_gate.git.tree_diff import patch_text

        patch_ids: dict[str, str] = {}
        for start in range(0, len(commits), _PATCHES_AT_ONCE):
            portion = commits[start : start + _PATCHES_AT_ONCE]
            texts = []
            for commit in portion:
                trees = self._commit_ends(commit).trees
                texts.append(patch_text(self._objects.database, trees.before, trees.after))
            patch_ids |= zip(portion, patch_ids_of(self._objects, texts), strict=True)
        return {commit: patch_id for commit, patch_id in patch_ids.items() if patch_id}

    def changes_of(self, commits: Sequence[str]) -> dict[str, Change]:
        """The change of each commit (full ids) against its first parent."""
        ends_by_commit = {commit: self._commit_ends(commit) for commit in commits}
        diffs = compare_trees(self._objects, [ends.trees for ends in ends_by_commit.values()])
        changes = {}
        for commit, ends in ends_by_commit.items():
            changes[commit] = _change(ends, diffs[ends.trees])
        return changes

    def read(self, version: FileVersion) -> bytes:
        """Content of one side of a file; of a submodule the line that git's diffs show for it."""
        return self._objects.database.content(version)

    def digest(self, version: FileVersion) -> str:
        """The sha-256 of one side of a file that may be too large for `read`, in hex."""
        return self._objects.digest(version.blob, version.size)

    def is_binary(self, version: FileVersion) -> bool:
        """Whether git calls the content binary, of any size: a NUL stands among its first bytes."""
        return b"\0" in self._objects.read_start(version.blob, NUL_WINDOW)

    def read_all(self, versions: Iterable[FileVersion]) -> Iterator[bytes]:
        """What `read` gives of each, in order."""
        return map(self.read, versions)

    def patch(self, change: Change) -> bytes:
        """The change as a patch that `git apply --index` accepts, binary files included.

        A file that is not read is only named: to apply its section, git must have its content
        already.
        """
        if not any(file.binary for file in change.files):
            return b"".join(self._compared(Trees(change.before, change.after)).sections.values())
        from vibe_gate.git.tree_diff import patch_text

        return patch_text(self._objects.database, change.before, change.after, whole_binaries=True)

    def file_patch(self, change: Change, file: FileDiff) -> str:
        """One file's section of the patch, to be shown by `escape.show_block`; binary files are
        only named.
        """
        sections = self._compared(Trees(change.before, change.after)).sections
        return paths.decode(sections.get(file.path, b""))

    def search(self, tree: str, words: Sequence[str]) -> FoundLines:
        """The lines of a tree's text files that hold one of the words as a whole word, in the order
        of the paths; those of labelled cases are left out.
        """
        # One expression: git compares each line with each of several, which took 20 s for 24 words.
        # Those with other characters have one of their own: git takes the longest of several that
        # begin at one place, and finds no `foo` in `foo-bars` beside `foo-bar`.
        plain_words = [word for word in words if _PLAIN_WORD.match(word)]
        other_words = [word.translate(_SPECIAL) for word in words if not _PLAIN_WORD.match(word)]
        patterns: list[str] = []
        for alternatives in filter(None, (plain_words, other_words)):
            patterns += ("-e", "|".join(alternatives))
        process = self._objects.bare.start(
            *("grep", "-z", "-n", "-I", "-w", "-E", *patterns, tree, "--", f":(exclude){CASES}"),
            variables=PATTERNS,
        )
        assert process.stdout is not None
        timer = Timer(_SEARCH_S, process.kill)
        timer.start()
        try:
            output = process.stdout.read(MAX_FOUND_BYTES)
            is_whole = len(output) < MAX_FOUND_BYTES and process.wait() in _SEARCH_ENDS
        finally:
            timer.cancel()
            process.kill()
            process.communicate()
        lines = _named_lines(output.rpartition(b"\n")[0], len(tree) + 1)
        return FoundLines(tuple(lines), is_whole)

    def snapshot(self) -> str:
        """Tree id of the working tree, untracked files that are not ignored included (see
        `snapshot`).
        """
        return self._snapshot_at(self.head())

    def _snapshot_at(self, head: str) -> str:
        """The same, where the head is known."""
        self._working_tree = WorkingTree(self._place, self._objects)
        return self._working_tree.tree(self.tree_of(head))

    def still_holds(self, tree: str) -> bool:
        """Whether the files of the working tree are those of `tree`; for less if a snapshot was
        taken before.

        A quick look that says no may be wrong: where names differ in case alone, git's index says
        something else then.
        """
        if self._working_tree is not None and self._working_tree.holds(tree):
            return True
        return self.snapshot() == tree

    def index_tree(self) -> str:
        """Tree id that `git commit` would make of the index that git means here (GIT_INDEX_FILE in
        a hook).
        """
        return index_tree(self._place, self._objects)

    @cached_property
    def _merging(self) -> Merging:
        from vibe_gate.git.merging import Merging

        return Merging(self._objects)

    def _compared(self, trees: Trees) -> Diff:
        """What differs, kept for whoever asks the same next: the patch of a change, the change of a
        turn.
        """
        if self._latest is None or self._latest[0] != trees:
            self._latest = trees, compare_trees(self._objects, [trees])[trees]
        return self._latest[1]

    def _ends(self, selection: Selection) -> _Ends:
        if selection.kind == "worktree":
            return self._worktree_ends(selection.left or "HEAD")
        if selection.kind == "staged":
            return self._staged_ends()
        if selection.kind == "commit":
            return self._commit_ends(self.resolve(selection.left))
        head = self.resolve(selection.right)
        if selection.left == EMPTY_TREE:  # from nothing: a first push
            return self._range_ends("", head)
        base = self.resolve(selection.left)
        if selection.kind == "merge_base":
            revisions = f"{selection.left or 'HEAD'}...{selection.right or 'HEAD'}"
            base = self.merge_base(base, head, revisions)
        if not selection.also:
            return self._range_ends(base, head)
        merged_tree = self._merging.merge_parents((base, selection.also), prefers_first=True)
        return self._range_ends(base, head, tree_before=merged_tree)

    def _worktree_ends(self, base_revision: str) -> _Ends:
        head = self.head()
        after = self._snapshot_at(head)
        base = head if base_revision == "HEAD" else self.resolve(base_revision)
        trees = Trees(self.tree_of(base), after)
        is_at_head = base == head
        if not head or after != self.tree_of(head):
            return _Ends("worktree", trees, base, "", alone=is_at_head)
        is_last_commit = self.parents(head)[:1] == [base]
        return _Ends("worktree", trees, base, head, alone=is_at_head or is_last_commit)

    def _staged_ends(self) -> _Ends:
        head = self.head()
        trees = Trees(self.tree_of(head), self.index_tree())
        return _Ends("staged", trees, head, "", alone=True)

    def _commit_ends(self, commit: str) -> _Ends:
        parent = self.first_parent(commit)
        trees = Trees(self.tree_of(parent), self.tree_of(commit))
        return _Ends("commit", trees, parent, commit, alone=True)

    def _range_ends(self, base: str, head: str, *, tree_before: str = "") -> _Ends:
        """From one commit to another; `tree_before`, if given, stands for the first one's."""
        trees = Trees(tree_before or self.tree_of(base), self.tree_of(head))
        first_parent = next(iter(self.parents(head)), "")
        return _Ends("range", trees, base, head, alone=first_parent == base)


def _change(ends: _Ends, diff: Diff) -> Change:
    return Change(
        kind=ends.kind,
        before=ends.trees.before,
        after=ends.trees.after,
        base_commit=ends.base_commit,
        head_commit=ends.head_commit,
        patch_id=diff.patch_id if ends.alone else "",
        range_patch_id=diff.patch_id,
        files=diff.files,
    )
