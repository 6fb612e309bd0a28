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
    ids = {f"{change.before}..{change.after}"}
    finder = ReceiptFinder(repository, run.clock(), allowed)
    candidates = finder.bundled(ids)
    candidates += finder.noted(ids, lambda receipt: _answers(receipt, facts, model))
    identity = identity_of(change, repository.commits(change))
    # No criterion may have advised there: the receipt has no finding of it that could be shown.
    required = Requirements.of(gate, facts.rubrics, run.clock().date(), judge="always", strict=True)
    usable: list[tuple[Receipt, FoundReceipt]] = []
    for candidate in candidates:
        receipt = candidate.receipt
        if receipt is None or not _answers(receipt, facts, model):
            continue
        match = match_of(identity, receipt)
        if match not in ("commit", "tree"):
            continue
        if assess_receipt(match, candidate, identity, required).status == "reviewed":
            usable.append((receipt, candidate))
    if not usable:
        return None
    receipt, newest = max(usable, key=lambda pair: pair[0].created_at)
    signer = ", ".join(newest.signature.principals)
    cause = VerdictReused(signer=signer, created_at=receipt.created_at, run=receipt.run_id)
    judged_rubrics = {rubric.id for rubric in facts.rubrics_with_judge}
    scores = {claim.id: claim.score for claim in receipt.rubrics if claim.id in judged_rubrics}
    note = f"N{cause.sentence[1:]}, from {newest.place}."
    return Answers(notes=(note,), silence=cause, chosen=True, reused=scores)


def _answers(receipt: Receipt, facts: Facts, model: str) -> bool:
    """Whether the receipt has an answer to every question that would be asked."""
    questions = questions_of(facts, model, receipt.versions.get("claude-agent-sdk"))
    keys = keys_by_rubric(questions)
    return all(receipt.questions.get(rubric) == key for rubric, key in keys.items())
