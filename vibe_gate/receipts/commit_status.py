"""The status of a commit: which receipt is about it, by which match, and what that receipt is
worth. Pure.

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
from vibe_gate.domain.agent_hint import AgentHint
from vibe_gate.domain.gate import POLICY, Gate, JudgeWhen
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
    "reviewed",
    "overridden",
    "empty",
    "failed",
    "inconclusive",
    "approval",
    "stale",
    "incomplete",
    "unsigned",
    "missing",
    "bypassed",
    "forged",
]
"""`approval`: it changes the gate and nobody approved that; `incomplete`: less was asked than the
gate requires; `unsigned`: a pass that only its author's machine vouches for, where more is
required; `empty`: no file changed.
"""

GOOD: frozenset[Status] = frozenset({"reviewed", "overridden", "empty"})

SHORT_ID = 12
"""Digits of a commit's id in a command."""

MAX_FAILS = 5
"""Earlier failures of one commit that notes name."""

_WHOLE: frozenset[Status] = frozenset(
    {"reviewed", "overridden", "failed", "inconclusive", "approval"}
)
"""Statuses that only a complete and current verdict has."""

_CLEARED_BY_REVIEW: frozenset[Status] = frozenset(
    {"stale", "incomplete", "inconclusive", "approval"}
)
"""Statuses that another review clears; a change of the gate only once it was approved."""

UNSIGNED = SignatureCheck("unsigned", why="unsigned")

_DEFINITIONS = (".vibe-gate/gate.toml", ".vibe-gate/suppressions.toml")
"""They bear on every verdict; rubrics have digests of their own."""

_BUILT_IN_DEFINITIONS = ("built-in/gate.toml",)


class ChangeIdentity(Struct, frozen=True):
    """A change as far as a receipt can be about it."""

    commit: str

    before: str
    """A tree."""

    after: str
    """A tree."""

    patch_id: str

    exact: str = ""
    """As of a receipt; "" if it is not known: then no patch-id matches."""

    authors: tuple[str, ...] = ()
    """The addresses of authors and committers."""

    title: str = ""
    """Of the commit's message."""
    parent: str = ""
    """The parent of a merge that `before` is the tree of; "" if that is the first one."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Under which a receipt about the change can be found."""
        return object_ids(self.commit, self.before, self.after, self.patch_id)

    def is_same_change(self, receipt: Receipt) -> bool:
        """Whether the receipt is about this very change, at this very place, perhaps in other
        trees.
        """
        return bool(self.exact) and receipt.exact == self.exact

    def review_command(self, options: Sequence[str] = ()) -> str:
        """The command that reviews the change."""
        commit = self.commit[:SHORT_ID]
        words = ["--commit", commit]
        if self.parent:
            words = [f"{self.parent[:SHORT_ID]}..{commit}"]
        return " ".join(["vibe-gate review", *words, *options])


def identity_of(change: Change, commits: Iterable[Commit]) -> ChangeIdentity:
    """The identity of a change that these commits made, as far as trees or a commit match it."""
    return ChangeIdentity(
        commit=change.head_commit,
        before=change.before,
        after=change.after,
        patch_id=change.patch_id,
        authors=author_addresses(commits),
    )


def author_addresses(commits: Iterable[Commit]) -> tuple[str, ...]:
    """The addresses of the authors and committers."""
    addresses: dict[str, None] = {}
    for commit in commits:
        addresses[commit.author_email] = None
        addresses[commit.committer_email] = None
    return tuple(addresses)


def object_ids(commit: str, before: str, after: str, *patch_ids: str) -> tuple[str, ...]:
    """The texts by which receipts and changes find each other: a commit, a tree, two trees,
    patch-ids.
    """
    ids = [commit]
    if after:
        ids += [f"tree-{after}", f"{before}..{after}"]
    ids += patch_ids
    return tuple(dict.fromkeys(id for id in ids if id))


def ids_of(subject: Change | Receipt | RunEntry) -> tuple[str, ...]:
    """What a change, a receipt or a run is about."""
    patch_ids = (subject.patch_id, subject.range_patch_id)
    return object_ids(subject.head_commit, subject.before, subject.after, *patch_ids)


class FoundReceipt(Struct, frozen=True):
    """A receipt found in a bundle or a git note."""

    run_id: str
    place: str
    """The bundle, or the note and its object."""
    receipt: Receipt | None
    """None if there is none that can be read."""
    signature: SignatureCheck = UNSIGNED
    problem: str = ""
    """Why it is forged; "" if nothing speaks against it."""
    bundled: bool = True
    """Whether it is in a bundle of this repository and agrees with it; otherwise it came by a
    note.
    """
    attached_to: tuple[str, ...] = ()
    """What the entry or object is about (`object_ids`) that it was attached to, if its content does
    not say that reliably.
    """
    worktree: str = ""
    """The other working tree whose store has it, relative to this one; "" if it is in this one's,
    or in a note.
    """

    @property
    def ids(self) -> tuple[str, ...]:
        """What it is about (`object_ids`)."""
        if self.attached_to or self.receipt is None:
            return self.attached_to
        return ids_of(self.receipt)


class Requirements(Struct, frozen=True):
    """What the gate requires of a change today."""

    rubrics: Mapping[str, str]
    """Digests of rubrics by id."""
    definitions: Mapping[str, str]
    """Digests of definitions by path; "" if there is no such file."""
    today: date
    judge: JudgeWhen = "agent-authored"
    """When a judge must be asked."""
    hints: tuple[AgentHint, ...] = ()
    """Signs that an agent wrote the change."""
    strict: bool = False
    """Whether, as in CI, only a listed signer who is not the author counts."""
    advising: frozenset[tuple[str, str]] = frozenset()
    """Criteria, by ids of rubric and criterion, whose fail does not block here either."""
    review_options: tuple[str, ...] = ()
    """The options by which `vibe-gate review` reads the same gate."""

    @classmethod
    def of(
        cls,
        gate: Gate,
        rubrics: Sequence[Rubric],
        today: date,
        *,
        judge: JudgeWhen,
        strict: bool = False,
        advising: frozenset[tuple[str, str]] = frozenset(),
    ) -> Requirements:
        """What `gate` requires with these rubrics; `judge` says when one must be asked."""
        digests = dict(gate.digests)
        watched: tuple[str, ...] = _DEFINITIONS
        if gate.origin == "built-in":
            watched = _BUILT_IN_DEFINITIONS
        return cls(
            rubrics={rubric.id: rubric.digest for rubric in rubrics},
            definitions={path: digests.get(path, "") for path in watched},
            today=today,
            judge=judge,
            strict=strict,
            advising=advising,
        )

    def judge_for(self, receipt: Receipt) -> bool:
        """Whether a judge must have been asked; a hint recorded at the review counts like one of
        today.
        """
        if self.judge != "agent-authored":
            return self.judge == "always"
        return bool(self.hints) or receipt.agent_authored

    def missing_rubrics(self, receipt: Receipt) -> list[str]:
        """The ids of rubrics that the gate requires, and the review did not have."""
        reviewed_rubrics = {rubric.id for rubric in receipt.rubrics}
        return [rubric for rubric in self.rubrics if rubric not in reviewed_rubrics]

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
    """The status of a commit, by which match of which receipt."""

    status: Status
    why: str
    """A clause for people."""
    match: Match | None = None
    found: FoundReceipt | None = None
    notes: tuple[str, ...] = ()
    segment: str = ""
    """The commits (A..B) that were reviewed as a whole with this one; "" if it was reviewed by
    itself.
    """
    commands: tuple[str, ...] = ()
    """What a person runs to clear it, in this order; () if no command does."""

    @property
    def place(self) -> str:
        """The bundle or note of the receipt, or ""."""
        return self.found.place if self.found else ""


def match_of(identity: ChangeIdentity, receipt: Receipt) -> Match | None:
    """How the receipt is about the change; None if it is not."""
    same_trees = (receipt.before, receipt.after) == (identity.before, identity.after)
    names_it = receipt.head_commit == identity.commit
    if names_it and (same_trees or receipt.after != identity.after):
        return "commit"  # with another tree: that is false, and `assess_receipt` says so
    if same_trees:
        return "tree"
    if not identity.patch_id or not identity.is_same_change(receipt):
        return None
    if receipt.patch_id == identity.patch_id:
        return "patch-id"
    if receipt.range_patch_id == identity.patch_id:
        return "range patch-id"
    return None


def assess_receipt(
    match: Match, candidate: FoundReceipt, identity: ChangeIdentity, required: Requirements
) -> CommitStatus:
    """What one receipt, which is about the change by `match`, says of it."""
    receipt = candidate.receipt
    if candidate.problem or receipt is None:
        return CommitStatus("forged", candidate.problem, match, candidate)
    status, reason = _weigh(candidate, receipt, identity, required)
    commands: tuple[str, ...] = ()
    if status in _CLEARED_BY_REVIEW:
        commands = (identity.review_command(required.review_options),)
    if status == "approval" and match != "range patch-id" and candidate.bundled and receipt.policy:
        approval = f"vibe-gate override {POLICY}{receipt.policy} --reason TEXT"
        commands = (approval, *commands)
    return CommitStatus(status, reason, match, candidate, commands=commands)


def decide_commit(statuses: Sequence[CommitStatus]) -> CommitStatus | None:
    """The status that counts, of all that receipts say: of complete verdicts the closest match,
    then the newest.

    Without a complete verdict: a forged receipt, or else the closest. A forged receipt beside a
    complete verdict is named in a note, and so is a failure on the same trees: asking again until
    it passes (`--force`) mends nothing.
    """
    newest_first = sorted(statuses, key=_run_id, reverse=True)
    closest_first = sorted(newest_first, key=_distance)
    forged = [status for status in closest_first if status.status == "forged"]
    complete = [status for status in closest_first if status.status in _WHOLE]
    if not complete:
        return next(iter(forged or closest_first), None)
    deciding = complete[0]
    notes = list(deciding.notes)
    if deciding.status in GOOD:
        failures = [status for status in complete if _is_failure_of_same_trees(status)]
        for failure in failures[:MAX_FAILS]:
            notes.append(f"another review of the same trees failed: {failure.place}")
    for status in forged:
        notes.append(f"ignored a forged receipt: {status.place}: {status.why}")
    return replace(deciding, notes=tuple(notes))


def _run_id(status: CommitStatus) -> str:
    return status.found.run_id if status.found else ""


def _distance(status: CommitStatus) -> int:
    """How far the receipt's change is from the commit: 0 for the closest match."""
    if status.match:
        return MATCHES.index(status.match)
    return len(MATCHES)


def _is_failure_of_same_trees(status: CommitStatus) -> bool:
    return status.status == "failed" and status.match in ("commit", "tree")


def _weigh(
    candidate: FoundReceipt, receipt: Receipt, identity: ChangeIdentity, required: Requirements
) -> tuple[Status, str]:
    if receipt.head_commit == identity.commit and receipt.after != identity.after:
        return "forged", "the receipt names this commit with another tree"
    if candidate.signature.state in ("bad", "unlisted"):
        return "forged", candidate.signature.why
    outdated = required.outdated(receipt)
    if outdated:
        return "stale", outdated
    reviewed_rubrics = {rubric.id for rubric in receipt.rubrics}
    missing_rubrics = [name for name in required.rubrics if name not in reviewed_rubrics]
    if missing_rubrics:
        return "incomplete", f"not reviewed against {', '.join(missing_rubrics)}"
    if receipt.outcome == "fail":
        return "failed", "the review failed"
    if receipt.exit_code == 4:
        return "approval", "it changes the gate, and nobody approved that"
    if receipt.exit_code != 0:
        return "inconclusive", _no_verdict(receipt)
    if required.judge_for(receipt) and receipt.unasked:
        hint = f"; but {required.hints[0].sentence}" if required.hints else ""
        return "incomplete", f"no judge was asked: {receipt.unasked}{hint}"
    return _weigh_pass(candidate, receipt, identity, required)


def _no_verdict(receipt: Receipt) -> str:
    """That a review reached no verdict, and why if that is because no judge was asked."""
    reason = f"exit code {receipt.exit_code}"
    if receipt.unasked:
        reason += f"; judge questions {receipt.unasked}"
    return f"the review reached no verdict ({reason})"


def _weigh_pass(
    candidate: FoundReceipt, receipt: Receipt, identity: ChangeIdentity, required: Requirements
) -> tuple[Status, str]:
    """What a receipt is worth whose review passed."""
    signature = candidate.signature
    weakness = _weakness(signature, receipt, identity, required)
    if required.strict and weakness:
        is_by_author = signature.state == "listed" and own_signer(signature, identity.authors)
        return ("forged" if is_by_author else "unsigned"), weakness
    if not candidate.bundled and signature.state != "listed":
        return "unsigned", f"from a git note: {weakness}"
    for waiver in receipt.waivers:
        if waiver.expires is not None and waiver.expires < required.today:
            return "failed", f"what allowed it to pass expired on {waiver.expires}: {waiver.reason}"
    overrides = [waiver.sentence for waiver in receipt.waivers if waiver.local]
    if overrides:
        return "overridden", "; ".join(overrides)
    return "reviewed", "; ".join(_clauses_of_pass(signature, weakness, receipt))


def _clauses_of_pass(signature: SignatureCheck, weakness: str, receipt: Receipt) -> list[str]:
    """What people must know of a pass that counts."""
    clauses = [f"signed by {', '.join(signature.principals)}"]
    if weakness:
        clauses = [f"{weakness} (CI ignores it)"]
    if receipt.unasked:
        clauses.append("no judge asked")
    advising_criteria = [criterion for _, criterion in _advice(receipt)]
    if advising_criteria:
        clauses.append(f"would have blocked: {', '.join(advising_criteria)}")
    return clauses


def _advice(receipt: Receipt) -> list[tuple[str, str]]:
    """The criteria, by ids of rubric and criterion, whose fail did not block at the review."""
    advice: list[tuple[str, str]] = []
    for claim in receipt.rubrics:
        advice += claim.advice
    return advice


_NOT_LISTED: dict[SignatureState, str] = {
    "unsigned": "unsigned",
    "valid": "signed, but there is no allowed_signers file",
    "unchecked": "its signature could not be checked",
}


def _weakness(
    signature: SignatureCheck, receipt: Receipt, identity: ChangeIdentity, required: Requirements
) -> str:
    """Why CI must not rely on a pass, as a clause; "" if it may: a listed signer who is not the
    author signed it.

    A pass by an override is one person's word, and answers from a cache may have been written there
    by anybody.
    """
    if signature.state != "listed":
        return _NOT_LISTED[signature.state]
    if author := own_signer(signature, identity.authors):
        return f"its signer, {', '.join(signature.principals)}, may be its author, {author}"
    if any(waiver.local for waiver in receipt.waivers):
        return "passed by an override"
    for criterion in _advice(receipt):
        if criterion not in required.advising:
            return f"{criterion[1]} failed and only advised there; here it blocks"
    if not required.judge_for(receipt):
        return ""
    if receipt.unasked:
        return f"no judge was asked: {receipt.unasked}"
    if receipt.cache.hits:
        return "judge answers came from a cache, not from this run"
    return ""


def own_signer(signature: SignatureCheck, authors: Sequence[str]) -> str:
    """The author who may hold the key: whose address matches a name or pattern (`*`, `?`) of a
    holder; or "".
    """
    holders = tuple(_flat(name) for name in (*signature.principals, *signature.holders))
    for author in authors:
        if paths.matches_any_glob(_flat(author), holders):
            return author
    return ""


def _flat(text: str) -> str:
    # Without case, and as one segment: in an address `/` means nothing, and `[bot]` is no set of
    # letters.
    return text.strip().casefold().replace("/", "\\").replace("[", "(")
