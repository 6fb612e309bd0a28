"""THE WALK: a change comes in, a verdict with evidence goes out. Read this first.

    request -> Change -> Gate at the trusted revision -> rubrics, or nothing to do
            -> facts -> answers of checks and judges -> verdict -> Summary, sealed in its bundle

The faces differ only in where the change comes from and where the summary goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from vibe_gate.checks import CheckResults, conduct_checks, run_checks
from vibe_gate.checks.check_contract import Conduct
from vibe_gate.context.deadline import Deadline
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Meter, Progress
from vibe_gate.context.model_access import ModelAccess
from vibe_gate.context.review_request import ForgeJob, ReviewRequest
from vibe_gate.context.world import RunContext
from vibe_gate.domain.change import Change, FileDiff
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Budget, Gate, Waivers
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import StorageError
from vibe_gate.gate.authorship import count_writers
from vibe_gate.gate.chosen import refuse_code, rubrics_for
from vibe_gate.gate.policy import PolicyImpact, policy_impact
from vibe_gate.gate.trusted import gate_for
from vibe_gate.gate.waivers import waivers_in_force
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging.answers import Answers, without_asking
from vibe_gate.judging.counted_answers import count_answers, find_open_fails, recount_fails
from vibe_gate.judging.run_verdict import RunVerdict, passes_by_checks, verdict_of
from vibe_gate.run.fact_finding import catch_up, facts_of
from vibe_gate.run.review_result import Review
from vibe_gate.run.run_bundle import (
    make_issuer,
    open_run,
    record_contents,
    record_run,
    seal_run,
    world_around,
)
from vibe_gate.run.run_documents import (
    answered_questions,
    empty_summary,
    incomplete_capture_note,
    notes_of_verdict,
    summary_of,
    unrecorded_note,
)
from vibe_gate.run.team_store import run_to_share, share_answers, store_notes
from vibe_gate.store.captured_conduct import read_captured_session
from vibe_gate.store.clone_state import CloneState


class StoredChange(Struct, frozen=True):
    """The change of a stored run."""

    change: Change

    gate: Gate
    """The one that it is judged by."""

    recall: Callable[[Facts, RunContext], None]
    """Lets the shared state have what that run was answered."""


async def review_around(
    request: ReviewRequest,
    *,
    start: Path,
    environment: Environment,
    clock: Callable[[], datetime],
    progress: Progress,
    meter: Meter | None = None,
) -> Review:
    """Review one change of the repository around `start`.

    Raises GateError: UsageError and its kinds for what cannot be understood, GatewayError for a
    wire that is set up wrongly. A model that cannot be reached is no error but an outcome.
    """
    with open_repository(start, environment) as repository:
        return await review_in(repository, request, clock=clock, progress=progress, meter=meter)


async def review_in(
    repository: Repository,
    request: ReviewRequest,
    *,
    clock: Callable[[], datetime],
    progress: Progress,
    meter: Meter | None = None,
    state: CloneState | None = None,
    stored: StoredChange | None = None,
) -> Review:
    """Review a change in a repository that is open already, with its shared state if that is open,
    too.

    `stored`: a change that was reviewed before takes the place of what the request selects, and its
    gate.
    """
    mode = request.mode
    began_at = time.monotonic()
    progress("change", "reading the change")
    reading_deadline = Deadline(began_at, request.deadline_s or Budget().deadline_s)
    with reading_deadline.interrupting(grace_s=0):
        change = stored.change if stored else repository.change(request.selection)
        if not change.files and not request.rubrics:  # the gate is not even read
            return _nothing_to_review(change, repository)
        gate = _gate_of(repository, change, request, stored)
        rubrics = _rubrics_of(gate, change, request)
        if not change.files:  # only now: a wrong --rubric is an error even if nothing changed
            return _nothing_to_review(change, repository)
        world = world_around(repository, clock, state)
        unshared_note = share_answers(gate, request, repository, world)
        unread = catch_up(repository, world)
        facts = facts_of(change, gate, rubrics, request, repository, world, unread)
        deadline = Deadline(began_at, request.deadline_s or gate.file.budget.deadline_s)
        run = open_run(facts, world, deadline, fields=mode.run_fields, meter=meter)
    # A batch must find again what it has made.
    with record_run(run, facts, cleans=mode.batch is None):
        with run.deadline.interrupting():
            record_contents(repository, change, run)
            if facts.record is not None:
                run.record.keep_session_record(facts.record)
            if stored:
                stored.recall(facts, run)
        find_changes = partial(paths_changed_since, repository, request.wire)
        with closing(ModelAccess(run, request, gate)) as model:
            verdict = await reach_verdict(
                facts, request, repository, run, progress, find_changes, model
            )
        with run.deadline.interrupting():
            progress("seal", "writing the verdict")
            summary, receipt_notes = _seal_verdict(verdict, repository, run, counts=mode.counts)
            notes = (
                *repository.remarks,
                *notes_of_verdict(verdict, run),
                *verdict.expired,
                incomplete_capture_note(run),
                *receipt_notes,
                unshared_note,
                *store_notes(run),
            )
    return Review(
        summary,
        tuple(run.redactor.text(note) for note in notes if note),
        gate,
        verdict.repairs,
        repository.root,
        run_to_share(summary, repository, run) if mode.counts else None,
        repository.store_root,
        unrecorded_note(run),
    )


async def reach_verdict(
    facts: Facts,
    request: ReviewRequest,
    repository: Repository,
    run: RunContext,
    progress: Progress,
    find_changes: Callable[[Change], Sequence[str]],
    model: ModelAccess,
) -> RunVerdict:
    """Between facts and their verdict: checks, then judges if they are needed. Each gate of a
    workflow does the same.

    `find_changes` gives the paths at which index or working tree hold something else now. `model`
    is opened if a judge has to be asked; all stages of a workflow share it.
    """
    with run.deadline.interrupting():
        impact = policy_impact(repository, facts.change, facts.gate, in_ci=run.environment.in_ci)
        waivers = _waivers_of(facts, impact, request, run)
        checks = _run_checks(facts, request, repository, run, progress)
        answers = without_asking(request, facts, checks, waivers)
        if answers is None:
            answers = _reuse_answers(request, facts, checks, repository, run)
    tell = partial(progress, "judge")
    if answers is None:
        answers = await _ask_judges(request, facts, repository, run, tell, model)
    counted_answers = count_answers(facts, impact, checks, answers)
    fails = find_open_fails(counted_answers, waivers)
    if fails:
        from vibe_gate.judging.second_look import look_again  # most changes have none

        answers = await look_again(fails, answers, request, facts, repository, run, tell, model)
        counted_answers = recount_fails(counted_answers, fails, answers)
    with run.deadline.interrupting():
        verdict = verdict_of(counted_answers, waivers, find_changes(facts.change))
        run.record.add_to_run_document(questions=answered_questions(verdict))
        return verdict


# The steps


def _seal_verdict(
    verdict: RunVerdict, repository: Repository, run: RunContext, *, counts: bool
) -> tuple[Summary, Sequence[str]]:
    """The sealed summary, and what is said of the receipt that a verdict gets which `counts`."""
    summary = summary_of(verdict, run)
    if not counts:
        return seal_run(summary, verdict.waivers, None, run), ()
    issuer = make_issuer(verdict, summary, repository, run)
    return seal_run(summary, verdict.waivers, issuer, run), issuer.notes


def _nothing_to_review(change: Change, repository: Repository) -> Review:
    return Review(empty_summary(change), repository.remarks, root=repository.root)


def _gate_of(
    repository: Repository, change: Change, request: ReviewRequest, stored: StoredChange | None
) -> Gate:
    """The gate in force, its judges replaced by the model on trial if there is one."""
    base, definitions = request.base, request.definitions
    gate = (
        stored.gate if stored else gate_for(repository, change, base=base, definitions=definitions)
    )
    judge_model = request.mode.judge_model
    if judge_model:
        return gate.judged_by(judge_model)
    return gate


def _rubrics_of(gate: Gate, change: Change, request: ReviewRequest) -> tuple[Rubric, ...]:
    """The rubrics to ask. UsageError: one that is named is not there, or one runs code where none
    may run.
    """
    mode = request.mode
    rubrics = rubrics_for(gate, change, request.rubrics)
    if not mode.runs_commands:
        rubrics = tuple(rubric for rubric in rubrics if not rubric.has_command)
    if mode.batch is not None and mode.batch.has_open_ports:
        refuse_code(gate, rubrics)
    return rubrics


def _waivers_of(
    facts: Facts, impact: PolicyImpact, request: ReviewRequest, run: RunContext
) -> Waivers:
    """What may be let pass."""
    job = request.forge or ForgeJob()
    today = run.clock().date()
    return waivers_in_force(
        run.state,
        facts.gate,
        impact,
        today,
        job.accepted,
        job.find_approval,
        in_ci=run.environment.in_ci,
    )


def _run_checks(
    facts: Facts,
    request: ReviewRequest,
    repository: Repository,
    run: RunContext,
    progress: Progress,
) -> CheckResults:
    job = request.forge or ForgeJob()
    files = _files_words(facts.change)
    check_count = sum(len(rubric.check_criteria) for rubric in facts.rubrics)
    progress("checks", f"{files}, {counted(check_count, 'check')}")
    return run_checks(
        facts,
        repository,
        run,
        conduct=cache(partial(collect_conduct, facts, repository, run)),
        suggest=job.shows_repairs,
    )


def _files_words(change: Change) -> str:
    """How many files it has, and how large they are if that takes a while."""
    words = counted(len(change.files), "file")
    megabytes = sum(file.after.size for file in change.files if file.after) // 1_000_000
    if not megabytes:
        return words
    return f"{words} ({megabytes:,} MB)"


async def _ask_judges(
    request: ReviewRequest,
    facts: Facts,
    repository: Repository,
    run: RunContext,
    tell: Callable[[str], object],
    model: ModelAccess,
) -> Answers:
    """What judges answer, and what came of the tests that they wrote."""
    from vibe_gate.judging.judge import answer_questions  # most reviews at a commit ask no judge

    answers = await answer_questions(request, facts, repository, run, tell, model)
    if not facts.asks_for_tests:
        return answers
    from vibe_gate.judging.proving import rerun_kept_tests  # few gates run tests

    return await rerun_kept_tests(answers, facts, repository, run, tell)


def collect_conduct(facts: Facts, repository: Repository, run: RunContext) -> tuple[Conduct, ...]:
    """What agents did: those of the stages before this gate, and captured sessions that wrote files
    of the change.
    """
    authors = []
    for session_id in count_writers(
        facts.change.files, run.state.captured_blobs.sessions_by_blob()
    ):
        session = read_captured_session(repository.store_root, session_id)
        authors.append(conduct_checks.conduct_of_session(session_id, session))
    if not facts.agents:
        return tuple(authors)
    try:
        stages = tuple(conduct_checks.conduct_of_stages(run.record.read(), facts.agents))
    except StorageError as error:
        stages = tuple(Conduct(name=node, unread=str(error)) for node in facts.agents)
    return (*stages, *authors)


def _reuse_answers(
    request: ReviewRequest,
    facts: Facts,
    checks: CheckResults,
    repository: Repository,
    run: RunContext,
) -> Answers | None:
    """A pass that somebody else signed for exactly this question, if the request takes one over."""
    if request.forge is None or request.force:
        return None
    if not all(passes_by_checks(rubric, facts, checks) for rubric in facts.rubrics_with_judge):
        return None
    from vibe_gate.receipts.reused_answers import reuse_answers  # few repositories share receipts

    return reuse_answers(request, facts, repository, run)


def paths_changed_since(repository: Repository, wire: Wire, change: Change) -> tuple[str, ...]:
    """The paths at which the index or working tree, if it was reviewed, is not the reviewed tree
    any more; without what the wire records there.
    """
    if change.kind == "worktree":
        tree = change.after if repository.still_holds(change.after) else repository.snapshot()
    elif change.kind == "staged":
        tree = repository.index_tree()
    else:
        return ()
    if tree == change.after:
        return ()
    files = repository.between(change.after, tree).files
    return tuple(file.shown_path for file in files if not _is_recorded(file, repository, wire))


def _is_recorded(file: FileDiff, repository: Repository, wire: Wire) -> bool:
    if wire.mode != "record":
        return False
    from vibe_gate.gateway import is_recorded_by  # few reviews are recorded

    root = repository.root.resolve()
    return all(is_recorded_by(wire, root / name) for name in file.names)
