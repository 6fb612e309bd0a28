"""Verdicts reached elsewhere: a signed pass is taken over instead of asking again.

Only for exactly the same question (before and after trees, rubric, prompt template,
model, tool policy, versions), only of a signer who is listed at the trusted revision
and wrote none of the commits, and never by an override. Loaded where it is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from vibe_gate.domain.commit_status import Demands, Paper, Subject, judged, match, subject_of
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.receipt import Receipt
from vibe_gate.domain.rubric import Rubric
from vibe_gate.judging.assemble import JudgeResult
from vibe_gate.judging.judge import JudgeContext
from vibe_gate.receipts.find import Shelf, definitions_of, signers


@dataclass(frozen=True, slots=True)
class Vouched:
    """A pass of somebody else: whose, when, in which run, where its receipt lies, and the scores by rubric id."""

    signer: str
    created_at: str
    run_id: str
    place: str
    scores: Mapping[str, float]

    @property
    def sentence(self) -> str:
        """For people, and as the reason of every criterion that nobody was asked about again."""
        return f"not asked again: the verdict of {self.signer} at {self.created_at} is reused (run {self.run_id})"


def reused(
    context: JudgeContext, gate: Gate, rubrics: tuple[Rubric, ...], request: ReviewRequest
) -> JudgeResult | None:
    """What `vouched` found, as the judges' part of a verdict; None: ask."""
    found = vouched(context, gate, rubrics, request)
    if found is None:
        return None
    note = f"{found.sentence[0].upper()}{found.sentence[1:]}, from {found.place}."
    return JudgeResult(notes=(note,), silence=found.sentence, chosen=True, reused=found.scores)


def vouched(context: JudgeContext, gate: Gate, rubrics: tuple[Rubric, ...], request: ReviewRequest) -> Vouched | None:
    """The newest receipt that answers everything that would be asked of `rubrics`, or None.

    Looked for in bundles and in git notes. None for a change that is not committed, for then nobody can say who
    wrote it, and where the gate comes with the change.
    """
    change, repository, run = context.change, context.repository, context.run
    if not change.head_commit or gate.origin == "bootstrap":
        return None
    listed = signers(repository, change, run.environ, base=request.base, definitions=request.definitions)
    if listed[0] is None:
        return None
    asked = [rubric for rubric in rubrics if rubric.judged]
    wanted, trees = context.keys(asked), (change.before, change.after)

    def is_wanted(about: str, receipt: Receipt | None) -> bool:
        return receipt is not None and (receipt.before, receipt.after) == trees and _answers(receipt, wanted)

    shelf = Shelf(repository, run.environ, run.clock(), listed)
    claims = [*shelf.bundled(lambda entry: (entry.before, entry.after) == trees), *shelf.noted(is_wanted)]
    subject = subject_of(change, repository.commits(change))
    demands = _demands(gate, rubrics, run.clock())
    found = [claim.paper for claim in claims if _holds(claim.paper, subject, demands, wanted)]
    newest = max(found, key=lambda paper: paper.receipt.created_at if paper.receipt else "", default=None)
    return None if newest is None else _of(newest, asked)


def _holds(paper: Paper, subject: Subject, demands: Demands, wanted: Mapping[str, str]) -> bool:
    receipt = paper.receipt
    if receipt is None or paper.signature.state != "listed" or not _answers(receipt, wanted):
        return False
    by = match(subject, receipt)
    return by in ("commit", "tree") and judged(by, paper, subject, demands).status == "reviewed"


def _answers(receipt: Receipt, wanted: Mapping[str, str]) -> bool:
    return all(receipt.questions.get(rubric) == key for rubric, key in wanted.items())


def _demands(gate: Gate, rubrics: tuple[Rubric, ...], now: datetime) -> Demands:
    return Demands(
        rubrics={rubric.id: rubric.digest for rubric in rubrics},
        definitions=definitions_of(gate),
        today=now.date(),
        judge="always",
        strict=True,
    )


def _of(paper: Paper, rubrics: list[Rubric]) -> Vouched:
    receipt = paper.receipt
    assert receipt is not None  # `_holds` saw it
    asked = {rubric.id for rubric in rubrics}
    scores = {claim.id: claim.score for claim in receipt.rubrics if claim.id in asked}
    signer = ", ".join(paper.signature.principals)
    return Vouched(signer, receipt.created_at, receipt.run_id, paper.place, scores)
