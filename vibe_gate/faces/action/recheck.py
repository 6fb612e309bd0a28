"""What a recheck of a pull request comes to: a job that a review of it starts asks no model, so it
may lack answers.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.cause import AsksNoModel, Coded, PassedInRun
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED
from vibe_gate.faces.action.standing import Standing, StandingVerdict
from vibe_gate.forge import Forge
from vibe_gate.judging.posted_verdict import (
    RECHECK_CAUSES,
    complete_by_standing_pass,
    judge_approvals_alone,
    keep_standing_outcome,
)
from vibe_gate.report import queries
from vibe_gate.run.review_result import Review
from vibe_gate.run.run_documents import posted_summary

NOT_WRITTEN_ANEW = "What else judges answered is not kept, so the comment is not written anew."


class Recheck(Struct, frozen=True):
    """What a recheck comes to."""

    summary: Summary
    """What the job says of the run."""

    stands: StandingVerdict | None = None
    """The verdict that stays, as nothing changed; None if there is none, or it does not."""

    posts: bool = False
    """Whether it replaces what was posted: it has every answer that it needs, or what was posted
    says something else than the job.
    """

    remark: str = ""
    """A sentence, or ""."""

    is_newest: bool = True
    """Whether a later recheck may take its verdict over."""


def decide_recheck(review: Review, standing: Standing, forge: Forge | None) -> Recheck:
    """Decide what a review of the pull request can change; for answers that are not here, ask for
    the verdict that stands.

    What is posted must not say pass while the job fails, nor the other way round.
    """
    recheck = _compare_with_standing(review, standing, forge)
    is_pass = recheck.summary.exit_code == PASS
    if recheck.posts or (is_pass and recheck.stands is None):
        return recheck
    posted_pass = standing.posted_pass(forge)
    if posted_pass is None or posted_pass is is_pass:
        return recheck
    remark = recheck.remark
    if recheck.stands:
        run, url = recheck.stands.run, recheck.stands.url
        remark = f"The verdict of run {run} stands; its check run has the findings: {url}"
    return Recheck(recheck.summary, posts=True, remark=remark, is_newest=False)


def _compare_with_standing(review: Review, standing: Standing, forge: Forge | None) -> Recheck:
    """What the recheck's own verdict comes to beside the one that stands."""
    summary = review.summary
    is_workflow = standing.inputs.workflow != "review"
    if not is_workflow and not lacks_answers(summary):
        return Recheck(summary, posts=True)
    needs_approval = summary.exit_code == POLICY_CHANGED
    if not needs_approval and summary.exit_code != INCONCLUSIVE:  # whatever judges answered
        return Recheck(summary)
    verdict = standing.find(forge)
    if isinstance(verdict, str):
        is_remark = is_workflow or lacks_answers(summary, AsksNoModel)
        return Recheck(summary, remark=verdict if is_remark else "")
    if verdict.outcome != "pass" or verdict.exit_code == INTEGRITY:
        kept_summary = _with_standing_outcome(summary, verdict, needs_approval=needs_approval)
        return Recheck(kept_summary, verdict)
    return _complete_pass(review, verdict, needs_approval=needs_approval)


def _complete_pass(review: Review, verdict: StandingVerdict, *, needs_approval: bool) -> Recheck:
    """The recheck whose missing answers are those of a standing pass."""
    completed = _with_standing_answers(review, verdict, needs_approval=needs_approval)
    if completed.outcome != "pass":
        return Recheck(review.summary)
    if completed.exit_code == verdict.exit_code:
        return Recheck(completed, verdict)
    if verdict.clean:
        return Recheck(completed, posts=True)
    return Recheck(review.summary, remark=NOT_WRITTEN_ANEW)


def lacks_answers(summary: Summary, *causes: type[Coded]) -> bool:
    """Whether a judge question has no answer for one of these causes; without any: a recheck asks
    no model, or its job has no key.
    """
    causes = causes or RECHECK_CAUSES
    return any(queries.has_cause(criterion, *causes) for criterion in summary.criteria)


def keep_approvals_alone(review: Review, workflow: str) -> Review:
    """A recheck of a workflow's verdict, whose agents would ask a model: approvals of the gate's
    changes.
    """
    summary = review.summary
    if not summary.run_id:  # there is nothing to review
        return review
    is_unapproved = summary.exit_code == POLICY_CHANGED or queries.needs_approval(summary)
    is_first_gate = summary.trusted.bootstrap and not queries.gate_approver(summary)
    verdict = judge_approvals_alone(needs_approval=is_unapproved or is_first_gate)
    findings = tuple(finding for finding in summary.findings if finding.criterion == "policy")
    posted = posted_summary(summary, verdict, workflow=workflow, findings=findings, unreviewed=())
    return replace(review, summary=posted, repairs=())


def _with_standing_outcome(
    summary: Summary, standing: StandingVerdict, *, needs_approval: bool
) -> Summary:
    """The recheck under the outcome of a standing verdict that is no pass."""
    intact = standing.exit_code != INTEGRITY
    verdict = keep_standing_outcome(
        standing.outcome, summary.rubrics, needs_approval=needs_approval, intact=intact
    )
    return posted_summary(summary, verdict)


def _with_standing_answers(
    review: Review, standing: StandingVerdict, *, needs_approval: bool
) -> Summary:
    """The recheck with its missing answers as a standing pass had them."""
    summary = review.summary
    waived_ids = {
        rubric.id: queries.waived_ids(rubric, summary.findings) for rubric in summary.rubrics
    }
    verdict = complete_by_standing_pass(
        review.gate.rubrics if review.gate else (),
        summary.rubrics,
        waived_ids,
        PassedInRun(run=standing.run),
        needs_approval=needs_approval,
    )
    unreviewed = tuple(
        place for place in summary.unreviewed if not isinstance(place.cause, RECHECK_CAUSES)
    )
    return posted_summary(summary, verdict, unreviewed=unreviewed)
