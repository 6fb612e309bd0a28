"""`vibe-gate run`: turn argv into a RunRequest, show the stages, print the outcome and how to apply
what they made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from vibe_gate.context.listeners import Listeners
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import safe
from vibe_gate.domain.model_wire import WireOptions
from vibe_gate.domain.rubric import model_name
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import INCONCLUSIVE, PASS, POLICY_CHANGED, GateError, UsageError
from vibe_gate.faces import progress
from vibe_gate.faces.cli.command import Command
from vibe_gate.faces.cli.output import complain, emit, now, upload_run, wrapped
from vibe_gate.faces.cli.request import (
    ChangeArguments,
    RubricArguments,
    advising_about,
    request_of,
    require_single_revision,
)
from vibe_gate.faces.cli.runs import RUN_HELP, StoredRuns
from vibe_gate.faces.cli.shared_options import (
    RunLimits,
    add_limits,
    add_wire,
    parse_limits,
    parse_wire,
)
from vibe_gate.faces.cli.workflow_screen import present_workflow_run
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.gate.fixing import FIX
from vibe_gate.gate.stored import gate_of_run
from vibe_gate.git import Repository
from vibe_gate.report.screen_rows import LABEL
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.fix import approval_needed, nothing_in_files, nothing_to_fix
from vibe_gate.run.run_request import RunRequest
from vibe_gate.run.walk import walk_workflow

_NO_END = ("running", "incomplete", "foreign")
"""States of a run that has no verdict to fix."""

_FILES, _HEAD = "your files as they are", "HEAD"
"""Words for trees that are there now."""


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
    """The run whose findings are repaired; "": the newest that fails the files as they are."""
    change: ChangeArguments
    """Where the definitions are read."""
    options: AgentOptions


RunArguments = WorkflowArguments | AgentArguments | FixArguments
"""What `vibe-gate run` does."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument_group("what to run")
    target.add_argument(
        "words", nargs="*", metavar="WORKFLOW [REV | A..B]", help="a workflow's id, and the change"
    )
    target.add_argument("--agent", metavar="ID", help="run one agent, as a workflow of one stage")
    target.add_argument("--prompt", metavar="TEXT", help="what that agent is asked")
    target.add_argument(
        "--fix",
        nargs="?",
        const="",
        metavar="RUN",
        help=f"repair what a run found: {RUN_HELP} (default: the newest that fails your files)",
    )
    target.add_argument("--staged", action="store_true", help="about the index against HEAD")
    target.add_argument(
        "--definitions", metavar="REV|worktree", help="read .vibe-gate/ at REV, or from disk"
    )
    add_agent_options(parser)


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Declare how agents work, for `run` and for `sessions continue` and `resume`."""
    options = parser.add_argument_group("how")
    options.add_argument(
        "--apply", action="store_true", help="put what the agents changed into the working tree"
    )
    options.add_argument("--interactive", action="store_true", help="ask before each agent")
    options.add_argument("--model", type=_model, metavar="M", help="the model of all agents")
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
                "--fix RUN takes the change of that run: name no workflow, revision or agent "
                "beside it."
            )
        change = ChangeArguments(definitions=args.definitions)
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


def run_agents(arguments: RunArguments) -> int:
    """Run what the arguments name; the exit code. GateError."""
    if isinstance(arguments, FixArguments):
        return _repair(arguments)
    workflow_run = carry_out(_request(arguments), Path.cwd())
    present_and_share(workflow_run, as_json=arguments.options.as_json)
    return workflow_run.review.summary.exit_code


def _repair(arguments: FixArguments) -> int:
    """Repair what a stored run found; say so if that is nothing."""
    clone = StoredRuns()
    reference = arguments.reference
    matched = ""
    if not reference:
        reference, matched = _choose_run(clone)
    runs, named_run = clone.open_run(reference)
    run_id = named_run.entry.run_id
    matched = matched or named_run.matched
    complain(f"note: run {run_id} ({matched})")
    as_json = arguments.options.as_json
    stored_run = runs.read(named_run)
    if not stored_run.complete:
        raise UsageError(
            f"Run {run_id} did not end, so it has no verdict to fix; see `vibe-gate bundles list`."
        )
    summary = stored_run.summary
    needs_approval = summary.exit_code == POLICY_CHANGED
    reason = nothing_to_fix(summary)
    if reason:
        emit(summary.to_json() if as_json else f"{reason}\n")
        if summary.outcome != "pass":
            return INCONCLUSIVE
        if needs_approval:
            return POLICY_CHANGED
        return PASS
    reason = _why_not_in_files(clone, summary)
    if reason:
        emit(summary.to_json() if as_json else f"{reason}\n")
        return summary.exit_code
    if needs_approval:
        complain(f"note: {approval_needed(summary)}; the repair needs it, too")
    workflow_run = carry_out(_request(arguments, run_id), runs.top)
    present_and_share(workflow_run, as_json=as_json)
    return workflow_run.review.summary.exit_code


def _why_not_in_files(clone: StoredRuns, summary: Summary) -> str:
    """As `nothing_in_files`; "" where the gate of the run cannot be read any more."""
    with suppress(GateError), clone.repository() as repository:
        if repository is not None:
            return nothing_in_files(summary, gate_of_run(repository, summary))
    return ""


def _choose_run(runs: StoredRuns) -> tuple[str, str]:
    """The newest run of this clone that fails the files as they are now, or that is about them at
    all; and what it is about, in a few words. UsageError.

    One in which nothing was reviewed has nothing to say about an older one that failed.
    """
    ended_runs = []
    for entry in runs.bundles.find():
        has_verdict = entry.state not in _NO_END and entry.extent != "nothing"
        if has_verdict and entry.run_id in runs.begun:
            ended_runs.append(entry)
    with runs.repository() as repository:
        present_trees = _present_trees(repository) if repository else {}
    about_present = [entry for entry in ended_runs if entry.after in present_trees]
    for entry in about_present:
        if entry.outcome == "fail":
            return entry.run_id, f"the newest that fails {present_trees[entry.after]}"
    words_of_present = {present_trees[entry.after] for entry in about_present}
    if about_present and _FILES in present_trees.values() and words_of_present == {_HEAD}:
        raise UsageError("Your files are not reviewed yet: `vibe-gate review`.")
    if about_present:
        entry = about_present[0]
        return entry.run_id, f"the newest about {present_trees[entry.after]}"
    raise UsageError(_why_no_run(ended_runs))


def _present_trees(repository: Repository) -> dict[str, str]:
    """The trees that are there now, each with words for it. GateError."""
    trees = {repository.index_tree(): "what is staged"}
    trees[repository.snapshot()] = _FILES
    if repository.head():
        trees[repository.tree("HEAD").id] = _HEAD
    return trees


def _why_no_run(ended_runs: Sequence[RunEntry]) -> str:
    """Why there is no run to repair, and what to run."""
    advice = (
        "Review first: `vibe-gate review` for uncommitted work, `vibe-gate review HEAD~1` with the "
        "last commit"
    )
    failed = [entry.run_id for entry in ended_runs if entry.outcome == "fail"]
    if failed:
        return (
            f"No review of your files as they are now is here, nor of HEAD. {advice}. The newest run "
            f"that failed is about other files: `vibe-gate run --fix {failed[0]}`."
        )
    return (
        f"No run to fix began in this clone. {advice}; or name the run: `vibe-gate run --fix RUN`."
    )


def present_and_share(workflow_run: WorkflowRun, *, as_json: bool) -> None:
    """As `present_workflow_run`; then the run goes to the shared store, if there is one."""
    try:
        present_workflow_run(workflow_run, as_json=as_json)
    finally:
        upload_run(workflow_run.review)


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
        progress.display_progress(environment, quiet=quiet, of_workflow=True) as display,
    ):

        def approve(node: str, agent: Agent, prompt: str, usd: float) -> bool | None:
            if node in answers or sys.stdin is None or not sys.stdin.isatty():
                return answers.get(node)
            with display.aside():
                return _ask_person(node, agent, prompt, usd)

        run_ids: list[str] = []
        walk = walk_workflow(
            request,
            start=start,
            environment=environment,
            clock=now,
            listeners=Listeners(display.show, display.tick, display.meter),
            approve=approve,
            began=run_ids.append,
        )
        try:
            with advising_about(request.review):
                return progress.run_in_loop(walk)
        except KeyboardInterrupt:
            if not run_ids:
                raise
            raise KeyboardInterrupt(
                f"interrupted; `vibe-gate resume {run_ids[0]}` goes on."
            ) from None


def _ask_person(node: str, agent: Agent, prompt: str, usd: float) -> bool | None:
    """What a person answers at the terminal; None: the run is left waiting."""
    lines = [f"stage {node} waits for you"]
    for name, text in _facts_to_approve(agent, prompt, usd).items():
        lines.append(f"  {name:<8}{text}")
    for line in lines:
        sys.stderr.write(f"{wrapped(safe(line), indent=' ' * LABEL)}\n")
    while True:
        sys.stderr.write(
            "Begin? y: yes, n: leave it out, q: stop here (`vibe-gate resume` goes on) "
        )
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:  # the end of stdin
            return None
        word = answer.strip().lower()[:1]
        if word in _ANSWERS:
            return _ANSWERS[word]


def _facts_to_approve(agent: Agent, prompt: str, usd: float) -> dict[str, str]:
    """What a person is told of an agent that is about to begin."""
    prompt_lines = [line for line in prompt.splitlines() if line.strip()]
    first_line = prompt_lines[0] if prompt_lines else ""
    is_whole_prompt = first_line == prompt.strip()
    tools = (*agent.tools, *agent.mcp_servers, *agent.setup_mcp_servers)
    setup = ", setup project" if agent.setup == "project" else ""
    return {
        "agent": f"{agent.id} (isolation {agent.level}{setup})",
        "tools": ", ".join(tools),
        "prompt": first_line if is_whole_prompt else f"{first_line} …",
        "cost": f"${usd:.4f} until now",
    }


_ANSWERS = {"y": True, "n": False, "q": None}


RUN = Command(
    "Run a workflow, or one agent, about a change. Agents write in a clone; your files change with --apply only.",
    (_add_arguments,),
    _parse,
    run_agents,
    "vibe-gate run [WORKFLOW [REV | A..B] | --fix [RUN] | --agent ID ...]",
    """\
examples:
  vibe-gate run fix                     review uncommitted work, repair it
  vibe-gate run fix main..              about what your branch added
  vibe-gate run --fix                   repair what the last failed review found
  vibe-gate run --agent fixer --prompt "Make the tests pass." --apply
""",
)
