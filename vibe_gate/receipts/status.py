"""The status of a commit: which receipt is about it, by which match, and what that receipt is worth. Pure.

A receipt is about a commit by one of four matches, the closest first:

    commit            it names the commit, and both trees are the commit's
    tree              both trees are the commit's: reviewed before it was committed, or amended since
    patch-id          the same change on another base: rebased, cherry-picked
    range patch-id    a range was reviewed that has the commit, or that was squashed into it

A patch-id leaves out white space, and where in a file the lines are, so `exact` must agree as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.gate import Gate, JudgeWhen
from vibe_gate.domain.receipt import Receipt
from vibe_gate.receipts.signatures import SignatureCheck, SignatureState

if TYPE_CHECKING:
    from vibe_gate.domain.bundles import RunEntry
    from vibe_gate.domain.change import Change
    from vibe_gate.domain.provenance import Commit
    from vibe_gate.domain.rubric import Rubric

Match = Literal["commit", "tree", "patch-id", "range patch-id"]
MATCHES: tuple[Match, ...] = ("commit", "tree", "patch-id", "range patch-id")

Status = Literal[
    "reviewed", "overridden", "empty", "failed", "inconclusive", "approval", "stale", "incomplete", "unsigned",
    "missing", "bypassed", "forged",
]  # fmt: skip
"""`approval`: it changes the gate and nobody approved that; `incomplete`: less was asked than the gate requires;
`unsigned`: a pass that only its author's machine vouches for, where more is required; `empty`: no file changed."""

GOOD: frozenset[Status] = frozenset({"reviewed", "overridden", "empty"})

MAX_FAILS = 5
"""Earlier failures of one commit that notes name."""

_WHOLE: frozenset[Status] = frozenset({"reviewed", "overridden", "failed", "inconclusive", "approval"})
"""Statuses that only a complete and current verdict has."""

UNSIGNED = SignatureCheck("unsigned", why="unsigned")

_DEFINITIONS = (".vibe-gate/gate.toml", ".vibe-gate/suppressions.toml")
"""They bear on every verdict; rubrics have digests of their own."""

_BUILT_IN_DEFINITIONS = ("built-in/gate.toml",)


class ChangeIdentity(Struct, frozen=True):
    """A change as far as a receipt can be about it; `authors` are the addresses of authors and committers.

    `exact` as of a receipt; "" if it is not known: then no patch-id matches.
    """

    commit: str
    before: str
    after: str
    patch_id: str
    exact: str = ""
    authors: tuple[str, ...] = ()
    title: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """Under which a receipt about the change can be found."""
        return object_ids(self.commit, self.before, self.after, self.patch_id)

    def is_same_change(self, receipt: Receipt) -> bool:
        """Whether the receipt is about this very change, at this very place, perhaps in other trees."""
        return bool(self.exact) and receipt.exact == self.exact


def identity_of(change: Change, commits: Iterable[Commit]) -> ChangeIdentity:
    """The identity of a change that these commits made, as far as trees or a commit match it."""
    return ChangeIdentity(
        commit=change.head_commit,
        before=change.before,
        after=change.after,
        patch_id=change.patch_id,
        authors=authors_of(commits),
    )


def authors_of(commits: Iterable[Commit]) -> tuple[str, ...]:
    """The addresses of the authors and committers."""
    return tuple(dict.fromkeys(mail for one in commits for mail in (one.author_email, one.committer_email)))


def object_ids(commit: str, before: str, after: str, *patch_ids: str) -> tuple[str, ...]:
    """The texts by which receipts and changes find each other: a commit, a tree, two trees, patch-ids."""
    trees = (f"tree-{after}", f"{before}..{after}") if after else ()
    return tuple(dict.fromkeys(filter(None, (commit, *trees, *patch_ids))))


def ids_of(one: Change | Receipt | RunEntry) -> tuple[str, ...]:
    """What a change, a receipt or a run is about."""
    return object_ids(one.head_commit, one.before, one.after, one.patch_id, one.range_patch_id)


class FoundReceipt(Struct, frozen=True):
    """A receipt found in a bundle or a git note. `problem` says why it is forged, "" if nothing speaks against it.

    `receipt` is None if there is none that can be read. `bundled`: it is in a bundle of this repository and agrees
    with it; otherwise it came by a note. `ids`: what it is about (`object_ids`): by its content, or by the entry or
    object that it was attached to if that has a problem. `worktree`: the other working tree whose store has it,
    relative to this one; "" if it is in this one's, or in a note.
    """

    run_id: str
    place: str
    receipt: Receipt | None
    signature: SignatureCheck = UNSIGNED
    problem: str = ""
    bundled: bool = True
    ids: tuple[str, ...] = ()
    worktree: str = ""


class Requirements(Struct, frozen=True):
    """What the gate requires of a change today: digests of rubrics by id and of definitions by path ("": no file).

    `judge`: when a judge must be asked; `hints`: signs that an agent wrote the change. `strict`: as in CI, only a
    listed signer who is not the author counts. `advising`: criteria, by ids of rubric and criterion, whose fail does
    not block here either.
    """

    rubrics: Mapping[str, str]
    definitions: Mapping[str, str]
    today: date
    judge: JudgeWhen = "agent-authored"
    hints: tuple[str, ...] = ()
    strict: bool = False
    advising: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(
        cls,
        gate: Gate,
        rubrics: Sequence[Rubric],
        today: date,
        *,
        judge: JudgeWhen | None = None,
        strict: bool = False,
        advising: frozenset[tuple[str, str]] = frozenset(),
    ) -> Requirements:
        """What `gate` requires with these rubrics; without `judge` one must be asked if any has judge criteria."""
        digests = dict(gate.digests)
        watched: tuple[str, ...] = _BUILT_IN_DEFINITIONS if gate.origin == "built-in" else _DEFINITIONS
        return cls(
            rubrics={rubric.id: rubric.digest for rubric in rubrics},
            definitions={path: digests.get(path, "") for path in watched},
            today=today,
            judge=judge or ("always" if any(rubric.judge_criteria for rubric in rubrics) else "never"),
            strict=strict,
            advising=advising,
        )

    def judge_for(self, receipt: Receipt) -> bool:
        """Whether a judge must have been asked; a hint recorded at the review counts like one of today."""
        by_agent = bool(self.hints) or receipt.agent_authored
        return self.judge == "always" or (self.judge == "agent-authored" and by_agent)

    def outdated(self, receipt: Receipt) -> str:
        """Which definition changed since the review, as a clause; "" if none did."""
        for path, digest in self.definitions.items():
            if receipt.definitions.get(path, "") != digest:
                return f"{path} has changed since the review"
        for rubric in receipt.rubrics:
            if self.rubrics.get(rubric.id, rubric.digest) != rubric.digest:
                return f"rubric {rubric.id} has changed since the review"
        return ""


class CommitStatus(Struct, frozen=True):
    """The status of a commit, by which match of which receipt; `why` is a clause for people.

    `segment`: the commits (A..B) that were reviewed as a whole with this one, "" if it was reviewed by itself.
    """

    status: Status
    why: str
    match: Match | None = None
    found: FoundReceipt | None = None
    notes: tuple[str, ...] = ()
    segment: str = ""

    @property
    def place(self) -> str:
        """The bundle or note of the receipt, or ""."""
        return self.found.place if self.found else ""


def match_of(identity: ChangeIdentity, receipt: Receipt) -> Match | None:
    """How the receipt is about the change; None if it is not."""
    same_trees = (receipt.before, receipt.after) == (identity.before, identity.after)
    names_it = receipt.head_commit == identity.commit
    if names_it and (same_trees or receipt.after != identity.after):
        return "commit"  # with another tree: that is false, and `assess` says so
    if same_trees:
        return "tree"
    if not identity.patch_id or not identity.is_same_change(receipt):
        return None
    if receipt.patch_id == identity.patch_id:
        return "patch-id"
    return "range patch-id" if receipt.range_patch_id == identity.patch_id else None


def assess(match: Match, found: FoundReceipt, identity: ChangeIdentity, required: Requirements) -> CommitStatus:
    """What one receipt, which is about the change by `match`, says of it."""
    receipt = found.receipt
    if found.problem or receipt is None:
        return CommitStatus("forged", found.problem, match, found)
    status, why = _worth(found, receipt, identity, required)
    return CommitStatus(status, why, match, found)


def decide(statuses: Sequence[CommitStatus]) -> CommitStatus | None:
    """The status that counts, of all that receipts say: of complete verdicts the closest match, then the newest.

    Without a complete verdict: a forged receipt, or else the closest. A forged receipt beside a complete verdict is
    named in a note, and so is a failure on the same trees: asking again until it passes (`--force`) mends nothing.
    """
    newest_first = sorted(statuses, key=lambda one: one.found.run_id if one.found else "", reverse=True)
    order = sorted(newest_first, key=lambda one: MATCHES.index(one.match) if one.match else len(MATCHES))
    whole = [one for one in order if one.status in _WHOLE]
    forged = [one for one in order if one.status == "forged"]
    if not whole:
        return next(iter(forged or order), None)
    good = whole[0].status in GOOD
    failed = [one for one in whole if good and one.status == "failed" and one.match in ("commit", "tree")]
    notes = (
        *(f"another review of the same trees failed: {one.place}" for one in failed[:MAX_FAILS]),
        *(f"ignored a forged receipt: {one.place}: {one.why}" for one in forged),
    )
    return replace(whole[0], notes=(*whole[0].notes, *notes))


def _worth(
    found: FoundReceipt, receipt: Receipt, identity: ChangeIdentity, required: Requirements
) -> tuple[Status, str]:
    if receipt.head_commit == identity.commit and receipt.after != identity.after:
        return "forged", "the receipt names this commit with another tree"
    if found.signature.state in ("bad", "unlisted"):
        return "forged", found.signature.why
    if outdated := required.outdated(receipt):
        return "stale", outdated
    if absent := [name for name in required.rubrics if name not in {rubric.id for rubric in receipt.rubrics}]:
        return "incomplete", f"not reviewed against {', '.join(absent)}"
    if receipt.outcome == "fail":
        return "failed", "the review failed"
    if receipt.exit_code == 4:
        return "approval", "it changes the gate, and nobody approved that"
    if receipt.exit_code != 0:
        return "inconclusive", f"the review reached no verdict (exit code {receipt.exit_code})"
    if required.judge_for(receipt) and receipt.unasked:
        hint = f"; but {required.hints[0]}" if required.hints else ""
        return "incomplete", f"no judge was asked: {receipt.unasked}{hint}"
    return _passed(found, receipt, identity, required)


def _passed(
    found: FoundReceipt, receipt: Receipt, identity: ChangeIdentity, required: Requirements
) -> tuple[Status, str]:
    signature = found.signature
    weakness = _weakness(signature, receipt, identity, required)
    if required.strict and weakness:
        own = signature.state == "listed" and own_signer(signature, identity.authors)
        return ("forged" if own else "unsigned"), weakness
    if not found.bundled and signature.state != "listed":
        return "unsigned", f"from a git note: {weakness}"
    for waiver in receipt.waivers:
        if waiver.expires is not None and waiver.expires < required.today:
            return "failed", f"what allowed it to pass expired on {waiver.expires}: {waiver.reason}"
    if local := [waiver.sentence for waiver in receipt.waivers if waiver.local]:
        return "overridden", "; ".join(local)
    why = f"{weakness} (CI ignores it)" if weakness else f"signed by {', '.join(signature.principals)}"
    advised = ", ".join(name for claim in receipt.rubrics for _, name in claim.advice)
    told = f"; would have blocked: {advised}" if advised else ""
    return "reviewed", why + ("; no judge asked" if receipt.unasked else "") + told


_NOT_LISTED: dict[SignatureState, str] = {
    "unsigned": "unsigned",
    "valid": "signed, but there is no allowed_signers file",
    "unchecked": "its signature could not be checked",
}


def _weakness(signature: SignatureCheck, receipt: Receipt, identity: ChangeIdentity, required: Requirements) -> str:
    """Why CI must not rely on a pass, as a clause; "" if it may: a listed signer who is not the author signed it.

    A pass by an override is one person's word, and answers from a cache may have been written there by anybody.
    """
    if signature.state != "listed":
        return _NOT_LISTED[signature.state]
    if author := own_signer(signature, identity.authors):
        return f"its signer, {', '.join(signature.principals)}, may be its author, {author}"
    if any(waiver.local for waiver in receipt.waivers):
        return "passed by an override"
    if blocking := [name for claim in receipt.rubrics for name in claim.advice if name not in required.advising]:
        return f"{blocking[0][1]} failed and only advised there; here it blocks"
    judge = required.judge_for(receipt)
    if judge and receipt.unasked:
        return f"no judge was asked: {receipt.unasked}"
    return "judge answers came from a cache, not from this run" if judge and receipt.cache.hits else ""


def own_signer(signature: SignatureCheck, authors: Sequence[str]) -> str:
    """The author who may hold the key: whose address matches a name or pattern (`*`, `?`) of a holder; or ""."""
    holders = tuple(_flat(name) for name in (*signature.principals, *signature.holders))
    return next((author for author in authors if paths.matches(_flat(author), holders)), "")


def _flat(text: str) -> str:
    # Without case, and as one segment: in an address `/` means nothing, and `[bot]` is no set of letters.
    return text.strip().casefold().replace("/", "\\").replace("[", "(")
