"""Review each commit of a range by itself: which commits, what is recorded of them already, one row
a commit.

    range -> commits, oldest first -> rows of those that are recorded, tasks for the others -> rows

All runs of one command have the same `batch` in run.json, a digest of what was asked. A commit is
done if a sealed run of it has this batch: so a command that was killed goes on, and an import from
another machine counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.context.listeners import unheard
from vibe_gate.context.mode import Batch, LiveMode
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.cause import CannotAsk
from vibe_gate.domain.change import MAX_RANGE, Selection
from vibe_gate.domain.commit_row import CommitRow, OpenCriterion
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import counted, shorten_text
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.upkeep import BatchRun
from vibe_gate.domain.verdict import CriterionResult
from vibe_gate.errors import INCONCLUSIVE, INTEGRITY, PASS, GateError, UsageError
from vibe_gate.gate.trusted import WORKTREE, trusted_revision
from vibe_gate.gateway import find_upstream
from vibe_gate.git import Repository
from vibe_gate.report import queries, sentences
from vibe_gate.run.batch import SOON_USED_UP
from vibe_gate.run.review import review_in
from vibe_gate.run.review_result import Review
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.worktree_bundles import Bundles
from vibe_gate.version import __version__

DEFINITIONS = (".vibe-gate", ".claude/agents", ".gitleaks.toml")
"""Of a trusted tree, from which a gate is made."""

MAX_TITLE = 200
"""Characters of a commit's title in its row: git has no limit, and an author can write
megabytes.
"""

_UNSEEN = "not reviewed yet"
_OUTSIDE_CI = (
    "its recorded pass does not count in CI (no API key, an override, or a gate that is not merged)"
)


class CommitTask(Struct, frozen=True):
    """One commit to review. It can be pickled."""

    root: Path
    """A folder of the repository."""

    commit: str

    title: str

    request: ReviewRequest
    """Of any commit of the batch: what it selects does not count."""

    batch: Batch


# Which commits, and under which gate


def commits_in_range(
    repository: Repository, selection: Selection, *, merges: bool = True
) -> list[str]:
    """The commits that the right side of a range has and the left has not, oldest first. UsageError
    for too many.
    """
    base, tip = repository.resolve(selection.left), repository.resolve(selection.right)
    newest_first = repository.span(base, tip, MAX_RANGE + 1)
    if len(newest_first) > MAX_RANGE:
        span = paths.quote(f"{selection.left}..{selection.right}")
        raise UsageError(f"{span} has more than {MAX_RANGE:,} commits; review it in parts.")
    oldest_first = list(reversed(newest_first))
    if merges:
        return oldest_first
    return [commit for commit in oldest_first if len(repository.parents(commit)) < 2]


def describe_reversed_range(repository: Repository, selection: Selection) -> str:
    """What to say about a range without commits whose ends are the wrong way round; "" if they are
    not.
    """
    base, tip = repository.resolve(selection.left), repository.resolve(selection.right)
    if base == tip or not repository.is_ancestor(tip, base):
        return ""
    first = paths.quote(selection.left or "HEAD")
    last = paths.quote(selection.right or "HEAD")
    return f"{first}..{last} has no commits; did you mean {last}..{first}?"


def batch_digest(repository: Repository, request: ReviewRequest) -> str:
    """What was asked, as a sha-256: what bears on a verdict besides the commit itself.

    Definitions count by their content. Those at a commit's own parent, or its own, are its.
    """
    question = {
        "version": __version__,
        "rubrics": request.rubrics,
        "judge": request.judge != "never",
        "wire": request.wire.mode,
        "model": repository.environment.model,
        "definitions": _definitions(repository, request),
    }
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _definitions(repository: Repository, request: ReviewRequest) -> list[list[str]]:
    """The ids of what a gate is made of at the trusted revision, and if it has none, or is each
    commit's parent, at the remote's default branch.
    """
    definitions: list[list[str]] = []
    revision = trusted_revision(repository, "", base=request.base, definitions=request.definitions)
    if revision == WORKTREE:
        revision = repository.snapshot()
    if revision:
        ids = _definition_ids(repository, revision)
        definitions.append(ids)
        if ids[0]:
            return definitions
    default_revision = repository.remote_default()
    if default_revision is not None:
        definitions.append(_definition_ids(repository, default_revision))
    return definitions


def _definition_ids(repository: Repository, revision: str) -> list[str]:
    """The ids of DEFINITIONS there, "" for one that is missing."""
    tree = repository.tree(revision)
    entries = [tree.entry(name.encode()) for name in DEFINITIONS]
    return [entry.id if entry else "" for entry in entries]


# What is recorded


def plan_reviews(
    repository: Repository,
    bundles: Bundles,
    commits: Sequence[str],
    request: ReviewRequest,
    batch: Batch,
    show: Callable[[CommitRow], None],
) -> list[CommitTask]:
    """What is to be done about these commits, in the working tree of the repository. `show` is
    called with the row of each that is done already.
    """
    environment = repository.environment
    tasks: list[CommitTask] = []
    for commit in commits:
        task = CommitTask(repository.root, commit, commit_title(repository, commit), request, batch)
        run = _newest_run_of_task(task, bundles, in_ci=environment.in_ci)
        row = _settled_row(task, run, environment) or _unchanged_row(repository, commit, task.title)
        if row:
            show(row)
        else:
            tasks.append(task)
    return tasks


def _settled_row(task: CommitTask, run: BatchRun, environment: Environment) -> CommitRow | None:
    """The row of a commit that is done, by its newest run that counts; None if it is not."""
    if run.summary is None:
        return None
    is_replayed = task.request.wire.mode == "replay"
    has_key = is_replayed or find_upstream(environment.variables) is not None
    can_ask = has_key and sdk_version() != ""
    if not is_summary_settled(run.summary, can_ask=can_ask):
        return None
    return _recorded_row(task.commit, task.title, run.summary)


def _newest_run_of_task(task: CommitTask, bundles: Bundles, *, in_ci: bool) -> BatchRun:
    """As `newest_run`. With `force` nothing counts that is recorded."""
    if task.request.force:
        return BatchRun()
    return newest_run(bundles, task.commit, task.batch.digest, in_ci=in_ci)


def newest_run(bundles: Bundles, commit: str, batch: str, *, in_ci: bool) -> BatchRun:
    """The newest run of the commit in this batch that counts here, or why there is none.

    One that is not what was sealed is no reason to count an older one.
    """
    no_run = BatchRun()
    for run in bundles.in_batch(commit, batch):
        if run.summary is None or counts_here(run.summary, in_ci=in_ci):
            return run
        no_run = BatchRun(fault=_OUTSIDE_CI)
    return no_run


def recorded_rows(
    repository: Repository, bundles: Bundles, commits: Sequence[str], batch: str
) -> Iterator[CommitRow]:
    """A row for each of these commits of what the batch has recorded by now, the newest run of each
    that counts.
    """
    for commit in commits:
        title = commit_title(repository, commit)
        run = newest_run(bundles, commit, batch, in_ci=repository.environment.in_ci)
        if run.summary:
            yield _recorded_row(commit, title, run.summary)
        else:
            missing_row = _missing_row(commit, title, run.fault or _UNSEEN)
            yield _unchanged_row(repository, commit, title) or missing_row


def counts_here(summary: Summary, *, in_ci: bool) -> bool:
    """Whether the same request would come out so here.

    In CI no question is left out for want of a key, no override of a clone counts, and a gate that
    is not merged yet needs approval.
    """
    if summary.exit_code != PASS or not in_ci:
        return True
    if summary.trusted.bootstrap or any(map(queries.is_overridden, summary.findings)):
        return False
    for criterion in summary.criteria:
        if criterion.outcome == "not_applicable" and queries.has_cause(criterion, CannotAsk):
            return False
    return True


def is_summary_settled(summary: Summary, *, can_ask: bool) -> bool:
    """Whether another try would ask no more: neither an error, nor a budget, a deadline, a key
    stood in the way.
    """
    if summary.exit_code == INTEGRITY:
        return False
    if summary.exit_code == INCONCLUSIVE and any(map(_is_open, summary.criteria)):
        return False
    if not can_ask:
        return True
    return not any(queries.has_cause(criterion, CannotAsk) for criterion in summary.criteria)


def _is_open(criterion: CriterionResult) -> bool:
    """Whether it lacks an answer: judges who cannot tell, or do not agree, have given theirs."""
    if criterion.unanswered or criterion.outcome == "error":
        return True
    return criterion.kind == "check" and criterion.outcome == "abstain"


def _unchanged_row(repository: Repository, commit: str, title: str) -> CommitRow | None:
    """The row of a commit that changes no file, which no run is about; None if it changes one."""
    parents = repository.parents(commit)
    if not parents or not repository.has(parents[0]):
        return None
    if repository.tree_of(parents[0]) != repository.tree_of(commit):
        return None
    return CommitRow(
        commit=commit, title=title, outcome="pass", exit_code=PASS, headline="NOTHING TO REVIEW"
    )


def _missing_row(commit: str, title: str, reason: str) -> CommitRow:
    """The row of a commit without a run that counts."""
    return CommitRow(
        commit=commit, title=title, outcome="missing", exit_code=INCONCLUSIVE, why=reason
    )


def _recorded_row(commit: str, title: str, summary: Summary) -> CommitRow:
    return replace(_row(commit, title, summary), recorded=True)


def commit_title(repository: Repository, commit: str) -> str:
    """The first line of the commit's message, at most MAX_TITLE characters of it."""
    title = repository.commit(commit).message.lstrip("\n").partition("\n")[0].strip()
    return shorten_text(title, MAX_TITLE)


# One review


async def review_commit_in(
    task: CommitTask,
    repository: Repository,
    state: CloneState,
    bundles: Bundles,
    *,
    clock: Callable[[], datetime],
) -> CommitRow:
    """Review one commit, unless another command has done so by now; one that is at it is waited
    for.

    Whatever is wrong with a commit is its row's, so that the others go on.
    """
    environment = repository.environment
    limit = task.request.max_cost_usd
    if limit is not None and limit < SOON_USED_UP:
        return unreviewed_row(task, INCONCLUSIVE, "The budget of the command is used up.")
    selection = Selection("commit", left=task.commit)
    request = replace(task.request, selection=selection, mode=LiveMode(task.batch))
    try:
        with bundles.alone(task.commit):
            earlier_run = _newest_run_of_task(task, bundles, in_ci=environment.in_ci)
            row = _settled_row(task, earlier_run, environment)
            if row is not None:
                return row
            review = await review_in(
                repository, request, clock=clock, progress=unheard, state=state
            )
            remark = f"reviewed again: {earlier_run.fault}" if earlier_run.fault else ""
            return _share_review(review, task, remark)
    except GateError as error:
        return unreviewed_row(task, error.exit_code, str(error))


def unreviewed_row(task: CommitTask, exit_code: int, reason: str) -> CommitRow:
    """The row of a commit that has no verdict."""
    return CommitRow(
        commit=task.commit, title=task.title, outcome="error", exit_code=exit_code, why=reason
    )


def _share_review(review: Review, task: CommitTask, remark: str) -> CommitRow:
    """The row of a review, its run uploaded to the shared store if there is one; what failed is
    said once a worker.

    `remark`: why what was recorded did not count, or "".
    """
    row = _row(task.commit, task.title, review.summary)
    reasons = [remark]
    if not row.bundle:
        reasons.insert(0, review.unrecorded)
    if review.unshared:
        reasons += review.unshared.upload()
    return replace(row, why=" ".join(filter(None, reasons)))


def _row(commit: str, title: str, summary: Summary) -> CommitRow:
    unasked = ""
    if summary.outcome == "pass" and summary.unasked:
        unasked = f"{counted(len(summary.unasked), 'question')} {summary.unasked[0].reason}"
    return CommitRow(
        commit=commit,
        title=title,
        outcome=summary.outcome,
        exit_code=summary.exit_code,
        headline=sentences.verdict_headline(summary),
        run_id=summary.run_id,
        bundle=summary.bundle,
        usd=summary.cost.usd,
        duration_ms=summary.duration_ms,
        unasked=unasked,
        warnings=sum(finding.level == "warning" for finding in summary.findings),
        undecided=tuple(_open_criteria(summary)),
    )


def _open_criteria(summary: Summary) -> Iterator[OpenCriterion]:
    """Of a review without a verdict, the criteria without an answer whose cause is known."""
    if summary.exit_code != INCONCLUSIVE:
        return
    for criterion in queries.unanswered_criteria(summary):
        if criterion.cause is not UNSET:
            yield OpenCriterion(criterion=criterion.id, cause=criterion.cause)
