"""`vibe-gate replay RUN` of a workflow's or an agent's run: carry it out again, and show what came
out otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.context.listeners import Listeners
from vibe_gate.context.mode import RepeatMode
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.cause import format_limit
from vibe_gate.domain.escape import safe, show_block
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.model_wire import Wire
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.output import COLUMNS, complain, emit_result, now, wrapped
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.git import Repository
from vibe_gate.report.run_differences import build_comparison_document, render_comparison
from vibe_gate.report.screen_rows import LABEL
from vibe_gate.run.agent_approval import DENIAL
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.recorded_run import compare_bundles
from vibe_gate.run.repeated_run import RepeatedRun, kept_run_to_repeat
from vibe_gate.run.replay import StoredRun, read_stored_run
from vibe_gate.run.resume import KeptRun, can_resume
from vibe_gate.run.run_request import RunRequest, one_agent
from vibe_gate.run.walk import walk_workflow
from vibe_gate.run.workflow_plan import Plan
from vibe_gate.store.run_result import read_bundle


class RepeatOptions(Struct, frozen=True):
    """How a run is repeated."""

    definitions: str | None
    """A revision, or `worktree`; None: those that the run began with."""
    max_cost_usd: float | None
    """US dollars; None: the run's own limit."""
    wire: Wire
    """How the model is reached."""
    as_json: bool


def repeat_run(
    runs: StoredRuns, repository: Repository, entry: RunEntry, options: RepeatOptions
) -> int:
    """Repeat the run, and print the comparison; the exit code. GateError."""
    if entry.state in ("running", "incomplete"):
        begun = runs.begun.get(entry.run_id)
        is_resumable = begun is not None and can_resume(begun)
        advice = f" `vibe-gate resume {entry.run_id}` goes on with it." if is_resumable else ""
        raise UsageError(
            f"Run {entry.run_id} did not end, so there is nothing to compare a repeat with.{advice}"
        )
    stored_run = read_stored_run(repository, entry, now())
    repeated = _repeated_run(runs, stored_run, options)
    if options.wire.mode != "replay":
        _tell_price(stored_run, repeated, options)
    workflow_run = _carry_out(_request(repeated, options), repository)
    return _present(runs, stored_run, workflow_run, as_json=options.as_json)


def _repeated_run(runs: StoredRuns, stored_run: StoredRun, options: RepeatOptions) -> RepeatedRun:
    entry = stored_run.entry
    begun_run = kept_run_to_repeat(entry, stored_run.run_document, runs.begun.get(entry.run_id))
    graph = read_bundle(runs.root / entry.bundle).graph()
    was_denied = any(node.reason == DENIAL for node in graph.nodes)
    return RepeatedRun(
        entry,
        begun_run,
        options.definitions,
        is_interactive=begun_run.mode == "interactive" or was_denied,
        approved_nodes=frozenset(node.id for node in graph.nodes if node.turns),
        setup=_recorded_setup(stored_run),
    )


def _recorded_setup(stored_run: StoredRun) -> dict[str, str]:
    """By path the digests of the set-up that the run's agents had; {} if they had none."""
    digests = stored_run.run_document.get("setup")
    return digests if isinstance(digests, dict) else {}


def _request(repeated: RepeatedRun, options: RepeatOptions) -> RunRequest:
    """The run's own request, as a repeat, which never changes the working tree."""
    begun_run = repeated.begun_run
    request = begun_run.request
    review = request.review(wire=options.wire, mode=RepeatMode(repeated.run_id))
    return RunRequest(
        review=_within_limit(review, options.max_cost_usd),
        workflow="" if request.agent else begun_run.workflow,
        agent=request.agent,
        prompt=begun_run.prompt,
        plan=_plan_of_script(begun_run),
        model=request.model,
        interactive=repeated.is_interactive,
        fix=request.fix,
        reviewing=request.reviewing,
        repeated=repeated,
    )


def _plan_of_script(begun_run: KeptRun) -> Callable[[Gate], Plan] | None:
    """The plan of a script's run of one agent; None of a run of the command line."""
    agent_run = begun_run.agent_run
    if agent_run is None:
        return None
    return one_agent(
        agent_run.agent,
        begun_run.prompt,
        schema=agent_run.schema,
        model=agent_run.model,
        timeout_s=agent_run.timeout_s,
        max_cost_usd=agent_run.max_cost_usd,
    )


def _within_limit(review: ReviewRequest, max_cost_usd: float | None) -> ReviewRequest:
    if max_cost_usd is None:
        return review
    return replace(review, max_cost_usd=max_cost_usd)


def _tell_price(stored_run: StoredRun, repeated: RepeatedRun, options: RepeatOptions) -> None:
    """Say what the run cost and what its repeat can cost, before that is paid."""
    limit = options.max_cost_usd or repeated.begun_run.request.max_cost_usd
    if limit is None and options.definitions is None:
        limit = _gate_limit(stored_run.run_document)
    most = (
        f"at most ${format_limit(limit)} (--max-cost-usd)" if limit else "within the gate's budget"
    )
    run_id = stored_run.entry.run_id
    complain(f"Repeating run {run_id}, which cost ${stored_run.summary.cost.usd:.4f}: {most}.")


def _gate_limit(run_document: Any) -> float | None:  # noqa: ANN401 - any JSON
    """The limit of the run's gate, as its run.json says it; None if it does not."""
    budgets = run_document.get("budgets")
    limit = budgets.get("max_cost_usd") if isinstance(budgets, dict) else None
    return limit if isinstance(limit, (int, float)) else None


def _carry_out(request: RunRequest, repository: Repository) -> WorkflowRun:
    """Run it with its stages on stderr. GateError."""
    assert request.repeated is not None
    environment = read_process_environment()
    with (
        redirect_stdout(sys.stderr),
        progress.display_progress(environment, of_workflow=True) as display,
    ):
        walk = walk_workflow(
            request,
            start=repository.root,
            environment=environment,
            clock=now,
            listeners=Listeners(display.show, display.tick, display.meter),
            approve=request.repeated.approve,
        )
        try:
            return progress.run_in_loop(walk)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; the repeat has no verdict. The same command begins it again."
            ) from None


def _present(
    runs: StoredRuns, stored_run: StoredRun, workflow_run: WorkflowRun, *, as_json: bool
) -> int:
    """Print what came out otherwise; the exit code. StorageError: the repeat is not recorded."""
    review = workflow_run.review
    for note in review.notes:
        if note not in workflow_run.unmatched:
            complain(f"note: {safe(note)}")
    for difference in workflow_run.unmatched:
        complain(f"note: not in the cassette: {show_block(difference)}")
    if review.unrecorded:
        raise StorageError(f"{review.unrecorded} Without a bundle a repeat cannot be compared.")
    comparison = progress.run_walk(
        compare_bundles(
            read_bundle(runs.root / stored_run.entry.bundle), read_bundle(workflow_run.bundle)
        )
    )
    lines: list[str] = []
    for row in render_comparison(comparison):
        lines += wrapped(row, COLUMNS, " " * LABEL).split("\n")
    document = build_comparison_document(comparison)
    return emit_result(document, lines, comparison.exit_code, as_json=as_json)
