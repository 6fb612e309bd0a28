"""Whether a finding can be disputed: whether a second look could take it back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import UNSET

from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding, Vote
from vibe_gate.judging.defects import is_same_defect


def why_undisputable(finding: Finding, summary: Summary, rubrics: Iterable[Rubric]) -> str:
    """Why there is nothing to dispute, as a clause; "" if the finding can be disputed.

    Args:
        finding: One of the summary's.
        summary: Of a review.
        rubrics: Those of the gate.
    """
    if finding.is_refuted:
        return "a second look refuted it already"
    if finding.waiver is not UNSET:
        return "somebody let it pass already"
    if finding.level != "failure":
        return "it does not block"
    if finding.basis is UNSET:
        return "a check found it, not a judge, and the result of a check is no matter of opinion"
    if finding.proof is not UNSET and finding.proof.status == "proven":
        return "a test was run and showed it"
    votes = list(_votes_behind(finding, summary))
    if not votes:
        return "it quotes no line that a second look could be about"
    if any(vote.outranked is not UNSET for vote in votes):
        return "other parts of the change did not pass the same question"
    return _why_not_by_rubrics(finding, rubrics)


def is_open_to_dispute(finding: Finding, summary: Summary, rubrics: Iterable[Rubric]) -> bool:
    """Whether the finding can be disputed, and was not on these trees."""
    if finding.second_look is not UNSET and finding.second_look.is_disputed:
        return False
    return not why_undisputable(finding, summary, rubrics)


def _votes_behind(finding: Finding, summary: Summary) -> Iterator[Vote]:
    """The votes that name the defect of the finding."""
    for rubric in summary.rubrics:
        for result in rubric.criteria:
            if not finding.is_of(rubric.id, result.id):
                continue
            for vote in result.votes:
                if any(is_same_defect(defect, finding) for defect in vote.defects):
                    yield vote


def _why_not_by_rubrics(finding: Finding, rubrics: Iterable[Rubric]) -> str:
    """Why none of the rubrics that fail with it wants a second look; "" if one does."""
    reason = ""
    for rubric, criterion in _criteria_of(finding, rubrics):
        if rubric.second_look == "never":
            reason = f'rubric {rubric.id} takes no second look (second_look = "never")'
        elif criterion.needs:
            reason = f"the question is about a claim ({criterion.needs}), which no second look sees"
        else:
            return ""
    return reason


def _criteria_of(finding: Finding, rubrics: Iterable[Rubric]) -> Iterator[tuple[Rubric, Criterion]]:
    for rubric in rubrics:
        for criterion in rubric.criterion:
            if finding.is_of(rubric.id, criterion.id):
                yield rubric, criterion
