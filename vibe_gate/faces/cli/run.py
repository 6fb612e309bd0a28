"""`vibe-gate run`: turn argv into a RunRequest, show the stages, print the outcome and how to apply
what they made.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.model_wire import WireOptions
from vibe_gate.domain.rubric import model_name
from vibe_gate.errors import INCONCLUSIVE, PASS, POLICY_CHANGED, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import Command
from vibe_gate.faces.cli.output import COLUMNS, complain, emit, now, share, wrapped
from vibe_gate.faces.cli.request import (
    ChangeArguments,
    RubricArguments,
    advising_about,
    request_of,
    require_single_revision,
)
from vibe_gate.faces.cli.runs import RUN_HELP, StoredRuns
from vibe_gate.faces.cli.screen import print_document, screen
from vibe_gate.faces.cli.shared_options import (
    RunLimits,
    add_limits,
    add_wire,
    parse_limits,
    parse_wire,
)
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.fixing import FIX
from vibe_gate.report.screen_rows import LABEL
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.fix import approval_needed, nothing_to_fix
from vibe_gate.run.run_documents import summarize_change
from vibe_gate.run.run_request import RunRequest
from vibe_gate.run.walk import run_workflow

_NO_END = ("running", "incomplete", "foreign")
"""States of a run that has no verdict to fix."""

SHOWN_FILES, SHOWN_ROWS = 8, 5
"""Of what agents changed, and of what one said last."""


class AgentOptions(Struct, frozen=True):
    """How agents work."""

    apply: bool
    """Put what they changed into the working tree."""
    interactive: bool
    """Ask before each agent."""
    model: str | None
    """The model of all agents; None: each one's own."""
    limits: RunLimits
    """What they may cost."""
    wire: WireOptions
    """How the model is reached."""
    as_json: bool
    """Print the summary as one JSON document."""


class WorkflowArguments(Struct, frozen=True):
    """`vibe-gate run WORKFLOW`."""

    workflow: str
    change: ChangeArguments
    """What the run is about."""
    options: AgentOptions


class AgentArguments(Struct, frozen=True):
    """`vibe-gate run --agent ID --prompt TEXT`, and how a session goes on."""

    agent: str
    prompt: str
    change: ChangeArguments
    """What the run is about."""
    options: AgentOptions
    session: str = ""
    """The session that the agent goes on with; "" for a new one."""


class FixArguments(Struct, frozen=True):
    """`vibe-gate run --fix`."""

    reference: str
    """The run whose findings are repaired; "": the newest that ended."""
    change: ChangeArguments
    """Where the definitions are read."""
    options: AgentOptions


RunArguments = WorkflowArguments | AgentArguments | FixArguments
"""What `vibe-gate run` does."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    what.add_argument(
        "words", nargs="*", metavar="WORKFLOW [REV | A..B]", help="a workflow's id, and the change"
    )
    what.add_argument("--agent", metavar="ID", help="run one agent, as a workflow of one stage")
    what.add_argument("--prompt", metavar="TEXT", help="what that agent is asked")
    what.add_argument(
        "--fix",
        nargs="?",
        const="",
        metavar="RUN",
        help=f"repair what a run found: {RUN_HELP} (default: the newest)",
    )
    what.add_argument("--staged", action="store_true", help="about the index against HEAD")
    what.add_argument(
        "--base", metavar="REV", help="the trusted base revision; definitions are read there"
    )
    what.add_argument(
        "--definitions", metavar="REV|worktree", help="read .vibe-gate/ at REV, or from disk"
    )
    add_agent_options(parser)


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Declare how agents work, for `run` and for `sessions continue` and `resume`."""
    how = parser.add_argument_group("how")
    how.add_argument(
        "--apply", action="store_true", help="put what the agents changed into the working tree"
    )
    how.add_argument("--interactive", action="store_true", help="ask before each agent")
    how.add_argument("--model", type=_model, metavar="M", help="the model of all agents")
    add_limits(parser)
    add_wire(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the summary as one JSON document"
    )


def parse_agent_options(args: argparse.Namespace) -> AgentOptions:
    """The value of the options of `add_agent_options`."""
    return AgentOptions(
        apply=args.apply,
        interactive=args.interactive,
        model=args.model,
        limits=parse_limits(args),
        wire=parse_wire(args),
        as_json=args.json,
    )


def _parse(args: argparse.Namespace) -> RunArguments:
    options = parse_agent_options(args)
    if args.fix is not None:
        if args.words or args.staged or args.agent is not None or args.prompt is not None:
            raise UsageError(
                "--fix RUN takes the change of that run: name no workflow, revision or agent beside it."
            )
        change = ChangeArguments(base=args.base, definitions=args.definitions)
        return FixArguments(args.fix, change, options)
    words = list(args.words)
    if args.agent is None and not words:
        raise UsageError("name a workflow, or use --agent ID --prompt TEXT.")
    if (args.agent is None) != (args.prompt is None):
        raise UsageError("--agent ID and --prompt TEXT belong together.")
    workflow = "" if args.agent is not None else words.pop(0)
    change = ChangeArguments(
        revision=require_single_revision(words),
        staged=args.staged,
        base=args.base,
        definitions=args.definitions,
    )
    if args.agent is None:
        return WorkflowArguments(workflow, change, options)
    require_prompt(args.prompt)
    return AgentArguments(args.agent, args.prompt, change, options)


def require_prompt(text: str) -> None:
    """UsageError for a prompt without a word."""
    if not text.strip():
        raise UsageError("The prompt is empty; say what the agent is to do.")


def _model(text: str) -> str:
    try:
        return model_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}' {error}") from None


def run(arguments: RunArguments) -> int:
    """Run what the arguments name; the exit code. GateError."""
    if isinstance(arguments, FixArguments):
        return _repair(arguments)
    workflow_run = carry_out(_request(arguments), Path.cwd())
    present_and_share(workflow_run, as_json=arguments.options.as_json)
    return workflow_run.review.summary.exit_code


def _repair(arguments: FixArguments) -> int:
    """Repair what a stored run found; say so if that is nothing."""
    clone = StoredRuns()
    runs, named_run = clone.open_run(arguments.reference or _newest_ended(clone))
    run_id = named_run.entry.run_id
    matched = named_run.matched if arguments.reference else "the newest that ended"
    complain(f"note: run {run_id} ({matched})")
    as_json = arguments.options.as_json
    if not (stored_run := runs.read(named_run)).complete:
        raise UsageError(
            f"Run {run_id} did not end, so it has no verdict to fix; see `vibe-gate bundles list`."
        )
    needs_approval = stored_run.summary.exit_code == POLICY_CHANGED
    if why := nothing_to_fix(stored_run.summary):
        emit(stored_run.summary.to_json() if as_json else f"{why}\n")
        passed = POLICY_CHANGED if needs_approval else PASS
        return passed if stored_run.summary.outcome == "pass" else INCONCLUSIVE
    if needs_approval:
        complain(f"note: {approval_needed(stored_run.summary)}; the repair needs it, too")
    workflow_run = carry_out(_request(arguments, run_id), runs.top)
    present_and_share(workflow_run, as_json=as_json)
    return workflow_run.review.summary.exit_code


def _newest_ended(runs: StoredRuns) -> str:
    """The newest run that began in this clone and ended: a repair that was broken off is newer.
    UsageError.

    One in which nothing was reviewed has nothing to say about an older one that failed.
    """
    for entry in runs.bundles.find():
        has_verdict = entry.state not in _NO_END and entry.extent != "nothing"
        if has_verdict and entry.run_id in runs.begun:
            return entry.run_id
    raise UsageError(
        "No run to fix began in this clone. Review first, or name the run: `vibe-gate run --fix RUN`."
    )


def present_and_share(workflow_run: WorkflowRun, *, as_json: bool) -> None:
    """As `present`; then the run goes to the shared store, if there is one."""
    try:
        present(workflow_run, as_json=as_json)
    finally:
        share(workflow_run.review)


def run_as_review(request: ReviewRequest, workflow: str, *, quiet: bool) -> WorkflowRun:
    """Review with a workflow: its rubric stages give the verdict. GateError."""
    run_request = RunRequest(review=request, workflow=workflow, reviewing=True)
    return carry_out(run_request, Path.cwd(), quiet=quiet)


def _request(arguments: RunArguments, fixed_run: str = "") -> RunRequest:
    """What the arguments ask for. `fixed_run`: the id of the run whose findings are repaired."""
    options = arguments.options
    review = request_of(
        arguments.change,
        RubricArguments(),
        options.limits,
        options.wire,
        read_process_environment(),
    )
    workflow = agent = prompt = session = ""
    match arguments:
        case FixArguments():
            workflow = FIX
        case WorkflowArguments():
            workflow = arguments.workflow
        case AgentArguments():
            agent, prompt = arguments.agent, arguments.prompt
            session = arguments.session
    return RunRequest(
        review=review,
        workflow=workflow,
        agent=agent,
        prompt=prompt,
        session=session,
        model=options.model,
        interactive=options.interactive,
        apply=options.apply,
        fix=fixed_run,
    )


def carry_out(
    request: RunRequest,
    start: Path,
    *,
    answers: Mapping[str, bool] = MappingProxyType({}),
    quiet: bool = False,
) -> WorkflowRun:
    """Run it with its stages on the screen. `answers`: the nodes that a person let begin, or left
    out, beforehand.

    What a Python workflow prints goes to stderr: stdout is for the result.
    """
    environment = read_process_environment()
    with (
        redirect_stdout(sys.stderr),
        progress.shown(environment, quiet=quiet, of_workflow=True) as display,
    ):

        def approve(node: str, agent: Agent, prompt: str, usd: float) -> bool | None:
            if node in answers or sys.stdin is None or not sys.stdin.isatty():
                return answers.get(node)
            with display.aside():
                return _asked(node, agent, prompt, usd)

        began: list[str] = []
        walk = run_workflow(
            request,
            start=start,
            environment=environment,
            clock=now,
            progress=display.show,
            meter=display.meter,
            tick=display.tick,
            approve=approve,
            began=began.append,
        )
        try:
            with advising_about(request.review):
                return progress.looped(walk)
        except KeyboardInterrupt:
            if not began:
                raise
            raise KeyboardInterrupt(
                f"interrupted; `vibe-gate resume {began[0]}` goes on."
            ) from None


def _asked(node: str, agent: Agent, prompt: str, usd: float) -> bool | None:
    """What a person answers at the terminal; None: the run is left waiting."""
    first_line = next((line for line in prompt.splitlines() if line.strip()), "")
    facts = {
        "agent": f"{agent.id} (isolation {agent.level})",
        "tools": ", ".join((*agent.tools, *agent.mcp_servers)),
        "prompt": first_line + (" …" if first_line != prompt.strip() else ""),
        "cost": f"${usd:.4f} until now",
    }
    lines = [f"stage {node} waits for you", *(f"  {name:<8}{text}" for name, text in facts.items())]
    sys.stderr.write("".join(f"{wrapped(safe(line), indent=' ' * LABEL)}\n" for line in lines))
    while True:
        sys.stderr.write(
            "Begin? y: yes, n: leave it out, q: stop here (`vibe-gate resume` goes on) "
        )
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if (word := answer.strip().lower()[:1]) in _ANSWERS and (word or not answer):
            return _ANSWERS[word]


_ANSWERS = {"y": True, "n": False, "q": None, "": None}


def present(workflow_run: WorkflowRun, *, as_json: bool = False) -> None:
    """Print the outcome: the JSON document, or the verdict, the stages with their cost, and how to
    apply the patch.

    Raises, after that, the error for which the patch was not applied.
    """
    review = workflow_run.review
    if as_json:
        print_document(review)
    else:
        then = {
            PASS: _after_pass(workflow_run),
            INCONCLUSIVE: "vibe-gate bundles show --log, for what the agents did",
        }.get(review.summary.exit_code, "")
        columns = min(COLUMNS, shutil.get_terminal_size().columns)
        parts = (
            (_stages(workflow_run), LABEL),
            (_said(workflow_run), 2),
            (_made(workflow_run), LABEL),
        )
        below = "".join(
            f"{wrapped(row, columns, ' ' * indent)}\n" for rows, indent in parts for row in rows
        )
        emit(f"{screen(review, then, workflow_run.problem)}\n\n{below}")
    if workflow_run.unapplied is not None:
        raise workflow_run.unapplied


def _after_pass(workflow_run: WorkflowRun) -> str:
    """What to do with the patch of a run that passed; "" if that is nothing."""
    if workflow_run.patch is None:
        return ""
    if not workflow_run.applied:
        return "apply the patch, as said below"
    if workflow_run.change is None or not workflow_run.staged:
        return ""
    names = (
        os.path.relpath(workflow_run.review.root / name)
        for file in workflow_run.change.files
        for name in file.names
    )
    return f"git add -- {' '.join(map(shlex.quote, dict.fromkeys(names)))}"


def _stages(workflow_run: WorkflowRun) -> Iterator[str]:
    """A line a stage, with what it and its judges cost."""
    cost = workflow_run.review.summary.cost
    nodes = [result.node for result in workflow_run.results]
    for result in workflow_run.results:
        own = [node for node in cost.by_node if _owner(node, nodes) == result.node]
        price = f" · ${sum(cost.by_node[node] for node in own):.4f}" if own else ""
        at_most = " at most" if price and cost.basis == "unknown" else ""
        yield f"stage     {result.node}: {result.displayed_outcome}{price}{at_most}"


def _owner(node: str, stages: list[str]) -> str:
    """The stage that a node of the cost belongs to: itself, or the gate whose judge it is."""
    return max(
        (one for one in stages if node == one or node.startswith(f"{one}-")), key=len, default=""
    )


def _made(workflow_run: WorkflowRun) -> Iterator[str]:
    if workflow_run.change is None:
        yield "changed   nothing"
        return
    change = summarize_change(workflow_run.change)
    files = f"{counted(len(change.files), 'file')} +{change.added} −{change.deleted}"
    yield f"changed   {files} · {_first(workflow_run.names)}"
    if workflow_run.steers:
        yield f"look at   {_first(workflow_run.steers)}: affects agents, tests or the gate; --apply leaves all to you"
    path = _patch_path(workflow_run)
    if workflow_run.applied:
        yield "applied   to the working tree"
    elif not path:
        yield "patch     not kept, because nothing can be written: free space or permissions, and run it again"
    elif workflow_run.review.summary.exit_code == PASS:
        yield f"apply     git apply {'-3 ' if workflow_run.unapplied else ''}{path}"
    else:
        yield f"patch     {path} (not applied: the run did not pass)"


def _patch_path(workflow_run: WorkflowRun) -> str:
    """The patch's file as a word for a shell; "" if it could not be written."""
    if workflow_run.patch is None:
        return ""
    if workflow_run.patch.parent != workflow_run.bundle:
        return shlex.quote(os.path.relpath(workflow_run.patch))
    # The key of a run's folder makes a line too wide to copy, and the run's id is enough for a
    # shell to find it.
    return f"{shlex.quote(os.path.relpath(workflow_run.bundle.parent.parent))}/*/{workflow_run.bundle.name}/made.patch"


def _first(names: Sequence[str]) -> str:
    return ", ".join(
        [*map(safe, names[:SHOWN_FILES]), *(["…"] if len(names) > SHOWN_FILES else [])]
    )


def _said(workflow_run: WorkflowRun) -> Iterator[str]:
    """The last messages of the agents that nothing comes after: the whole of an only one that read,
    else its start.
    """
    for node, text in workflow_run.said:
        rows = [safe(row) for row in text.strip().splitlines()]
        most = (
            len(rows)
            if len(workflow_run.results) == 1 and workflow_run.change is None
            else SHOWN_ROWS
        )
        yield from [
            "",
            f"{node}:",
            *(f"  {row}" for row in rows[:most]),
            *(["  …"] if len(rows) > most else []),
        ]
    if workflow_run.said:
        yield ""


RUN = Command(
    "Run a workflow, or one agent, about a change. Agents write in a clone; your files change with --apply only.",
    (_add_arguments,),
    _parse,
    run,
    "vibe-gate run [WORKFLOW [REV | A..B] | --fix [RUN] | --agent ID ...]",
    """\
examples:
  vibe-gate run fix                     review uncommitted work, repair it
  vibe-gate run fix main..              about what your branch added
  vibe-gate run --fix                   repair what the newest run found
  vibe-gate run --agent fixer --prompt "Make the tests pass." --apply
""",
)
