"""What a run's documents say: run.json when it begins, summary.json when it ends, notes for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vibe_gate.checks import CheckResults
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import CHANGE_IDS
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.context import ReviewSubject, RunContext
from vibe_gate.domain.gate import POLICY, Gate
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import ChangedFile, ChangeSummary, PolicyChange, Summary, Trusted, Unreviewed
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.judging.answers import JudgeResult
from vibe_gate.judging.decide import exit_code
from vibe_gate.judging.verdict import RunVerdict

WORKFLOW = "review"
"""The built-in workflow: checks, then the judge."""


def about(
    change: Change, gate: Gate, rubrics: Sequence[Rubric], versions: Mapping[str, str], more: Mapping[str, Any]
) -> dict[str, Any]:
    """What run.json says of a run before anything is asked; `versions` by program, `more` of a workflow's run."""
    return {
        "workflow": WORKFLOW,
        "mode": "auto",
        "prompt": f"review: {change.kind}",
        "isolation": "none",
        **more,
        "budgets": gate.file.budget.model_dump(),
        "change": of_change(change).model_dump(exclude={"files"}) | {"kind": change.kind},
        "trusted": {"revision": gate.revision, "origin": gate.origin},
        "definitions": dict(gate.digests),
        "rubrics": {rubric.id: rubric.digest for rubric in rubrics},
        "questions": {f"{rubric.id}/{asked.id}": asked.question for rubric in rubrics for asked in rubric.judged},
        "versions": dict(versions),
    }


def nothing(change: Change) -> Summary:
    """The summary of a review with nothing to do: no run, no bundle, exit 0."""
    return Summary(
        run_id="",
        key=change.key,
        workflow=WORKFLOW,
        outcome="pass",
        exit_code=0,
        bundle="",
        trusted=Trusted(revision="", bootstrap=False),
        change=of_change(change),
    )


def summarize(
    subject: ReviewSubject,
    run: RunContext,
    answers: JudgeResult,
    verdict: RunVerdict,
    policy_changes: tuple[PolicyChange, ...],
) -> Summary:
    """The run's summary, as it is sealed."""
    about = of_workflow(WORKFLOW, subject, run, subject.change, verdict.outcome)
    return about.model_copy(
        update={
            "exit_code": verdict.exit_code,
            "rubrics": verdict.rubrics,
            "findings": verdict.findings,
            "policy_changes": policy_changes,
            "unreviewed": unreviewed(subject.change, subject.rubrics, answers),
            "cost": answers.cost,
            "cache": answers.cache,
        }
    )


def of_workflow(workflow: str, subject: ReviewSubject, run: RunContext, change: Change, outcome: RunOutcome) -> Summary:
    """The summary of a run before what its gates answered and cost is added."""
    gate = subject.gate
    return Summary(
        run_id=run.record.run_id,
        key=subject.change.key,
        workflow=workflow,
        outcome=outcome,
        exit_code=exit_code(outcome, policy_blocks=False, intact=True),
        bundle=run.record.relative,
        trusted=Trusted(revision=gate.revision, bootstrap=gate.origin == "bootstrap", branch=gate.branch),
        change=of_change(change),
        agent_authored=subject.authored,
        duration_ms=round(run.deadline.elapsed() * 1000),
    )


def unreviewed(change: Change, rubrics: Sequence[Rubric], answers: JudgeResult) -> tuple[Unreviewed, ...]:
    """Everything that judges were not shown, with the reason: silence about it would look like approval."""
    if answers.silence:
        return _whole(change.files, answers.silence)
    criteria = [criterion for rubric in rubrics for criterion in rubric.judged]
    unconcerned = [file for file in change.files if not any(criterion.concerns(file) for criterion in criteria)]
    missed: dict[Unreviewed, list[str]] = {}
    for rubric, votes in answers.votes.items():
        for item in dict.fromkeys(item for one in votes for item in one.unreviewed):
            missed.setdefault(item, []).append(rubric)
    unanswered = (
        item if len(names) == len(answers.votes) else item.model_copy(update={"rubrics": tuple(names)})
        for item, names in missed.items()
    )
    return (*unanswered, *_whole(unconcerned, "no judge criterion concerns this path"))


def _whole(files: Iterable[FileDiff], why: str) -> tuple[Unreviewed, ...]:
    return tuple(Unreviewed(path=file.shown_path, line=0, end_line=0, reason=why) for file in files)


def of_change(change: Change) -> ChangeSummary:
    """The change by ids and paths, as a summary carries it."""
    files = tuple(_changed_file(file) for file in change.files)
    return ChangeSummary(**{name: getattr(change, name) for name in CHANGE_IDS}, files=files)


def _changed_file(file: FileDiff) -> ChangedFile:
    return ChangedFile(
        path=file.shown_path,
        old_path=None if file.old_path is None else paths.quote(file.old_path),
        change_type=file.change_type,
        added=file.added,
        deleted=file.deleted,
        binary=file.binary,
    )


def notes(run: RunContext, answers: JudgeResult, checks: CheckResults, verdict: RunVerdict) -> Iterator[str]:
    """Sentences for people about the run, besides its summary."""
    if not verdict.intact:
        yield "Files changed during the review, so the verdict is not about what is there now. Review again."
    if run.record.lost:
        yield f"Unrecorded: {run.record.lost}"
    if run.state.problem:
        yield run.state.problem
    yield from answers.notes
    yield from checks.notes
    # Who approved a change of the gate is a finding of its own.
    yield from (f"{one.finding}: {one.sentence}" for one in verdict.waivers if not one.finding.startswith(POLICY))
