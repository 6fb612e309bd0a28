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
from vibe_gate.run.resume import KeptRun, kept_run
from vibe_gate.run.walk import RunRequest
from vibe_gate.store import RunResult


def _run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    runs = StoredRuns(environ)
    meant = runs.own(args.run or _newest_unfinished(runs))
    result = runs.read(meant)
    run_id = meant.entry.run_id
    begun = runs.begun.get(run_id)
    if result.complete and begun is None:
        raise UsageError(
            f"Run {run_id} has ended, and did not begin in this clone: imported runs are never resumed. "
            "Begin a run of your own: `vibe-gate run`."
        )
    if result.complete:
        raise UsageError(f"Run {run_id} has ended; there is nothing to resume.")
    kept = kept_run(meant.entry, result.about, begun)
    done = carried_out(_request(args, kept), runs.top, environ, answers=_answers(args, result))
    present_and_share(done, environ, as_json=args.json)
    return done.review.summary.exit_code


def _newest_unfinished(runs: StoredRuns) -> str:
    """The newest run that can be gone on with here; a note says which, and how many others there are. UsageError."""
    with runs.repository() as repository:
        worktree = "" if repository is None else repository.worktree
    unfinished = [entry.run_id for entry in runs.bundles.runs() if entry.state in ("running", "incomplete")]
    begun = [run_id for run_id in unfinished if run_id in runs.begun]
    resumable = []
    for run_id in begun:
        run = runs.begun[run_id]
        if run.request and run.worktree == worktree:
            resumable.append(run_id)
    if not resumable:
        others = len(unfinished) - len(begun)
        foreign = f" {counted(others, 'unfinished run')} did not begin in this clone." if others else ""
        raise UsageError(f"No run to resume: every `vibe-gate run` of this working tree has ended.{foreign}")
    newest, older = resumable[0], len(resumable) - 1
    more = f"; {counted(older, 'older run')} did not end (vibe-gate bundles list)" if older else ""
    complain(f"note: the newest run to resume, {newest}{more}")
    return newest


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
