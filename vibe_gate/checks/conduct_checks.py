"""Checks of conduct: what agents did, whatever the change looks like.

`CheckInput.conduct` gives an entry for each agent that is looked at. The gate gives the turns of
the stages that it comes after and the captured sessions that wrote files of the change; `expect`
gives the turns of a RunResult. Without anything to look at the outcome is not_applicable, and
abstain if something that should be looked at is not recorded: never pass.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from vibe_gate.checks.check_contract import (
    MAX_SCANNED_LINE,
    Call,
    CheckInput,
    CheckResult,
    Conduct,
    Files,
    Hit,
    NoOptions,
    RegularExpression,
    any_of,
    failed,
)
from vibe_gate.domain.escape import counted
from vibe_gate.domain.session_record import judge_tests
from vibe_gate.domain.verdict import ANSWER_TOOL
from vibe_gate.store import captures

if TYPE_CHECKING:
    from vibe_gate.store.captured_conduct import CapturedSession
    from vibe_gate.store.run_result import RunResult

LOG_ERRORS = (
    r"\bERROR\b",
    r"\bFATAL\b",
    r"\bCRITICAL\b",
    r"Traceback \(most recent call last\)",
    r"^panic: ",
    r"Unhandled\w* ",
    r"\bSegmentation fault\b",
    r"\bUncaught \w+",
)
"""What programs write when something broke, in the spellings of common loggers and runtimes."""

LOGGING_TOOLS = ("Bash", "BashOutput", "TaskOutput", "mcp__*")
"""Tools that return what a program printed. Others return files and pages, which may tell of
errors.
"""

NAMED = 3
"""Pieces of evidence that a sentence names; the findings have all of them."""


class ToolsOnlyOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tools-only`."""

    tools: Annotated[
        tuple[str, ...],
        Meta(description="names of tools; `*` and `?` as in file names, such as `mcp__docs__*`"),
    ]


class ToolUsedOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tool-used`."""

    tool: Annotated[str, Meta(min_length=1, description="the tool's name")]
    min: Annotated[int, Meta(ge=0, description="how often at least")] = 1
    max: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="how often at most")] = None


class CostOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `cost-under`."""

    max_usd: Annotated[
        float, Meta(ge=0, description="US dollars that the agents' turns may cost together")
    ]


class LogOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `no-errors-in-logs`."""

    patterns: Annotated[
        tuple[RegularExpression, ...],
        Meta(
            min_length=1, description="regular expressions of errors, by default of common loggers"
        ),
    ] = LOG_ERRORS
    ignore: Annotated[
        tuple[RegularExpression, ...],
        Meta(description="regular expressions of lines that do not count"),
    ] = ()


class TestsRanOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tests-ran`."""

    __test__ = False  # the name is no test's

    commands: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
        Meta(
            description="words with which a command begins that runs the tests, such as "
            "`make check`; `*` and `?` as in file names; by default known test runners"
        ),
    ] = ()


def conduct_of_turn(name: str, turn: RunResult, *, superseded: bool = False) -> Conduct:
    """A recorded turn, or all turns of a run. StorageError, IntegrityError, from `log` too."""
    metrics = turn.metrics
    return Conduct(
        name=name,
        calls=turn.tools.all(),
        todos=turn.todos,
        usd=metrics.total_cost_usd,
        usd_at_most=metrics.cost_basis == "unknown",
        lacks=turn.hook_capture_status.lacks,
        log=lambda: _printed(turn),
        superseded=superseded,
    )


def conduct_of_stages(run: RunResult, agents: Mapping[str, str]) -> tuple[Conduct, ...]:
    """The turns of agents, whose nodes are named oldest first, each with its stage. StorageError,
    IntegrityError.

    A turn that was cut off and begun again counts as superseded: only the last turn of a node is
    left in the files.
    """
    latest_nodes = {stage: node for node, stage in agents.items()}
    turns_by_node: dict[str, list[RunResult]] = {node: [] for node in agents}
    for turn in run.turns():
        turns_by_node.setdefault(turn.bundle_dir.parent.name, []).append(turn)
    conducts: list[Conduct] = []
    for node, stage in agents.items():
        turns = turns_by_node[node]
        for earlier_turn in turns[:-1]:
            conducts.append(conduct_of_turn(f"{node}, cut off", earlier_turn, superseded=True))
        if not turns:
            conducts.append(Conduct(name=node, unread="its turn was not recorded"))
        else:
            superseded = latest_nodes[stage] != node
            conducts.append(conduct_of_turn(node, turns[-1], superseded=superseded))
    return tuple(conducts)


def conduct_of_session(session: str, captured: CapturedSession | None) -> Conduct:
    """A captured session by its id; None: its events are not in the store."""
    name = captures.session_title(session)
    if captured is None:
        unread = "its events are not here, or cannot be read"
        return Conduct(name=name, is_session=True, unread=unread)
    unread = ""
    if captured.damaged:
        unread = f"{counted(captured.damaged, 'event')} of it could not be kept"
    return Conduct(
        name=name, calls=captured.calls, todos=captured.todos, is_session=True, unread=unread
    )


def _printed(turn: RunResult) -> Iterator[str]:
    for message in turn.messages:
        if message.role != "tool":
            continue
        content = message.load()
        if _matches(str(content.get("tool")), LOGGING_TOOLS):
            yield from _text(content.get("result")).splitlines()


def _text(result: object) -> str:
    match result:
        case str():
            return result
        case list():
            return "\n".join(map(_text, result))
        case {"text": str(text)}:
            return text
        case _:
            return ""


def _matches(tool: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(tool, pattern) for pattern in patterns)


def describe_capture_gaps(run: RunResult) -> str:
    """One line that names the turns of a run whose hooks missed something, judges' too; "" if none
    did.
    """
    turns = [conduct_of_turn(turn.bundle_dir.parent.name, turn) for turn in run.turns()]
    gaps = _capture_gaps(turns)
    return f"Capture incomplete: {_first_of(gaps)}" if gaps else ""


# The checks


def tools_only(input: CheckInput, options: ToolsOnlyOptions, files: Files) -> CheckResult:
    """Whether every tool that was called, with success or not, is one of `tools`."""
    conducts = input.conduct()
    problems: dict[str, None] = {}
    for conduct in conducts:
        for call in conduct.calls:
            if call.name != ANSWER_TOOL and not _matches(call.name, options.tools):
                problems[f"{conduct.name} used {call.name}"] = None
    allowed_tools = ", ".join(options.tools) or "none"
    passes = f"Only the allowed tools were used ({allowed_tools})."
    return _conclude(input, conducts, [*problems], passes)


def tool_used(input: CheckInput, options: ToolUsedOptions, files: Files) -> CheckResult:
    """Whether the turns called `tool` with success at least `min` and at most `max` times, all
    together.
    """
    turns = _turns(input)
    calls: list[Call] = []
    for turn in turns:
        calls += [call for call in turn.calls if call.name == options.tool]
    successes = sum(call.ok for call in calls)
    failures = len(calls) - successes
    count = f"{options.tool} succeeded {counted(successes, 'time')}"
    if options.max is not None and successes > options.max:
        return _conclude(input, turns, [f"{count}, at most {options.max} allowed"], "")
    if options.max is None and 0 < options.min <= successes:  # whatever was not recorded
        return CheckResult("pass", f"{count}.")
    is_all_recorded = bool(turns) and not any(turn.unread for turn in turns)
    problems: list[str] = []
    if successes < options.min and is_all_recorded:
        failed_count = counted(failures, "time")
        problems.append(f"{count} of {options.min} wanted, and failed {failed_count}")
    return _conclude(input, turns, problems, f"{count}.")


def cost_under(input: CheckInput, options: CostOptions, files: Files) -> CheckResult:
    """Whether the turns cost at most `max_usd` all together."""
    turns = _turns(input)
    usd = sum(turn.usd or 0.0 for turn in turns)
    costs = ", ".join(f"{turn.name} ${turn.usd:.4f}" for turn in turns if turn.usd is not None)
    if usd > options.max_usd:
        if any(turn.usd_at_most for turn in turns):
            reason = f"It cost at most ${usd:.4f}: a model has no list price ({costs})."
            return CheckResult("abstain", reason)
        problem = f"${usd:.4f} is more than ${options.max_usd:.4f} ({costs})"
        return _conclude(input, turns, [problem], "")
    for turn in turns:
        if turn.usd is None and not turn.unread:
            return CheckResult("abstain", f"What {turn.name} cost is not known.")
    return _conclude(input, turns, [], f"${usd:.4f} of at most ${options.max_usd:.4f}.")


def todos_completed(input: CheckInput, options: NoOptions, files: Files) -> CheckResult:
    """Whether nothing is left on the agents' own lists; of a stage that ran again, on its last
    one.
    """
    conducts = input.conduct()
    with_list: list[Conduct] = []
    for conduct in conducts:
        if not conduct.superseded and (conduct.todos or conduct.unread):
            with_list.append(conduct)
    if conducts and not with_list:
        return CheckResult("not_applicable", "No agent had a list of todos.")
    problems: list[str] = []
    for conduct in with_list:
        for todo in conduct.todos:
            if todo.status != "completed":
                status = todo.status.replace("_", " ")
                problems.append(f"{conduct.name}: {status}: {todo.text}")
    return _conclude(input, with_list, problems, "All todos are completed.")


def no_errors_in_logs(input: CheckInput, options: LogOptions, files: Files) -> CheckResult:
    """Whether nothing that programs printed looks like an error; of a stage that ran again, in its
    last turn.
    """
    turns = [turn for turn in _turns(input) if not turn.superseded]
    is_error = any_of(options.patterns)
    is_ignored = any_of(options.ignore)
    problems: list[str] = []
    for turn in turns:
        for whole_line in turn.log():
            line = whole_line[:MAX_SCANNED_LINE]
            if is_error(line) and not is_ignored(line):
                problems.append(f"{turn.name}: {line.strip()}")
    return _conclude(input, turns, problems, "No program printed an error.")


def complete_capture(input: CheckInput, options: NoOptions, files: Files) -> CheckResult:
    """Whether hooks saw every tool call of the turns start and end."""
    turns = _turns(input)
    return _conclude(input, turns, _capture_gaps(turns), "Hooks saw every tool call start and end.")


def tests_ran(input: CheckInput, options: TestsRanOptions, files: Files) -> CheckResult:
    """Whether a command that runs tests ended well after the last write to the change's files, in
    the captured sessions that wrote it.
    """
    if input.record is None:
        return CheckResult("not_applicable", "No captured session wrote the change.")
    record = input.record
    if input.criterion.paths:
        record = record.about_files({file.path for file in files})
    if not record.writes:
        return CheckResult("not_applicable", "No captured session wrote these files.")
    tests = judge_tests(record, options.commands)
    call = f"`{tests.command}`, turn {tests.turn}"
    match tests.state:
        case "passed":
            return CheckResult("pass", f"{call}, passed after the last change.")
        case "unknown":
            reason = f"Not known whether tests passed after the last change ({call}): run them"
            return CheckResult("abstain", f"{reason} again, by themselves and without a pipe.")
        case "failed":
            problem = f"Tests failed after the last change: {call}"
        case "before":
            problem = f"No test ran after the last change; before it {call}"
        case "none":
            problem = "No test ran in the sessions that wrote the change"
    if record.unrecorded:
        events = counted(record.unrecorded, "event")
        return CheckResult("abstain", f"{problem}, but {events} could not be recorded.")
    return failed(input, f"{problem}.", [Hit(problem)])


def _capture_gaps(turns: Sequence[Conduct]) -> list[str]:
    """What is not known of the turns, each with its name."""
    gaps: list[str] = []
    for turn in turns:
        reason = turn.unread or turn.lacks
        if reason:
            gaps.append(f"{turn.name}: {reason}")
    return gaps


def _turns(input: CheckInput) -> list[Conduct]:
    return [conduct for conduct in input.conduct() if not conduct.is_session]


def _conclude(
    input: CheckInput, conducts: Sequence[Conduct], problems: list[str], passes: str
) -> CheckResult:
    """Fail with the problems, each a finding about the whole change; all of them are untrusted
    text.
    """
    if problems:
        return failed(input, _first_of(problems), [Hit(problem) for problem in problems])
    if not conducts:
        return CheckResult("not_applicable", "There is no turn of an agent to look at.")
    unread = [f"{conduct.name}: {conduct.unread}" for conduct in conducts if conduct.unread]
    if unread:
        return CheckResult("abstain", f"Not known: {'; '.join(unread)}.")
    return CheckResult("pass", passes)


def _first_of(problems: list[str]) -> str:
    """The first problems, as one sentence that says how many more there are."""
    shown_problems = "; ".join(problems[:NAMED])
    if len(problems) <= NAMED:
        return f"{shown_problems}."
    return f"{shown_problems}; and {len(problems) - NAMED} more."
