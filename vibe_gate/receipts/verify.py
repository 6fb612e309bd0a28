"""`verify`: for every commit of a range, which verdict is about it, and whether that can be relied on.

    range -> commits -> receipts about them -> segments -> one CommitStatus each

A segment is a commit against its parents, or all commits between two whose trees one review compared. Where
segments follow each other without a gap or an overlap, every line that the range brings was in some review.
Changes nothing but the records: it settles what git hooks left. `receipts.status` decides what a receipt is worth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.change import EMPTY_TREE, MAX_COMMITS, Change, Selection
from vibe_gate.domain.gate import HookName, HookRule
from vibe_gate.domain.provenance import Record
from vibe_gate.domain.receipt import Receipt
from vibe_gate.errors import FAIL, INTEGRITY, PASS, StorageError, UsageError
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging.trust import badges
from vibe_gate.receipts.committed import CommitRecords
from vibe_gate.receipts.earlier import EarlierForms, EarlierReview, reviews_before
from vibe_gate.receipts.find import ReceiptFinder, allowed_signers
from vibe_gate.receipts.issue import exact
from vibe_gate.receipts.status import (
    GOOD,
    ChangeIdentity,
    CommitStatus,
    FoundReceipt,
    Match,
    Requirements,
    assess,
    authors_of,
    decide,
    identity_of,
    ids_of,
    match_of,
)
from vibe_gate.secrets import Redactor
from vibe_gate.store.state import open_state

SHORT_ID = 12

COMMITS_AT_ONCE = 1_000
"""Commits of one call: each costs a diff."""


class VerifyRequest(Struct, frozen=True):
    """What a face asks for. `range`: `A..B`, `A...B`, one revision, or "" for upstream..HEAD, else HEAD.

    `strict`: as in CI, a pass counts only if somebody else signed it. `notes`: receipts in git notes count, too.
    `base`, `definitions`: as for a review. `stage`: the git hook whose rule says when a judge must have been asked.
    """

    range: str = ""
    base: str | None = None
    definitions: str | None = None
    strict: bool = False
    notes: bool = False
    stage: HookName = "pre-commit"


class Verification(Struct, frozen=True):
    """The commits of a range, newest first, with their statuses.

    `trusted`: the revision at which the gate was read; `signers`: where the list of signers comes from, or "";
    `strict`: whether only signatures of others counted; `remark`: what else people must know, or "".
    `blocks_inconclusive`: whether the gate's `[on] inconclusive` stops a commit.
    """

    commits: tuple[tuple[ChangeIdentity, CommitStatus], ...]
    trusted: str
    signers: str
    strict: bool
    remark: str = ""
    blocks_inconclusive: bool = False

    @property
    def exit_code(self) -> int:
        """5 if a receipt is forged, 1 if any other commit is not as required."""
        statuses = {status.status for _, status in self.commits}
        if "forged" in statuses:
            return INTEGRITY
        return PASS if statuses <= GOOD else FAIL


def verify(request: VerifyRequest, *, start: Path, environ: Mapping[str, str], now: datetime) -> Verification:
    """Verify every commit of the range. GateError if the range or the repository cannot be read."""
    with open_repository(start, environ) as repository:
        with suppress(StorageError):  # without their records commits are missing, and not bypassed
            CommitRecords(repository, open_state(repository.common_dir), now).settle_marks()
        span = _span(repository, request.range)
        if len(span.commits) > COMMITS_AT_ONCE:
            more = " or more" if len(span.commits) == MAX_COMMITS else ""
            raise UsageError(f"{len(span.commits):,} commits{more}; verify at most {COMMITS_AT_ONCE:,} at once.")
        verifier = _Verifier(repository, now, request, span)
        commits = verifier.verified()
        remark = " ".join(filter(None, (verifier.finder.remark, *repository.remarks)))
        gate, signers = verifier.gate, verifier.signers
        blocks = gate.file.on.inconclusive == "block"
        return Verification(commits, gate.revision, signers.source, verifier.strict, remark, blocks)


class _CommitSpan(Struct, frozen=True):
    """The ends of a range (`base` "": it begins at nothing), and its commits, newest first."""

    base: str
    head: str
    commits: tuple[str, ...]


def _span(repository: Repository, text: str) -> _CommitSpan:
    left, dots, right = text.partition("..." if "..." in text else "..")
    if not text and (upstream := repository.upstream()):
        base, head = upstream, repository.resolve("HEAD")
    elif left == EMPTY_TREE and dots == "..":  # everything that the head has
        base, head = "", repository.resolve(right or "HEAD")
    elif not dots:
        head = repository.resolve(text or "HEAD")
        return _CommitSpan(repository.change(Selection("commit", left=head)).base_commit, head, (head,))
    else:
        base, head = repository.resolve(left or "HEAD"), repository.resolve(right or "HEAD")
        base = repository.merge_base(base, head, text) if dots == "..." else base
    commits = repository.span(base, head)
    return _CommitSpan(base, head, commits)


class Segment(Struct, frozen=True):
    """The commits after `base`, up to and including `head`, that one review compared as a whole."""

    base: str
    head: str
    commits: frozenset[str]

    def __str__(self) -> str:
        return f"{self.base[:12]}..{self.head[:12]}"


class History(Struct, frozen=True):
    """The commits of a range with their `parents`, parents first, by id; `base` is where it begins ("": at nothing)."""

    parents: Mapping[str, Sequence[str]]
    base: str

    def segment(self, base: str, head: str) -> Segment | None:
        """The commits between two, if a review of one against the other is about all of them; else None.

        A segment has one way in and one way out. The review shows neither what two branches have in common
        (another way in, except from before the range) nor what a commit in the middle adds and a later one takes
        back, which a branch from that commit still has (another way out).
        """
        inside = self._between(base, head)
        middle = inside - {head}
        leaves = bool(middle) and any(
            not middle.isdisjoint(parents) for commit, parents in self.parents.items() if commit not in inside
        )
        return Segment(base, head, inside) if inside and not leaves else None

    def _between(self, base: str, head: str) -> frozenset[str]:
        """The commits that `head` has and `base` has not; none if they also come from elsewhere."""
        inside: set[str] = set()
        left = [head]
        while left:
            commit = left.pop()
            if commit == base or commit in inside:
                continue
            if commit in self.parents:
                inside.add(commit)
                left += self.parents[commit] or [""]
            elif base != self.base:  # before the range, or before a first commit
                return frozenset()
        return frozenset(inside)

    def precedes(self, parent: str, segment: Segment) -> bool:
        """Whether the segment begins where this parent of one of its merges was in already."""
        return segment.base == parent or (segment.base == self.base and parent not in self.parents)

    def cuts(self, alone: Set[str], segments: Iterable[Segment], unreviewed: Set[str]) -> set[str]:
        """The commits at which the range can be cut: reviewed segments lead from its base to each of them.

        `alone`: commits reviewed against every parent; `segments`: the longer ones with a review. Commits that
        are `unreviewed` count as cuts: they are reported themselves, and what follows them is not to blame.
        """
        found = {self.base}
        by_head: dict[str, list[Segment]] = {}
        for segment in segments:
            by_head.setdefault(segment.head, []).append(segment)
        for commit, parents in self.parents.items():
            follows = all(parent in found or parent not in self.parents for parent in parents)
            ends = any(segment.base in found for segment in by_head.get(commit, ()))
            if ends or commit in unreviewed or (commit in alone and follows):
                found.add(commit)
        return found


class _Reviews(Struct, frozen=True):
    """What receipts say of one commit: of its change against each parent that counts, and as part of a segment.

    The first parent is "" for a root commit. Of a clean merge only the first parent counts.
    """

    identity: ChangeIdentity
    own: Mapping[str, Sequence[CommitStatus]]
    parts: Sequence[tuple[Segment, CommitStatus]]


class _Verifier:
    """One look at a repository: its gate and signers, its hooks' records, and the receipts about a range."""

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
        # Git is asked once for each earlier form, not for each commit: a thousand may have one author, date and title.
        self._is_in_history = cache(lambda old: repository.is_ancestor(old, span.head))
        self._whole = repository.change(Selection("range", left=span.base or EMPTY_TREE, right=span.head))
        self.strict = request.strict or environment.in_ci
        named = {"base": request.base, "definitions": request.definitions}
        self.gate = gate_for(repository, self._whole, **named)
        self.signers = allowed_signers(repository, self._whole, **named)
        self.finder = ReceiptFinder(repository, now, self.signers, other_worktrees=True)
        # Whoever runs this says nothing about who wrote what is committed: no environment.
        state = open_state(repository.common_dir)
        self._authorship = Authorship(repository, {}, state, now)
        known = badges(self.gate, state.labels.all(), self.gate.default_model(environment))
        self._advising = frozenset(name for name, badge in known.items() if not badge.blocks)
        oldest_first = tuple(reversed(span.commits))
        self._history = History({name: repository.parents(name) for name in oldest_first}, span.base)
        # Only a receipt could be about a commit by its patch-id.
        patch_ids = repository.patch_ids(oldest_first) if self.finder.entries or request.notes else {}
        self._identities = {name: self._identity(name, patch_ids.get(name, "")) for name in oldest_first}
        self._trees = {span.base: self._whole.before} | {name: one.after for name, one in self._identities.items()}
        self._by_tree = {tree: name for name, tree in self._trees.items()}
        self._by_id: defaultdict[str, list[FoundReceipt]] = defaultdict(list)
        self._parts: defaultdict[str, list[tuple[Segment, FoundReceipt]]] = defaultdict(list)
        self._requirements: dict[tuple[str, ...], Requirements] = {}

    def verified(self) -> tuple[tuple[ChangeIdentity, CommitStatus], ...]:
        """Each commit with its status, newest first."""
        ids = {name for one in self._identities.values() for name in one.ids}.union(ids_of(self._whole))
        self._sort(self._find(ids))
        changes = self._repository.changes_of([name for name in self._identities if self._is_reviewed(name)])
        reviews = {name: self._reviews(name, changes.get(name)) for name in self._identities}
        cuts = self._cuts(reviews)
        return tuple((reviews[name].identity, self._status(reviews[name], cuts)) for name in reversed(reviews))

    def _find(self, ids: Set[str]) -> list[FoundReceipt]:
        """Every receipt about one of these (`object_ids`)."""
        return self.finder.bundled(ids) + (self.finder.noted(ids) if self._request.notes else [])

    def _sort(self, found: Iterable[FoundReceipt]) -> None:
        """Sort receipts by what they are about, so that each commit is compared with its own only."""
        for one in found:
            for name in one.ids:
                self._by_id[name].append(one)
            for segment in self._segments(one):
                for commit in segment.commits:
                    self._parts[commit].append((segment, one))

    def _segments(self, found: FoundReceipt) -> set[Segment]:
        """The segments whose ends have the receipt's trees, or that make the very change that it is about."""
        receipt = found.receipt
        if receipt is None or found.problem:
            return set()
        ends = [(self._end(receipt.base_commit, receipt.before), self._end(receipt.head_commit, receipt.after))]
        if self._is_whole(receipt):
            ends.append((self._whole.base_commit, self._whole.head_commit))
        segments = (self._history.segment(base, head) for base, head in ends if base is not None and head)
        return {segment for segment in segments if segment is not None}

    def _end(self, commit: str, tree: str) -> str | None:
        """The commit itself if it has that tree, else the newest commit of the range that has it."""
        return commit if self._trees.get(commit) == tree else self._by_tree.get(tree)

    def _is_whole(self, receipt: Receipt) -> bool:
        """Whether the whole range makes the change of the receipt, perhaps on another base."""
        whole = self._whole
        same_trees = (receipt.before, receipt.after) == (whole.before, whole.after)
        return same_trees or (
            receipt.range_patch_id == whole.range_patch_id and self._whole_identity.is_same_change(receipt)
        )

    @cached_property
    def _whole_identity(self) -> ChangeIdentity:
        return replace(identity_of(self._whole, ()), exact=exact(self._whole, self._repository.read_all))

    def _is_reviewed(self, name: str) -> bool:
        """Whether a receipt may be about the commit, or none need be because it changes nothing."""
        one = self._identities[name]
        return one.before == one.after or name in self._parts or bool(self._about(one))

    def _reviews(self, name: str, change: Change | None) -> _Reviews:
        """What receipts say of a commit; nothing without its `change`, which is read of those with receipts alone."""
        identity = self._identities[name]
        first, *others = self._history.parents[name] or [""]
        if change is None:
            return _Reviews(identity, {first: ()}, ())
        if any(_match(identity, found) is None for found in self._by_id.get(identity.patch_id, ())):
            identity = replace(identity, exact=exact(change, self._repository.read_all))
        required = self._required(change)
        own = {first: self._own(identity, required)}
        if others and not self._repository.is_clean_merge(name):
            own |= {parent: self._against(parent, identity, required) for parent in others}
        parts = [
            (segment, assess("range patch-id", found, identity, required))
            for segment, found in self._parts.get(name, ())
            if _match(identity, found) is None
        ]
        return _Reviews(identity, own, parts)

    def _against(self, parent: str, merge: ChangeIdentity, required: Requirements) -> list[CommitStatus]:
        """What receipts say of a merge against another parent than the first; [] if that parent is not here."""
        if not self._repository.has(parent):
            return []
        return self._own(replace(merge, before=self._repository.tree_of(parent), patch_id=""), required)

    def _required(self, change: Change) -> Requirements:
        rubrics = self.gate.for_change(change)
        names = tuple(rubric.id for rubric in rubrics)
        if names not in self._requirements:
            judge = self.gate.file.hooks.get(self._request.stage, HookRule()).judge
            made = Requirements.of(
                self.gate, rubrics, self._today, judge=judge, strict=self.strict, advising=self._advising
            )
            self._requirements[names] = made
        commit = self._repository.commit(change.head_commit)
        return replace(self._requirements[names], hints=self._authorship.of(change, (commit,)).hints)

    def _identity(self, name: str, patch_id: str) -> ChangeIdentity:
        """The identity of a commit's change as far as it is known without its files."""
        before, after = (self._repository.tree_of(one) for one in (self._repository.first_parent(name), name))
        commit = self._repository.commit(name)
        title = self._redact(commit.message.partition("\n")[0])
        return ChangeIdentity(name, before, after, patch_id, authors=authors_of((commit,)), title=title)

    def _own(self, identity: ChangeIdentity, required: Requirements) -> list[CommitStatus]:
        """What receipts say of this very change."""
        if identity.before == identity.after:
            return [CommitStatus("empty", "it changes no file")]
        matches = [(_match(identity, found), found) for found in self._about(identity)]
        return [assess(match, found, identity, required) for match, found in matches if match is not None]

    def _about(self, identity: ChangeIdentity) -> list[FoundReceipt]:
        return list({id(found): found for name in identity.ids for found in self._by_id.get(name, ())}.values())

    def _cuts(self, reviews: Mapping[str, _Reviews]) -> set[str]:
        """Where the range can be cut into reviewed segments (`History.cuts`)."""
        alone: set[str] = set()
        unreviewed: set[str] = set()
        segments: set[Segment] = set()
        for name, one in reviews.items():
            parts = [(segment, status) for segment, status in one.parts if status.status in GOOD]
            segments.update(segment for segment, _ in parts if segment.head == name)
            open_parents = [parent for parent, own in one.own.items() if not any(it.status in GOOD for it in own)]
            if not open_parents:
                alone.add(name)
            elif not all(self._covering(one, parent, parts) for parent in open_parents):
                unreviewed.add(name)
        return self._history.cuts(alone, segments, unreviewed)

    def _covering(
        self, reviews: _Reviews, parent: str, parts: Sequence[tuple[Segment, CommitStatus]]
    ) -> list[CommitStatus]:
        """Of the reviews of segments those that also show what the commit changes against this parent."""
        if any(one.status == "empty" for one in reviews.own[parent]):
            return []
        is_first = parent == next(iter(reviews.own))
        return [status for segment, status in parts if is_first or self._history.precedes(parent, segment)]

    def _status(self, reviews: _Reviews, cuts: set[str]) -> CommitStatus:
        """The status against the first parent if that is not good, else against the first parent where it is not."""
        commit = reviews.identity.commit
        parts = [(one, replace(status, segment=str(one))) for one, status in reviews.parts if one.base in cuts]
        decided = {
            parent: decide([*own, *self._covering(reviews, parent, parts)]) for parent, own in reviews.own.items()
        }
        first = next(iter(decided.values()))
        if first is None:
            return self._without(reviews.identity)
        if first.status in GOOD:
            for parent, status in decided.items():
                if status is None:
                    span = f"{parent[:SHORT_ID]}..{commit[:SHORT_ID]}"
                    why = f"a merge with changes of its own, reviewed against its first parent only: review {span}, too"
                    return CommitStatus("missing", why)
                if status.status not in GOOD:
                    return status
        return self._with_bypass(first, commit)

    def _without(self, identity: ChangeIdentity) -> CommitStatus:
        """The status of a commit without a verdict: what the hooks recorded, or which review it had before."""
        record = self._bypass(identity.commit)
        how = f"run `vibe-gate review --commit {identity.commit[:SHORT_ID]}`"
        if record is not None and not record.during:
            reason = record.reason or "--no-verify, or the hook was off"
            return CommitStatus("bypassed", f"committed without the hook on {record.ts} ({reason}): {how}")
        if earlier := self._review_before(identity.commit):
            return CommitStatus("stale", f"{earlier.sentence}: {how}", found=earlier.found)
        if record is not None:
            why = f"made by git during a {record.during}, which runs no hook"
        else:
            why = "no receipt here is about this change"
        return CommitStatus("missing", f"{why}: {how}")

    def _review_before(self, commit: str) -> EarlierReview | None:
        """The review of what the commit was before; what the range's history still has is another commit."""
        reviews = self._earlier.get(commit, ())
        return next((one for one in reviews if not self._is_in_history(one.commit)), None)

    @cached_property
    def _earlier(self) -> dict[str, list[EarlierReview]]:
        """By commit, the reviews of what it was before an amend or a rebase."""
        if not self.finder.entries and not self._request.notes:
            return {}
        forms = EarlierForms(self._repository, self._authorship.earlier, self.finder.entries)
        return reviews_before(self._repository, forms, self._identities, self._find)

    def _with_bypass(self, status: CommitStatus, commit: str) -> CommitStatus:
        """A note if only a range with the commit was reviewed: what a later commit takes back, nobody saw."""
        record = self._bypass(commit) if status.match == "range patch-id" else None
        if record is None or record.during:
            return status
        note = f"committed without the hook on {record.ts}; the range was reviewed, not this commit"
        return replace(status, notes=(*status.notes, note))

    @cached_property
    def _bypasses(self) -> dict[str, Record]:
        return {record.commit: record for record in self._authorship.records if record.kind == "bypassed"}

    def _bypass(self, commit: str) -> Record | None:
        """The record that this commit, or one it was rewritten from, bypassed the hook: by hand rather than by git."""
        found = [self._bypasses[name] for name in self._authorship.earlier(commit) if name in self._bypasses]
        return next((record for record in found if not record.during), found[0] if found else None)


def _match(identity: ChangeIdentity, found: FoundReceipt) -> Match | None:
    """How the receipt is about the change; one with a problem is taken at the word of what it was attached to."""
    return "commit" if found.receipt is None or found.problem else match_of(identity, found.receipt)
