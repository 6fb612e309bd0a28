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

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.listeners import unheard
from vibe_gate.context.mode import Batch, LiveMode
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.cause import NoKey
from vibe_gate.domain.change import MAX_COMMITS, Selection
from vibe_gate.domain.commit_row import CommitRow
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.upkeep import BatchRun
from vibe_gate.domain.verdict import CriterionResult
from vibe_gate.errors import INCONCLUSIVE, INTEGRITY, PASS, GateError, UsageError
from vibe_gate.gate.trusted import WORKTREE, trusted_revision
from vibe_gate.gateway import find_upstream
from vibe_gate.git import Repository
from vibe_gate.report import queries, sentences
from vibe_gate.run.batch import SOON_USED_UP
from vibe_gate.run.review import Review, review_in
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


class EachPlan(Struct, frozen=True):
    """What is there to do, oldest first: the rows that are known, and tasks for the other
    commits.
    """

    known: tuple[CommitRow, ...]
    tasks: tuple[CommitTask, ...]


# Which commits, and under which gate


def commits_of(repository: Repository, selection: Selection, *, merges: bool = True) -> list[str]:
    """The commits that the right side of a range has and the left has not, oldest first. UsageError
    for too many.
    """
    left, right = repository.resolve(selection.left), repository.resolve(selection.right)
    found = repository.span(left, right, MAX_COMMITS + 1)
    if len(found) > MAX_COMMITS:
        shown = paths.quote(f"{selection.left}..{selection.right}")
        raise UsageError(f"{shown} has more than {MAX_COMMITS:,} commits; review it in parts.")
    return [name for name in reversed(found) if merges or len(repository.parents(name)) < 2]


def reversed_range(repository: Repository, selection: Selection) -> str:
    """What to say about a range without commits whose ends are the wrong way round; "" if they are
    not.
    """
    left, right = repository.resolve(selection.left), repository.resolve(selection.right)
    if left == right or not repository.is_ancestor(right, left):
        return ""
    first, last = (paths.quote(name or "HEAD") for name in (selection.left, selection.right))
    return f"{first}..{last} has no commits; did you mean {last}..{first}?"


def batch_of(repository: Repository, request: ReviewRequest) -> str:
    """What was asked, as a sha-256: what bears on a verdict besides the commit itself.

    Definitions count by their content. Those at a commit's own parent, or its own, are its.
    """
    asked = {
        "version": __version__,
        "rubrics": request.rubrics,
        "judge": request.judge != "never",
        "wire": request.wire.mode,
        "model": repository.environment.model,
        "definitions": _definitions(repository, request),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _definitions(repository: Repository, request: ReviewRequest) -> list[list[str]]:
    """The ids of what a gate is made of at the trusted revision, and if it has none, or is each
    commit's parent, at the remote's default branch.
    """
    trusted = trusted_revision(repository, "", base=request.base, definitions=request.definitions)
    found = (
        [_of_gate(repository, repository.snapshot() if trusted == WORKTREE else trusted)]
        if trusted
        else []
    )
    default = repository.remote_default()
    return (
        found
        if default is None or (found and found[0][0])
        else [*found, _of_gate(repository, default)]
    )


def _of_gate(repository: Repository, revision: str) -> list[str]:
    tree = repository.tree(revision)
    entries = [tree.entry(name.encode()) for name in DEFINITIONS]
    return [entry.id if entry else "" for entry in entries]


# What is recorded


def planned(
    repository: Repository,
    bundles: Bundles,
    commits: Sequence[str],
    request: ReviewRequest,
    batch: Batch,
) -> EachPlan:
    """What is to be done about these commits, in the working tree of the repository."""
    environment = repository.environment
    known, tasks = [], []
    for commit in commits:
        task = CommitTask(repository.root, commit, title_of(repository, commit), request, batch)
        run = run_of(task, bundles, in_ci=environment.in_ci)
        row = settled_row(task, run, environment) or _unchanged(repository, commit, task.title)
        if row:
            known.append(row)
        else:
            tasks.append(task)
    return EachPlan(tuple(known), tuple(tasks))


def settled_row(task: CommitTask, run: BatchRun, environment: Environment) -> CommitRow | None:
    """The row of a commit that is done, by its newest run that counts."""
    is_replayed = task.request.wire.mode == "replay"
    has_key = is_replayed or find_upstream(environment.variables) is not None
    settled = run.summary is not None and is_settled(run.summary, has_key=has_key)
    return _recorded(task.commit, task.title, run.summary) if run.summary and settled else None


def run_of(task: CommitTask, bundles: Bundles, *, in_ci: bool) -> BatchRun:
    """As `newest_run`. With `force` nothing counts that is recorded."""
    if task.request.force:
        return BatchRun()
    return newest_run(bundles, task.commit, task.batch.digest, in_ci=in_ci)


def newest_run(bundles: Bundles, commit: str, batch: str, *, in_ci: bool) -> BatchRun:
    """The newest run of the commit in this batch that counts here, or why there is none.

    One that is not what was sealed is no reason to count an older one.
    """
    none = BatchRun()
    for run in bundles.in_batch(commit, batch):
        if run.summary is None or counts_here(run.summary, in_ci=in_ci):
            return run
        none = BatchRun(fault=_OUTSIDE_CI)
    return none


def recorded(
    repository: Repository, bundles: Bundles, commits: Sequence[str], batch: str
) -> Iterator[CommitRow]:
    """A row for each of these commits of what the batch has recorded by now, the newest run of each
    that counts.
    """
    for commit in commits:
        title = title_of(repository, commit)
        run = newest_run(bundles, commit, batch, in_ci=repository.environment.in_ci)
        yield (
            _recorded(commit, title, run.summary)
            if run.summary
            else (
                _unchanged(repository, commit, title)
                or _missing(commit, title, run.fault or _UNSEEN)
            )
        )


def counts_here(summary: Summary, *, in_ci: bool) -> bool:
    """Whether the same request would come out so here.

    In CI no question is left out for want of a key, no override of a clone counts, and a gate that
    is not merged yet needs approval.
    """
    if summary.exit_code != PASS or not in_ci:
        return True
    keyless = [criterion for criterion in summary.criteria if queries.has_cause(criterion, NoKey)]
    left_out = any(criterion.outcome == "not_applicable" for criterion in keyless)
    overridden = any(queries.is_overridden(one) for one in summary.findings)
    return not (left_out or overridden or summary.trusted.bootstrap)


def is_settled(summary: Summary, *, has_key: bool) -> bool:
    """Whether another try would ask no more: neither an error, nor a budget, a deadline, a key
    stood in the way.
    """
    if summary.exit_code == INTEGRITY:
        return False
    if summary.exit_code == INCONCLUSIVE and any(_is_open(one) for one in summary.criteria):
        return False
    return not has_key or not any(
        queries.has_cause(criterion, NoKey) for criterion in summary.criteria
    )


def _is_open(criterion: CriterionResult) -> bool:
    """Whether it lacks an answer: judges who cannot tell, or do not agree, have given theirs."""
    left_open = criterion.unanswered or (
        criterion.kind == "check" and criterion.outcome == "abstain"
    )
    return left_open or criterion.outcome == "error"


def _unchanged(repository: Repository, commit: str, title: str) -> CommitRow | None:
    """The row of a commit that changes no file, which no run is about."""
    parents = repository.parents(commit)
    if (
        parents
        and repository.has(parents[0])
        and repository.tree_of(parents[0]) == repository.tree_of(commit)
    ):
        return CommitRow(
            commit=commit, title=title, outcome="pass", exit_code=PASS, headline="NOTHING TO REVIEW"
        )
    return None


def _missing(commit: str, title: str, why: str) -> CommitRow:
    """The row of a commit without a run that counts."""
    return CommitRow(commit=commit, title=title, outcome="missing", exit_code=INCONCLUSIVE, why=why)


def _recorded(commit: str, title: str, summary: Summary) -> CommitRow:
    return replace(_row(commit, title, summary), recorded=True)


def title_of(repository: Repository, commit: str) -> str:
    """The first line of the commit's message, at most MAX_TITLE characters of it."""
    title = repository.commit(commit).message.lstrip("\n").partition("\n")[0].strip()
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


# One review


async def commit_row(
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
        return not_reviewed(task, INCONCLUSIVE, "The budget of the command is used up.")
    selection = Selection("commit", left=task.commit)
    request = replace(task.request, selection=selection, mode=LiveMode(task.batch))
    try:
        with bundles.alone(task.commit):
            earlier = run_of(task, bundles, in_ci=environment.in_ci)
            if row := settled_row(task, earlier, environment):
                return row
            walk = review_in(
                repository,
                request,
                clock=clock,
                progress=unheard,
                state=state,
            )
            return _shared(
                await walk, task, f"reviewed again: {earlier.fault}" if earlier.fault else ""
            )
    except GateError as error:
        return not_reviewed(task, error.exit_code, str(error))


def not_reviewed(task: CommitTask, exit_code: int, why: str) -> CommitRow:
    """The row of a commit that has no verdict."""
    return CommitRow(
        commit=task.commit, title=task.title, outcome="error", exit_code=exit_code, why=why
    )


def _shared(review: Review, task: CommitTask, again: str) -> CommitRow:
    """The row of a review, its run uploaded to the shared store if there is one; what failed is
    said once a worker.

    `again`: why what was recorded did not count.
    """
    failed = review.unshared.upload() if review.unshared else ()
    row = _row_of(review, task)
    return replace(row, why=" ".join(filter(None, (row.why, again, *failed))))


def _row_of(review: Review, task: CommitTask) -> CommitRow:
    row = _row(task.commit, task.title, review.summary)
    return row if row.bundle else replace(row, why=review.unrecorded)


def _row(commit: str, title: str, summary: Summary) -> CommitRow:
    left = summary.unasked if summary.outcome == "pass" else []
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
        unasked=f"{counted(len(left), 'question')} {left[0].reason}" if left else "",
        warnings=sum(finding.level == "warning" for finding in summary.findings),
    )
