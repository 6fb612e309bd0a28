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

_FIELDS = "%H%n%T%n%P%n%ae %at%n%B%x00"
_ID = re.compile(r"\b[0-9a-f]{40}\b")
_NO_STEP = ("exec ", "x ", "break", "noop")
"""Lines of a rebase's list by which git itself makes no tree; what somebody commits there, no later
step gives.
"""

_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40})\b", re.M)


class NewCommit(Struct, frozen=True):
    """A commit that an update brings. `before`: the tree of its first parent, the empty tree of a
    first commit.

    `author`: address and time, which a rebase and a pick keep.
    """

    id: str
    tree: str
    before: str
    parents: tuple[str, ...]
    author: str
    message: str


class Updates:
    """The commits of the repository that one call of a hook is about.

    `sources` count as known, though a branch that had them may be gone.
    """

    def __init__(self, start: Path, environment: Environment, sources: Sequence[str] = ()) -> None:
        self._sources = sources
        self._git = Program(start, environment.variables)
        asked = ("--git-dir", "--git-common-dir", "--git-path", "objects")
        lines = self._asked("rev-parse", "--path-format=absolute", *asked).split("\n")
        if len(lines) != 3:
            raise InfrastructureError("git could not say where the repository is.")
        self.git_dir, self.common_dir, self._folder = map(Path, lines)
        self.hooks = self.common_dir / "hooks"

    def new(self, commit: str) -> list[NewCommit]:
        """The commits that `commit` has and no ref, no reflog of a branch and no fetch knows,
        newest first.
        """
        listed = self._log(
            f"--max-count={MAX_NEW}", f"--format={_FIELDS}", commit, "--not", *_REFS, mark="^"
        )
        return self._parsed(listed)

    def _parsed(self, listed: str) -> list[NewCommit]:
        rows = [part.lstrip("\n").split("\n", 4) for part in listed.split("\0") if part.strip()]
        parents = [tuple(row[2].split()) for row in rows]
        asked = "".join(
            f"{first[0]}^{{tree}}\n" if first else f"{EMPTY_TREE}\n" for first in parents
        )
        trees = self._asked("cat-file", "--batch-check=%(objectname)", stdin=asked).splitlines()
        return [
            NewCommit(name, tree, before, above, author, message)
            for (name, tree, _, author, message), above, before in zip(
                rows, parents, trees, strict=True
            )
        ]

    def known(self) -> dict[str, tuple[str, str]]:
        """The newest known commits: id -> (tree, author)."""
        listed = self._log(f"--max-count={MAX_KNOWN}", "--format=%H %T %ae %at", *_REFS)
        rows = (line.split(" ", 2) for line in listed.split("\n") if line)
        return {row[0]: (row[1], row[2]) for row in rows}

    def _log(self, *arguments: str, mark: str = "") -> str:
        remembered = "".join(f"{mark}{name}\n" for name in self._remembered())
        return self._asked("log", "--ignore-missing", "--stdin", *arguments, stdin=remembered)

    def _remembered(self) -> list[str]:
        """Commits that a branch was at, or that were fetched from another repository."""
        logs = (self.common_dir / "logs" / "refs" / "heads").rglob("*")
        # What the first line of a log that was cut short begins with, no other line has.
        found = [
            name
            for log in logs
            if log.is_file()
            for line in _lines(log)
            for name in (line[:40], line[41:81])
        ]
        lines = _lines(self.git_dir / "FETCH_HEAD")
        fetched = [(line[:40], line.rpartition("\t")[2].rpartition(" of ")[2]) for line in lines]
        own = {source for _, source in set(fetched) if self._is_own(source.removeprefix("file://"))}
        found += [name for name, source in fetched if source not in own] + [*self._sources]
        return [name for name in dict.fromkeys(found) if _ID.fullmatch(name) and name.strip("0")]

    def _is_own(self, source: str) -> bool:
        """Whether a source that git fetched from is a path of this very repository, or of a
        worktree of it.
        """
        folder = self._git.folder / source
        if not source or not folder.is_dir():
            return False
        asked = self._git.elsewhere(folder).run(
            "rev-parse", "--path-format=absolute", "--git-common-dir"
        )
        return asked.line == str(self.common_dir)

    def is_applying(self) -> bool:
        """Whether `git am` is running."""
        return (self.git_dir / "rebase-apply" / "applying").exists()

    def made_by_git(self, commits: Sequence[str]) -> set[str]:
        """Those of the commits, which refs may know by now, that git made by itself of the other
        known commits.
        """
        return self.by_itself(
            self._parsed(self._asked("log", "--no-walk", f"--format={_FIELDS}", *commits))
        )

    def by_itself(
        self, new: list[NewCommit], trees_before: Callable[[str], set[str]] = lambda tree: {tree}
    ) -> set[str]:
        """Those that git made of known commits by itself: clean merges, rebased, picked and
        reverted commits.

        `trees_before`: the trees from which reviewed changes lead to a commit's tree; one of them
        may be known, too.
        """
        made_now = {commit.id for commit in new}
        known = {name: found for name, found in self.known().items() if name not in made_now}
        by_author: dict[str, list[str]] = {}
        for name, (_, author) in known.items():
            by_author.setdefault(author, []).append(name)
        from vibe_gate.git.merging import Merging  # pygit2, which most hooks do without

        with closing(Objects(self._git, self._folder)) as objects:
            merging = Merging(objects)
            trees = {tree for tree, _ in known.values()} | set(self._rebased(merging, known))
            made = set()
            for commit in reversed(new):
                sources = by_author.get(commit.author, [])
                reverted = [name for name in _REVERTED.findall(commit.message) if name in known]
                if trees & trees_before(commit.tree) or _makes(merging, commit, sources, reverted):
                    made.add(commit.id)
                    trees.add(commit.tree)
        return made

    def _rebased(self, merging: Merging, known: Mapping[str, tuple[str, str]]) -> Iterator[str]:
        """The trees of the current rebase's steps while all are of known commits; a squash keeps no
        author.
        """
        state = self.git_dir / "rebase-merge"
        base = _lines(state / "onto")[:1]
        if not base or base[0] not in known:
            return
        tree, _ = known[base[0]]
        for line in _lines(state / "done"):
            if line.startswith(_NO_STEP):
                continue
            step = _ID.search(line)
            if step and step[0] in known and (tree := merging.replayed(step[0], tree)):
                yield tree
            else:
                return

    def _asked(self, *arguments: str, stdin: str | None = None) -> str:
        done = self._git.run(*arguments, stdin=None if stdin is None else stdin.encode())
        return done.out.decode("utf-8", "surrogateescape").removesuffix("\n")


def _makes(merging: Merging, commit: NewCommit, sources: list[str], reverted: list[str]) -> bool:
    """Whether git makes the commit's tree by merging its parents, by replaying a source, or by
    reverting one.

    Also with `-X ours` or `-X theirs`: each line is then of one of the two known sides.
    """
    steps = [(source, False) for source in sources] + [(source, True) for source in reverted]
    return merging.merged(commit.parents) == commit.tree or any(
        merging.replayed(source, commit.before, back=back, option=option) == commit.tree
        for option in ("", "ours", "theirs")
        for source, back in steps
    )


def _lines(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text("utf-8", "surrogateescape").split("\n")
    return []
