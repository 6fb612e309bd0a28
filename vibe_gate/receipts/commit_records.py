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
        linked = {made.commit: self._linked(made) for made in commits}
        # An empty commit and an amended message leave nothing to review.
        left = [
            made for made in commits if linked[made.commit] is None and made.tree != made.before
        ]
        for record in filter(None, [*linked.values(), *(self._bypasses(left) if left else ())]):
            # The hook of the message may only have repeated what the one before it was answered.
            about = (
                seen
                for seen in records.about(record.tree)
                if seen.tree == record.tree and not seen.blocked
            )
            runs = dict.fromkeys(seen.run for seen in about)
            records.append(record)
            for run in runs if record.run else ():
                if unshared := share_run(self.repository, run, record.tree, record.commit):
                    self.say(f"vibe-gate: its receipt was not added to git notes: {safe(unshared)}")
            if (
                record.kind == "bypassed" and not record.during
            ):  # of git's own picks and reverts `verify` speaks, once
                how = record.reason or "no hook let its tree through"
                says = "`vibe-gate verify` says whether its change was reviewed"
                self.say(
                    f"vibe-gate: commit {record.commit[:12]} went past the hooks ({how}); {says}."
                )

    def unrecorded(self, commits: Sequence[HeadCommit]) -> list[HeadCommit]:
        """The commits of which no record says how they came through the hooks."""
        about = self.state.hook_records.about
        seen = {
            one.commit for made in commits for one in about(made.commit) if one.kind != "rewritten"
        }
        return [made for made in commits if made.commit not in seen]

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
        there = [mark for mark in marks if self._is_there(mark.new)]
        times, sources = (
            {mark.new: mark.ts for mark in there},
            () if by_agent else tuple(mark.old for mark in there),
        )
        known = {mark.new for mark in there if self.repository.has(mark.old)}
        then = replace(self, times=times, sources=sources, sourceless=frozenset(times) - known)
        hints: dict[str, tuple[str, ...]] = {}
        for mark in there:
            hints[mark.new] = tuple(dict.fromkeys((*hints.get(mark.new, ()), *mark.hints)))
        made = {
            mark.new: self.repository.commit_of_operation(mark.during, mark.new)
            for mark in there
            if mark.during
        }
        new = self.unrecorded([*made.values()])
        for signs in dict.fromkeys(hints.values()):
            replace(then, hints=signs).settle([one for one in new if hints[one.commit] == signs])
        for command in ("amend", "rebase"):
            then.rewritten(
                [(mark.old, mark.new) for mark in there if mark.command == command], command
            )
        self.state.hook_records.unmark(marks)

    def _is_there(self, commit: str) -> bool:
        """Whether git still has the commit, its parents and their trees; no branch holds one
        without.
        """
        if not self.repository.has(commit):
            return False
        try:
            for one in (commit, *self.repository.parents(commit)):
                self.repository.tree(self.repository.tree_of(one))
        except GateError:
            return False
        return True

    def _ts(self, commit: str) -> str:
        return self.times.get(commit) or self.now.isoformat(timespec="milliseconds")

    def _linked(self, made: HeadCommit) -> Record | None:
        seen = let_through(self.state.hook_records.about(made.tree), made.tree)
        if seen is None:
            return None
        # An agent can commit what a person had reviewed.
        hints = tuple(dict.fromkeys((*seen.hints, *self.hints)))
        return replace(
            seen, ts=self._ts(made.commit), commit=made.commit, during=made.during, hints=hints
        )

    def _bypasses(self, commits: Sequence[HeadCommit]) -> Iterator[Record]:
        """A record of each commit that no hook let through, with the signs of an agent around it
        and in it.
        """
        # Such a commit is rare, and its files are read for this.
        from vibe_gate.gate.authorship import Authorship

        by_git = [made.commit for made in commits if made.during]
        alone = (
            Updates(self.repository.root, self.repository.environment, self.sources).made_by_git(
                by_git
            )
            if by_git
            else set()
        )
        authorship = Authorship(self.repository, {}, self.state, self.now)
        changes = self.repository.changes_of([made.commit for made in commits])
        for made in commits:
            signed = authorship.of(
                changes[made.commit], (self.repository.commit(made.commit),)
            ).hints
            by_hand = made.during and made.commit not in alone
            hints = tuple(dict.fromkeys((*self.hints, *signed)))
            if by_hand and made.commit in self.sourceless:
                why = f"made in a {made.during} of a commit that git has deleted since"
                ts = self._ts(made.commit)
                yield Record(
                    ts, "not-reviewed", "post-commit", made.commit, hints=hints, reason=why
                )
                continue
            yield Record(
                ts=self._ts(made.commit),
                kind="bypassed",
                stage="post-commit",
                commit=made.commit,
                tree=made.tree,
                before=made.before,
                during="" if by_hand else made.during,
                hints=hints,
                reason=f"in a {made.during}, but not what git makes there by itself"
                if by_hand
                else "",
            )
