"""`verify`: for every commit of a range, which verdict is about it, and whether that can be relied on.

    range -> commits -> receipts from bundles (and notes) -> held against commit, signature, gate -> one Standing each

Reads only. What a receipt is worth is decided in `domain.standing`; here it is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from vibe_gate.domain.change import EMPTY_TREE, Change, Selection
from vibe_gate.domain.commit_status import GOOD, Demands, Match, Standing, Subject, best, judged, match, subject_of
from vibe_gate.domain.gate import Gate, HookName, HookRule
from vibe_gate.domain.provenance import Commit
from vibe_gate.domain.receipt import Receipt, exact, places
from vibe_gate.domain.record import Record
from vibe_gate.errors import FAIL, INTEGRITY, PASS, IntegrityError, RevisionError, UsageError
from vibe_gate.gate import trust
from vibe_gate.gate.authorship import Authorship
from vibe_gate.git import Repository, open_repository
from vibe_gate.git.history import MAX_COMMITS
from vibe_gate.receipts.find import Claim, Shelf, definitions_of, signers
from vibe_gate.receipts.spans import History, Part
from vibe_gate.secrets.redaction import Redactor
from vibe_gate.store.finding import is_about
from vibe_gate.store.index import Entry

SHORT_ID = 12

COMMITS_AT_ONCE = 1_000
"""Commits of one call: each costs a diff."""


MAX_REWRITES = 100
"""Earlier shapes of one commit that are looked at: each costs a diff, and whoever can write records can write many."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a face asks for. `range`: `A..B`, `A...B`, one revision, or "" for upstream..HEAD, else HEAD.

    `strict`: as in CI, only a pass counts that somebody else signed. `notes`: receipts
    in git notes count, too. `base` and `definitions` as for a review. `stage`: the git hook
    whose rule says when a judge must have been asked.
    """

    range: str = ""
    base: str | None = None
    definitions: str | None = None
    strict: bool = False
    notes: bool = False
    stage: HookName = "pre-commit"


@dataclass(frozen=True, slots=True)
class Verified:
    """Each commit, newest first, and where it stands.

    `trusted` is where the gate was read; `listed` where the list of signers comes
    from, "" where there is none; `strict` whether only signatures of others counted.
    `remark` says why no bundle could be read, or what else people must know, or "".
    """

    commits: tuple[tuple[Subject, Standing], ...]
    trusted: str
    listed: str
    strict: bool
    remark: str = ""

    @property
    def exit_code(self) -> int:
        """5 where something is forged, 1 where anything else is not as it should be."""
        found = {standing.status for _, standing in self.commits}
        if "forged" in found:
            return INTEGRITY
        return PASS if found <= GOOD else FAIL


def verify(asked: Asked, *, start: Path, environ: Mapping[str, str], now: datetime) -> Verified:
    """Look at every commit of the range. GateError for what cannot be understood or read."""
    with open_repository(start, environ) as repository:
        base, head, names = _commits(repository, asked.range)
        if len(names) > COMMITS_AT_ONCE:
            more = " or more" if len(names) == MAX_COMMITS else ""
            raise UsageError(f"{len(names):,} commits{more}; verify at most {COMMITS_AT_ONCE:,} at once.")
        changes = {name: repository.change(Selection("commit", left=name)) for name in names}
        whole = repository.change(Selection("range", left=base or EMPTY_TREE, right=head))
        look = _Look(repository, environ, now, asked, whole)
        found = look.claims(list(changes.values()))
        rows = [look.row(changes[name], found) for name in reversed(names)]
        remark = " ".join(filter(None, (look.shelf.remark, *repository.remarks)))
        return Verified(tuple(reversed(rows)), look.gate.revision, look.listed, look.strict, remark)


def _commits(repository: Repository, span: str) -> tuple[str, str, tuple[str, ...]]:
    """The two ends of a range ("": nothing), and its commits, newest first."""
    left, dots, right = span.partition("..." if "..." in span else "..")
    if not span and (upstream := repository.upstream()):
        base, head = upstream, repository.resolve("HEAD")
    elif left == EMPTY_TREE and dots == "..":  # from nothing: everything that the head has
        base, head = "", repository.resolve(right or "HEAD")
    elif not dots:
        change = repository.change(Selection("commit", left=repository.resolve(span or "HEAD")))
        return change.base_commit, change.head_commit, (change.head_commit,)
    else:
        base, head = repository.resolve(left or "HEAD"), repository.resolve(right or "HEAD")
        base = repository.merge_base(base, head, span) if dots == "..." else base
    names = repository.span(base, head)
    if ends := repository.false_ends(base, names):
        raise IntegrityError(
            f"git's list of where history ends (.git/shallow) hides commits that are here, at "
            f"{ends[0][:SHORT_ID]}: `git fetch --unshallow`, or delete what was written into that file."
        )
    return base, head, names


class _Look:
    """One look at a repository: its gate, its signers, its hooks' records, the receipts about its commits."""

    def __init__(
        self, repository: Repository, environ: Mapping[str, str], now: datetime, asked: Asked, whole: Change
    ) -> None:
        self.gate: Gate = trust.gate_for(repository, whole, base=asked.base, definitions=asked.definitions)
        self.strict = asked.strict or bool(environ.get("CI"))
        self._repository = repository
        self._redact = Redactor(environ).text
        self._now = now
        self._asked = asked
        self._whole = whole
        self._whole_exact, self._whole_places = exact(whole), places(whole, repository.read)
        listed = signers(
            repository, whole, environ, base=asked.base, definitions=asked.definitions
        )  # fmt: skip
        self.listed = listed[1]
        self.shelf = Shelf(repository, environ, now, listed)
        # Whoever runs this says nothing about who wrote what is committed: no environment.
        self._authorship = Authorship(repository, {}, now)
        self._records = self._authorship.records
        self._old = {record.commit: record.old for record in self._records if record.kind == "rewritten"}
        self._history = History({}, whole.base_commit)
        self._covered: dict[str, list[Part]] = {}  # by run id

    def claims(self, changes: Sequence[Change]) -> list[Claim]:
        """Every receipt that can be about one of the commits, or about the whole range."""
        every = (*changes, self._whole)
        parents = {change.head_commit: self._repository.parents(change.head_commit) for change in changes}
        self._history = History(parents, self._whole.base_commit)
        found = self.shelf.bundled(lambda entry: any(_may_be_about(entry, change) for change in every))
        if self._asked.notes:
            found += self.shelf.noted(lambda about, receipt: any(_is_said(about, receipt, one) for one in every))
        for claim in found:
            if claim.paper.receipt is not None and not claim.paper.flaw:
                self._cover(claim.paper.receipt)
        return found

    def row(self, change: Change, claims: Sequence[Claim]) -> tuple[Subject, Standing]:
        """Where one commit stands; its parents must have been asked about before."""
        made = self._repository.commits(change)[0]
        subject = self._subject(change, made)
        demands = self._demands(change, self._authorship.of(change, (made,)).hints)
        found = self._standings(subject, claims, demands) if change.files else [Standing("empty", "it changes no file")]
        good = [standing for standing in found if standing.status in GOOD]
        across = self._across(made, claims, demands) if good else {}
        if good and not self._is_shown(subject, good, across):  # one that stands badly is named itself
            self._history.hidden.add(subject.commit)
        standing = best(found)
        standing = self._with_bypass(standing, subject.commit) if standing else self._without(subject, claims)
        if standing.status in GOOD:
            return subject, _unsettled(made, across) or standing
        return subject, standing

    def _subject(self, change: Change, made: Commit) -> Subject:
        title = self._redact(made.message.partition("\n")[0])
        return replace(subject_of(change, (made,)), title=title, places=places(change, self._repository.read))

    def _standings(
        self, subject: Subject, claims: Sequence[Claim], demands: Demands, parent: str = ""
    ) -> list[Standing]:
        found = ((self._match(subject, claim, parent), claim) for claim in claims)
        return [judged(by, claim.paper, subject, demands) for by, claim in found if by is not None]

    def _is_shown(self, subject: Subject, good: Sequence[Standing], across: Mapping[str, Sequence[Standing]]) -> bool:
        """Whether nothing in the tree of a commit that stands well is hidden."""
        receipts = [standing.paper.receipt for standing in good if standing.paper and standing.paper.receipt]
        own = not receipts or any(match(subject, receipt) for receipt in receipts)
        own = own and all(any(map(_is_by_itself, found)) for found in across.values())
        parts = [part for receipt in receipts for part in self._parts(receipt, subject.commit)]
        return self._history.is_shown(subject.commit, parts, own=own)

    def _parts(self, receipt: Receipt, commit: str) -> list[Part]:
        """What was reviewed as a whole by this receipt, and is about the commit."""
        return [part for part in self._covered.get(receipt.run_id, ()) if self._history.tells(part, commit)]

    def _across(self, made: Commit, claims: Sequence[Claim], demands: Demands) -> dict[str, list[Standing]]:
        """What is said of a merge against each parent but the first; {} of one that is just what git makes of two.

        What it takes away from those parents, its review against the first did not show.
        """
        others = self._history.parents[made.id][1:]
        if not others or self._repository.is_plain_merge(made.id):
            return {}
        return {parent: self._against(parent, made, claims, demands) for parent in others}

    def _against(self, parent: str, made: Commit, claims: Sequence[Claim], demands: Demands) -> list[Standing]:
        try:
            change = self._repository.change(Selection("range", left=parent, right=made.id))
        except RevisionError:
            return []
        if not change.files:
            return [Standing("empty", "it is as this parent")]
        return self._standings(replace(self._subject(change, made), patch_id=""), claims, demands, parent)

    def _match(self, subject: Subject, claim: Claim, parent: str) -> Match | None:
        """By what the claim is about the commit; `parent`: about a merge as it is against this other parent."""
        receipt = claim.paper.receipt
        if receipt is None or claim.paper.flaw:
            return "commit" if claim.is_about(subject) else None
        parts = self._parts(receipt, subject.commit)
        return match(subject, receipt, any(not parent or self._has(part.base, parent) for part in parts))

    def _has(self, base: str, parent: str) -> bool:
        """Whether a range that begins at `base` shows what a merge in it takes away from `parent`."""
        return bool(base) and (base == parent or self._repository.is_ancestor(parent, base))

    def _cover(self, receipt: Receipt) -> None:
        """Which of the commits the receipt's range has.

        Either the whole range that is verified has the change that was reviewed, or the
        reviewed range is a part of it, commit by commit (`History.part`).
        """
        covered = self._covered.setdefault(receipt.run_id, [])
        whole = self._whole
        same = (receipt.exact, receipt.range_patch_id) == (self._whole_exact, whole.range_patch_id)
        here = receipt.places == self._whole_places or (receipt.before, receipt.after) == (whole.before, whole.after)
        if same and here:
            covered.append(Part(whole.base_commit, whole.head_commit, frozenset(self._history.parents)))
        part = self._history.part(receipt.base_commit, receipt.head_commit)
        if part is not None and self._is_so(receipt):
            covered.append(part)

    def _is_so(self, receipt: Receipt) -> bool:
        """Whether the receipt's commits have the receipt's trees."""
        try:
            trees = [self._repository.tree(name).id for name in (receipt.base_commit, receipt.head_commit)]
        except RevisionError:
            return False
        return trees == [receipt.before, receipt.after]

    def _demands(self, change: Change, hints: tuple[str, ...]) -> Demands:
        return Demands(
            rubrics={rubric.id: rubric.digest for rubric in self.gate.for_change(change)},
            definitions=definitions_of(self.gate),
            today=self._now.date(),
            judge=self.gate.file.hooks.get(self._asked.stage, HookRule()).judge,
            hints=hints,
            strict=self.strict,
        )

    def _without(self, subject: Subject, claims: Sequence[Claim]) -> Standing:
        """Why there is no verdict: what the hooks recorded, or which review came near."""
        record = self._bypass(subject.commit)
        if record is not None and not record.during:
            how = record.reason or "--no-verify, or it was switched off"
            return Standing("bypassed", f"committed past the hook ({how}) on {record.ts}")
        again = f"review --commit {subject.commit[:SHORT_ID]}"
        near = [claim.paper.receipt for claim in claims if claim.paper.receipt is not None]
        part = next((receipt for receipt in near if receipt.head_commit == subject.commit), None)
        if part is not None:
            span = f"{part.base_commit[:SHORT_ID]}..{part.head_commit[:SHORT_ID]}"
            return Standing("missing", f"it was reviewed only as the end of {span}: verify that range, or {again}")
        if same := [receipt for receipt in near if receipt.patch_id and receipt.patch_id == subject.patch_id]:
            return Standing("missing", f"a review of the same patch-id is about {_difference(subject, same)}")
        if any(receipt.after == subject.after for receipt in near):
            return Standing("missing", f"its tree was reviewed, but only part of what it changes: {again}")
        if changed := self._changed_since(subject):
            return Standing("stale", changed)
        if record is not None:
            return Standing("missing", f"git made it by {record.during}, for which it runs no hook")
        return Standing("missing", "no review of it, of its tree or of its change is here")

    def _with_bypass(self, standing: Standing, commit: str) -> Standing:
        """A note where a range was reviewed that has the commit: what a later one of it takes back nobody saw."""
        record = self._bypass(commit) if standing.match == "range patch-id" else None
        if record is None or record.during:
            return standing
        note = f"committed past the hook on {record.ts}; what was reviewed is a range, and not this commit"
        return replace(standing, notes=(*standing.notes, note))

    def _changed_since(self, subject: Subject) -> str:
        """Which review of what this commit was before it was amended or rebased is here; "" if none is.

        What a commit was before, hooks recorded, and git's reflog knows: its author and their time stay the same.
        """
        for old in dict.fromkeys((*self._rewritten_from(subject.commit), *self._repository.earlier(subject.commit))):
            trees = self._trees(old)
            for entry in self.shelf.entries:
                if (entry.before, entry.after) == trees:
                    return f"{old[:SHORT_ID]} was reviewed (run {entry.run_id}); what it changes was changed since"
        return ""

    def _trees(self, commit: str) -> tuple[str, str] | None:
        try:
            change = self._repository.change(Selection("commit", left=commit))
        except RevisionError:  # git may have thrown it away by now
            return None
        return change.before, change.after

    def _bypass(self, commit: str) -> Record | None:
        """The record that this commit, or one it was rewritten from, went past the hook: by hand rather than by git."""
        past = {record.commit: record for record in self._records if record.kind == "bypassed"}
        found = [past[name] for name in (commit, *self._rewritten_from(commit)) if name in past]
        return next((record for record in found if not record.during), found[0] if found else None)

    def _rewritten_from(self, commit: str) -> list[str]:
        """What a commit was before, by the records, the latest first."""
        found: dict[str, None] = {}
        while (commit := self._old.get(commit, "")) and commit not in found and len(found) < MAX_REWRITES:
            found[commit] = None
        return list(found)


def _unsettled(made: Commit, across: Mapping[str, list[Standing]]) -> Standing | None:
    """Why a merge is not settled by its review against the first parent; None where it is."""
    for parent, found in across.items():
        standing = best(found)
        if standing is None:
            span = f"{parent[:SHORT_ID]}..{made.id[:SHORT_ID]}"
            why = f"a merge that is more than its parents together, reviewed against the first only: review {span}, too"
            return Standing("missing", why)
        if standing.status not in GOOD:
            return standing
    return None


def _is_by_itself(standing: Standing) -> bool:
    """Whether this is a good word about the two trees themselves, rather than about a range that has the commit."""
    return standing.status in GOOD and standing.match != "range patch-id"


def _difference(subject: Subject, same: Sequence[Receipt]) -> str:
    if any(receipt.exact == subject.exact for receipt in same):
        return "the same lines, but perhaps at another place: in their file they stand more than once"
    return "other white space"


def _may_be_about(entry: Entry, change: Change) -> bool:
    return (
        is_about(entry, "commit", change.head_commit)
        or is_about(entry, "tree", change.after)
        or is_about(entry, "patch_id", change.patch_id)
        or is_about(entry, "range_patch_id", change.range_patch_id)
    )


def _is_said(about: str, receipt: Receipt | None, change: Change) -> bool:
    """Whether a note on `about`, with this receipt, can be about the change."""
    if about in (change.head_commit, change.after) or receipt is None:
        return about in (change.head_commit, change.after)
    ids = {name for name in (change.patch_id, change.range_patch_id) if name}
    return (
        change.head_commit in (receipt.head_commit, receipt.base_commit)
        or change.after == receipt.after
        or bool(ids & {receipt.patch_id, receipt.range_patch_id})
    )
