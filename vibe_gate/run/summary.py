"""What a run's documents say: run.json when it begins, summary.json when it ends, notes for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.checks import conduct
from vibe_gate.context.facts import Facts
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import CHANGE_IDS
from vibe_gate.domain.cause import Cause, Unconcerned
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.document import plain
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import (
    ChangedFile,
    ChangeSummary,
    Summary,
    Trusted,
    Unreviewed,
    whole_file_unreviewed,
)
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.errors import StorageError
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.rubric_tally import exit_code
from vibe_gate.judging.verdict import RunVerdict
from vibe_gate.version import __version__

WORKFLOW = "review"
"""The built-in workflow: checks, then the judge."""


def about(facts: Facts, more: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of a run before anything is asked; `more` of a workflow's run, of one of a
    batch, or of one in a linked worktree.

    The versions of SDK and CLI are added when a model is asked, questions when they were answered.
    """
    change, gate, rubrics = facts.change, facts.gate, facts.rubrics
    return {
        "workflow": WORKFLOW,
        "mode": "auto",
        "prompt": f"review: {change.kind}",
        "isolation": "none",
        **more,
        "budgets": plain(gate.file.budget),
        "change": {name: getattr(change, name) for name in CHANGE_IDS} | {"kind": change.kind},
        "trusted": {"revision": gate.revision, "origin": gate.origin},
        "definitions": dict(gate.digests),
        "rubrics": {rubric.id: rubric.digest for rubric in rubrics},
        "versions": {"vibe-gate": __version__},
    }


def answered_questions(verdict: RunVerdict) -> dict[str, str]:
    """The text of each question that has votes, by `<rubric>/<criterion>`: of this run, or of an earlier one."""
    texts = {
        (rubric.id, asked.id): asked.question or ""
        for rubric in verdict.facts.rubrics
        for asked in rubric.judge_criteria
    }
    answered = ((rubric.id, one.id) for rubric in verdict.rubrics for one in rubric.criteria if one.votes)
    return {"/".join(name): texts[name] for name in answered if name in texts}


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


def summary_of(verdict: RunVerdict, run: RunContext) -> Summary:
    """The summary of a review, as it is sealed."""
    facts = verdict.facts
    begun = summary_before_answers(WORKFLOW, facts, run, facts.change, verdict.outcome)
    return replace(
        begun,
        exit_code=verdict.exit_code,
        rubrics=verdict.rubrics,
        findings=verdict.findings,
        policy_changes=verdict.impact.changes,
        unreviewed=unreviewed(facts.change, facts.rubrics, verdict.answers),
        cost=verdict.answers.cost,
        cache=verdict.answers.cache,
    )


def summary_before_answers(
    workflow: str, facts: Facts, run: RunContext, change: Change, outcome: RunOutcome
) -> Summary:
    """The summary of a run before what its gates answered and cost is added."""
    gate = facts.gate
    return Summary(
        run_id=run.record.run_id,
        key=facts.key,
        workflow=workflow,
        outcome=outcome,
        exit_code=exit_code(outcome, needs_approval=False, intact=True),
        bundle=run.record.relative,
        trusted=Trusted(
            revision=gate.revision,
            bootstrap=gate.origin == "bootstrap",
            branch=gate.branch,
            absence=gate.absence or UNSET,
        ),
        change=of_change(change),
        agent_authored=facts.authored,
        duration_ms=round(run.deadline.elapsed() * 1000),
        labels=run.state.labels.from_forge() or UNSET,
    )


def unreviewed(change: Change, rubrics: Sequence[Rubric], answers: Answers) -> tuple[Unreviewed, ...]:
    """Everything that judges were not shown, with the reason: silence about it would look like approval."""
    criteria = [criterion for rubric in rubrics for criterion in rubric.judge_criteria]
    concerned: list[FileDiff] = []
    unconcerned: list[FileDiff] = []
    for file in change.files:
        is_concerned = any(criterion.concerns(file) for criterion in criteria)
        (concerned if is_concerned else unconcerned).append(file)
    if answers.silence and not concerned:
        return _whole(change.files, answers.silence)
    if answers.silence:
        return (*_whole(concerned, answers.silence), *_whole(unconcerned, Unconcerned()))
    missed: dict[Unreviewed, list[str]] = {}
    for rubric, votes in answers.by_rubric.items():
        for item in dict.fromkeys(item for one in votes for item in one.unreviewed):
            missed.setdefault(item, []).append(rubric)
    unanswered = (
        item if len(names) == len(answers.by_rubric) else replace(item, rubrics=tuple(names))
        for item, names in missed.items()
    )
    return (*unanswered, *_whole(unconcerned, Unconcerned()))


def _whole(files: Iterable[FileDiff], cause: Cause) -> tuple[Unreviewed, ...]:
    return tuple(whole_file_unreviewed(file, cause) for file in files)


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


def notes_on(verdict: RunVerdict, run: RunContext) -> Iterator[str]:
    """Sentences for people about the run, besides its summary."""
    if not verdict.intact:
        yield "The verdict is not about the files that are there now. Review again."
    if run.record.lost:
        yield f"Unrecorded: {run.record.lost}"
    if run.state.problem:
        yield run.state.problem
    yield from verdict.notes


def capture_note(run: RunContext) -> str:
    """A line about turns of the run whose capture is incomplete, or ""."""
    if run.record.lost or not run.record.has_turns:
        return ""
    with suppress(StorageError):
        return conduct.capture_note(run.record.read())
    return ""
