"""What git's own hooks ask of a repository: where they are, what was just committed and of what,
what a push brings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.escape import expression
from vibe_gate.domain.provenance import Operation
from vibe_gate.errors import InfrastructureError, IntegrityError
from vibe_gate.git.commit_content import LAST_SECOND
from vibe_gate.git.program import run_as_user
from vibe_gate.git.revisions import Revisions

_UNDER_WAY: tuple[tuple[str, Operation], ...] = (
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
)
"""What git keeps in its folder while it is in the middle of something."""

_ACTIONS: dict[str, Operation] = {"cherry-pick": "cherry-pick", "revert": "revert"}
"""First words of the reflog by which git names commits that it makes itself, and of which nothing
else is left.
"""

_ELSEWHERE = expression(r"(?!(file|ext|fd):)[^/]+:")
"""A URL by which git asks another machine: `https:`, `ssh:`, `host:path`. All others are paths, or
run a program.
"""


class HeadCommit(Struct, frozen=True):
    """The commit just made."""

    commit: str

    tree: str

    before: str
    """The tree that HEAD had until then (the empty tree at first)."""

    during: Operation
    """What git says that it was in the middle of: anybody can make it say so, by a folder or a
    variable.
    """


class PushedCommit(Struct, frozen=True):
    """A commit that a push brings."""

    id: str

    time: int
    """When it was committed, in seconds since 1970. A commit without a date counts as new: the last
    second of all.
    """

    tree: str

    parents: tuple[str, ...]


class Pushed(Struct, frozen=True):
    """What a push brings."""

    commits: tuple[PushedCommit, ...]
    """Parents first."""

    bases: tuple[str, ...]
    """The newest others behind them, none for a whole history."""


class HookQueries(Revisions):
    """What `Repository` answers to git's hooks."""

    def hooks_folder(self) -> Path:
        """Where git looks for this repository's hooks: core.hooksPath, or `hooks` in the common
        folder.

        Asked without our own `-c core.hooksPath=/dev/null`; `rev-parse` runs nothing.
        """
        place = self._place
        arguments = ("rev-parse", "--path-format=absolute", "--git-path", "hooks")
        answer = run_as_user(place.root, place.git.child_environment, *arguments)
        if answer.code:
            raise InfrastructureError(f"git could not say where its hooks are: {answer.err}")
        return Path(answer.line)

    def has_hooks_by_worktree(self) -> bool:
        """Whether core.hooksPath is relative, so that git looks in another folder in each linked
        worktree.
        """
        hooks_path: str | None = None
        for setting in self._place.settings.lines:
            if setting.name == "core.hookspath" and setting.scope != "command":
                hooks_path = setting.value
        return bool(hooks_path) and not str(hooks_path).startswith(("/", "~", "%(prefix)"))

    def head_commit(self) -> HeadCommit:
        """The commit at HEAD, and what HEAD was before, by its reflog; without one, its first
        parent. RevisionError.
        """
        commit = self.resolve("HEAD")
        old = self._id_of("HEAD@{1}^{commit}") or self._id_of(f"{commit}^1")
        # A clean revert leaves no other trace.
        subject = self._git.run("log", "-g", "-1", "--format=%gs", "HEAD").line
        action = _ACTIONS.get(subject.partition(":")[0].partition(" ")[0], "")
        operation = self.operation_under_way() or action
        return HeadCommit(commit, self.tree_of(commit), self.tree_of(old), operation)

    def operation_under_way(self) -> Operation:
        """What git is in the middle of in this working tree; "" if it is not."""
        for name, operation in _UNDER_WAY:
            if (self._place.git_dir / name).exists():
                return operation
        return ""

    def commits_of_rebase(self) -> list[HeadCommit]:
        """What the rebase that is under way has made until now, oldest first; [] outside of one."""
        with suppress(OSError):
            onto = (self._place.git_dir / "rebase-merge" / "onto").read_text("ascii").strip()
            oldest_first = reversed(self.span(onto, "HEAD"))
            return [self.commit_of_operation("rebase", commit) for commit in oldest_first]
        return []

    def commit_of_operation(self, operation: Operation, commit: str) -> HeadCommit:
        """A commit that git made in an operation, as `head_commit` gave it then. RevisionError."""
        before = self.tree_of(self.first_parent(commit))
        return HeadCommit(commit, self.tree_of(commit), before, operation)

    def remote_tips(self, url: str) -> list[str]:
        """Tips of the remote-tracking branches of remotes with this URL, and of those on another
        machine.

        A remote at another path of this machine may be anybody's clone, or this repository itself.
        """
        # Git fetches from the first URL.
        first_values: dict[str, str] = {}
        for setting in self._place.settings.lines:
            first_values.setdefault(setting.name, setting.value or "")
        options = []
        for remote in self._remotes():
            remote_url = first_values.get(f"remote.{remote}.url", "")
            if remote_url and (remote_url == url or _ELSEWHERE.match(remote_url)):
                options.append(f"--remotes={remote}")
        return list(dict.fromkeys(self._git.run("rev-parse", *options).line.split()))

    def ref_tips(self) -> list[str]:
        """The ids of the commits and tags that HEAD and refs name, each once."""
        ids = [self._git.run("rev-parse", "--verify", "--quiet", "HEAD").line]
        listing = self._git.run("for-each-ref", "--format=%(objecttype) %(objectname)")
        for line in listing.line.split("\n"):
            kind, _, object_id = line.partition(" ")
            if kind in ("commit", "tag"):
                ids.append(object_id)
        return [object_id for object_id in dict.fromkeys(ids) if object_id]

    def unpushed(self, local: str, remote_tip: str, other_tips: Iterable[str] = ()) -> Pushed:
        """What commit `local` has and neither `remote_tip` nor one of `other_tips` has ("", or
        gone: nothing).

        `remote_tip` is the first of the bases if it is one.
        """
        limits = [f"^{tip}" for tip in (remote_tip, *other_tips) if self.has(tip)]
        commit_rows: list[list[str]] = []
        bases: list[str] = []
        for line in self._commits_and_boundary(local, limits):
            if line.startswith("-"):
                bases.append(line.split()[0][1:])
            elif line:
                commit_rows.append(line.split())
        if len(bases) > 1:
            bases = self._git.run("merge-base", "--independent", *bases).line.split("\n")
        bases.sort(key=lambda base: base != remote_tip)
        return Pushed(tuple(self._pushed_commits(commit_rows)), tuple(bases))

    def _commits_and_boundary(self, tip: str, limits: Sequence[str]) -> list[str]:
        """A line for each commit behind `tip` up to the limits, oldest first, with its parents;
        "-" begins those of the boundary. IntegrityError.
        """
        command = ("rev-list", "--stdin", "--topo-order", "--reverse", "--boundary", "--parents")
        lines = "".join(f"{revision}\n" for revision in (tip, *limits))
        listing = self._git.run(*command, stdin=lines.encode())
        if listing.code:
            raise IntegrityError(
                f"The commits of {tip[:12]} are not all here, or damaged: run `git fsck`. "
                f"{listing.err}"
            )
        return listing.line.split("\n")

    def _pushed_commits(self, rows: Sequence[Sequence[str]]) -> Iterator[PushedCommit]:
        """Of ids, each with those of its parents. Where a shallow clone ends, a commit has no
        parents.
        """
        for commit, *parents in rows:
            content = self._content_of(commit)
            time = content.committer.time or LAST_SECOND
            yield PushedCommit(commit, time, content.tree, tuple(parents))

    def with_folder(self, commits: Iterable[str], folder: str) -> set[str]:
        """Those of the commits that have this folder at their root."""
        commits_with_folder = set()
        for commit in commits:
            entry = self.tree(commit).entry(paths.encode(folder))
            if entry is not None and entry.is_tree:
                commits_with_folder.add(commit)
        return commits_with_folder
