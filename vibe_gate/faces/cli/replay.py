"""`vibe-gate replay`: what would another rubric, or another model, have said of stored runs? And the
run of a workflow or an agent carried out again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.context.mode import Batch, ReplayTrial
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import RunEntry, is_run_id
from vibe_gate.domain.cause import format_limit
from vibe_gate.domain.change import Selection
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.model_wire import Wire, WireOptions, read_wire
from vibe_gate.domain.replayed import NOT_YET, ReplayRow
from vibe_gate.errors import INCONCLUSIVE, PASS, UsageError
from vibe_gate.faces import progress, workers
from vibe_gate.faces.cli.command import JSON, Command, argument, whole_number
from vibe_gate.faces.cli.output import complain, emit_result
from vibe_gate.faces.cli.pool import jobs_for, pool_of, within
from vibe_gate.faces.cli.repeat_run import RepeatOptions, repeat_run
from vibe_gate.faces.cli.request import may_be_rubric, parse_selection
from vibe_gate.faces.cli.runs import RUN_HELP, STORE_OPTION, StoredRuns, parse_since
from vibe_gate.faces.cli.shared_options import (
    CLUSTER,
    SHARD,
    WorkerOptions,
    add_wire,
    parse_positive,
    parse_wire,
    parse_workers,
)
from vibe_gate.faces.cli.team import TeamRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.chosen import refuse_code, rubrics_for
from vibe_gate.gate.trusted import WORKTREE, gate_for
from vibe_gate.gateway import find_upstream
from vibe_gate.git import Repository
from vibe_gate.report import replays
from vibe_gate.run.batch import SharedLimit, carry_out_tasks
from vibe_gate.run.each import commits_in_range, describe_reversed_range
from vibe_gate.run.replay import (
    NOT_HERE,
    ReplayPlan,
    ReplayTask,
    plan_replays,
    replay_batch,
    replayable,
    runs_of_agents,
    unreplayed_row,
)
from vibe_gate.run.run_documents import WORKFLOW
from vibe_gate.run.shard import WHOLE

SINCE = "30d"


class ReplayArguments(Struct, frozen=True):
    """The arguments of `vibe-gate replay`."""

    references: tuple[str, ...]
    """The runs, or a range of commits; none: those since `since`."""
    since: datetime | None
    """Runs since then; None: since `SINCE`."""
    rubrics: tuple[str, ...]
    """Ids; none: all of the gate."""
    judge: str
    """The model that is asked in place of every judge; "": each judge's own."""
    definitions: str | None
    """A revision, or `WORKTREE`; None: `WORKTREE`, or of a repeat those of its run."""
    workers: WorkerOptions
    """Who replays, and which runs."""
    max_cost_usd: float | None
    """US dollars that all may cost; None: as much as the gate allows each."""
    store: bool
    """Whether runs of the shared store are meant."""
    table: bool
    """Print what is recorded, and replay nothing."""
    as_json: bool
    wire: WireOptions
    """How the model is reached."""


def _parse(args: argparse.Namespace) -> ReplayArguments:
    # `replay --rubric quality HEAD`: argparse gives all words to --rubric.
    revisions = [word for word in args.rubric if not may_be_rubric(word)]
    rubrics = [word for word in args.rubric if may_be_rubric(word)]
    references = (*args.runs, *revisions)
    if references and args.since:
        raise UsageError("--since and runs select different runs; use one of them.")
    return ReplayArguments(
        references=references,
        since=args.since,
        rubrics=tuple(dict.fromkeys(rubrics)),
        judge=args.judge or "",
        definitions=args.definitions,
        workers=parse_workers(args),
        max_cost_usd=args.max_cost_usd,
        store=args.store,
        table=args.table,
        as_json=args.json,
        wire=parse_wire(args),
    )


def _run(arguments: ReplayArguments) -> int:
    runs = StoredRuns()
    with runs.repository() as repository:
        if repository is None:
            raise UsageError(
                "A replay needs the repository: the bundles alone do not have its files."
            )
        entry = _run_to_repeat(arguments, runs)
        if entry is not None:
            return repeat_run(runs, repository, entry, _repeat_options(arguments))
        return _replay_reviews(arguments, runs, repository)


def _replay_reviews(arguments: ReplayArguments, runs: StoredRuns, repository: Repository) -> int:
    """Replay the reviews that are meant, as far as they are not yet, and show all; the exit code."""
    request = _request(arguments, repository)
    digest = replay_batch(repository, request, arguments.judge)
    batch = Batch(digest, arguments.workers.has_open_ports)
    trial = ReplayTrial(batch, arguments.judge)
    gate = _checked_gate(repository, request, trial)
    team = TeamRuns(runs.root) if arguments.store else None
    chosen_runs = _chosen(arguments, team or runs, repository)
    entries = [run for run in chosen_runs.reviews if arguments.workers.shard.has(run.run_id)]
    if team:
        team.bundles.fetch(run for run in entries if not (runs.root / run.bundle).is_dir())
    can_ask = _can_ask(request.wire)
    plan = plan_replays(repository, runs.bundles, entries, request, trial, can_ask=can_ask)
    rows = {row.run_id: row for row in plan.recorded_rows}
    if arguments.table:
        rows |= {row.run_id: row for row in _missing(plan)}
    else:
        is_paid = can_ask and request.wire.mode != "replay"
        if is_paid and gate.may_ask(request.rubrics):
            most_usd = gate.file.budget.max_cost_usd
            _tell_most(len(plan.tasks), most_usd, arguments.max_cost_usd)
        rows |= _replay(arguments, repository, request, plan, gate)
    named_rows = [rows[entry.run_id] for entry in entries]
    return _present(arguments, named_rows, chosen_runs.of_agents, digest)


def _can_ask(wire: Wire) -> bool:
    """Whether a model, or a recording of one, can be asked. GatewayError."""
    environment = read_process_environment().variables
    has_key = wire.mode == "replay" or find_upstream(environment) is not None
    return has_key and sdk_version() != ""


def _request(arguments: ReplayArguments, repository: Repository) -> ReviewRequest:
    """The request of every replay: the definitions as an id, which no ref moves meanwhile."""
    definitions = arguments.definitions or WORKTREE
    return ReviewRequest(
        Selection("range"),
        rubrics=arguments.rubrics,
        definitions=definitions if definitions == WORKTREE else repository.resolve(definitions),
        wire=_wire(arguments),
    )


def _wire(arguments: ReplayArguments) -> Wire:
    wire = read_wire(read_process_environment().variables, arguments.wire)
    return replace(wire, cassette=wire.cassette and wire.cassette.absolute())


def _run_to_repeat(arguments: ReplayArguments, runs: StoredRuns) -> RunEntry | None:
    """The run of a workflow or an agent, if one is named; None of reviews.

    UsageError: it is named by a revision, so that its agents are not set to work by mistake, or
    with an option that is for reviews.
    """
    if len(arguments.references) != 1 or ".." in arguments.references[0]:
        return None
    try:
        named_run = runs.find_own_run(arguments.references[0])
    except UsageError:
        return None
    entry = named_run.entry
    if not _is_of_agents(entry, runs):
        return None
    workflow = f"run {entry.run_id} of {entry.workflow or 'a workflow'}"
    if not named_run.matched.startswith("run id"):
        raise UsageError(
            f"{paths.quote(arguments.references[0])} means {workflow}, whose agents would work "
            f"again. To repeat it, name it: `vibe-gate replay {entry.run_id}`."
        )
    for option, is_given in _options_for_reviews(arguments).items():
        if is_given:
            raise UsageError(f"{option} is for reviews, and {workflow} is repeated as it was.")
    return entry


def _is_of_agents(entry: RunEntry, runs: StoredRuns) -> bool:
    """Whether it is the run of a workflow or an agent; one that did not end has no summary to tell
    it.
    """
    if entry.state in ("running", "incomplete"):
        begun = runs.begun.get(entry.run_id)
        return begun is not None and bool(begun.request)
    return entry.state == "sealed" and entry.workflow != WORKFLOW


def _options_for_reviews(arguments: ReplayArguments) -> dict[str, bool]:
    """The options that an agent's run has no use for, and whether each is given."""
    workers = arguments.workers
    return {
        "--rubric": bool(arguments.rubrics),
        "--judge": bool(arguments.judge),
        "--jobs": workers.jobs is not None,
        "--shard": workers.shard != WHOLE,
        "--cluster": workers.cluster is not None,
        "--store": arguments.store,
        "--table": arguments.table,
    }


def _repeat_options(arguments: ReplayArguments) -> RepeatOptions:
    return RepeatOptions(
        definitions=arguments.definitions,
        max_cost_usd=arguments.max_cost_usd,
        wire=_wire(arguments),
        as_json=arguments.as_json,
    )


def _checked_gate(repository: Repository, request: ReviewRequest, trial: ReplayTrial) -> Gate:
    """The gate of a change of nothing; a wrong --rubric, and definitions that do not parse, are
    errors.
    """
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
            f"Replaying {counted(number, 'run')}: at most ${format_limit(most)} (--max-cost-usd), nothing for known answers."
        )


class ChosenRuns(Struct, frozen=True):
    """The runs that are meant."""

    reviews: Sequence[RunEntry]
    """Those to replay, oldest first: the named ones; of a range or a time the newest of each change."""
    of_agents: Sequence[str] = ()
    """The ids of the runs of workflows and agents in that range or time, newest first."""


def _chosen(arguments: ReplayArguments, runs: StoredRuns, repository: Repository) -> ChosenRuns:
    references = arguments.references
    if not references:
        since = arguments.since or parse_since(SINCE)
        return _split_runs(runs.bundles.find(since=since))
    if len(references) == 1 and ".." in references[0]:
        span = parse_selection(references[0])
        commits = set(commits_in_range(repository, span))
        if not commits and (hint := describe_reversed_range(repository, span)):
            complain(hint)
        return _split_runs(run for run in runs.bundles.find() if run.head_commit in commits)
    all_entries = runs.bundles.find()
    entries = [_replayable_entry(reference, runs, all_entries) for reference in references]
    return ChosenRuns(list(dict.fromkeys(entries)))


def _split_runs(entries: Iterable[RunEntry]) -> ChosenRuns:
    all_entries = list(entries)
    agent_runs = runs_of_agents(all_entries)
    return ChosenRuns(replayable(all_entries), [run.run_id for run in agent_runs])


def _replayable_entry(
    reference: str, runs: StoredRuns, all_entries: Sequence[RunEntry]
) -> RunEntry:
    """The run; one whose bundle is not here has no key. `all_entries`: all runs."""
    try:
        entry = runs.find_own_run(reference, all_entries).entry
    except UsageError:
        if is_run_id(reference):
            return RunEntry(reference, "")
        raise
    if entry.replay_of:
        raise UsageError(
            f"{paths.quote(reference)} is itself a replay; name the run {entry.replay_of}."
        )
    return entry


def _missing(plan: ReplayPlan) -> Iterable[ReplayRow]:
    return (unreplayed_row(task, NOT_YET if task.key else NOT_HERE) for task in plan.tasks)


def _replay(
    arguments: ReplayArguments,
    repository: Repository,
    request: ReviewRequest,
    plan: ReplayPlan,
    gate: Gate,
) -> dict[str, ReplayRow]:
    """Carry the tasks out; their rows by run id."""
    rows: dict[str, ReplayRow] = {}
    options = arguments.workers
    pool = pool_of(
        options.cluster if plan.tasks else None,
        jobs_for(len(plan.tasks), options.jobs),
        repository,
        asks=gate.may_ask(request.rubrics),
        instead="choose rubrics without judges (--rubric ID)",
        wire=request.wire.mode,
        files=request.definitions == WORKTREE,
        place_of=_stored,
    )
    limit_usd = arguments.max_cost_usd
    budget = SharedLimit(limit_usd) if limit_usd else None
    with_budget = partial(within, budget, gate.file.budget.max_cost_usd)
    try:
        counting = progress.counting(len(plan.tasks), read_process_environment())
        with counting as step, closing(workers), pool as crew:
            for end in carry_out_tasks(plan.tasks, workers.replay_run, crew, with_budget):
                row = end.result or unreplayed_row(end.task, end.why)
                if budget:
                    budget.release(end.task.request.max_cost_usd or 0.0, row.usd)
                rows[row.run_id] = row
                step()
    except KeyboardInterrupt:
        all_runs = counted(len(plan.recorded_rows) + len(plan.tasks), "run")
        raise KeyboardInterrupt(
            f"interrupted; {len(plan.recorded_rows) + len(rows):,} of {all_runs} replayed. The same command goes on from there."
        ) from None
    return rows


def _stored(task: ReplayTask) -> str:
    """Where the run is that the task is about; "" if its bundle is not here."""
    return RunEntry(task.run_id, task.key).place if task.key else ""


def _present(
    arguments: ReplayArguments, rows: Sequence[ReplayRow], agent_runs: Sequence[str], batch: str
) -> int:
    """Print the table; the exit code. `agent_runs`: the ids of those that are not repeated."""
    code = _exit_code(rows, is_table=arguments.table)
    if not rows:
        complain("No stored run to replay; `vibe-gate bundles list` shows all runs.")
    document = replays.build_replay_document(rows, agent_runs, batch, code)
    lines = replays.render_replay_lines(rows, agent_runs)
    return emit_result(document, lines, code, as_json=arguments.as_json)


def _exit_code(rows: Sequence[ReplayRow], *, is_table: bool) -> int:
    if any(row.open for row in rows):
        return INCONCLUSIVE
    if rows and not any(row.is_replayed for row in rows):
        return INCONCLUSIVE
    if is_table and any(row.why for row in rows):
        return INCONCLUSIVE
    return PASS


REPLAY = Command(
    "Judge stored runs again under other rubrics or by another model, and say what would have come out otherwise. "
    "The run of a workflow or an agent is repeated: its agents work again, and what they do otherwise is shown. "
    "Posts nothing, changes no file; a replay never counts as a review.",
    (
        argument(
            "runs",
            nargs="*",
            metavar="RUN|A..B",
            help=f"{RUN_HELP}, or a range (default: those of 30 days)",
        ),
        argument(
            "--since",
            type=parse_since,
            metavar="WHEN",
            help="runs since then: 30d, 12h, 2w, or an ISO date (UTC)",
        ),
        argument(
            "--rubric",
            nargs="+",
            action="extend",
            default=[],
            metavar="ID",
            help="only these rubrics",
        ),
        argument("--judge", metavar="MODEL", help="ask this model in place of every judge"),
        argument(
            "--definitions",
            metavar="REV|worktree",
            help="read .vibe-gate/ at REV, or from disk (default: worktree; of an agent's run as it was)",
        ),
        argument(
            "--jobs",
            type=whole_number,
            metavar="N",
            help="replays side by side (default: cores, at most 4)",
        ),
        argument(
            "--max-cost-usd",
            type=parse_positive,
            metavar="X",
            help="spend at most X US dollars in all",
        ),
        STORE_OPTION,
        SHARD,
        CLUSTER,
        argument(
            "--table",
            action="store_true",
            help="replay nothing; print what is recorded for the same question",
        ),
        JSON,
        add_wire,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate replay --since 30d          what would the rubrics on disk have said
  vibe-gate replay v1.0..main --rubric safety
  vibe-gate replay 20261101T0910 --judge claude-opus-4-8
  vibe-gate replay 20261102T1015        an agent's run: its agents work again
  vibe-gate replay 20261102T1015 --wire replay --cassette DIR   free, offline

Nothing is asked where nothing changed; agents are always asked. After Ctrl-C
the same command goes on; of an agent's run it begins anew.

exit codes: 0 replayed, 2 usage, or definitions that do not parse, 3 a run is
undecided now, or nothing could be replayed; of an agent's run: 0 the same
outcome, 1 another, 3 no verdict, 5 it did not begin in this clone
""",
)
