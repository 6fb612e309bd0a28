"""What a look at a pull request comes to: a job that a review of it starts asks no model, so it may
lack answers.
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
    LOOK_CAUSES,
    complete_by_standing_pass,
    judge_approvals_alone,
    keep_standing_outcome,
)
from vibe_gate.report import queries
from vibe_gate.run.review import Review
from vibe_gate.run.run_documents import posted_summary

NOT_WRITTEN_ANEW = "What else judges answered is not kept, so the comment is not written anew."


class Look(Struct, frozen=True):
    """What a look comes to."""

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
    """Whether a later look may take its verdict over."""


def look(done: Review, standing: Standing, forge: Forge | None) -> Look:
    """Decide what a review can change; for answers that are not here, ask for the verdict that
    stands.

    What is posted must not say pass while the job fails, nor the other way round.
    """
    result = _look(done, standing, forge)
    is_pass = result.summary.exit_code == PASS
    if result.posts or (is_pass and result.stands is None):
        return result
    posted_pass = standing.posted_pass(forge)
    if posted_pass is None or posted_pass is is_pass:
        return result
    stood = result.stands
    remark = (
        f"The verdict of run {stood.run} stands; its check run has the findings: {stood.url}"
        if stood
        else ""
    )
    return replace(result, stands=None, posts=True, is_newest=False, remark=remark or result.remark)


def _look(done: Review, standing: Standing, forge: Forge | None) -> Look:
    summary = done.summary
    is_workflow = standing.inputs.workflow != "review"
    if not is_workflow and not lacks_answers(summary):
        return Look(summary, posts=True)
    needs_approval = summary.exit_code == POLICY_CHANGED
    if not needs_approval and summary.exit_code != INCONCLUSIVE:  # whatever judges answered
        return Look(summary)
    stood = standing.find(forge)
    if isinstance(stood, str):
        is_told = is_workflow or lacks_answers(summary, AsksNoModel)
        return Look(summary, remark=stood if is_told else "")
    if stood.outcome != "pass" or stood.exit_code == INTEGRITY:
        return Look(_with_standing_outcome(summary, stood, needs_approval=needs_approval), stood)
    completed = _completed(done, stood, needs_approval=needs_approval)
    if completed.outcome != "pass":
        return Look(summary)
    if completed.exit_code == stood.exit_code:
        return Look(completed, stood)
    if stood.clean:
        return Look(completed, posts=True)
    return Look(summary, remark=NOT_WRITTEN_ANEW)


def lacks_answers(summary: Summary, *causes: type[Coded]) -> bool:
    """Whether a judge question has no answer for one of these causes: a look asks no model, its job
    has no key.
    """
    return any(
        queries.has_cause(criterion, *(causes or LOOK_CAUSES)) for criterion in summary.criteria
    )


def only_approvals(done: Review, workflow: str) -> Review:
    """A look at a verdict that is a workflow's, whose agents would ask a model: approvals of the
    gate's changes.
    """
    summary = done.summary
    if not summary.run_id:  # there is nothing to review
        return done
    is_unapproved = summary.exit_code == POLICY_CHANGED or queries.needs_approval(summary)
    is_first_gate = summary.trusted.bootstrap and not queries.gate_approver(summary)
    verdict = judge_approvals_alone(needs_approval=is_unapproved or is_first_gate)
    findings = tuple(finding for finding in summary.findings if finding.criterion == "policy")
    posted = posted_summary(summary, verdict, workflow=workflow, findings=findings, unreviewed=())
    return replace(done, summary=posted, repairs=())


def _with_standing_outcome(
    summary: Summary, stood: StandingVerdict, *, needs_approval: bool
) -> Summary:
    """The look under the outcome of a standing verdict that is no pass."""
    intact = stood.exit_code != INTEGRITY
    verdict = keep_standing_outcome(
        stood.outcome, summary.rubrics, needs_approval=needs_approval, intact=intact
    )
    return posted_summary(summary, verdict)


def _completed(done: Review, stood: StandingVerdict, *, needs_approval: bool) -> Summary:
    """The look with its missing answers as a standing pass had them."""
    summary = done.summary
    waived_ids = {
        rubric.id: queries.waived_ids(rubric, summary.findings) for rubric in summary.rubrics
    }
    verdict = complete_by_standing_pass(
        done.gate.rubrics if done.gate else (),
        summary.rubrics,
        waived_ids,
        PassedInRun(run=stood.run),
        needs_approval=needs_approval,
    )
    unreviewed = tuple(
        place for place in summary.unreviewed if not isinstance(place.cause, LOOK_CAUSES)
    )
    return posted_summary(summary, verdict, unreviewed=unreviewed)
