"""THE WALK: a change comes in, a verdict with evidence goes out. Read this first.

    selection -> Change -> Gate at the trusted revision -> rubrics, or nothing to do
              -> bundle -> checks -> judge -> Summary, sealed

The faces differ only in where the selection comes from and where the summary goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol

from vibe_gate.checks.answer import counted
from vibe_gate.checks.run import Checked, run_checks
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change
from vibe_gate.domain.decide import exit_code
from vibe_gate.domain.gate import Budget, Gate
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Cost, Summary, Trusted
from vibe_gate.domain.waiver import Waivers
from vibe_gate.errors import GateError, InfrastructureError
from vibe_gate.gate import trust
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.case import Case, Request
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging import summarize
from vibe_gate.judging.assemble import Weighed, blocking_check, passes_alone, unreviewed, weigh
from vibe_gate.judging.deadline import alarm
from vibe_gate.judging.heard import Heard
from vibe_gate.receipts.issue import Attest
from vibe_gate.secrets.redaction import Redactor
from vibe_gate.store import captures, clean_if_due, open_store
from vibe_gate.store.names import STORE

__all__ = ["Progress", "Request", "Review", "review"]


GRACE_S = 10.0
"""Seconds beyond the deadline for what ends by itself: a judge's partial verdict, a command's processes, the seal."""


class Progress(Protocol):
    """Hears what the walk is doing; `stage` is change, checks, judge or seal."""

    def __call__(self, stage: str, text: str) -> None:
        """Tell people."""
        ...


@dataclass(frozen=True, slots=True)
class Review:
    """The outcome. `notes` are sentences for people; `summary.exit_code` is the process's; `gate` was in force."""

    summary: Summary
    notes: tuple[str, ...] = ()
    gate: Gate | None = None


def review(
    request: Request, *, start: Path, environ: Mapping[str, str], clock: Callable[[], datetime], progress: Progress
) -> Review:
    """Review one change of the repository around `start`.

    Raises GateError: UsageError and its kinds for what cannot be understood,
    GatewayError for a wire that is set up wrongly. A model that cannot be reached
    is no error but an outcome.
    """
    with open_repository(start, environ, walk=request.selection.kind == "worktree") as repository:
        return review_in(repository, request, environ=environ, clock=clock, progress=progress)


def review_in(
    repository: Repository,
    request: Request,
    *,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    progress: Progress,
) -> Review:
    """`review` in a repository that is open already."""
    began = time.monotonic()
    with alarm() as bell:
        bell.ring_in(request.deadline_s or Budget().deadline_s)
        progress("change", "reading the change")
        change = repository.change(request.selection)
        if not change.files:
            return Review(summarize.nothing(change), repository.remarks)
        case = _open(request, repository, change, environ, (clock, began))
        bell.ring_in(max(case.ends_at - time.monotonic(), 0) + GRACE_S)
        try:
            done = _carry_out(case, progress, began, clock)
        except BaseException as error:
            # Interrupted or broken: what was written until now stays, marked, and is never read as a verdict.
            case.run.abandon(str(error) if isinstance(error, GateError) else type(error).__name__)
            raise
        if not case.run.lost:
            with suppress(InfrastructureError):  # a store that cannot be cleaned is no reason to lose a verdict
                clean_if_due(repository.root, case.gate.file.retention, clock(), lambda: repository.tracked(STORE))
        return done


def _open(
    request: Request,
    repository: Repository,
    change: Change,
    environ: Mapping[str, str],
    moment: tuple[Callable[[], datetime], float],
) -> Case:
    """Everything about the change that is known before anything is asked, and the run it is written down in."""
    clock, began = moment
    gate = trust.gate_for(repository, change, base=request.base, definitions=request.definitions)
    rubrics = trust.chosen(gate, change, request.rubrics)
    redactor = Redactor(environ)
    store = open_store(repository.root, redactor, clock)
    commits = repository.commits(change)
    if request.stage and not change.head_commit:
        commits = (repository.draft(request.message),)
    _, unread = captures.fold(repository.common_dir, store.sessions(), redactor, clock())
    limits = gate.file.budget
    return Case(
        request=request,
        repository=repository,
        change=change,
        gate=gate,
        rubrics=rubrics,
        run=store.begin(change.key, clock(), summarize.about(change, gate, rubrics, limits.model_dump())),
        redactor=redactor,
        environ=environ,
        ends_at=began + (request.deadline_s or limits.deadline_s),
        authored=Authorship(repository, environ, unread=unread).of(change, commits),
        message="\n\n".join(commit.message.strip() for commit in reversed(commits)),
    )


def _carry_out(case: Case, progress: Progress, began: float, clock: Callable[[], datetime]) -> Review:
    criteria = counted(_count(case.rubrics), "criterion", "criteria")
    progress("checks", f"{counted(len(case.change.files), 'file')}, {criteria}")
    _write_down(case)
    checked = run_checks(case)
    waivers = trust.approved(case, trust.waivers(case.repository, case.gate, case.environ, clock().date()))
    heard = _hear(case, checked, waivers, progress, clock())
    progress("seal", "writing the verdict down")
    verdict = weigh(case, checked, heard, waivers, intact=heard.intact and _still_there(case))
    summary = _sum_up(case, heard, verdict, time.monotonic() - began)
    case.run.event("verdict.decided", outcome=summary.outcome, exit_code=summary.exit_code)
    for waiver in verdict.waivers:
        case.run.event("override.recorded", **waiver.model_dump(mode="json"))
    attest = Attest(case, summary, clock, heard, verdict.waivers)
    case.run.seal(summary, attest)
    summary = summarize.redacted(summary, case.redactor.value)
    if case.run.lost:
        summary = summary.model_copy(update={"bundle": ""})
    waived = (f"{waiver.finding}: {waiver.sentence}" for waiver in verdict.waivers)
    remarks = waivers.remarks(summary.findings, [file.path for file in case.change.files])
    notes = (*_notes(case, heard, verdict.intact), *checked.notes, *waived, *remarks, *filter(None, [attest.note]))
    return Review(summary, tuple(map(case.redactor.text, notes)), case.gate)


def _sum_up(case: Case, heard: Heard, verdict: Weighed, seconds: float) -> Summary:
    return Summary(
        run_id=case.run.run_id,
        key=case.change.key,
        workflow=summarize.WORKFLOW,
        outcome=verdict.outcome,
        exit_code=exit_code(verdict.outcome, policy_blocks=verdict.needs_approval, intact=verdict.intact),
        bundle=case.run.relative,
        trusted=Trusted(revision=case.gate.revision, bootstrap=case.gate.origin == "bootstrap"),
        change=summarize.of_change(case.change),
        rubrics=verdict.rubrics,
        findings=verdict.findings,
        policy_changes=verdict.policy_changes,
        unreviewed=unreviewed(case, heard),
        agent_authored=case.authored,
        cost=heard.cost,
        cache=heard.cache,
        duration_ms=round(seconds * 1000),
    )


def _count(rubrics: tuple[Rubric, ...]) -> int:
    return sum(len(rubric.criterion) for rubric in rubrics)


def _write_down(case: Case) -> None:
    """The change itself goes into the bundle first: whatever happens later, it says what was reviewed."""
    case.run.patch(case.repository.patch(case.change))
    for file in case.change.files:
        if file.before is not None:
            case.run.content("before", case.repository.read(file.before), paths.quote(file.old_path or file.path))
        if file.after is not None:
            case.run.content("after", case.repository.read(file.after), file.shown_path)


def _hear(case: Case, checked: Checked, waivers: Waivers, progress: Progress, now: datetime) -> Heard:
    """Ask the judges, unless nothing is to be asked or the outcome cannot change any more."""
    asking = [rubric for rubric in case.rubrics if rubric.judged]
    blocking = blocking_check(checked, waivers)
    if not asking:
        return Heard({}, Cost(), silence="no criterion asks a judge", chosen=True)
    if case.unasked:
        return Heard({}, Cost(), silence=case.unasked, chosen=True)
    if blocking is not None:
        # Nothing a judge says can turn this into a pass, and a secret must not travel to a model.
        return Heard({}, Cost(), silence=f"not asked: the check {blocking!r} fails already")
    if known := _elsewhere(case, asking, checked, now):
        return known
    progress("judge", f"asking about {', '.join(rubric.id for rubric in asking)}")
    # Loaded here because most reviews at a commit ask nobody, and the judge's side costs a tenth of such a review.
    hear = import_module("vibe_gate.judging.ask").hear
    heard: Heard = hear(case, asking, now, partial(progress, "judge"))
    return heard


def _elsewhere(case: Case, asking: list[Rubric], checked: Checked, now: datetime) -> Heard | None:
    """Why nobody has to be asked after all: each pushed commit was, or somebody else's signed pass is taken over."""
    if case.request.settled is not None and not case.request.force and (why := case.request.settled()):
        return Heard({}, Cost(), silence=why, chosen=True)
    if case.request.reuse and not case.request.force and all(passes_alone(case, rubric, checked) for rubric in asking):
        vouched: Heard | None = import_module("vibe_gate.receipts.reuse").heard_elsewhere(case, asking, now)
        return vouched
    return None


def _still_there(case: Case) -> bool:
    """Whether the reviewed tree is what the index or working tree holds now."""
    if case.change.kind == "worktree":
        return case.repository.snapshot() == case.change.after
    if case.change.kind == "staged":
        return case.repository.index_tree() == case.change.after
    return True


def _notes(case: Case, heard: Heard, intact: bool) -> tuple[str, ...]:
    notes = [*case.repository.remarks]
    if not intact:
        notes.append("What was reviewed is not what is there any more: files changed during the review. Review again.")
    if case.gate.origin == "bootstrap":
        notes.append("The trusted revision has no definitions yet: the change's own .vibe-gate/ was used.")
    if case.gate.origin == "built-in":
        notes.append("No .vibe-gate/ here: the built-in gate was used. `vibe-gate init` writes one to start from.")
    if case.run.lost:
        notes.append(f"Unrecorded: {case.run.lost}")
    return (*notes, *heard.notes)
