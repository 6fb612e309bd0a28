"""`verify`: for every commit of a range, which verdict is about it, and whether that can be relied on.

    range -> commits -> receipts from bundles (and notes) -> held against commit, signature, gate -> one Standing each

Reads only. What a receipt is worth is decided in `domain.standing`; here it is found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from vibe_gate import trust
from vibe_gate.adapters import receipts, sessions
from vibe_gate.adapters.bundles.finding import is_about
from vibe_gate.adapters.bundles.index import Entry
from vibe_gate.adapters.bundles.indexing import entries
from vibe_gate.adapters.bundles.papers import read_papers
from vibe_gate.adapters.bundles.provenance import Provenance
from vibe_gate.adapters.definitions import GATE_PATH
from vibe_gate.adapters.git import Repository, open_repository
from vibe_gate.adapters.records import Records
from vibe_gate.attest import signing_of
from vibe_gate.domain.change import EMPTY_TREE, Change, Selection
from vibe_gate.domain.gate import Gate, HookRule
from vibe_gate.domain.provenance import provenance, written_hints
from vibe_gate.domain.receipt import Receipt, contradiction, exact, parse
from vibe_gate.domain.record import Hints, Record
from vibe_gate.domain.standing import GOOD, Demands, Match, Paper, Standing, Subject, best, judged, match
from vibe_gate.errors import FAIL, INTEGRITY, PASS, IntegrityError, RevisionError, StorageError, UsageError
from vibe_gate.share import NOTES

STORE = ".vibe-artifacts"
SIGNERS = ".vibe-gate/allowed_signers"
"""Who may sign receipts, as ssh-keygen reads it; at the trusted revision."""

SUPPRESSIONS = ".vibe-gate/suppressions.toml"
BUILT_IN_GATE = "built-in/gate.toml"

SHORT_ID = 12

RECEIPTS_PER_NOTE = 100
"""Receipts of one note that are read."""

COMMITS_AT_ONCE = 1_000
"""Commits of one call: each costs a diff."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a face asks for. `range`: `A..B`, `A...B`, one revision, or "" for upstream..HEAD, else HEAD.

    `strict`: as in CI, only a pass counts that somebody else signed. `notes`: receipts
    in git notes count, too. `base` and `definitions` as for a review.
    """

    range: str = ""
    base: str | None = None
    definitions: str | None = None
    strict: bool = False
    notes: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """Each commit, newest first, and where it stands.

    `trusted` is where the gate was read; `listed` where the list of signers comes
    from, "" where there is none; `strict` whether only signatures of others counted.
    """

    commits: tuple[tuple[Subject, Standing], ...]
    trusted: str
    listed: str
    strict: bool

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
            raise UsageError(f"{len(names):,} commits; verify at most {COMMITS_AT_ONCE:,} at once.")
        changes = {name: repository.change(Selection("commit", left=name)) for name in names}
        whole = repository.change(Selection("range", left=base or EMPTY_TREE, right=head))
        look = _Look(repository, environ, now, asked, whole)
        found = look.claims(list(changes.values()))
        rows = tuple(look.row(change, found) for change in changes.values())
        return Verified(rows, look.gate.revision, look.listed, look.strict)


def _commits(repository: Repository, span: str) -> tuple[str, str, tuple[str, ...]]:
    """The two ends of a range ("": nothing), and its commits, newest first."""
    left, dots, right = span.partition("..." if "..." in span else "..")
    if not span and (upstream := repository.upstream()):
        base, head = upstream, repository.resolve("HEAD")
    elif not dots:
        change = repository.change(Selection("commit", left=repository.resolve(span or "HEAD")))
        return change.base_commit, change.head_commit, (change.head_commit,)
    else:
        base, head = repository.resolve(left or "HEAD"), repository.resolve(right or "HEAD")
        base = repository.merge_base(base, head, span) if dots == "..." else base
    return base, head, repository.span(base, head)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A paper that was found, and what it is about by its place: an entry of the index, or the object of a note."""

    paper: Paper
    entry: Entry | None = None
    noted: str = ""

    def is_about(self, subject: Subject) -> bool:
        """Whether a paper that cannot be read claims to be about the commit."""
        if self.entry is None:
            return self.noted in (subject.commit, subject.after)
        trees = (self.entry.before, self.entry.after)
        return (
            subject.commit in (self.entry.head_commit, self.entry.key)
            or trees == (subject.before, subject.after)
            or self.entry.key == f"tree-{subject.after}"
            or is_about(self.entry, "patch_id", subject.patch_id)
        )


class _Look:
    """One look at a repository: its gate, its signers, its hooks' records, the receipts about its commits."""

    def __init__(
        self, repository: Repository, environ: Mapping[str, str], now: datetime, asked: Asked, whole: Change
    ) -> None:
        self.gate: Gate = trust.gate_for(repository, whole, base=asked.base, definitions=asked.definitions)
        self.strict = asked.strict or bool(environ.get("CI"))
        self._repository = repository
        self._environ = environ
        self._now = now
        self._asked = asked
        self._whole = whole
        self._whole_exact = exact(whole)
        self._signing = signing_of(repository)
        self._signers, self.listed = self._allowed()
        self._written = sessions.written_blobs(repository.common_dir)
        self._records = Records(repository.common_dir).all()
        self._hints = Hints(self._records)
        self._covered: dict[str, set[str]] = {}  # run id -> commits that its range has

    def claims(self, changes: Sequence[Change]) -> list[_Claim]:
        """Every receipt that can be about one of the commits, or about the whole range."""
        known = Provenance(self._now, self._repository.tracked(STORE))
        found = [
            _Claim(self._bundled(entry, known), entry)
            for entry in entries(self._repository.root)
            if entry.state not in ("running", "incomplete")
            and any(_may_be_about(entry, change) for change in (*changes, self._whole))
        ]
        if self._asked.notes:
            found += self._noted()
        for claim in found:
            if claim.paper.receipt is not None and not claim.paper.flaw:
                self._cover(claim.paper.receipt, [change.head_commit for change in changes])
        return found

    def row(self, change: Change, claims: Sequence[_Claim]) -> tuple[Subject, Standing]:
        """Where one commit stands."""
        made = self._repository.commits(change)[0]
        subject = Subject(
            commit=change.head_commit,
            before=change.before,
            after=change.after,
            patch_id=change.patch_id,
            exact=exact(change),
            authors=tuple(dict.fromkeys((made.author_email, made.committer_email))),
            title=made.message.partition("\n")[0],
        )
        if not change.files:
            return subject, Standing("empty", "it changes no file")
        written = written_hints(change.files, self._written)
        seen = provenance({}, (made,), uncommitted=False, written=written)
        recorded = self._hints.of(subject.commit, subject.after, seen.hints)
        demands = self._demands(change, (*seen.hints, *recorded))
        standings = []
        for claim in claims:
            found = self._match(subject, claim)
            if found is not None:
                standings.append(judged(found, claim.paper, subject, demands))
        return subject, best(standings) or self._without(subject, claims)

    def _match(self, subject: Subject, claim: _Claim) -> Match | None:
        receipt = claim.paper.receipt
        if receipt is None or claim.paper.flaw:
            return "commit" if claim.is_about(subject) else None
        return match(subject, receipt, subject.commit in self._covered.get(receipt.run_id, set()))

    def _bundled(self, entry: Entry, known: Provenance) -> Paper:
        """The receipt in a bundle, after the whole bundle was held against it."""
        place = entry.bundle
        if foreign := known.foreign(entry.key, entry.run_id):
            return Paper(entry.run_id, place, None, flaw=foreign)
        try:
            papers = read_papers(self._repository.root / entry.bundle)
        except IntegrityError as error:
            return Paper(entry.run_id, place, None, flaw=str(error))
        except StorageError as error:
            return Paper(entry.run_id, place, None, flaw=f"its bundle cannot be read: {error}")
        if papers.receipt is None:
            return Paper(entry.run_id, place, None, flaw="its bundle has no receipt")
        paper = self._paper(entry.run_id, place, papers.receipt)
        if paper.receipt is None:
            return paper
        wrong = contradiction(paper.receipt, papers.document, papers.files)
        return replace(paper, flaw=wrong)

    def _noted(self) -> list[_Claim]:
        found = []
        for about, text in self._repository.notes(NOTES).items():
            place = f"refs/notes/{NOTES} on {about[:12]}"
            found += [
                _Claim(replace(self._paper("", place, line), bundled=False), noted=about)
                for line in text.split(b"\n")[:RECEIPTS_PER_NOTE]
                if line.strip()
            ]
        return found

    def _paper(self, run_id: str, place: str, raw: bytes) -> Paper:
        try:
            sealed = parse(raw)
        except ValueError as error:
            return Paper(run_id, place, None, flaw=f"its receipt cannot be read: {error}")
        signature = receipts.check(sealed.signed_bytes, sealed.signature, self._signers, self._signing, self._environ)
        return Paper(sealed.receipt.run_id, place, sealed.receipt, signature)

    def _cover(self, receipt: Receipt, names: Collection[str]) -> None:
        """Which of the commits the receipt's range has.

        Either the whole range that is verified has the change that was reviewed, or the
        reviewed range is a part of it, commit by commit. A range that begins earlier
        proves nothing: it could hide that something was put back that is older.
        """
        covered = self._covered.setdefault(receipt.run_id, set())
        whole = self._whole
        if receipt.exact == self._whole_exact and receipt.range_patch_id == whole.range_patch_id:
            covered.update(names)
        base, head = receipt.base_commit, receipt.head_commit
        if head in names and (base in names or (base and base == whole.base_commit)) and self._is_so(receipt):
            covered.update(self._repository.span(base, head))

    def _is_so(self, receipt: Receipt) -> bool:
        """Whether the receipt's commits have the receipt's trees."""
        try:
            trees = [self._repository.tree(name).id for name in (receipt.base_commit, receipt.head_commit)]
        except RevisionError:
            return False
        return trees == [receipt.before, receipt.after]

    def _demands(self, change: Change, hints: tuple[str, ...]) -> Demands:
        digests = dict(self.gate.digests)
        built_in = self.gate.origin == "built-in"
        watched = (BUILT_IN_GATE,) if built_in else (GATE_PATH, SUPPRESSIONS)
        return Demands(
            rubrics={rubric.id: rubric.digest for rubric in self.gate.for_change(change)},
            definitions={path: digests.get(path, "") for path in watched},
            today=self._now.date(),
            judge=self.gate.file.hooks.get("pre-commit", HookRule()).judge,
            hints=hints,
            strict=self.strict,
        )

    def _allowed(self) -> tuple[bytes | None, str]:
        """The allowed signers and where the list is; never one that the change itself brings."""
        asked = self._asked
        revision = trust.trusted_revision(
            self._repository, self._whole, base=asked.base, definitions=asked.definitions
        )  # fmt: skip
        if revision:
            at = self._repository.snapshot() if revision == trust.WORKTREE else revision
            own = self._repository.tree(at).read(SIGNERS)
            if own is not None:
                return own, f"{SIGNERS} at {revision[:12]}"
        configured = receipts.allowed_signers(self._signing, self._environ)
        return configured, "" if configured is None else "gpg.ssh.allowedSignersFile"

    def _without(self, subject: Subject, claims: Sequence[_Claim]) -> Standing:
        """Why there is no verdict: what the hooks recorded, or which review came near."""
        record = self._bypass(subject.commit)
        if record is not None and not record.during:
            return Standing("bypassed", f"committed past the hook (--no-verify, or it was switched off) on {record.ts}")
        near = [claim.paper.receipt for claim in claims if claim.paper.receipt is not None]
        part = next((receipt for receipt in near if receipt.head_commit == subject.commit), None)
        if part is not None:
            span = f"{part.base_commit[:SHORT_ID]}..{part.head_commit[:SHORT_ID]}"
            return Standing("missing", f"it was reviewed only as the end of {span}: verify that range")
        if any(receipt.patch_id == subject.patch_id for receipt in near if receipt.patch_id):
            return Standing("missing", "a review of the same patch-id is about other white space")
        if any(receipt.after == subject.after for receipt in near):
            return Standing("missing", "its tree was reviewed, but only part of what it changes")
        if record is not None:
            return Standing("missing", f"git made it by {record.during}, for which it runs no hook")
        return Standing("missing", "no review of it, of its tree or of its change is here")

    def _bypass(self, commit: str) -> Record | None:
        """The record that this commit, or the one it was rewritten from, went past the hook."""
        old = {record.commit: record.old for record in self._records if record.kind == "rewritten"}
        past = {record.commit: record for record in self._records if record.kind == "bypassed"}
        seen: set[str] = set()
        while commit and commit not in past and commit not in seen:
            seen.add(commit)
            commit = old.get(commit, "")
        return past.get(commit)


def _may_be_about(entry: Entry, change: Change) -> bool:
    return (
        is_about(entry, "commit", change.head_commit)
        or is_about(entry, "tree", change.after)
        or is_about(entry, "patch_id", change.patch_id)
        or is_about(entry, "range_patch_id", change.range_patch_id)
    )
