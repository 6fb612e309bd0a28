"""`vibe-gate replay`: what would another rubric, or another model, have said of stored runs?"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from vibe_gate.context.mode import Batch, ReplayTrial
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import RunEntry, is_run_id
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.replayed import NOT_YET, ReplayRow
from vibe_gate.errors import INCONCLUSIVE, PASS, StorageError, UsageError
from vibe_gate.faces import progress, workers
from vibe_gate.faces.cli.command import JSON, Command, argument, whole_number
from vibe_gate.faces.cli.output import complain, emit_result
from vibe_gate.faces.cli.pool import has_open_ports, jobs_for, pool_of, within
from vibe_gate.faces.cli.request import CLUSTER, SHARD, add_wire, may_be_rubric, positive, selection, wire_of
from vibe_gate.faces.cli.runs import RUN_HELP, STORE_OPTION, StoredRuns, moment
from vibe_gate.faces.cli.team import TeamRuns
from vibe_gate.gate.chosen import refuse_code, rubrics_for
from vibe_gate.gate.trusted import WORKTREE, gate_for
from vibe_gate.gateway import find_upstream
from vibe_gate.git import Repository
from vibe_gate.report import replays
from vibe_gate.report.html import replay_page
from vibe_gate.run.batch import SharedLimit, carried_out
from vibe_gate.run.each import commits_of, reversed_range
from vibe_gate.run.replay import NOT_HERE, ReplayPlan, ReplayTask, not_replayed, planned, replay_batch, replayable

SINCE = "30d"


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    # `replay --rubric quality HEAD`: argparse gives all words to --rubric.
    args.runs += [word for word in args.rubric if not may_be_rubric(word)]
    args.rubric = [word for word in args.rubric if may_be_rubric(word)]
    runs = StoredRuns(environ)
    with runs.repository() as repository:
        if repository is None:
            raise UsageError("A replay needs the repository: the bundles alone do not have its files.")
        request = _request(args, repository, environ)
        judge_model = args.judge or ""
        digest = replay_batch(repository, request, judge_model, environ)
        trial = ReplayTrial(Batch(digest, has_open_ports(args.cluster)), judge_model)
        gate = _checked_gate(repository, request, trial)
        team = TeamRuns(environ, runs.root) if args.store else None
        chosen = [one for one in _chosen(args, team or runs, repository) if args.shard.has(one.run_id)]
        if team:
            team.bundles.fetch(one for one in chosen if not (runs.root / one.bundle).is_dir())
        has_key = request.wire == "replay" or find_upstream(environ) is not None
        plan = planned(repository, runs.bundles, chosen, request, trial, has_key=has_key)
        rows = {row.run_id: row for row in plan.known}
        rows |= {row.run_id: row for row in _missing(plan) if args.table}
        if not args.table:
            asks = gate.may_ask(request.rubrics)
            if has_key and request.wire != "replay" and asks:
                _tell_most(len(plan.tasks), gate.file.budget.max_cost_usd, args.max_cost_usd)
            _replay(args, repository, request, plan, gate.file.budget.max_cost_usd, rows, environ, asks=asks)
    return _shown(args, [rows[one.run_id] for one in chosen], digest)


def _request(args: argparse.Namespace, repository: Repository, environ: Mapping[str, str]) -> ReviewRequest:
    """The request of every replay: the definitions as an id, which no ref moves meanwhile."""
    named = args.definitions
    wire, cassette = wire_of(args, environ)
    return ReviewRequest(
        Selection("range"),
        rubrics=tuple(dict.fromkeys(args.rubric)),
        definitions=named if named == WORKTREE else repository.resolve(named),
        wire=wire,
        cassette=cassette and cassette.absolute(),
        alone=True,
    )


def _checked_gate(repository: Repository, request: ReviewRequest, trial: ReplayTrial) -> Gate:
    """The gate of a change of nothing; a wrong --rubric, and definitions that do not parse, are errors."""
    tree = repository.tree_of(repository.head())
    nothing = repository.between(tree, tree)
    gate = gate_for(repository, nothing, base=None, definitions=request.definitions)
    rubrics = rubrics_for(gate, nothing, request.rubrics)
    if trial.batch.has_open_ports:
        refuse_code(gate, rubrics)
    return gate


def _tell_most(number: int, each_usd: float, all_usd: float | None) -> None:
    """Say what it can cost, before it is paid."""
    if number:
        most = min(number * each_usd, all_usd or float("inf"))
        complain(
            f"Replaying {counted(number, 'run')}: at most ${most:.2f} (--max-cost-usd), nothing for known answers."
        )


def _chosen(args: argparse.Namespace, runs: StoredRuns, repository: Repository) -> list[RunEntry]:
    """The runs that are meant, oldest first: those named; of a range or a time the newest of each change."""
    if not args.runs or args.since:
        if args.runs:
            raise UsageError("--since and runs select different runs; use one of them.")
        return replayable(runs.bundles.find(since=args.since or moment(SINCE)))
    if len(args.runs) == 1 and ".." in args.runs[0]:
        wanted = selection(args.runs[0])
        commits = set(commits_of(repository, wanted))
        if not commits and (hint := reversed_range(repository, wanted)):
            complain(hint)
        return replayable(entry for entry in runs.bundles.runs() if entry.head_commit in commits)
    return list(dict.fromkeys(_named(reference, runs) for reference in args.runs))


def _named(reference: str, runs: StoredRuns) -> RunEntry:
    """The run; one whose bundle is not here has no key."""
    try:
        found = runs.own(reference).entry
    except UsageError:
        if is_run_id(reference):
            return RunEntry(reference, "")
        raise
    if found.replay_of:
        raise UsageError(f"{paths.quote(reference)} is itself a replay; name the run {found.replay_of}.")
    return found


def _missing(plan: ReplayPlan) -> Iterable[ReplayRow]:
    return (not_replayed(task, NOT_YET if task.key else NOT_HERE) for task in plan.tasks)


def _replay(
    args: argparse.Namespace,
    repository: Repository,
    request: ReviewRequest,
    plan: ReplayPlan,
    most: float,
    rows: dict[str, ReplayRow],
    environ: Mapping[str, str],
    *,
    asks: bool,
) -> None:
    """Carry the tasks out, which may ask a model if `asks`; `rows` grows by each that ends."""
    pool = pool_of(
        args.cluster if plan.tasks else None,
        jobs_for(len(plan.tasks), args.jobs),
        repository,
        environ,
        asks=asks,
        instead="choose rubrics without judges (--rubric ID)",
        wire=request.wire or "live",
        files=request.definitions == WORKTREE,
        about=_stored,
    )
    budget = SharedLimit(args.max_cost_usd) if args.max_cost_usd else None

    try:
        with progress.counting(len(plan.tasks), environ) as step, closing(workers), pool as crew:
            for end in carried_out(plan.tasks, workers.replay_run, crew, partial(within, budget, most)):
                row = end.result or not_replayed(end.task, end.why)
                if budget:
                    budget.release(end.task.request.max_cost_usd or 0.0, row.usd)
                rows[row.run_id] = row
                step()
    except KeyboardInterrupt:
        done = f"{len(rows):,} of {counted(len(plan.known) + len(plan.tasks), 'run')}"
        raise KeyboardInterrupt(f"interrupted; {done} replayed. The same command goes on from there.") from None


def _stored(task: ReplayTask) -> str:
    """Where the run is that the task is about; "" if its bundle is not here."""
    return RunEntry(task.run_id, task.key).place if task.key else ""


def _shown(args: argparse.Namespace, rows: Sequence[ReplayRow], batch: str) -> int:
    is_open = any(row.open for row in rows) or (bool(rows) and not any(row.is_replayed for row in rows))
    code = INCONCLUSIVE if is_open or (args.table and any(row.why for row in rows)) else PASS
    if args.html:
        try:
            Path(args.html).write_text(replay_page(rows), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{paths.quote(args.html)} was not written: {error.strerror}.") from error
    if not rows:
        complain("No stored run to replay; `vibe-gate bundles list` shows all runs.")
    return emit_result(args, replays.document(rows, batch, code), replays.lines(rows), code)


REPLAY = Command(
    "Judge stored runs again under other rubrics or by another model, and say what would have come out otherwise. "
    "Posts nothing; a replay never counts as a review.",
    (
        argument("runs", nargs="*", metavar="RUN|A..B", help=f"{RUN_HELP}, or a range (default: those of 30 days)"),
        argument("--since", type=moment, metavar="WHEN", help="runs since then: 30d, 12h, 2w, or an ISO date (UTC)"),
        argument("--rubric", nargs="+", action="extend", default=[], metavar="ID", help="only these rubrics"),
        argument("--judge", metavar="MODEL", help="ask this model in place of every judge"),
        argument(
            "--definitions",
            default=WORKTREE,
            metavar="REV|worktree",
            help="read .vibe-gate/ at REV, or from disk (default: worktree)",
        ),
        argument("--jobs", type=whole_number, metavar="N", help="replays side by side (default: cores, at most 4)"),
        argument("--max-cost-usd", type=positive, metavar="X", help="spend at most X US dollars in all"),
        STORE_OPTION,
        SHARD,
        CLUSTER,
        argument("--table", action="store_true", help="replay nothing; print what is recorded for the same question"),
        argument("--html", metavar="FILE", help="write the table as a page"),
        JSON,
        add_wire,
    ),
    _run,
    examples="""\
examples:
  vibe-gate replay --since 30d          what would the rubrics on disk have said
  vibe-gate replay v1.0..main --rubric safety
  vibe-gate replay 20261101T0910 --judge claude-opus-4-8

Nothing is asked where nothing changed. After Ctrl-C the same command goes on.

exit codes: 0 replayed, 2 usage, or definitions that do not parse, 3 a run is
undecided now, or nothing could be replayed
""",
)
