"""New commits of a branch, and which of them git made by itself: clean merges, rebases, picks and
reverts.

Asks the git program alone, in the folder and the environment in which git runs its hooks: that may
be inside `.git`. Merges are made again in a scratch object store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.domain.change import EMPTY_TREE
from vibe_gate.domain.environment import Environment
from vibe_gate.errors import InfrastructureError
from vibe_gate.git.object_store import Objects
from vibe_gate.git.program import Program

if TYPE_CHECKING:
    from vibe_gate.git.merging import Merging

MAX_NEW = 1_000
"""New commits of one update that are read, the newest first."""

MAX_KNOWN = 20_000
"""Known commits that are searched for the source of a rebased or picked commit, the newest
first.
"""

_REFS = (
    "--exclude=refs/stash",
    "--exclude=refs/notes/*",
    "--exclude=refs/replace/*",
    "--glob=refs/*",
)
"""Refs whose commits are known. Stashes and replacements are not the user's commits; a detached
HEAD has no branch.
"""

_FIELDS = "%H%n%T%n%P%n%ae %at%n%s%n%B%x00"
_ID = re.compile(r"\b[0-9a-f]{40}\b")
_NO_STEP = ("exec ", "x ", "break", "noop")
"""Lines of a rebase's list by which git itself makes no tree; what somebody commits there, no later
step gives.
"""

_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40})\b", re.M)


class NewCommit(Struct, frozen=True):
    """A commit that an update brings."""

    id: str

    tree: str

    before: str
    """The tree of its first parent, the empty tree of a first commit."""

    parents: tuple[str, ...]

    author: str
    """Address and time, which a rebase and a pick keep."""

    subject: str
    """The first lines of the message, as git prints them in a line."""

    message: str


class KnownCommit(Struct, frozen=True):
    """A commit that was there before."""

    tree: str

    author: str
    """As of NewCommit."""

    subject: str
    """The first lines of its message, as git prints them in a line."""


class Updates:
    """The commits of the repository that one call of a hook is about.

    `sources` count as known, though a branch that had them may be gone.
    """

    def __init__(self, start: Path, environment: Environment, sources: Sequence[str] = ()) -> None:
        self._sources = sources
        self._git = Program(start, environment.variables)
        options = ("--git-dir", "--git-common-dir", "--git-path", "objects")
        folders = self._read("rev-parse", "--path-format=absolute", *options).split("\n")
        if len(folders) != 3:
            raise InfrastructureError("git could not say where the repository is.")
        self.git_dir, self.common_dir, self._objects_folder = map(Path, folders)
        self.hooks = self.common_dir / "hooks"

    def new(self, commit: str) -> list[NewCommit]:
        """The commits that `commit` has and no ref, no reflog of a branch and no fetch knows,
        newest first.
        """
        log = self._log(
            f"--max-count={MAX_NEW}", f"--format={_FIELDS}", commit, "--not", *_REFS, mark="^"
        )
        return self._parse_log(log)

    def _parse_log(self, log: str) -> list[NewCommit]:
        """The commits of a log of _FIELDS."""
        rows: list[list[str]] = []
        names_of_trees_before: list[str] = []
        for record in log.split("\0"):
            if not record.strip():
                continue
            row = record.lstrip("\n").split("\n", 5)
            rows.append(row)
            parents = row[2].split()
            names_of_trees_before.append(f"{parents[0]}^{{tree}}" if parents else EMPTY_TREE)
        trees_before = self._resolve_objects(names_of_trees_before)
        commits = []
        for row, tree_before in zip(rows, trees_before, strict=True):
            commit_id, tree, parent_ids, author, subject, message = row
            commit = NewCommit(
                id=commit_id,
                tree=tree,
                before=tree_before,
                parents=tuple(parent_ids.split()),
                author=author,
                subject=subject,
                message=message,
            )
            commits.append(commit)
        return commits

    def _resolve_objects(self, names: Sequence[str]) -> list[str]:
        """The id of each object, in one call of git."""
        if not names:
            return []
        lines = "".join(f"{name}\n" for name in names)
        return self._read("cat-file", "--batch-check=%(objectname)", stdin=lines).splitlines()

    def known_commits(self) -> dict[str, KnownCommit]:
        """The newest known commits, by id."""
        log = self._log(f"--max-count={MAX_KNOWN}", "--format=%H %T%n%ae %at%n%s%x00", *_REFS)
        commits = {}
        for record in log.split("\0"):
            if not record.strip():
                continue
            ids, author, subject = record.lstrip("\n").split("\n", 2)
            commit_id, tree = ids.split(" ")
            commits[commit_id] = KnownCommit(tree, author, subject)
        return commits

    def _log(self, *arguments: str, mark: str = "") -> str:
        """What `git log` prints of these arguments and of the commits that logs name, each after
        the mark.
        """
        lines = "".join(f"{mark}{commit_id}\n" for commit_id in self._commits_in_logs())
        return self._read("log", "--ignore-missing", "--stdin", *arguments, stdin=lines)

    def _commits_in_logs(self) -> list[str]:
        """Commits that a branch was at, or that were fetched from another repository, and the
        sources.
        """
        candidates: list[str] = []
        for log in (self.common_dir / "logs" / "refs" / "heads").rglob("*"):
            if log.is_file():
                # What the first line of a log that was cut short begins with, no other line has.
                for line in _read_lines(log):
                    candidates += (line[:40], line[41:81])
        candidates += self._fetched_commits()
        candidates += self._sources
        commit_ids = [candidate for candidate in candidates if _ID.fullmatch(candidate)]
        return [commit_id for commit_id in dict.fromkeys(commit_ids) if commit_id.strip("0")]

    def _fetched_commits(self) -> list[str]:
        """What FETCH_HEAD names at the beginning of each line that is about another repository."""
        commit_ids: list[str] = []
        is_own_by_source: dict[str, bool] = {}
        for line in _read_lines(self.git_dir / "FETCH_HEAD"):
            source = line.rpartition("\t")[2].rpartition(" of ")[2]
            if source not in is_own_by_source:
                is_own_by_source[source] = self._is_own(source.removeprefix("file://"))
            if not is_own_by_source[source]:
                commit_ids.append(line[:40])
        return commit_ids

    def _is_own(self, source: str) -> bool:
        """Whether a source that git fetched from is a path of this very repository, or of a
        worktree of it.
        """
        folder = self._git.folder / source
        if not source or not folder.is_dir():
            return False
        git = self._git.elsewhere(folder)
        answer = git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
        return answer.line == str(self.common_dir)

    def is_applying(self) -> bool:
        """Whether `git am` is running."""
        return (self.git_dir / "rebase-apply" / "applying").exists()

    def made_by_git(self, commits: Sequence[str]) -> set[str]:
        """Those of the commits, which refs may know by now, that git made by itself of the other
        known commits.
        """
        log = self._read("log", "--no-walk", f"--format={_FIELDS}", *commits)
        return self.by_itself(self._parse_log(log))

    def by_itself(
        self, new: list[NewCommit], trees_before: Callable[[str], set[str]] = lambda tree: {tree}
    ) -> set[str]:
        """Those that git made of known commits by itself: clean merges, rebased, picked and
        reverted commits.

        `trees_before`: the trees from which reviewed changes lead to a commit's tree; one of them
        may be known, too.
        """
        known_commits = self.known_commits()
        for commit in new:
            known_commits.pop(commit.id, None)
        from vibe_gate.git.merging import Merging  # pygit2, which most hooks do without

        git_made: set[str] = set()
        with closing(Objects(self._git, self._objects_folder)) as objects:
            merging = Merging(objects)
            trees_of_rebase = self._trees_of_rebase(merging, known_commits)
            origins = _Origins(merging, known_commits, trees_of_rebase)
            for commit in reversed(new):
                if origins.explain(commit, trees_before(commit.tree)):
                    git_made.add(commit.id)
        return git_made

    def _trees_of_rebase(
        self, merging: Merging, known_commits: Mapping[str, KnownCommit]
    ) -> Iterator[str]:
        """The trees of the current rebase's steps while all are of known commits; a squash keeps no
        author.
        """
        state_folder = self.git_dir / "rebase-merge"
        base = next(iter(_read_lines(state_folder / "onto")), "")
        if base not in known_commits:
            return
        tree = known_commits[base].tree
        for line in _read_lines(state_folder / "done"):
            if line.startswith(_NO_STEP):
                continue
            step = _ID.search(line)
            if step is None or step[0] not in known_commits:
                return
            tree = merging.replay(step[0], tree)
            if not tree:
                return
            yield tree

    def _read(self, *arguments: str, stdin: str | None = None) -> str:
        """What git prints."""
        content = None if stdin is None else stdin.encode()
        output = self._git.run(*arguments, stdin=content).out
        return output.decode("utf-8", "surrogateescape").removesuffix("\n")


class _Origins:
    """The known commits, and those explained by them, of which git may have made others."""

    def __init__(
        self,
        merging: Merging,
        known_commits: Mapping[str, KnownCommit],
        trees_of_rebase: Iterator[str],
    ) -> None:
        self._merging = merging
        self._known_commits = known_commits
        self._trees = {known_commit.tree for known_commit in known_commits.values()}
        self._trees_of_rebase = trees_of_rebase
        self._ids_by_author: dict[str, list[str]] = {}
        for commit_id, known_commit in known_commits.items():
            self._ids_by_author.setdefault(known_commit.author, []).append(commit_id)

    def explain(self, commit: NewCommit, trees: set[str]) -> bool:
        """Whether git makes the commit's tree by merging its parents, by replaying a commit of the
        same author, or by reverting one that its message names.

        `trees`: those from which reviewed changes lead to the commit's; it may also be that one of
        them is known, or a step of the current rebase.
        """
        is_explained = not self._trees.isdisjoint(trees) or self._is_made_of_commits(commit)
        if not is_explained:
            self._trees.update(self._trees_of_rebase)  # all of them, the first time
            is_explained = not self._trees.isdisjoint(trees)
        if is_explained:
            self._trees.add(commit.tree)
        return is_explained

    def _is_made_of_commits(self, commit: NewCommit) -> bool:
        if self._merging.merge_parents(commit.parents) == commit.tree:
            return True
        for source in self._sources_of(commit):
            if self._merging.is_replay(source, commit.before, commit.tree):
                return True
        for source in _REVERTED.findall(commit.message):
            is_known = source in self._known_commits
            if is_known and self._merging.is_replay(source, commit.before, commit.tree, back=True):
                return True
        return False

    def _sources_of(self, commit: NewCommit) -> list[str]:
        """The known commits of the commit's author and time, the likely ones first: git keeps their
        subject unless somebody edits it.
        """
        sources = self._ids_by_author.get(commit.author, [])
        return sorted(
            sources, key=lambda source: self._known_commits[source].subject != commit.subject
        )


def _read_lines(file: Path) -> list[str]:
    """The lines of a file; none if it cannot be read."""
    with suppress(OSError):
        return file.read_text("utf-8", "surrogateescape").split("\n")
    return []
