"""`verify`: for every commit of a range, which verdict is about it, and whether that can be relied
on.

    range -> commits -> receipts about them -> segments -> one CommitStatus each

A segment is a commit against its parents, or all commits between two whose trees one review
compared. Where segments follow each other without a gap or an overlap, every line that the range
brings was in some review. Changes nothing but the records: it settles what git hooks left.
`receipts.commit_status` decides what a receipt is worth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.change import EMPTY_TREE, MAX_RANGE, Change, Selection
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.gate import HookName
from vibe_gate.domain.label import Label
from vibe_gate.domain.provenance import Record
from vibe_gate.domain.receipt import Receipt
from vibe_gate.errors import FAIL, INTEGRITY, PASS, StorageError, UsageError
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging.trust import badges
from vibe_gate.receipts.commit_records import CommitRecords
from vibe_gate.receipts.commit_status import (
    GOOD,
    SHORT_ID,
    ChangeIdentity,
    CommitStatus,
    FoundReceipt,
    Match,
    Requirements,
    assess_receipt,
    author_addresses,
    decide_commit,
    identity_of,
    match_of,
)
from vibe_gate.receipts.earlier_commits import EarlierForms, EarlierReview, reviews_before
from vibe_gate.receipts.find_receipts import ReceiptFinder, read_allowed_signers
from vibe_gate.receipts.issue_receipt import digest_exactly
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state

_CHANGES_AT_ONCE = 500
"""Commits whose files are in memory together."""


class VerifyRequest(Struct, frozen=True):
    """What a face asks for; `definitions` as for a review."""

    range: str = ""
    """`A..B`, `A...B`, one revision, or "" for upstream..HEAD, else HEAD."""
    definitions: str | None = None
    strict: bool = False
    """Whether, as in CI, a pass counts only if somebody else signed it."""
    notes: bool = False
    """Whether receipts in git notes count, too."""
    stage: HookName = "pre-commit"
    """The git hook whose rule says when a judge must have been asked."""
    max_commits: int = MAX_RANGE
    """Of the range; with more it is refused."""


class Verification(Struct, frozen=True):
    """The statuses of the commits of a range."""

    commits: tuple[tuple[ChangeIdentity, CommitStatus], ...]
    """Newest first."""
    trusted: str
    """The revision at which the gate was read."""
    signers: str
    """Where the list of signers comes from, or ""."""
    strict: bool
    """Whether only signatures of others counted."""
    remark: str = ""
    """What else people must know, or ""."""
    blocks_inconclusive: bool = False
    """Whether the gate's `[on] inconclusive` stops a commit."""
    range: str = ""
    """The range that was asked for, as of the request."""

    @property
    def exit_code(self) -> int:
        """5 if a receipt is forged, 1 if any other commit is not as required."""
        statuses = {status.status for _, status in self.commits}
        if "forged" in statuses:
            return INTEGRITY
        if statuses <= GOOD:
            return PASS
        return FAIL


def verify_commits(
    request: VerifyRequest,
    *,
    start: Path,
    environment: Environment,
    now: datetime,
    show: Callable[[ChangeIdentity, CommitStatus], None] = lambda *_: None,
) -> Verification:
    """Verify every commit of the range. GateError if the range or the repository cannot be read.

    `show` is called for each commit as soon as its status is known, newest first.
    """
    with open_repository(start, environment) as repository:
        with suppress(StorageError):  # without their records commits are missing, and not bypassed
            CommitRecords(repository, open_state(repository.common_dir), now).settle_marks()
        span = _read_span(repository, request.range, request.max_commits + 1)
        if len(span.commits) > request.max_commits:
            raise UsageError(
                f"more than {request.max_commits:,} commits; verify a part of them at once."
            )
        verifier = _Verifier(repository, now, request, span)
        commits: list[tuple[ChangeIdentity, CommitStatus]] = []
        for identity, status in verifier.verify_newest_first():
            show(identity, status)
            commits.append((identity, status))
        remarks = [verifier.finder.remark, *repository.remarks]
        remark = " ".join(text for text in remarks if text)
        gate, signers = verifier.gate, verifier.signers
        blocks = gate.file.on.inconclusive == "block"
        return Verification(
            tuple(commits),
            gate.revision,
            signers.source,
            verifier.strict,
            remark,
            blocks,
            request.range,
        )


class _CommitSpan(Struct, frozen=True):
    """A range of commits."""

    base: str
    """ "": it begins at nothing."""
    head: str
    commits: tuple[str, ...]
    """Newest first."""


def _read_span(repository: Repository, text: str, limit: int) -> _CommitSpan:
    """The range that the user named, at most so many commits; "" is what the upstream does not
    have, else the newest commit.
    """
    base_name, dots, head_name = text.partition("..." if "..." in text else "..")
    upstream = "" if text else repository.upstream()
    if upstream:
        base, head = upstream, repository.resolve("HEAD")
    elif base_name == EMPTY_TREE and dots == "..":  # everything that the head has
        base, head = "", repository.resolve(head_name or "HEAD")
    elif not dots:
        head = repository.resolve(text or "HEAD")
        change = repository.change(Selection("commit", left=head))
        return _CommitSpan(change.base_commit, head, (head,))
    else:
        base = repository.resolve(base_name or "HEAD")
        head = repository.resolve(head_name or "HEAD")
        if dots == "...":
            base = repository.merge_base(base, head, text)
    return _CommitSpan(base, head, repository.span(base, head, limit))


class Segment(Struct, frozen=True):
    """The commits after `base`, up to and including `head`, that one review compared as a whole."""

    base: str
    head: str
    commits: frozenset[str]

    def __str__(self) -> str:
        return f"{self.base[:12]}..{self.head[:12]}"


class History(Struct, frozen=True):
    """The commits of a range with their parents."""

    parents: Mapping[str, Sequence[str]]
    """By commit, parents first in the order of commits."""
    base: str
    """Where it begins ("": at nothing)."""
    children: Mapping[str, Sequence[str]]
    """By commit, those of the range that have it as a parent."""

    @classmethod
    def of(cls, parents: Mapping[str, Sequence[str]], base: str) -> History:
        """The history of these commits, given with their parents, parents first."""
        children: defaultdict[str, list[str]] = defaultdict(list)
        for commit, commit_parents in parents.items():
            for parent in commit_parents:
                children[parent].append(commit)
        return cls(parents, base, children)

    def segment(self, base: str, head: str) -> Segment | None:
        """The commits between two, if a review of one against the other is about all of them; else
        None.

        A segment has one way in and one way out. The review shows neither what two branches have in
        common (another way in, except from before the range) nor what a commit in the middle adds
        and a later one takes back, which a branch from that commit still has (another way out).
        """
        inside = self._between(base, head)
        if not inside:
            return None
        for commit in inside - {head}:
            has_another_way_out = not inside.issuperset(self.children.get(commit, ()))
            if has_another_way_out:
                return None
        return Segment(base, head, inside)

    def _between(self, base: str, head: str) -> frozenset[str]:
        """The commits that `head` has and `base` has not; none if they also come from elsewhere."""
        inside: set[str] = set()
        waiting = [head]
        while waiting:
            commit = waiting.pop()
            if commit == base or commit in inside:
                continue
            if commit in self.parents:
                inside.add(commit)
                waiting += self.parents[commit] or [""]
            elif base != self.base:  # before the range, or before a first commit
                return frozenset()
        return frozenset(inside)

    def precedes(self, parent: str, segment: Segment) -> bool:
        """Whether the segment begins where this parent of one of its merges was in already."""
        return segment.base == parent or (segment.base == self.base and parent not in self.parents)

    def cuts(
        self, reviewed_alone: Set[str], segments: Iterable[Segment], unreviewed: Set[str]
    ) -> set[str]:
        """The commits at which the range can be cut: reviewed segments lead from its base to each
        of them.

        Args:
            reviewed_alone: Commits reviewed against every parent.
            segments: The longer ones with a review.
            unreviewed: Commits that count as cuts: they are reported themselves, and what follows
                them is not to blame.
        """
        cuts = {self.base}
        bases_by_head: dict[str, list[str]] = {}
        for segment in segments:
            bases_by_head.setdefault(segment.head, []).append(segment.base)
        for commit, parents in self.parents.items():
            parents_in_range = [parent for parent in parents if parent in self.parents]
            is_reviewed_alone = commit in reviewed_alone and cuts.issuperset(parents_in_range)
            ends_segment = not cuts.isdisjoint(bases_by_head.get(commit, ()))
            if is_reviewed_alone or ends_segment or commit in unreviewed:
                cuts.add(commit)
        return cuts


class _RangeIds(Container[str]):
    """The ids (`object_ids`) by which receipts are about a commit of a range, or all of it.

    Not those of two trees: whatever has one also has that of the tree after.
    """

    def __init__(self, identities: Iterable[ChangeIdentity], range_change: Change) -> None:
        self._commits = {range_change.head_commit}
        self._trees = {range_change.after}
        self._patch_ids = {range_change.patch_id, range_change.range_patch_id}
        for identity in identities:
            self._commits.add(identity.commit)
            self._trees.add(identity.after)
            self._patch_ids.add(identity.patch_id)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name:
            return False
        if name in self._commits or name in self._patch_ids:
            return True
        return name.startswith("tree-") and name.removeprefix("tree-") in self._trees


class _Reviews(Struct, frozen=True):
    """What receipts say of one commit."""

    identity: ChangeIdentity
    by_parent: Mapping[str, Sequence[CommitStatus]]
    """Of its change against each parent that counts: "" of a root commit, of a clean merge the
    first parent alone.
    """
    parts: Sequence[tuple[Segment, CommitStatus]]
    """Of the segments that it is part of."""

    @property
    def open_parents(self) -> list[str]:
        """The parents against which no receipt says anything good."""
        parents: list[str] = []
        for parent, statuses in self.by_parent.items():
            if not any(status.status in GOOD for status in statuses):
                parents.append(parent)
        return parents


class _Verifier:
    """One look at a repository: its gate and signers, its hooks' records, and the receipts about a
    range.
    """

    def __init__(
        self,
        repository: Repository,
        now: datetime,
        request: VerifyRequest,
        span: _CommitSpan,
    ) -> None:
        self._repository = repository
        self._request = request
        self._today = now.date()
        environment = repository.environment
        self._redact = Redactor(environment.variables).text
        # Git is asked once for each earlier form, not for each commit: a thousand may have one
        # author, date and title.
        self._is_in_history = cache(lambda old: repository.is_ancestor(old, span.head))
        self._range_change = repository.change(
            Selection("range", left=span.base or EMPTY_TREE, right=span.head)
        )
        self.strict = request.strict or environment.in_ci
        revisions = {"base": None, "definitions": request.definitions}
        self.gate = gate_for(repository, self._range_change, **revisions)
        self.signers = read_allowed_signers(repository, self._range_change, **revisions)
        self.finder = ReceiptFinder(repository, now, self.signers, other_worktrees=True)
        state = open_state(repository.common_dir)
        # Whoever runs this says nothing about who wrote what is committed: no environment.
        self._authorship = Authorship(repository, {}, state, now)
        self._advising = self._advising_criteria(state.labels.all())
        oldest_first = tuple(reversed(span.commits))
        parents = {name: tuple(repository.parents(name)) for name in oldest_first}
        self._history = History.of(parents, span.base)
        self._authors: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Addresses, in memory once."""
        self._identities = self._read_identities(oldest_first)
        self._trees = {span.base: self._range_change.before}
        for name, identity in self._identities.items():
            self._trees[name] = identity.after
        self._commits_by_tree = {tree: name for name, tree in self._trees.items()}
        self._ids = _RangeIds(self._identities.values(), self._range_change)
        self._receipts_by_id: defaultdict[str, list[FoundReceipt]] = defaultdict(list)
        """By each of `_ids` that they are about."""
        self._parts: defaultdict[str, list[tuple[Segment, FoundReceipt]]] = defaultdict(list)
        """By commit, the segments that it is part of, each with a receipt about it that does not
        name the very commit or its trees.
        """
        self._requirements: dict[tuple[str, ...], Requirements] = {}
        self._review_options = self._options_of_reviews(span)

    def _advising_criteria(self, labels: Iterable[Label]) -> frozenset[tuple[str, str]]:
        """The criteria, by ids of rubric and criterion, whose fail does not block here."""
        model = self.gate.default_model(self._repository.environment)
        badge_by_criterion = badges(self.gate, labels, model)
        return frozenset(
            criterion for criterion, badge in badge_by_criterion.items() if not badge.blocks
        )

    def _read_identities(self, commits: Sequence[str]) -> dict[str, ChangeIdentity]:
        """The identity of each commit's change as far as it is known without its files."""
        patch_ids: dict[str, str] = {}
        # Only a receipt could be about a commit by its patch-id.
        if self.finder.entries or self._request.notes:
            patch_ids = self._repository.patch_ids(commits)
        return {name: self._identity(name, patch_ids.get(name, "")) for name in commits}

    def _options_of_reviews(self, span: _CommitSpan) -> tuple[str, ...]:
        """The options by which `vibe-gate review --commit` reads the gate that counts here.

        A single commit with its parent as base is what such a review compares: it needs none.
        """
        revision = self.gate.revision
        if revision == "worktree":
            return ("--definitions", "worktree")
        bases = [(self._history.parents[name] or [""])[0] for name in span.commits]
        is_one_commit = bases == [span.base]
        is_default_gate = self._request.definitions is None
        if not revision or (is_one_commit and is_default_gate):
            return ()
        return ("--base", revision[:SHORT_ID])

    def verify_newest_first(self) -> Iterator[tuple[ChangeIdentity, CommitStatus]]:
        """Each commit with its status."""
        self._sort(self._find(self._ids))
        newest_first = list(reversed(self._identities))
        if not self._has_reviews_of_ranges():
            for review in self._read_reviews(newest_first):
                yield review.identity, self._status(review, set())
            return
        reviews = {review.identity.commit: review for review in self._read_reviews(newest_first)}
        cuts = self._cuts({name: reviews[name] for name in self._identities})
        for review in reviews.values():
            yield review.identity, self._status(review, cuts)

    def _has_reviews_of_ranges(self) -> bool:
        """Whether a receipt may be about a commit as a part of a longer segment: then each status
        hangs on where the range can be cut.
        """
        for name, parts in self._parts.items():
            identity = self._identities[name]
            if any(_match(identity, receipt) is None for _, receipt in parts):
                return True
        return False

    def _read_reviews(self, names: Sequence[str]) -> Iterator[_Reviews]:
        """What receipts say of these commits, in order."""
        for start in range(0, len(names), _CHANGES_AT_ONCE):
            portion = names[start : start + _CHANGES_AT_ONCE]
            changes = self._repository.changes_of(list(filter(self._is_reviewed, portion)))
            for name in portion:
                yield self._reviews(name, changes.get(name))

    def _find(self, ids: Container[str]) -> list[FoundReceipt]:
        """Every receipt about one of these (`object_ids`)."""
        receipts = self.finder.bundled(ids)
        if self._request.notes:
            receipts += self.finder.noted(ids)
        return receipts

    def _sort(self, receipts: Iterable[FoundReceipt]) -> None:
        """Sort receipts by what they are about, so that each commit is compared with its own
        only.
        """
        for receipt in receipts:
            for name in receipt.ids:
                if name in self._ids:
                    self._receipts_by_id[name].append(receipt)
            for segment in self._segments(receipt):
                for commit in segment.commits:
                    if _match(self._identities[commit], receipt) not in ("commit", "tree"):
                        self._parts[commit].append((segment, receipt))

    def _segments(self, candidate: FoundReceipt) -> set[Segment]:
        """The segments whose ends have the receipt's trees, or that make the very change that it is
        about.
        """
        receipt = candidate.receipt
        if receipt is None or candidate.problem:
            return set()
        segments: set[Segment | None] = set()
        base = self._end_of_segment(receipt.base_commit, receipt.before)
        head = self._end_of_segment(receipt.head_commit, receipt.after)
        if base is not None and head:
            segments.add(self._history.segment(base, head))
        if self._is_about_range(receipt):
            range_change = self._range_change
            segments.add(self._history.segment(range_change.base_commit, range_change.head_commit))
        return {segment for segment in segments if segment is not None}

    def _end_of_segment(self, commit: str, tree: str) -> str | None:
        """The commit itself if it has that tree, else the newest commit of the range that has
        it.
        """
        if self._trees.get(commit) == tree:
            return commit
        return self._commits_by_tree.get(tree)

    def _is_about_range(self, receipt: Receipt) -> bool:
        """Whether the whole range makes the change of the receipt, perhaps on another base."""
        range_change = self._range_change
        if (receipt.before, receipt.after) == (range_change.before, range_change.after):
            return True
        if receipt.range_patch_id != range_change.range_patch_id:
            return False
        return self._range_identity.is_same_change(receipt)

    @cached_property
    def _range_identity(self) -> ChangeIdentity:
        digest = digest_exactly(self._range_change, self._repository.read_all)
        return replace(identity_of(self._range_change, ()), exact=digest)

    def _is_reviewed(self, name: str) -> bool:
        """Whether a receipt may be about the commit, or none need be because it changes nothing."""
        identity = self._identities[name]
        is_empty = identity.before == identity.after
        return is_empty or name in self._parts or bool(self._receipts_about(identity))

    def _reviews(self, name: str, change: Change | None) -> _Reviews:
        """What receipts say of a commit; nothing without its `change`, which is read of those with
        receipts alone.
        """
        identity = self._identities[name]
        first, *other_parents = self._history.parents[name] or [""]
        if change is None:
            return _Reviews(identity, {first: ()}, ())
        candidates = self._receipts_by_id.get(identity.patch_id, ())
        if any(_match(identity, candidate) is None for candidate in candidates):
            identity = replace(identity, exact=digest_exactly(change, self._repository.read_all))
        required = self._required(change)
        by_parent = {first: self._assess_change(identity, required)}
        if other_parents and not self._repository.is_clean_merge(name):
            for parent in other_parents:
                by_parent[parent] = self._against(parent, identity, required)
        return _Reviews(identity, by_parent, self._assess_parts(name, identity, required))

    def _assess_parts(
        self, name: str, identity: ChangeIdentity, required: Requirements
    ) -> list[tuple[Segment, CommitStatus]]:
        """What receipts say of the segments that the commit is part of, and not of itself."""
        parts: list[tuple[Segment, CommitStatus]] = []
        for segment, candidate in self._parts.get(name, ()):
            if _match(identity, candidate) is None:
                status = assess_receipt("range patch-id", candidate, identity, required)
                parts.append((segment, status))
        return parts

    def _against(
        self, parent: str, merge: ChangeIdentity, required: Requirements
    ) -> list[CommitStatus]:
        """What receipts say of a merge against another parent than the first; [] if that parent is
        not here.
        """
        if not self._repository.has(parent):
            return []
        before = self._repository.tree_of(parent)
        against_parent = replace(merge, before=before, patch_id="", parent=parent)
        return self._assess_change(against_parent, required)

    def _required(self, change: Change) -> Requirements:
        rubrics = self.gate.for_change(change)
        names = tuple(rubric.id for rubric in rubrics)
        if names not in self._requirements:
            judge = self.gate.file.hooks.at_stage(self._request.stage).judge
            self._requirements[names] = Requirements.of(
                self.gate,
                rubrics,
                self._today,
                judge=judge,
                strict=self.strict,
                advising=self._advising,
            )
        commit = self._repository.commit(change.head_commit)
        return replace(
            self._requirements[names],
            hints=self._authorship.of(change, (commit,)).hints,
            review_options=self._review_options,
        )

    def _identity(self, name: str, patch_id: str) -> ChangeIdentity:
        """The identity of a commit's change as far as it is known without its files."""
        before = self._repository.tree_of(self._repository.first_parent(name))
        after = self._repository.tree_of(name)
        commit = self._repository.commit(name)
        authors = author_addresses((commit,))
        return ChangeIdentity(
            commit=name,
            before=before,
            after=after,
            patch_id=patch_id,
            authors=self._authors.setdefault(authors, authors),
            title=self._redact(commit.message.partition("\n")[0]),
        )

    def _assess_change(
        self, identity: ChangeIdentity, required: Requirements
    ) -> list[CommitStatus]:
        """What receipts say of this very change."""
        if identity.before == identity.after:
            return [CommitStatus("empty", "it changes no file")]
        statuses: list[CommitStatus] = []
        for receipt in self._receipts_about(identity):
            match = _match(identity, receipt)
            if match is not None:
                statuses.append(assess_receipt(match, receipt, identity, required))
        return statuses

    def _receipts_about(self, identity: ChangeIdentity) -> list[FoundReceipt]:
        """The receipts that may be about the change, each once."""
        receipts: dict[int, FoundReceipt] = {}
        for name in identity.ids:
            for receipt in self._receipts_by_id.get(name, ()):
                receipts[id(receipt)] = receipt
        return list(receipts.values())

    def _cuts(self, reviews: Mapping[str, _Reviews]) -> set[str]:
        """Where the range can be cut into reviewed segments (`History.cuts`)."""
        reviewed_alone: set[str] = set()
        unreviewed: set[str] = set()
        segments: set[Segment] = set()
        for name, review in reviews.items():
            good_parts = [part for part in review.parts if part[1].status in GOOD]
            segments.update(segment for segment, _ in good_parts if segment.head == name)
            open_parents = review.open_parents
            if not open_parents:
                reviewed_alone.add(name)
            elif not all(self._covering(review, parent, good_parts) for parent in open_parents):
                unreviewed.add(name)
        return self._history.cuts(reviewed_alone, segments, unreviewed)

    def _covering(
        self, reviews: _Reviews, parent: str, parts: Sequence[tuple[Segment, CommitStatus]]
    ) -> list[CommitStatus]:
        """Of the reviews of segments those that also show what the commit changes against this
        parent.
        """
        if any(status.status == "empty" for status in reviews.by_parent[parent]):
            return []
        is_first = parent == next(iter(reviews.by_parent))
        statuses: list[CommitStatus] = []
        for segment, status in parts:
            if is_first or self._history.precedes(parent, segment):
                statuses.append(status)
        return statuses

    def _status(self, reviews: _Reviews, cuts: set[str]) -> CommitStatus:
        """The status against the first parent if that is not good, else against the first parent
        where it is not.
        """
        commit = reviews.identity.commit
        parts: list[tuple[Segment, CommitStatus]] = []
        for segment, part_status in reviews.parts:
            if segment.base in cuts:
                parts.append((segment, replace(part_status, segment=str(segment))))
        decided: dict[str, CommitStatus | None] = {}
        for parent, statuses in reviews.by_parent.items():
            decided[parent] = decide_commit([*statuses, *self._covering(reviews, parent, parts)])
        first = next(iter(decided.values()))
        if first is None:
            return self._without(reviews.identity)
        if first.status in GOOD:
            for parent, status in decided.items():
                if status is None:
                    reason = (
                        "a merge with changes of its own, reviewed against its first parent only"
                    )
                    against_parent = replace(reviews.identity, parent=parent)
                    command = against_parent.review_command(self._review_options)
                    return CommitStatus("missing", reason, commands=(command,))
                if status.status not in GOOD:
                    return status
        return self._with_bypass(first, commit)

    def _without(self, identity: ChangeIdentity) -> CommitStatus:
        """The status of a commit without a verdict: what the hooks recorded, or which review it had
        before.
        """
        record = self._bypass(identity.commit)
        commands = (identity.review_command(self._review_options),)
        if record is not None and not record.during:
            cause = record.reason or "--no-verify, or the hook was off"
            reason = f"committed without the hook on {record.ts} ({cause})"
            return CommitStatus("bypassed", reason, commands=commands)
        earlier = self._review_before(identity.commit)
        if earlier is not None:
            reason = earlier.sentence
            return CommitStatus("stale", reason, found=earlier.found, commands=commands)
        if record is not None:
            reason = f"made by git during a {record.during}, which runs no hook"
        else:
            reason = "no receipt here is about this change"
        return CommitStatus("missing", reason, commands=commands)

    def _review_before(self, commit: str) -> EarlierReview | None:
        """The review of what the commit was before; what the range's history still has is another
        commit.
        """
        reviews = self._earlier.get(commit, ())
        for review in reviews:
            if not self._is_in_history(review.commit):
                return review
        return None

    @cached_property
    def _earlier(self) -> dict[str, list[EarlierReview]]:
        """By commit, the reviews of what it was before an amend or a rebase."""
        if not self.finder.entries and not self._request.notes:
            return {}
        forms = EarlierForms(self._repository, self._authorship.earlier, self.finder.entries)
        return reviews_before(self._repository, forms, self._identities, self._find)

    def _with_bypass(self, status: CommitStatus, commit: str) -> CommitStatus:
        """A note if only a range with the commit was reviewed: what a later commit takes back,
        nobody saw.
        """
        record = self._bypass(commit) if status.match == "range patch-id" else None
        if record is None or record.during:
            return status
        note = f"committed without the hook on {record.ts}; the range was reviewed, not this commit"
        return replace(status, notes=(*status.notes, note))

    @cached_property
    def _bypasses(self) -> dict[str, Record]:
        records = self._authorship.records
        return {record.commit: record for record in records if record.kind == "bypassed"}

    def _bypass(self, commit: str) -> Record | None:
        """The record that this commit, or one it was rewritten from, bypassed the hook: by hand
        rather than by git.
        """
        names = self._authorship.earlier(commit)
        records = [self._bypasses[name] for name in names if name in self._bypasses]
        for record in records:
            if not record.during:
                return record
        return records[0] if records else None


def _match(identity: ChangeIdentity, candidate: FoundReceipt) -> Match | None:
    """How the receipt is about the change; one with a problem is taken at the word of what it was
    attached to.
    """
    if candidate.receipt is None or candidate.problem:
        return "commit"
    return match_of(identity, candidate.receipt)
