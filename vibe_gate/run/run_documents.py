"""What a run's documents say: run.json when it begins, summary.json when it ends, notes for
people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.checks import conduct_checks
from vibe_gate.context.facts import Facts
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import CHANGE_IDS
from vibe_gate.domain.cause import Cause, Unconcerned
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.document import plain
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.session_record import judge_tests
from vibe_gate.domain.summary import (
    AgentAuthored,
    CacheUse,
    ChangedFile,
    ChangeSummary,
    Cost,
    LeftAlone,
    PolicyChange,
    Summary,
    Trusted,
    Unreviewed,
    whole_file_unreviewed,
)
from vibe_gate.domain.verdict import Finding, RubricResult, RunOutcome
from vibe_gate.errors import StorageError
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.posted_verdict import PostedVerdict
from vibe_gate.judging.run_verdict import RunVerdict
from vibe_gate.version import __version__

WORKFLOW = "review"
"""The built-in workflow: checks, then the judge."""


def describe_run(facts: Facts, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of a run before anything is asked; `fields` of a workflow's run, of one
    of a batch, or of one in a linked worktree.

    The versions of SDK and CLI are added when a model is asked, questions when they were answered.
    """
    change, gate, rubrics = facts.change, facts.gate, facts.rubrics
    return {
        "workflow": WORKFLOW,
        "mode": "auto",
        "prompt": f"review: {change.kind}",
        "isolation": "none",
        **fields,
        "budgets": plain(gate.file.budget),
        "change": {name: getattr(change, name) for name in CHANGE_IDS} | {"kind": change.kind},
        "trusted": {"revision": gate.revision, "origin": gate.origin},
        "definitions": dict(gate.digests),
        "rubrics": {rubric.id: rubric.digest for rubric in rubrics},
        "versions": {"vibe-gate": __version__},
    }


def posted_summary(
    sealed: Summary,
    verdict: PostedVerdict,
    *,
    workflow: str | None = None,
    findings: tuple[Finding, ...] | None = None,
    unreviewed: tuple[Unreviewed, ...] | None = None,
) -> Summary:
    """What a job posts of a run under another verdict than the sealed one.

    Args:
        sealed: The run's own summary.
        verdict: What the job came to.
        workflow: Whose verdict it is, if not the run's.
        findings: Those that the job shows, if not all.
        unreviewed: The places that nobody judged, if not the run's.
    """
    return replace(
        sealed,
        workflow=sealed.workflow if workflow is None else workflow,
        outcome=verdict.outcome,
        exit_code=verdict.exit_code,
        rubrics=verdict.rubrics,
        findings=sealed.findings if findings is None else findings,
        unreviewed=sealed.unreviewed if unreviewed is None else unreviewed,
    )


def answered_questions(verdict: RunVerdict) -> dict[str, str]:
    """The text of each question that has votes, by `<rubric>/<criterion>`: of this run, or of an
    earlier one.
    """
    texts = {}
    for rubric in verdict.facts.rubrics:
        for criterion in rubric.judge_criteria:
            texts[rubric.id, criterion.id] = criterion.question or ""
    questions = {}
    for rubric_result in verdict.rubrics:
        for result in rubric_result.criteria:
            name = (rubric_result.id, result.id)
            if result.votes and name in texts:
                questions["/".join(name)] = texts[name]
    return questions


class GateAnswers(Struct, frozen=True, kw_only=True):
    """What the gates of a run answered, as its summary says it."""

    rubrics: tuple[RubricResult, ...] = ()

    findings: tuple[Finding, ...] = ()

    policy_changes: tuple[PolicyChange, ...] = ()

    unreviewed: tuple[Unreviewed, ...] = ()

    cache: CacheUse = CacheUse()


def gate_answers(verdict: RunVerdict) -> GateAnswers:
    """What one gate answered."""
    return GateAnswers(
        rubrics=verdict.rubrics,
        findings=verdict.findings,
        policy_changes=verdict.impact.changes,
        unreviewed=list_unreviewed(verdict.facts.change, verdict.facts.rubrics, verdict.answers),
        cache=verdict.answers.cache,
    )


def merge_gate_answers(verdicts: Iterable[RunVerdict]) -> GateAnswers:
    """What several gates answered; of a rubric, a finding or a file that several have, the last
    one's.
    """
    rubrics: dict[str, RubricResult] = {}
    findings: dict[str | Finding, Finding] = {}
    policy_changes: dict[str, PolicyChange] = {}
    missed: dict[Unreviewed, None] = {}
    hits = 0
    misses = 0
    for verdict in verdicts:
        answers = gate_answers(verdict)
        rubrics |= {rubric.id: rubric for rubric in answers.rubrics}
        findings |= {finding.fingerprint or finding: finding for finding in answers.findings}
        policy_changes |= {change.path: change for change in answers.policy_changes}
        missed |= dict.fromkeys(answers.unreviewed)
        hits += answers.cache.hits
        misses += answers.cache.misses
    return GateAnswers(
        rubrics=tuple(rubrics.values()),
        findings=tuple(findings.values()),
        policy_changes=tuple(policy_changes.values()),
        unreviewed=tuple(missed),
        cache=CacheUse(hits=hits, misses=misses),
    )


def empty_summary(change: Change) -> Summary:
    """The summary of a review with nothing to do: no run, no bundle, exit 0."""
    return Summary(
        run_id="",
        key=change.key,
        workflow=WORKFLOW,
        outcome="pass",
        exit_code=0,
        bundle="",
        trusted=Trusted(revision="", bootstrap=False),
        change=summarize_change(change),
    )


def summary_of(verdict: RunVerdict, run: RunContext) -> Summary:
    """The summary of a review, as it is sealed."""
    return make_summary(
        WORKFLOW,
        verdict.facts,
        run,
        verdict.facts.change,
        gate_answers(verdict),
        outcome=verdict.outcome,
        exit_code=verdict.exit_code,
        authored=verdict.facts.authored,
        cost=verdict.answers.cost,
    )


def make_summary(
    workflow: str,
    facts: Facts,
    run: RunContext,
    change: Change,
    answers: GateAnswers,
    *,
    outcome: RunOutcome,
    exit_code: int,
    authored: AgentAuthored,
    cost: Cost,
    left_alone: tuple[LeftAlone, ...] = (),
) -> Summary:
    """The summary of a run.

    Args:
        workflow: Its id.
        facts: Those that the run began with.
        run: Where it is written down.
        change: What the summary is about.
        answers: What the gates that count answered.
        outcome: The run's.
        exit_code: The run's.
        authored: Who wrote the change.
        cost: Of all that was asked.
        left_alone: What agents saw and did not touch.
    """
    gate = facts.gate
    return Summary(
        run_id=run.record.run_id,
        key=facts.key,
        workflow=workflow,
        outcome=outcome,
        exit_code=exit_code,
        bundle=run.record.relative,
        trusted=Trusted(
            revision=gate.revision,
            bootstrap=gate.origin == "bootstrap",
            branch=gate.branch,
            absence=gate.absence or UNSET,
        ),
        change=summarize_change(change),
        rubrics=answers.rubrics,
        findings=answers.findings,
        policy_changes=answers.policy_changes,
        unreviewed=answers.unreviewed,
        agent_authored=authored,
        cost=cost,
        cache=answers.cache,
        duration_ms=round(run.deadline.elapsed() * 1000),
        labels=run.state.labels.from_forge() or UNSET,
        left_alone=left_alone or UNSET,
        tests=judge_tests(facts.record) if facts.record else UNSET,
    )


def list_unreviewed(
    change: Change, rubrics: Sequence[Rubric], answers: Answers
) -> tuple[Unreviewed, ...]:
    """Everything that judges were not shown, with the reason: silence about it would look like
    approval.
    """
    criteria = list(chain.from_iterable(rubric.judge_criteria for rubric in rubrics))
    concerned_files: list[FileDiff] = []
    other_files: list[FileDiff] = []
    for file in change.files:
        if any(criterion.concerns(file) for criterion in criteria):
            concerned_files.append(file)
        else:
            other_files.append(file)
    if answers.unasked and not concerned_files:
        return _whole_files(change.files, answers.unasked)
    if answers.unasked:
        return (
            *_whole_files(concerned_files, answers.unasked),
            *_whole_files(other_files, Unconcerned()),
        )
    return (*_missed_lines(answers), *_whole_files(other_files, Unconcerned()))


def _missed_lines(answers: Answers) -> list[Unreviewed]:
    """What judges of the rubrics that were asked did not see; with their ids if others did."""
    rubric_ids: dict[Unreviewed, list[str]] = {}
    for rubric_id, question_votes in answers.by_rubric.items():
        missed_places = chain.from_iterable(votes.unreviewed for votes in question_votes)
        for place in dict.fromkeys(missed_places):
            rubric_ids.setdefault(place, []).append(rubric_id)
    lines = []
    for place, ids in rubric_ids.items():
        is_missed_by_all = len(ids) == len(answers.by_rubric)
        lines.append(place if is_missed_by_all else replace(place, rubrics=tuple(ids)))
    return lines


def _whole_files(files: Iterable[FileDiff], cause: Cause) -> tuple[Unreviewed, ...]:
    return tuple(whole_file_unreviewed(file, cause) for file in files)


def summarize_change(change: Change) -> ChangeSummary:
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


def unrecorded_note(run: RunContext) -> str:
    """Why the run is not recorded, or not wholly; "" if it is."""
    if not run.record.lost:
        return ""
    return run.redactor.text(f"Unrecorded: {run.record.lost}")


def notes_of_verdict(verdict: RunVerdict, run: RunContext) -> Iterator[str]:
    """Sentences for people about the run, besides its summary."""
    if not verdict.intact:
        yield "The verdict is not about the files that are there now. Review again."
    yield unrecorded_note(run)
    if run.state.problem:
        yield run.state.problem
    yield from verdict.notes


def incomplete_capture_note(run: RunContext) -> str:
    """A line about turns of the run whose capture is incomplete, or ""."""
    if run.record.lost or not run.record.has_turns:
        return ""
    with suppress(StorageError):
        return conduct_checks.describe_capture_gaps(run.record.read())
    return ""
