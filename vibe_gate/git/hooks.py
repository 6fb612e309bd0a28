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
    """The commit just made. `before` is the tree HEAD had until then (the empty tree at first).

    `during` is what git says that it was in the middle of: anybody can make it say so, by a folder
    or a variable.
    """

    commit: str
    tree: str
    before: str
    during: Operation


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
    """What a push brings: commits, parents first; and the newest others behind them, none for a
    whole history.
    """

    commits: tuple[PushedCommit, ...]
    bases: tuple[str, ...]


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
        settings = self._place.settings.lines
        values = [
            line.value
            for line in settings
            if line.name == "core.hookspath" and line.scope != "command"
        ]
        configured = values[-1] if values else ""
        return bool(configured) and not str(configured).startswith(("/", "~", "%(prefix)"))

    def head_commit(self) -> HeadCommit:
        """The commit at HEAD, and what HEAD was before, by its reflog; without one, its first
        parent. RevisionError.
        """
        commit = self.resolve("HEAD")
        old = self._id_of("HEAD@{1}^{commit}") or self._id_of(f"{commit}^1")
        # A clean revert leaves no other trace.
        subject = self._git.run("log", "-g", "-1", "--format=%gs", "HEAD").line
        action = _ACTIONS.get(subject.partition(":")[0].partition(" ")[0], "")
        under_way = self.operation_under_way() or action
        return HeadCommit(commit, self.tree_of(commit), self.tree_of(old), under_way)

    def operation_under_way(self) -> Operation:
        """What git is in the middle of in this working tree; "" if it is not."""
        for name, operation in _UNDER_WAY:
            if (self._place.git_dir / name).exists():
                return operation
        return ""

    def rebased(self) -> list[HeadCommit]:
        """What the rebase that is under way has made until now, oldest first; [] outside of one."""
        with suppress(OSError):
            onto = (self._place.git_dir / "rebase-merge" / "onto").read_text("ascii").strip()
            made = reversed(self.span(onto, "HEAD"))
            return [self.made_in("rebase", commit) for commit in made]
        return []

    def made_in(self, during: Operation, commit: str) -> HeadCommit:
        """A commit that git made in an operation, as `head_commit` gave it then. RevisionError."""
        return HeadCommit(
            commit, self.tree_of(commit), self.tree_of(self.first_parent(commit)), during
        )

    def remote_tips(self, url: str) -> list[str]:
        """Tips of the remote-tracking branches of remotes with this URL, and of those on another
        machine.

        A remote at another path of this machine may be anybody's clone, or this repository itself.
        """
        # Git fetches from the first URL.
        first = {line.name: line.value or "" for line in reversed(self._place.settings.lines)}
        urls = ((name, first.get(f"remote.{name}.url", "")) for name in self._remotes())
        asked = [
            f"--remotes={name}"
            for name, its in urls
            if its and (its == url or _ELSEWHERE.match(its))
        ]
        return list(dict.fromkeys(self._git.run("rev-parse", *asked).line.split()))

    def ref_tips(self) -> list[str]:
        """The ids of the commits and tags that HEAD and refs name, each once."""
        ids = [self._git.run("rev-parse", "--verify", "--quiet", "HEAD").line]
        refs = self._git.run("for-each-ref", "--format=%(objecttype) %(objectname)").line.split(
            "\n"
        )
        for ref in refs:
            kind, _, object_id = ref.partition(" ")
            if kind in ("commit", "tag"):
                ids.append(object_id)
        return [object_id for object_id in dict.fromkeys(ids) if object_id]

    def unpushed(self, local: str, known: str, others: Iterable[str] = ()) -> Pushed:
        """What commit `local` has and neither `known` nor one of `others` has ("", or gone:
        nothing).

        `known` is the first of the bases if it is one.
        """
        limits = [f"^{name}" for name in (known, *others) if self.has(name)]
        listed = self._git.run(
            *("rev-list", "--stdin", "--topo-order", "--reverse", "--boundary", "--parents"),
            stdin="\n".join((local, *limits, "")).encode(),
        )
        if listed.code:
            raise IntegrityError(
                f"The commits of {local[:12]} are not all here, or damaged: run `git fsck`. {listed.err}"
            )
        rows = [line.split() for line in listed.line.split("\n") if line]
        bases = [row[0][1:] for row in rows if row[0].startswith("-")]
        if len(bases) > 1:
            bases = self._git.run("merge-base", "--independent", *bases).line.split("\n")
        commits = self._pushed_commits([row for row in rows if not row[0].startswith("-")])
        return Pushed(tuple(commits), tuple(sorted(bases, key=lambda name: name != known)))

    def _pushed_commits(self, rows: Sequence[Sequence[str]]) -> Iterator[PushedCommit]:
        """Of ids, each with those of its parents. Where a shallow clone ends, a commit has no
        parents.
        """
        for commit, *parents in rows:
            content = self._content_of(commit)
            yield PushedCommit(
                commit, content.committer.time or LAST_SECOND, content.tree, tuple(parents)
            )

    def with_folder(self, commits: Iterable[str], folder: str) -> set[str]:
        """Those of the commits that have this folder at their root."""
        entries = {commit: self.tree(commit).entry(paths.encode(folder)) for commit in commits}
        return {commit for commit, entry in entries.items() if entry is not None and entry.is_tree}
