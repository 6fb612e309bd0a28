"""`vibe-gate review A..B --each`: every commit of a range by itself, a line each, and one exit
code.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.mode import Batch
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.commit_row import CommitRow, worst
from vibe_gate.domain.escape import counted
from vibe_gate.errors import INCONCLUSIVE, DefinitionError, UsageError
from vibe_gate.faces import progress, workers
from vibe_gate.faces.cli.lazy_arguments import EachArguments
from vibe_gate.faces.cli.output import (
    complain,
    emit,
    emit_lines,
    is_terminal,
    now,
    open_repository_here,
)
from vibe_gate.faces.cli.pool import jobs_for, pool_of, within
from vibe_gate.faces.cli.request import advising_about
from vibe_gate.faces.cli.shared_options import WorkerOptions
from vibe_gate.faces.cli.team import TeamRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.chosen import refuse_code, rubrics_for
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository
from vibe_gate.report import commit_reviews as shown
from vibe_gate.run.batch import SharedLimit, carry_out_tasks
from vibe_gate.run.each import (
    CommitTask,
    batch_digest,
    commits_in_range,
    describe_reversed_range,
    newest_run,
    plan_reviews,
    recorded_rows,
    unreviewed_row,
)
from vibe_gate.store.worktree_bundles import Bundles


def review_each_commit(
    arguments: EachArguments,
    request: ReviewRequest,
    *,
    as_json: bool,
) -> int:
    """Review each commit of the range, or with `--table` tell what is recorded.

    Returns the exit code of the worst. GateError.
    """
    if request.selection.kind not in ("range", "merge_base"):
        raise UsageError("--each needs a range: `vibe-gate review A..B --each`.")
    began = time.monotonic()
    with open_repository_here() as repository, advising_about(request):
        commits = commits_in_range(repository, request.selection, merges=arguments.merges)
        if not commits and (hint := describe_reversed_range(repository, request.selection)):
            complain(hint)
        request = _with_ids(request, repository)
        options = arguments.workers
        batch = Batch(batch_digest(repository, request), options.has_open_ports)
        commits_of_shard = [name for name in commits if options.shard.has(name)]
        bundles = Bundles(repository.store_root, Provenance(now(), repository.tracked_in_store()))
        if arguments.store:
            _bring(repository, bundles, commits_of_shard, batch.digest)
        screen = _Screen(commits_of_shard, as_json=as_json)
        if arguments.table:
            for row in recorded_rows(repository, bundles, commits_of_shard, batch.digest):
                screen.show(row)
        else:
            needs_key = options.cluster is not None
            bounds = _bounds_of_gate(repository, request, batch, commits, needs_key=needs_key)
            try:
                tasks = plan_reviews(
                    repository, bundles, commits_of_shard, request, batch, screen.show
                )
                _review(options, repository, request, tasks, bounds, screen)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(screen.interrupted) from None
    return screen.print_total(batch.digest, time.monotonic() - began)


def _with_ids(request: ReviewRequest, repository: Repository) -> ReviewRequest:
    """The request of every commit: revisions as ids, which no ref moves meanwhile."""
    ids = {}
    for name in ("base", "definitions"):
        revision = getattr(request, name)
        if revision and revision != "worktree":
            ids[name] = repository.resolve(revision)
    wire = request.wire
    wire = replace(wire, cassette=wire.cassette and wire.cassette.absolute())
    return replace(request, **ids, wire=wire)


def _bring(repository: Repository, bundles: Bundles, commits: Sequence[str], batch: str) -> None:
    """Bring the runs of these commits that the shared store has and this clone lacks. GateError.

    Their names do not say to which batch they belong.
    """
    in_ci = repository.environment.in_ci
    lacking = {
        name for name in commits if newest_run(bundles, name, batch, in_ci=in_ci).summary is None
    }
    shared = TeamRuns(repository.store_root).bundles
    shared.fetch([run for run in shared.find() if run.state == "sealed" and run.key in lacking])


class GateBounds(Struct, frozen=True):
    """What the gate of the newest commit says of each review."""

    max_cost_usd: float | None
    """USD that one may cost; None: not looked up, as nothing depends on it."""
    asks: bool
    """Whether it may ask a model."""


def _bounds_of_gate(
    repository: Repository,
    request: ReviewRequest,
    batch: Batch,
    commits: Sequence[str],
    *,
    needs_key: bool,
) -> GateBounds:
    """What the gate allows; with `needs_key`, whether a key is needed is looked up, too.

    A wrong --rubric is an error before any review, and so is code of the change on a cluster
    without TLS.
    """
    depends = request.rubrics or request.max_cost_usd or batch.has_open_ports or needs_key
    may_ask = request.judge != "never"
    if not commits or not depends:
        return GateBounds(None, may_ask)
    change = repository.change(
        replace(request.selection, kind="commit", left=commits[-1], right="")
    )
    try:
        gate = gate_for(repository, change, base=request.base, definitions=request.definitions)
    except DefinitionError:  # the row of each commit says so
        return GateBounds(request.max_cost_usd, may_ask)
    rubrics = rubrics_for(gate, change, request.rubrics)
    if batch.has_open_ports:
        refuse_code(gate, rubrics)
    asks = may_ask and gate.may_ask(request.rubrics)
    return GateBounds(gate.file.budget.max_cost_usd, asks)


def _review(
    options: WorkerOptions,
    repository: Repository,
    request: ReviewRequest,
    tasks: Sequence[CommitTask],
    bounds: GateBounds,
    screen: _Screen,
) -> None:
    pool = pool_of(
        options.cluster if tasks else None,
        jobs_for(len(tasks), options.jobs),
        repository,
        asks=bounds.asks,
        instead="use --no-judge",
        wire=request.wire.mode,
        files=request.definitions == "worktree",
    )
    limit_usd, most_usd = request.max_cost_usd, bounds.max_cost_usd or 0.0
    budget = SharedLimit(limit_usd) if limit_usd and most_usd else None
    with_budget = partial(within, budget, most_usd)
    counting = progress.counting(len(tasks), read_process_environment())
    with counting as step, closing(workers), pool as crew:
        for end in carry_out_tasks(tasks, workers.review_commit, crew, with_budget):
            row = end.result or unreviewed_row(end.task, INCONCLUSIVE, end.why)
            if budget:
                cost = 0.0 if row.recorded else row.usd
                budget.release(end.task.request.max_cost_usd or 0.0, cost)
            screen.show(row)
            step()


class _Screen:
    """Rows printed: as JSON as they come, as lines in the order of the commits; the table at the
    end.
    """

    def __init__(self, commits: Sequence[str], *, as_json: bool) -> None:
        self._commits = commits
        self._as_json = as_json
        self._rows: dict[str, CommitRow] = {}
        self._printed = 0
        self._width = shutil.get_terminal_size().columns if is_terminal() else None

    def show(self, row: CommitRow) -> None:
        """A commit's row is there."""
        self._rows[row.commit] = row
        if self._as_json:
            emit(json.dumps(shown.build_commit_document(row)) + "\n")
            return
        for next_row in self._in_order():
            emit_lines(shown.render_commit_line(next_row, self._width))

    def _in_order(self) -> Iterator[CommitRow]:
        while self._printed < len(self._commits) and (
            row := self._rows.get(self._commits[self._printed])
        ):
            self._printed += 1
            yield row

    @property
    def interrupted(self) -> str:
        """What is said at Ctrl-C."""
        recorded = sum(bool(row.bundle) for row in self._rows.values())
        number = f"{recorded:,} of {counted(len(self._commits), 'commit')}"
        return f"interrupted; {number} recorded. The same command goes on from there."

    def print_total(self, batch: str, seconds: float) -> int:
        """Print what all come to; the exit code."""
        rows = [self._rows[name] for name in self._commits]
        code = worst(row.exit_code for row in rows)
        if self._as_json:
            emit(json.dumps(shown.build_total_document(rows, code, batch, seconds)) + "\n")
        else:
            emit_lines(*shown.render_commit_table(rows, seconds))
        return code
