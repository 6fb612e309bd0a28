"""`vibe-gate resume`: go on with a workflow's run that died, or that waits for a person."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.domain.escape import counted, safe
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.command import JSON, Command
from vibe_gate.faces.cli.output import complain
from vibe_gate.faces.cli.request import add_wire
from vibe_gate.faces.cli.run import carried_out, present_and_share
from vibe_gate.faces.cli.runs import RUN_ARGUMENT, StoredRuns
from vibe_gate.run.resume import KeptRun, resumed
from vibe_gate.run.walk import RunRequest
from vibe_gate.store import RunResult


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    runs = StoredRuns(environ)
    meant = runs.own(args.run)
    if args.run is None:
        others = sum(run.state == "incomplete" and run != meant.entry for run in runs.bundles.runs())
        more = f"; {counted(others, 'older run')} did not end (vibe-gate bundles list)" if others else ""
        complain(f"note: the newest run, {meant.entry.run_id}{more}")
    result = runs.read(meant)
    if result.complete:
        raise UsageError(f"Run {meant.entry.run_id} has ended; there is nothing to resume.")
    request = _request(args, resumed(meant.entry, result.about))
    done = carried_out(request, runs.root, environ, answers=_answers(args, result))
    present_and_share(done, environ, as_json=args.json)
    return done.review.summary.exit_code


def _request(args: argparse.Namespace, run: KeptRun) -> RunRequest:
    """The run's own request."""
    asked = run.request
    return RunRequest(
        review=asked.review(wire=args.wire, cassette=Path(args.cassette) if args.cassette else None),
        workflow="" if asked.agent else run.workflow,
        agent=asked.agent,
        prompt=run.prompt,
        session=asked.session,
        model=asked.model,
        interactive=(args.mode or run.mode) == "interactive",
        apply=asked.apply,
        fix=asked.fix,
        reviewing=asked.reviewing,
        resumed=run,
    )


def _answers(args: argparse.Namespace, result: RunResult) -> dict[str, bool]:
    """What `--approve` and `--deny` say. UsageError: the named node does not wait."""
    word = args.approve or args.deny
    waiting = [node.id for node in result.graph().nodes if node.status == "BLOCKED"]
    if word and word not in waiting:
        names = ", ".join(map(safe, waiting)) or "none"
        raise UsageError(f"'{word}' does not wait for approval (waiting: {names}).")
    return {word: bool(args.approve)} if word else {}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    person = parser.add_mutually_exclusive_group()
    person.add_argument("--approve", metavar="NODE", help="let the agent that waits begin")
    person.add_argument("--deny", metavar="NODE", help="leave it out")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--auto", dest="mode", action="store_const", const="auto", help="do not ask before agents")
    mode.add_argument(
        "--interactive", dest="mode", action="store_const", const="interactive", help="ask before each agent"
    )
    add_wire(parser)


RESUME = Command(
    "Go on with a workflow's run that died or waits for approval: what had ended is not done again.",
    (
        RUN_ARGUMENT,
        _add_arguments,
        JSON,
    ),
    _run,
    examples="""\
examples:
  vibe-gate resume                     the newest run
  vibe-gate resume --approve fix       a run with --interactive that waits
""",
)
