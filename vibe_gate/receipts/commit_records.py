"""Record of each new commit which review it came from, or that no hook let it through.

post-commit and post-rewrite do so at once for whatever somebody may have put into a commit. Of what
git does by itself (clean picks, rebases, the rewrite of an amended commit) sh only leaves a mark
(`faces/git_hook/install.py`), which is settled before a review or `verify` reads the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.agent_hint import AgentHint
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Mark, Record
from vibe_gate.errors import GateError
from vibe_gate.git import HeadCommit, Repository, Updates
from vibe_gate.receipts.let_through import let_through
from vibe_gate.receipts.receipt_notes import share_run

if TYPE_CHECKING:
    from vibe_gate.store.clone_state import CloneState


class CommitRecords(Struct, frozen=True):
    """The records of one repository's commits."""

    repository: Repository
    state: CloneState
    now: datetime
    hints: tuple[AgentHint, ...] = ()
    """Signs in the environment that an agent made the commits."""
    say: Callable[[str], None] = lambda text: None
    """Prints a line."""
    times: Mapping[str, str] = {}
    """Of marks: commit id -> when it was made, as ISO time."""
    sources: tuple[str, ...] = ()
    """Of marks: commits that git made them of, which no branch may have any more."""
    sourceless: frozenset[str] = frozenset()
    """Of marks: commits of which git has deleted the source, so that nobody can say what it made by
    itself.
    """

    def settle(self, commits: Sequence[HeadCommit]) -> None:
        """Link each commit to the review of its tree, or record that it went past the hooks, and
        say so. GateError.
        """
        linked_records = {commit.commit: self._link_to_review(commit) for commit in commits}
        new_records = [record for record in linked_records.values() if record is not None]
        unlinked_commits = []
        for commit in commits:
            # An empty commit and an amended message leave nothing to review.
            leaves_nothing = commit.tree == commit.before
            if linked_records[commit.commit] is None and not leaves_nothing:
                unlinked_commits.append(commit)
        if unlinked_commits:
            new_records += self._bypasses(unlinked_commits)
        for record in new_records:
            self._append(record)

    def _append(self, record: Record) -> None:
        """Append a record, share the receipts of the runs that it links, and say what people must
        know.
        """
        # The hook of the message may only have repeated what the one before it was answered.
        runs: dict[str, None] = {}
        for hook_record in self.state.hook_records.find_records(record.tree):
            if hook_record.tree == record.tree and not hook_record.blocked:
                runs[hook_record.run] = None
        self.state.hook_records.append(record)
        if record.run:
            self._share_receipts(record, runs)
        # Of git's own picks and reverts `verify` speaks, once.
        if record.kind == "bypassed" and not record.during:
            reason = record.reason or "no hook let its tree through"
            self.say(
                f"vibe-gate: commit {record.commit[:12]} went past the hooks ({reason}); "
                "`vibe-gate verify` says whether its change was reviewed."
            )

    def _share_receipts(self, record: Record, runs: Iterable[str]) -> None:
        """Add the receipts of these runs to the notes of the commit that the record is about."""
        for run in runs:
            problem = share_run(self.repository, run, record.tree, record.commit)
            if problem:
                self.say(f"vibe-gate: its receipt was not added to git notes: {safe(problem)}")

    def unrecorded(self, commits: Sequence[HeadCommit]) -> list[HeadCommit]:
        """The commits of which no record says how they came through the hooks."""
        recorded_ids: set[str] = set()
        for commit in commits:
            for record in self.state.hook_records.find_records(commit.commit):
                if record.kind != "rewritten":
                    recorded_ids.add(record.commit)
        return [commit for commit in commits if commit.commit not in recorded_ids]

    def rewritten(self, pairs: Iterable[tuple[str, str]], command: str) -> None:
        """Record which commit became which, as (old, new), by `command`: amend or rebase.
        GateError.
        """
        for old, new in pairs:
            record = Record(
                ts=self._time_of(new),
                kind="rewritten",
                stage="post-rewrite",
                commit=new,
                tree=self.repository.tree(new).id,
                old=old,
                during="rebase" if command == "rebase" else "",
                hints=self._hints_recorded_of(old),
            )
            self.state.hook_records.append(record)

    def _hints_recorded_of(self, commit: str) -> tuple[AgentHint, ...]:
        """What hooks wrote down of who made a commit: of most, its tree alone has a record, which
        nobody finds any more when git has deleted the commit.
        """
        object_ids = [commit]
        with suppress(GateError):
            object_ids.append(self.repository.tree_of(commit))
        hints: dict[AgentHint, None] = {}
        for object_id in object_ids:
            for record in self.state.hook_records.find_records(object_id):
                if record.stage != "pre-push":  # it speaks of a whole range
                    hints |= dict.fromkeys(record.hints)
        return tuple(hints)

    def settle_marks(self, *, by_agent: bool = False) -> None:
        """Record what sh left marks of, with the signs of that time, and delete the marks.
        GateError.

        `by_agent`: for an agent, which can write a mark itself: commits that only a mark names
        count as unknown.
        """
        marks = self.state.hook_records.marks()
        if not marks:
            return
        present_marks = [mark for mark in marks if self._is_present(mark.new)]
        records = self._with_marks(present_marks, by_agent)
        hints_by_commit = _hints_by_commit(present_marks)
        new_commits = self.unrecorded(self._commits_of_operations(present_marks))
        for hints in dict.fromkeys(hints_by_commit.values()):
            commits = [commit for commit in new_commits if hints_by_commit[commit.commit] == hints]
            replace(records, hints=hints).settle(commits)
        for command in ("amend", "rebase"):
            pairs = [(mark.old, mark.new) for mark in present_marks if mark.command == command]
            records.rewritten(pairs, command)
        self.state.hook_records.unmark(marks)

    def _commits_of_operations(self, marks: Iterable[Mark]) -> list[HeadCommit]:
        """The commits that git made in the middle of something, each once."""
        commits: dict[str, HeadCommit] = {}
        for mark in marks:
            if mark.during:
                commits[mark.new] = self.repository.commit_of_operation(mark.during, mark.new)
        return list(commits.values())

    def _with_marks(self, marks: Sequence[Mark], by_agent: bool) -> CommitRecords:
        """The same, with what marks say of times and sources."""
        times = {mark.new: mark.ts for mark in marks}
        sources = () if by_agent else tuple(mark.old for mark in marks)
        with_source = {mark.new for mark in marks if self.repository.has(mark.old)}
        sourceless = frozenset(times) - with_source
        return replace(self, times=times, sources=sources, sourceless=sourceless)

    def _is_present(self, commit: str) -> bool:
        """Whether git still has the commit, its parents and their trees; no branch holds one
        without.
        """
        if not self.repository.has(commit):
            return False
        try:
            for name in (commit, *self.repository.parents(commit)):
                self.repository.tree(self.repository.tree_of(name))
        except GateError:
            return False
        return True

    def _time_of(self, commit: str) -> str:
        return self.times.get(commit) or self.now.isoformat(timespec="milliseconds")

    def _link_to_review(self, commit: HeadCommit) -> Record | None:
        """A record that links the commit to the review of its tree; None if no hook let it
        through.
        """
        hook_records = self.state.hook_records.find_records(commit.tree)
        passing_record = let_through(hook_records, commit.tree)
        if passing_record is None:
            return None
        # An agent can commit what a person had reviewed.
        hints = tuple(dict.fromkeys((*passing_record.hints, *self.hints)))
        return replace(
            passing_record,
            ts=self._time_of(commit.commit),
            commit=commit.commit,
            during=commit.during,
            hints=hints,
        )

    def _bypasses(self, commits: Sequence[HeadCommit]) -> Iterator[Record]:
        """A record of each commit that no hook let through, with the signs of an agent around it
        and in it.
        """
        # Such a commit is rare, and its files are read for this.
        from vibe_gate.gate.authorship import Authorship

        unaltered_ids = self._made_by_git_alone(commits)
        authorship = Authorship(self.repository, {}, self.state, self.now)
        changes = self.repository.changes_of([commit.commit for commit in commits])
        for commit in commits:
            message = self.repository.commit(commit.commit)
            signs = authorship.of(changes[commit.commit], (message,)).hints
            hints = tuple(dict.fromkeys((*self.hints, *signs)))
            is_by_hand = bool(commit.during) and commit.commit not in unaltered_ids
            yield self._bypass_of(commit, hints, is_by_hand)

    def _made_by_git_alone(self, commits: Sequence[HeadCommit]) -> Set[str]:
        """Of commits that git made in the course of a rebase or pick, those as it makes them by
        itself.
        """
        commits_by_git = [commit.commit for commit in commits if commit.during]
        if not commits_by_git:
            return set()
        updates = Updates(self.repository.root, self.repository.environment, self.sources)
        return updates.made_by_git(commits_by_git)

    def _bypass_of(
        self, commit: HeadCommit, hints: tuple[AgentHint, ...], is_by_hand: bool
    ) -> Record:
        ts = self._time_of(commit.commit)
        if is_by_hand and commit.commit in self.sourceless:
            return Record(
                ts=ts,
                kind="not-reviewed",
                stage="post-commit",
                commit=commit.commit,
                hints=hints,
                reason=f"made in a {commit.during} of a commit that git has deleted since",
            )
        reason = ""
        if is_by_hand:
            reason = f"in a {commit.during}, but not what git makes there by itself"
        return Record(
            ts=ts,
            kind="bypassed",
            stage="post-commit",
            commit=commit.commit,
            tree=commit.tree,
            before=commit.before,
            during="" if is_by_hand else commit.during,
            hints=hints,
            reason=reason,
        )


def _hints_by_commit(marks: Iterable[Mark]) -> dict[str, tuple[AgentHint, ...]]:
    """By commit the signs of all its marks, each once."""
    hints_by_commit: dict[str, tuple[AgentHint, ...]] = {}
    for mark in marks:
        earlier_hints = hints_by_commit.get(mark.new, ())
        hints_by_commit[mark.new] = tuple(dict.fromkeys((*earlier_hints, *mark.hints)))
    return hints_by_commit
