"""`vibe-gate resume`: go on with a workflow's run that died, or that waits for a person."""

from __future__ import annotations

import argparse
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.model_wire import WireOptions, read_wire
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.command import JSON, Command
from vibe_gate.faces.cli.output import complain
from vibe_gate.faces.cli.run import carry_out, present_and_share
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, StoredRuns
from vibe_gate.faces.cli.shared_options import (
    add_wire,
    parse_wire,
)
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.run.resume import KeptRun, can_resume, kept_run
from vibe_gate.run.run_request import RunRequest
from vibe_gate.store.run_result import RunResult


class ResumeArguments(Struct, frozen=True):
    """The arguments of `vibe-gate resume`."""

    reference: str | None
    """The run; None: the newest that can go on."""
    approved: str | None
    """The node that waits and may begin."""
    denied: str | None
    """The node that waits and is left out."""
    mode: Literal["auto", "interactive"] | None
    """Whether a person is asked before each agent; None: as the run was begun."""
    wire: WireOptions
    """How the model is reached."""
    as_json: bool


def _parse(args: argparse.Namespace) -> ResumeArguments:
    return ResumeArguments(
        args.run, args.approve, args.deny, args.mode, parse_wire(args), args.json
    )


def _run(arguments: ResumeArguments) -> int:
    runs = StoredRuns()
    named_run = runs.find_own_run(arguments.reference or _newest_unfinished(runs))
    result = runs.read(named_run)
    run_id = named_run.entry.run_id
    begun = runs.begun.get(run_id)
    if result.complete and begun is None:
        raise UsageError(
            f"Run {run_id} has ended, and did not begin in this clone: imported runs are never resumed. "
            "Begin a run of your own: `vibe-gate run`."
        )
    if result.complete:
        raise UsageError(f"Run {run_id} has ended; there is nothing to resume.")
    stored_request = kept_run(named_run.entry, result.run_document, begun)
    answers = _answers(arguments, result)
    workflow_run = carry_out(_request(arguments, stored_request), runs.top, answers=answers)
    present_and_share(workflow_run, as_json=arguments.as_json)
    return workflow_run.review.summary.exit_code


def _newest_unfinished(runs: StoredRuns) -> str:
    """The newest run that can be gone on with here; a note says which, and how many others there
    are. UsageError.
    """
    with runs.repository() as repository:
        worktree = "" if repository is None else repository.worktree
    unfinished = [
        entry.run_id for entry in runs.bundles.find() if entry.state in ("running", "incomplete")
    ]
    begun = [run_id for run_id in unfinished if run_id in runs.begun]
    resumable = []
    for run_id in begun:
        run = runs.begun[run_id]
        if run.worktree == worktree and can_resume(run):
            resumable.append(run_id)
    if not resumable:
        foreign = ""
        foreign_count = len(unfinished) - len(begun)
        if foreign_count:
            number = counted(foreign_count, "unfinished run")
            foreign = f" {number} did not begin in this clone."
        raise UsageError(
            f"No run to resume: every `vibe-gate run` of this working tree has ended.{foreign}"
        )
    newest, older = resumable[0], len(resumable) - 1
    note = f"note: the newest run to resume, {newest}"
    if older:
        note += f"; {counted(older, 'older run')} did not end (vibe-gate bundles list)"
    complain(note)
    return newest


def _request(arguments: ResumeArguments, run: KeptRun) -> RunRequest:
    """The run's own request."""
    request, wire = run.request, read_wire(read_process_environment().variables, arguments.wire)
    return RunRequest(
        review=request.review(wire=wire),
        workflow="" if request.agent else run.workflow,
        agent=request.agent,
        prompt=run.prompt,
        session=request.session,
        model=request.model,
        interactive=(arguments.mode or run.mode) == "interactive",
        apply=request.apply,
        fix=request.fix,
        reviewing=request.reviewing,
        resumed=run,
    )


def _answers(arguments: ResumeArguments, result: RunResult) -> dict[str, bool]:
    """What `--approve` and `--deny` say. UsageError: the named node does not wait."""
    node_id = arguments.approved or arguments.denied
    if not node_id:
        return {}
    waiting = [node.id for node in result.graph().nodes if node.status == "BLOCKED"]
    if node_id not in waiting:
        names = ", ".join(map(safe, waiting)) or "none"
        raise UsageError(f"'{node_id}' does not wait for approval (waiting: {names}).")
    return {node_id: bool(arguments.approved)}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    person = parser.add_mutually_exclusive_group()
    person.add_argument("--approve", metavar="NODE", help="let the agent that waits begin")
    person.add_argument("--deny", metavar="NODE", help="leave it out")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--auto", dest="mode", action="store_const", const="auto", help="do not ask before agents"
    )
    mode.add_argument(
        "--interactive",
        dest="mode",
        action="store_const",
        const="interactive",
        help="ask before each agent",
    )
    add_wire(parser)


RESUME = Command(
    "Go on with a workflow's run that died or waits for approval: what had ended is not done again.",
    (
        RUN_ARGUMENT,
        _add_arguments,
        JSON,
    ),
    _parse,
    _run,
    examples="""\
examples:
  vibe-gate resume                     the newest run
  vibe-gate resume --approve fix       a run with --interactive that waits
""",
)
