"""Reuse a verdict reached elsewhere: a signed pass counts instead of asking again.

Only for exactly the same question (before and after trees, rubric, prompt template, model, tool policy, versions),
only of a signer who is listed at the trusted revision and wrote none of the commits, and never by an override.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vibe_gate.domain.commit_status import ChangeIdentity, FoundReceipt, Requirements, assess, identity_of, match_of
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.receipt import Receipt
from vibe_gate.domain.rubric import Rubric
from vibe_gate.judging.assemble import JudgeResult
from vibe_gate.judging.judge import JudgeContext
from vibe_gate.receipts.find import ReceiptFinder, allowed_signers


@dataclass(frozen=True, slots=True)
class ReusedVerdict:
    """A pass that somebody else signed: who, when, in which run, where the receipt is, and the scores by rubric id."""

    signer: str
    created_at: str
    run_id: str
    place: str
    scores: Mapping[str, float]

    @property
    def sentence(self) -> str:
        """For people, and as the reason of every criterion that is not asked about again."""
        return f"not asked again: the verdict of {self.signer} at {self.created_at} is reused (run {self.run_id})"


def reused(
    context: JudgeContext, gate: Gate, rubrics: tuple[Rubric, ...], request: ReviewRequest
) -> JudgeResult | None:
    """What `reusable_verdict` found, as the judges' part of a verdict; None: ask."""
    found = reusable_verdict(context, gate, rubrics, request)
    if found is None:
        return None
    note = f"{found.sentence[0].upper()}{found.sentence[1:]}, from {found.place}."
    return JudgeResult(notes=(note,), silence=found.sentence, chosen=True, reused=found.scores)


def reusable_verdict(
    context: JudgeContext, gate: Gate, rubrics: tuple[Rubric, ...], request: ReviewRequest
) -> ReusedVerdict | None:
    """The newest receipt in bundles and git notes that answers everything `rubrics` would ask, or None.

    None for a change that is not committed, since its authors are unknown, and if the gate comes with the change.
    """
    change, repository, run = context.change, context.repository, context.run
    if not change.head_commit or gate.origin == "bootstrap":
        return None
    allowed = allowed_signers(
        repository, change, run.environ, base=request.base, definitions=request.definitions
    )  # fmt: skip
    if allowed.content is None:
        return None
    asked = [rubric for rubric in rubrics if rubric.judged]
    wanted, ids = context.keys(asked), {f"{change.before}..{change.after}"}
    finder = ReceiptFinder(repository, run.environ, run.clock(), allowed)
    candidates = finder.bundled(ids) + finder.noted(ids, lambda receipt: _answers(receipt, wanted))
    identity = identity_of(change, repository.commits(change))
    required = Requirements.of(gate, rubrics, run.clock().date(), judge="always", strict=True)
    found = [one for one in candidates if _counts(one, identity, required, wanted)]
    newest = max(found, key=lambda one: one.receipt.created_at if one.receipt else "", default=None)
    return None if newest is None else _reused(newest, asked)


def _counts(found: FoundReceipt, identity: ChangeIdentity, required: Requirements, wanted: Mapping[str, str]) -> bool:
    receipt = found.receipt
    if receipt is None or found.signature.state != "listed" or not _answers(receipt, wanted):
        return False
    match = match_of(identity, receipt)
    return match in ("commit", "tree") and assess(match, found, identity, required).status == "reviewed"


def _answers(receipt: Receipt, wanted: Mapping[str, str]) -> bool:
    return all(receipt.questions.get(rubric) == key for rubric, key in wanted.items())


def _reused(found: FoundReceipt, rubrics: list[Rubric]) -> ReusedVerdict:
    receipt = found.receipt
    assert receipt is not None  # `_counts` saw it
    asked = {rubric.id for rubric in rubrics}
    scores = {claim.id: claim.score for claim in receipt.rubrics if claim.id in asked}
    signer = ", ".join(found.signature.principals)
    return ReusedVerdict(signer, receipt.created_at, receipt.run_id, found.place, scores)
