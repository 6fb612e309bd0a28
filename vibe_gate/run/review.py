"""THE WALK: a change comes in, a verdict with evidence goes out. Read this first.

    request -> Change -> Gate at the trusted revision -> rubrics, or nothing to do
            -> bundle -> checks -> judges -> verdict -> Summary, sealed

The faces differ only in where the change comes from and where the summary goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vibe_gate import __version__
from vibe_gate.checks import CheckResults, conduct, run_checks
from vibe_gate.checks.conduct import Conduct
from vibe_gate.domain import paths, unredacted_fields
from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.change import Change, FileDiff, FileVersion, Side
from vibe_gate.domain.context import ReviewRequest, ReviewSubject, RunContext
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Budget, Gate, Waivers
from vibe_gate.domain.receipt import Waiver
from vibe_gate.domain.rubric import Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import GateError, InfrastructureError, StorageError
from vibe_gate.gate import chosen, policy, trusted
from vibe_gate.gate import waivers as letting
from vibe_gate.gate.authorship import Authorship, writers
from vibe_gate.git import Repository, open_repository
from vibe_gate.judging.answers import JudgeResult, without_asking
from vibe_gate.judging.verdict import RunVerdict, assemble_verdict, passes_by_checks
from vibe_gate.receipts.issue import ReceiptIssuer
from vibe_gate.run import summary as documents
from vibe_gate.run.deadline import Deadline
from vibe_gate.secrets import Redactor
from vibe_gate.store import State, Store, captures, open_state, open_store

if TYPE_CHECKING:
    from vibe_gate.judging.asking import OpenSession
    from vibe_gate.judging.questions import JudgeContext

__all__ = ["Progress", "Review", "ReviewRequest", "review", "review_in"]


class Progress(Protocol):
    """Hears what the walk is doing; `stage` is change, checks, judge or seal."""

    def __call__(self, stage: str, text: str) -> None:
        """Tell people."""
        ...


class Review(NamedTuple):
    """The outcome. `notes` are sentences for people; `summary.exit_code` is the process's; `gate` was in force;
    `repairs` are what checks would write, as differences from the reviewed files."""

    summary: Summary
    notes: tuple[str, ...] = ()
    gate: Gate | None = None
    repairs: tuple[FileDiff, ...] = ()


async def review(
    request: ReviewRequest,
    *,
    start: Path,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    progress: Progress,
) -> Review:
    """Review one change of the repository around `start`.

    Raises GateError: UsageError and its kinds for what cannot be understood, GatewayError for a wire that is set up
    wrongly. A model that cannot be reached is no error but an outcome.
    """
    with open_repository(start, environ) as repository:
        return await review_in(repository, request, environ=environ, clock=clock, progress=progress)


async def review_in(
    repository: Repository,
    request: ReviewRequest,
    *,
    environ: Mapping[str, str],
    clock: Callable[[], datetime],
    progress: Progress,
    state: State | None = None,
) -> Review:
    """`review` in a repository that is open already, with its shared state if that is open, too."""
    world = World(repository, environ, clock, state or open_state(repository.common_dir), time.monotonic())
    progress("change", "reading the change")
    with Deadline(world.began, request.deadline_s or Budget().deadline_s).interrupting(grace_s=0):
        change = repository.change(request.selection)
        if not change.files and not request.rubrics:
            return Review(documents.nothing(change), repository.remarks)
        gate = trusted.gate_for(repository, change, base=request.base, definitions=request.definitions)
        rubrics = chosen.rubrics_for(gate, change, request.rubrics)
        if not change.files:
            return Review(documents.nothing(change), repository.remarks)
        begun = begin(request, change, gate, rubrics, world)
    with recording(begun):
        with begun.run.deadline.interrupting():
            keep_contents(repository, change, begun.run)
        judged = await gate_stage(request, begun.subject, repository, begun.run, progress)
        with begun.run.deadline.interrupting():
            progress("seal", "writing the verdict")
            return _concluded(judged, repository, begun.run)


class World(NamedTuple):
    """Where a run happens: the repository, the environment, the clock, the shared state; `began` as of Deadline."""

    repository: Repository
    environ: Mapping[str, str]
    clock: Callable[[], datetime]
    state: State
    began: float


class Begun(NamedTuple):
    """A run whose bundle is open: what it is about, what its parts share, where it is kept."""

    subject: ReviewSubject
    run: RunContext
    store: Store


def begin(
    request: ReviewRequest,
    change: Change,
    gate: Gate,
    rubrics: tuple[Rubric, ...],
    world: World,
    *,
    deadline_s: float | None = None,
    about: Mapping[str, Any] | None = None,
    resume: str = "",
) -> Begun:
    """Open the bundle of a run about `change`; `about` is what run.json says of a workflow's run besides.

    `resume`: the id of a run that died, whose bundle is opened again.
    """
    repository, redactor = world.repository, Redactor(world.environ)
    store = open_store(repository.root, redactor, world.clock, lambda: repository.tracked(STORE))
    commits = repository.commits(change)
    if request.stage and not change.head_commit:
        commits = (repository.pending_commit(request.message),)
    _, unread = captures.fold(world.state, store.captures(), redactor, world.clock())
    if world.state.hook_records.marks():
        from vibe_gate.receipts.committed import CommitRecords

        with suppress(GateError):
            CommitRecords(repository, world.state, world.environ, world.clock()).settle_marks()
    authored = Authorship(repository, world.environ, world.state, unread=unread).of(change, commits)
    message = "\n\n".join(commit.message.strip() for commit in reversed(commits))
    versions = {"vibe-gate": __version__}
    if about:  # agents will work; a review at a commit need not look this up
        from vibe_gate.agent import sdk_version

        versions["claude-agent-sdk"] = sdk_version()
    if resume:
        record = store.reopen(change.key, resume, world.state.spending.of_run(resume))
    else:
        record = store.begin(change.key, world.clock(), documents.about(change, gate, rubrics, versions, about or {}))
    deadline = Deadline(world.began, request.deadline_s or deadline_s or gate.file.budget.deadline_s)
    run = RunContext(record, redactor, deadline, world.clock, world.environ, world.state)
    return Begun(ReviewSubject(change, gate, rubrics, message, authored), run, store)


@contextmanager
def recording(begun: Begun) -> Iterator[None]:
    """Carry out a run in this block. Interrupted or broken, what was written stays, marked, and is never a verdict."""
    record = begun.run.record
    try:
        yield
    except BaseException as error:
        record.abandon(str(error) if isinstance(error, GateError) else type(error).__name__)
        raise
    if not record.lost:
        with suppress(InfrastructureError):  # a store that cannot be cleaned is no reason to lose a verdict
            begun.store.clean_if_due(begun.subject.gate.file.retention)


class GateResult(NamedTuple):
    """What checks and judges answered about a change, what may be let pass of it, and what that comes to."""

    subject: ReviewSubject
    checks: CheckResults
    waivers: Waivers
    impact: policy.PolicyImpact
    answers: JudgeResult
    verdict: RunVerdict

    def summary(self, repository: Repository, run: RunContext) -> Summary:
        """The summary of a run that is this gate alone."""
        changes = policy.policy_changes(self.impact, partial(repository.file_patch, self.subject.change))
        return documents.summarize(self.subject, run, self.answers, self.verdict, changes)

    def issuer(self, repository: Repository, run: RunContext, summary: Summary) -> ReceiptIssuer:
        """What makes the receipt of a run with this summary."""
        change, gate, verdict = self.subject.change, self.subject.gate, self.verdict
        return ReceiptIssuer(
            repository, change, gate, run, summary, self.answers, self.impact.fingerprint, verdict.waivers, []
        )


async def gate_stage(
    request: ReviewRequest,
    subject: ReviewSubject,
    repository: Repository,
    run: RunContext,
    progress: Progress,
    shared: OpenSession | None = None,
) -> GateResult:
    """Between a change and its verdict: checks, then judges if they are needed. `shared` as of JudgeContext."""
    change, gate = subject.change, subject.gate
    with run.deadline.interrupting():
        checked = sum(one.kind == "check" for rubric in subject.rubrics for one in rubric.criterion)
        progress("checks", f"{counted(len(change.files), 'file')}, {counted(checked, 'check')}")
        acted = cache(partial(_conduct, subject, repository, run))
        checks = run_checks(subject.rubrics, change, gate, repository, run, subject.checks_node, acted, request.suggest)
        impact = policy.policy_impact(change, gate, run.environ, repository.read)
        waivers = letting.in_force(run.state, gate, run.environ, run.clock().date(), request.accepted)
        waivers = letting.approved(waivers, impact, request.approval)
        answers = without_asking(request, subject, checks, waivers)
    if answers is None:
        from vibe_gate.judging.judge import judge  # most reviews at a commit ask no judge
        from vibe_gate.judging.questions import JudgeContext

        context = JudgeContext(request, subject, repository, run, shared)
        answers = _reused(context, checks) or await judge(context, partial(progress, "judge"))
    intact = answers.intact
    verdict = assemble_verdict(change, subject.rubrics, checks, answers, waivers, impact, intact=intact)
    return GateResult(subject, checks, waivers, impact, answers, verdict)


def _conduct(subject: ReviewSubject, repository: Repository, run: RunContext) -> tuple[Conduct, ...]:
    """What agents did: those of the stages before this gate, and captured sessions that wrote files of the change."""
    sessions = writers(subject.change.files, captures.written_blobs(run.state))
    authors = tuple(conduct.of_session(name, captures.session_in(repository.root, name)) for name in sessions)
    if not subject.agents:
        return authors
    try:
        return (*conduct.of_stages(run.record.read(), subject.agents), *authors)
    except StorageError as error:
        return (*(Conduct(name=node, unread=str(error)) for node in subject.agents), *authors)


def _concluded(judged: GateResult, repository: Repository, run: RunContext) -> Review:
    change, verdict = judged.subject.change, judged.verdict
    verdict = verdict._replace(intact=verdict.intact and is_still_there(repository, change))
    judged = judged._replace(verdict=verdict)
    summary = judged.summary(repository, run)
    issuer = judged.issuer(repository, run, summary)
    summary = seal(run, summary, verdict.waivers, issuer)
    expired = judged.waivers.remarks(summary.findings, [file.path for file in change.files])
    told = documents.notes(run, judged.answers, judged.checks, verdict)
    notes = (*repository.remarks, *told, *expired, captured_note(run), *issuer.notes)
    said = tuple(run.redactor.text(note) for note in notes if note)
    return Review(summary, said, judged.subject.gate, judged.checks.repairs)


def captured_note(run: RunContext) -> str:
    """A line about turns of the run whose capture is incomplete, or ""."""
    if run.record.lost or not run.record.has_turns:
        return ""
    with suppress(StorageError):
        return conduct.capture_note(run.record.read())
    return ""


def keep_contents(repository: Repository, change: Change, run: RunContext, *, named: bool = True) -> None:
    """The change itself goes into the bundle first: whatever happens later, it says what was reviewed.

    A workflow names the contents of the change that it ends with, which its agents may have added to.
    Contents come before the patch: of a secret whose name is on another line they alone teach the redactor.
    """
    sides: list[tuple[Side, FileVersion, str]] = []
    for file in change.files:
        if file.before is not None:
            sides.append(("before", file.before, paths.quote(file.old_name) if named else ""))
        if file.after is not None:
            sides.append(("after", file.after, file.shown_path if named else ""))
    contents = repository.read_all(version for _, version, _ in sides)
    for (side, _, path), content in zip(sides, contents, strict=True):
        run.record.content(side, content, path)
    run.record.patch(repository.patch(change))


def _reused(context: JudgeContext, checks: CheckResults) -> JudgeResult | None:
    """A pass that somebody else signed for exactly this question, if the request takes one over."""
    request, subject = context.request, context.subject
    if not request.reuse or request.force:
        return None
    if not all(passes_by_checks(rubric, subject.change, checks) for rubric in subject.judged):
        return None
    from vibe_gate.receipts.reuse import reused

    with context.run.deadline.interrupting():
        return reused(context)


def is_still_there(repository: Repository, change: Change) -> bool:
    """Whether the reviewed tree is what the index or working tree holds now."""
    if change.kind == "worktree":
        return repository.still_holds(change.after)
    if change.kind == "staged":
        return repository.index_tree() == change.after
    return True


def seal(run: RunContext, summary: Summary, waivers: Sequence[Waiver], issuer: ReceiptIssuer | None) -> Summary:
    """Write the verdict down; the summary comes back as it may be shown."""
    run.record.event("verdict.decided", outcome=summary.outcome, exit_code=summary.exit_code)
    for waiver in waivers:
        run.record.event("override.recorded", **waiver.model_dump())
    written = run.record.seal(summary, issuer.make if issuer else None)
    return written or unredacted_fields.summary(summary, run.redactor.value).model_copy(update={"bundle": ""})
