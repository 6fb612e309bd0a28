"""What judges answered about a change, or why none was asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.checks import CheckResults
from vibe_gate.context.facts import Facts
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.cause import Cause, CheckFails, NoQuestion
from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.summary import CacheUse, Cost
from vibe_gate.domain.verdict import CheckedEvidence
from vibe_gate.judging.decide import all_findings_waived
from vibe_gate.judging.findings import name_findings, order_findings

if TYPE_CHECKING:
    from vibe_gate.judging.cast_vote import RubricVotes


class Answers(Struct, frozen=True):
    """What the judges answered, or why none was asked: then nothing of theirs has been loaded."""

    by_rubric: Mapping[str, tuple[RubricVotes, ...]] = MappingProxyType({})
    """By rubric id, the votes on each question that was asked about it."""

    cost: Cost = Cost()

    cached: frozenset[str] = frozenset()
    """Of these rubrics, those with a question that an earlier run answered, wholly or in part."""

    asked: frozenset[str] = frozenset()
    """Of these rubrics, those with a question that this run answered."""

    notes: tuple[str, ...] = ()
    """Sentences for people."""

    unasked: Cause | None = None
    """Why no judge was asked; None if one was."""

    chosen: bool = False
    """Whether this is what the user wanted."""

    intact: bool = True
    """Whether the exported trees are still what they were."""

    keys: Mapping[str, str] = MappingProxyType({})
    """By rubric id, the key of its question, as far as a receipt may name it; {} if the answers are
    not kept.
    """

    reused: Mapping[str, float] = MappingProxyType({})
    """By rubric id, the score of a pass that was taken from a receipt: `unasked` then says
    whose.
    """

    @property
    def answered_now(self) -> list[str]:
        """The rubrics that were asked in this run, wholly, and answered for good."""
        rubric_ids = []
        for rubric_id in self.asked - self.cached:
            if all(votes.is_final for votes in self.by_rubric[rubric_id]):
                rubric_ids.append(rubric_id)
        return rubric_ids

    @property
    def questions(self) -> dict[str, str]:
        """By rubric that was answered for good in this run, the key that the receipt names."""
        return {
            rubric_id: self.keys[rubric_id]
            for rubric_id in self.answered_now
            if rubric_id in self.keys
        }

    @property
    def addressed(self) -> list[CheckedEvidence]:
        """The lines of the change that speak to the reviewer, as judges say, each once."""
        lines: dict[CheckedEvidence, None] = {}
        for question_votes in self.by_rubric.values():
            for votes in question_votes:
                lines |= dict.fromkeys(votes.addressed)
        return list(lines)

    @property
    def cache(self) -> CacheUse:
        """Criteria that an earlier run answered, in part or all, and criteria about which something
        was asked.
        """
        return CacheUse(
            hits=sum(self._criteria_of(rubric_id) for rubric_id in self.cached),
            misses=sum(self._criteria_of(rubric_id) for rubric_id in self.asked),
        )

    def _criteria_of(self, rubric_id: str) -> int:
        """How many criteria of the rubric were asked about."""
        return max(len(votes.by_criterion) for votes in self.by_rubric[rubric_id])


def without_asking(
    request: ReviewRequest, facts: Facts, checks: CheckResults, waivers: Waivers
) -> Answers | None:
    """Why no judge is asked: nothing to ask, not wanted, or the outcome is known. None: ask."""
    if not facts.rubrics_with_judge:
        has_questions = any(rubric.judge_criteria for rubric in facts.rubrics)
        return Answers(unasked=NoQuestion(is_any=has_questions), chosen=True)
    cause = request.unasked_by_rule(facts.gate, by_agent=facts.authored.decision)
    if cause:
        return Answers(unasked=cause, chosen=True)
    failed_check = blocking_check(checks, waivers)
    if failed_check is not None and (request.judge != "always" or _adds_secrets(facts, checks)):
        # Nothing a judge says can turn this into a pass, and a secret must not travel to a model.
        return Answers(unasked=CheckFails(check=failed_check))
    cause = None if request.force else request.mode.unasked_as_reviewed()
    if cause is None:
        return None
    return Answers(unasked=cause, chosen=True)


def blocking_check(checks: CheckResults, waivers: Waivers) -> str | None:
    """The first `must` check that fails and that nobody lets pass: then no judge has to be
    asked.
    """
    findings = name_findings(order_findings(checks.findings), checks.raised_by)
    for (rubric_id, criterion_id), result in checks.results.items():
        if not result.must or result.outcome != "fail":
            continue
        if not all_findings_waived(rubric_id, criterion_id, findings, waivers):
            return criterion_id
    return None


def _adds_secrets(facts: Facts, checks: CheckResults) -> bool:
    """Whether a check for secrets fails."""
    for rubric in facts.rubrics:
        for criterion in rubric.criterion:
            if criterion.check != "no-secrets":
                continue
            if checks.results[rubric.id, criterion.id].outcome == "fail":
                return True
    return False
