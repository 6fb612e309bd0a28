"""Reuse a verdict reached elsewhere: a signed pass counts instead of asking again.

Only for the same question (before and after trees, rubric, prompt template, model, tool policy,
this program's version), only of a signer who is listed at the trusted revision and wrote none of
the commits, and never by an override. The signer's SDK may be another version than ours: a
checks-only installation has none.
"""

from __future__ import annotations

from vibe_gate.context.facts import Facts
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.cause import VerdictReused
from vibe_gate.domain.receipt import Receipt
from vibe_gate.git import Repository
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.questions import keys_by_rubric, questions_of
from vibe_gate.receipts.commit_status import (
    ChangeIdentity,
    FoundReceipt,
    Requirements,
    assess_receipt,
    identity_of,
    match_of,
)
from vibe_gate.receipts.find_receipts import ReceiptFinder, read_allowed_signers


def reuse_answers(
    request: ReviewRequest, facts: Facts, repository: Repository, run: RunContext
) -> Answers | None:
    """The judges' part of a verdict from the newest receipt that answers everything that would be
    asked; None: ask.

    None for a change that is not committed, since its authors are unknown, and if the gate comes
    with the change.
    """
    change, gate = facts.change, facts.gate
    if not change.head_commit or gate.origin == "bootstrap":
        return None
    allowed = read_allowed_signers(
        repository, change, base=request.base, definitions=request.definitions
    )
    if allowed.content is None:
        return None
    model = gate.default_model(run.environment)
    finder = ReceiptFinder(repository, run.clock(), allowed)
    candidates = _find_answering(finder, facts, model)
    identity = identity_of(change, repository.commits(change))
    # No criterion may have advised there: the receipt has no finding of it that could be shown.
    required = Requirements.of(gate, facts.rubrics, run.clock().date(), judge="always", strict=True)
    usable = [pair for pair in candidates if _is_usable(*pair, identity, required)]
    if not usable:
        return None
    receipt, newest = max(usable, key=lambda pair: pair[0].created_at)
    return _answers_of(receipt, newest, facts)


def _find_answering(
    finder: ReceiptFinder, facts: Facts, model: str
) -> list[tuple[Receipt, FoundReceipt]]:
    """The receipts about the change's two trees that answer everything that would be asked."""
    ids = {f"{facts.change.before}..{facts.change.after}"}
    candidates = finder.bundled(ids)
    candidates += finder.noted(ids, lambda receipt: _answers_all(receipt, facts, model))
    answering = []
    for candidate in candidates:
        receipt = candidate.receipt
        if receipt is not None and _answers_all(receipt, facts, model):
            answering.append((receipt, candidate))
    return answering


def _is_usable(
    receipt: Receipt, candidate: FoundReceipt, identity: ChangeIdentity, required: Requirements
) -> bool:
    """Whether it is a pass of these very trees that the gate accepts."""
    match = match_of(identity, receipt)
    if match not in ("commit", "tree"):
        return False
    return assess_receipt(match, candidate, identity, required).status == "reviewed"


def _answers_of(receipt: Receipt, candidate: FoundReceipt, facts: Facts) -> Answers:
    """The answers that take the verdict over."""
    signer = ", ".join(candidate.signature.principals)
    cause = VerdictReused(signer=signer, created_at=receipt.created_at, run=receipt.run_id)
    judged_rubrics = {rubric.id for rubric in facts.rubrics_with_judge}
    scores = {claim.id: claim.score for claim in receipt.rubrics if claim.id in judged_rubrics}
    note = f"N{cause.sentence[1:]}, from {candidate.place}."
    return Answers(notes=(note,), unasked=cause, chosen=True, reused=scores)


def _answers_all(receipt: Receipt, facts: Facts, model: str) -> bool:
    """Whether the receipt has an answer to every question that would be asked."""
    questions = questions_of(facts, model, receipt.versions.get("claude-agent-sdk"))
    keys = keys_by_rubric(questions)
    return all(receipt.questions.get(rubric) == key for rubric, key in keys.items())
