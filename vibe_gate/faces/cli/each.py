"""`vibe-gate review A..B --each`: every commit of a range by itself, a line each, and one exit code."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from vibe_gate.context.mode import Batch
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.commit_row import CommitRow, worst
from vibe_gate.domain.escape import counted
from vibe_gate.errors import INCONCLUSIVE, DefinitionError, UsageError
from vibe_gate.faces import progress, workers
from vibe_gate.faces.cli.output import complain, emit, emit_lines, is_terminal, now
from vibe_gate.faces.cli.pool import has_open_ports, jobs_for, pool_of, within
from vibe_gate.faces.cli.request import advising_about
from vibe_gate.faces.cli.team import TeamRuns
from vibe_gate.gate.chosen import refuse_code, rubrics_for
from vibe_gate.gate.trusted import gate_for
from vibe_gate.git import Repository, open_repository
from vibe_gate.report import commits as shown
from vibe_gate.run.batch import SharedLimit, carried_out
from vibe_gate.run.each import (
    EachPlan,
    batch_of,
    commits_of,
    newest_run,
    not_reviewed,
    planned,
    recorded,
    reversed_range,
)
from vibe_gate.store import Bundles


def each(args: argparse.Namespace, request: ReviewRequest, environ: Mapping[str, str]) -> int:
    """Review each commit of the range, or with `--table` tell what is recorded; the exit code of the worst."""
    if request.selection.kind not in ("range", "merge_base"):
        raise UsageError("--each needs a range: `vibe-gate review A..B --each`.")
    began = time.monotonic()
    with open_repository(Path.cwd(), environ) as repository, advising_about(request, environ):
        chosen = commits_of(repository, request.selection, merges=not args.no_merges)
        if not chosen and (hint := reversed_range(repository, request.selection)):
            complain(hint)
        asked = _resolved(request, repository)
        batch = Batch(batch_of(repository, asked, environ), has_open_ports(args.cluster))
        own = [name for name in chosen if args.shard.has(name)]
        bundles = Bundles(repository.store_root, Provenance(now(), repository.tracked_in_store()))
        if args.store:
            _bring(repository, bundles, own, batch.digest, environ)
        screen = _Screen(own, as_json=args.json)
        if args.table:
            for row in recorded(repository, bundles, own, batch.digest, environ):
                screen.show(row)
        else:
            plan = planned(repository, bundles, own, asked, batch, environ)
            most, asks = _checked_gate(repository, asked, batch, chosen, needs_key=bool(args.cluster))
            _review(args, repository, asked, plan, most, screen, environ, asks=asks)
    return screen.ended(batch.digest, time.monotonic() - began)


def _resolved(request: ReviewRequest, repository: Repository) -> ReviewRequest:
    """The request of every commit: revisions as ids, which no ref moves meanwhile."""
    names = {name: getattr(request, name) for name in ("base", "definitions")}
    ids = {name: repository.resolve(value) for name, value in names.items() if value and value != "worktree"}
    cassette = request.cassette and request.cassette.absolute()
    return replace(request, **ids, cassette=cassette, alone=True)


def _bring(
    repository: Repository, bundles: Bundles, commits: Sequence[str], batch: str, environ: Mapping[str, str]
) -> None:
    """Bring the runs of these commits that the shared store has and this clone lacks. GateError.

    Their names do not say to which batch they belong.
    """
    lacking = {name for name in commits if newest_run(bundles, name, batch, environ).summary is None}
    shared = TeamRuns(environ, repository.store_root).bundles
    shared.fetch([run for run in shared.runs() if run.state == "sealed" and run.key in lacking])


def _checked_gate(
    repository: Repository, request: ReviewRequest, batch: Batch, commits: Sequence[str], *, needs_key: bool
) -> tuple[float | None, bool]:
    """USD that a review may cost at most, and whether it may ask a model (for those that need a key for it), by the
    gate of the newest commit; a wrong --rubric is an error before any, and so is code of the change on a cluster
    without TLS."""
    if not commits or not (request.rubrics or request.max_cost_usd or batch.has_open_ports or needs_key):
        return None, request.judge != "never"
    change = repository.change(replace(request.selection, kind="commit", left=commits[-1], right=""))
    try:
        gate = gate_for(repository, change, base=request.base, definitions=request.definitions)
    except DefinitionError:  # the row of each commit says so
        return request.max_cost_usd, request.judge != "never"
    rubrics = rubrics_for(gate, change, request.rubrics)
    if batch.has_open_ports:
        refuse_code(gate, rubrics)
    return gate.file.budget.max_cost_usd, request.judge != "never" and gate.may_ask(request.rubrics)


def _review(
    args: argparse.Namespace,
    repository: Repository,
    asked: ReviewRequest,
    plan: EachPlan,
    most: float | None,
    screen: _Screen,
    environ: Mapping[str, str],
    *,
    asks: bool,
) -> None:
    for row in plan.known:
        screen.show(row)
    pool = pool_of(
        args.cluster if plan.tasks else None,
        jobs_for(len(plan.tasks), args.jobs),
        repository,
        environ,
        asks=asks,
        instead="use --no-judge",
        wire=asked.wire or "live",
        files=asked.definitions == "worktree",
    )
    budget = SharedLimit(args.max_cost_usd) if args.max_cost_usd and most else None
    try:
        with progress.counting(len(plan.tasks), environ) as step, closing(workers), pool as crew:
            for end in carried_out(plan.tasks, workers.review_commit, crew, partial(within, budget, most or 0.0)):
                row = end.result or not_reviewed(end.task, INCONCLUSIVE, end.why)
                if budget:
                    budget.release(end.task.request.max_cost_usd or 0.0, 0.0 if row.recorded else row.usd)
                screen.show(row)
                step()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(screen.interrupted) from None


class _Screen:
    """Rows printed: as JSON as they come, as lines in the order of the commits; the table at the end."""

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
            emit(json.dumps(shown.document(row)) + "\n")
            return
        for one in self._in_order():
            emit_lines(shown.line(one, self._width))

    def _in_order(self) -> Iterator[CommitRow]:
        while self._printed < len(self._commits) and (row := self._rows.get(self._commits[self._printed])):
            self._printed += 1
            yield row

    @property
    def interrupted(self) -> str:
        """What is said at Ctrl-C."""
        done = sum(bool(row.bundle) for row in self._rows.values())
        of = f"{done:,} of {counted(len(self._commits), 'commit')}"
        return f"interrupted; {of} recorded. The same command goes on from there."

    def ended(self, batch: str, seconds: float) -> int:
        """Print what all come to; the exit code."""
        rows = [self._rows[name] for name in self._commits]
        code = worst(row.exit_code for row in rows)
        if self._as_json:
            emit(json.dumps(shown.total(rows, code, batch, seconds)) + "\n")
        else:
            emit_lines(*shown.table(rows, seconds))
        return code
