"""Record of each new commit which review it came from, or that no hook let it through.

post-commit and post-rewrite do so at once for whatever somebody may have put into a commit. Of what
git does by itself (clean picks, rebases, the rewrite of an amended commit) sh only leaves a mark
(`faces/git_hook/install.py`), which is settled before a review or `verify` reads the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import GateError
from vibe_gate.git import HeadCommit, Repository, Updates
from vibe_gate.receipts.let_through import let_through
from vibe_gate.receipts.receipt_notes import share_run

if TYPE_CHECKING:
    from vibe_gate.store.clone_state import CloneState


class CommitRecords(Struct, frozen=True):
    """The records of one repository's commits.

    `hints`: signs in the environment that an agent made the commits; `say` prints a line. Of marks,
    `times`: commit id -> when it was made, as ISO time; `sources`: commits that git made them of,
    which no branch may have any more; `sourceless`: commits of which git has deleted the source, so
    that nobody can say what it made by itself.
    """

    repository: Repository
    state: CloneState
    now: datetime
    hints: tuple[str, ...] = ()
    say: Callable[[str], None] = lambda text: None
    times: Mapping[str, str] = {}
    sources: tuple[str, ...] = ()
    sourceless: frozenset[str] = frozenset()

    def settle(self, commits: Sequence[HeadCommit]) -> None:
        """Link each commit to the review of its tree, or record that it went past the hooks, and
        say so. GateError.
        """
        records = self.state.hook_records
        linked = {head_commit.commit: self._linked(head_commit) for head_commit in commits}
        # An empty commit and an amended message leave nothing to review.
        unlinked = [
            head_commit
            for head_commit in commits
            if linked[head_commit.commit] is None and head_commit.tree != head_commit.before
        ]
        for record in filter(
            None, [*linked.values(), *(self._bypasses(unlinked) if unlinked else ())]
        ):
            # The hook of the message may only have repeated what the one before it was answered.
            matching = (
                earlier
                for earlier in records.about(record.tree)
                if earlier.tree == record.tree and not earlier.blocked
            )
            runs = dict.fromkeys(earlier.run for earlier in matching)
            records.append(record)
            for run in runs if record.run else ():
                if unshared := share_run(self.repository, run, record.tree, record.commit):
                    self.say(f"vibe-gate: its receipt was not added to git notes: {safe(unshared)}")
            if (
                record.kind == "bypassed" and not record.during
            ):  # of git's own picks and reverts `verify` speaks, once
                reason = record.reason or "no hook let its tree through"
                says = "`vibe-gate verify` says whether its change was reviewed"
                self.say(
                    f"vibe-gate: commit {record.commit[:12]} went past the hooks ({reason}); {says}."
                )

    def unrecorded(self, commits: Sequence[HeadCommit]) -> list[HeadCommit]:
        """The commits of which no record says how they came through the hooks."""
        records_about = self.state.hook_records.about
        recorded_commits = {
            record.commit
            for head_commit in commits
            for record in records_about(head_commit.commit)
            if record.kind != "rewritten"
        }
        return [
            head_commit for head_commit in commits if head_commit.commit not in recorded_commits
        ]

    def rewritten(self, pairs: Iterable[tuple[str, str]], command: str) -> None:
        """Record which commit became which, as (old, new), by `command`: amend or rebase.
        GateError.
        """
        for old, new in pairs:
            record = Record(
                ts=self._ts(new),
                kind="rewritten",
                stage="post-rewrite",
                commit=new,
                tree=self.repository.tree(new).id,
                old=old,
                during="rebase" if command == "rebase" else "",
            )
            self.state.hook_records.append(record)

    def settle_marks(self, *, by_agent: bool = False) -> None:
        """Record what sh left marks of, with the signs of that time, and delete the marks.
        GateError.

        `by_agent`: for an agent, which can write a mark itself: commits that only a mark names
        count as unknown.
        """
        if not (marks := self.state.hook_records.marks()):
            return
        present_marks = [mark for mark in marks if self._is_there(mark.new)]
        times, sources = (
            {mark.new: mark.ts for mark in present_marks},
            () if by_agent else tuple(mark.old for mark in present_marks),
        )
        known_commits = {mark.new for mark in present_marks if self.repository.has(mark.old)}
        then = replace(
            self, times=times, sources=sources, sourceless=frozenset(times) - known_commits
        )
        hints: dict[str, tuple[str, ...]] = {}
        for mark in present_marks:
            hints[mark.new] = tuple(dict.fromkeys((*hints.get(mark.new, ()), *mark.hints)))
        head_commits = {
            mark.new: self.repository.commit_of_operation(mark.during, mark.new)
            for mark in present_marks
            if mark.during
        }
        new = self.unrecorded([*head_commits.values()])
        for signs in dict.fromkeys(hints.values()):
            replace(then, hints=signs).settle(
                [head_commit for head_commit in new if hints[head_commit.commit] == signs]
            )
        for command in ("amend", "rebase"):
            then.rewritten(
                [(mark.old, mark.new) for mark in present_marks if mark.command == command], command
            )
        self.state.hook_records.unmark(marks)

    def _is_there(self, commit: str) -> bool:
        """Whether git still has the commit, its parents and their trees; no branch holds one
        without.
        """
        if not self.repository.has(commit):
            return False
        try:
            for object_commit in (commit, *self.repository.parents(commit)):
                self.repository.tree(self.repository.tree_of(object_commit))
        except GateError:
            return False
        return True

    def _ts(self, commit: str) -> str:
        return self.times.get(commit) or self.now.isoformat(timespec="milliseconds")

    def _linked(self, head_commit: HeadCommit) -> Record | None:
        let_through_record = let_through(
            self.state.hook_records.about(head_commit.tree), head_commit.tree
        )
        if let_through_record is None:
            return None
        # An agent can commit what a person had reviewed.
        hints = tuple(dict.fromkeys((*let_through_record.hints, *self.hints)))
        return replace(
            let_through_record,
            ts=self._ts(head_commit.commit),
            commit=head_commit.commit,
            during=head_commit.during,
            hints=hints,
        )

    def _bypasses(self, commits: Sequence[HeadCommit]) -> Iterator[Record]:
        """A record of each commit that no hook let through, with the signs of an agent around it
        and in it.
        """
        # Such a commit is rare, and its files are read for this.
        from vibe_gate.gate.authorship import Authorship

        by_git = [head_commit.commit for head_commit in commits if head_commit.during]
        alone = (
            Updates(self.repository.root, self.repository.environment, self.sources).made_by_git(
                by_git
            )
            if by_git
            else set()
        )
        authorship = Authorship(self.repository, {}, self.state, self.now)
        changes = self.repository.changes_of([head_commit.commit for head_commit in commits])
        for head_commit in commits:
            signed = authorship.of(
                changes[head_commit.commit], (self.repository.commit(head_commit.commit),)
            ).hints
            by_hand = head_commit.during and head_commit.commit not in alone
            hints = tuple(dict.fromkeys((*self.hints, *signed)))
            if by_hand and head_commit.commit in self.sourceless:
                reason = f"made in a {head_commit.during} of a commit that git has deleted since"
                ts = self._ts(head_commit.commit)
                yield Record(
                    ts,
                    "not-reviewed",
                    "post-commit",
                    head_commit.commit,
                    hints=hints,
                    reason=reason,
                )
                continue
            yield Record(
                ts=self._ts(head_commit.commit),
                kind="bypassed",
                stage="post-commit",
                commit=head_commit.commit,
                tree=head_commit.tree,
                before=head_commit.before,
                during="" if by_hand else head_commit.during,
                hints=hints,
                reason=f"in a {head_commit.during}, but not what git makes there by itself"
                if by_hand
                else "",
            )
