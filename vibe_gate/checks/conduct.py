"""Checks of conduct: what agents did, whatever the change looks like.

`CheckInput.conduct` gives an entry for each agent that is looked at. The gate gives the turns of the stages that it
comes after and the captured sessions that wrote files of the change; `expect` gives the turns of a RunResult. Without
anything to look at the outcome is not_applicable, and abstain if something that should be looked at is not recorded:
never pass.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from vibe_gate.checks.contract import (
    MAX_SCANNED_LINE,
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
from vibe_gate.domain.verdict import ANSWER_TOOL
from vibe_gate.store import captures

if TYPE_CHECKING:
    from vibe_gate.store.captured import CapturedSession
    from vibe_gate.store.result import RunResult

LOG_ERRORS = (
    r"\bERROR\b", r"\bFATAL\b", r"\bCRITICAL\b", r"Traceback \(most recent call last\)", r"^panic: ", r"Unhandled\w* ",
    r"\bSegmentation fault\b", r"\bUncaught \w+",
)  # fmt: skip
"""What programs write when something broke, in the spellings of common loggers and runtimes."""

LOGGING_TOOLS = ("Bash", "BashOutput", "TaskOutput", "mcp__*")
"""Tools that return what a program printed. Others return files and pages, which may tell of errors."""

NAMED = 3
"""Pieces of evidence that a sentence names; the findings have all of them."""


class ToolsOnlyOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tools-only`."""

    tools: Annotated[
        tuple[str, ...], Meta(description="names of tools; `*` and `?` as in file names, such as `mcp__docs__*`")
    ]


class ToolUsedOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tool-used`."""

    tool: Annotated[str, Meta(min_length=1, description="the tool's name")]
    min: Annotated[int, Meta(ge=0, description="how often at least")] = 1
    max: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="how often at most")] = None


class CostOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `cost-under`."""

    max_usd: Annotated[float, Meta(ge=0, description="US dollars that the agents' turns may cost together")]


class LogOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `no-errors-in-logs`."""

    patterns: Annotated[
        tuple[RegularExpression, ...],
        Meta(min_length=1, description="regular expressions of errors, by default of common loggers"),
    ] = LOG_ERRORS
    ignore: Annotated[
        tuple[RegularExpression, ...], Meta(description="regular expressions of lines that do not count")
    ] = ()


def of_turn(name: str, turn: RunResult, *, superseded: bool = False) -> Conduct:
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


def of_stages(run: RunResult, agents: Mapping[str, str]) -> tuple[Conduct, ...]:
    """The turns of agents, whose nodes are named oldest first, each with its stage. StorageError, IntegrityError.

    A turn that was cut off and begun again counts as superseded: only the last turn of a node is left in the files.
    """
    latest = {stage: node for node, stage in agents.items()}
    turns: dict[str, list[RunResult]] = {node: [] for node in agents}
    for turn in run.turns():
        turns.setdefault(turn.bundle_dir.parent.name, []).append(turn)
    found: list[Conduct] = []
    for node, stage in agents.items():
        for cut in turns[node][:-1]:
            found.append(of_turn(f"{node}, cut off", cut, superseded=True))
        if not turns[node]:
            found.append(Conduct(name=node, unread="its turn was not recorded"))
        else:
            found.append(of_turn(node, turns[node][-1], superseded=latest[stage] != node))
    return tuple(found)


def of_session(session: str, captured: CapturedSession | None) -> Conduct:
    """A captured session by its id; None: its events are not in the store."""
    name = captures.session_title(session)
    if captured is None:
        return Conduct(name=name, is_session=True, unread="its events are not here, or cannot be read")
    unread = f"{counted(captured.damaged, 'event')} of it could not be kept" if captured.damaged else ""
    return Conduct(name=name, calls=captured.calls, todos=captured.todos, is_session=True, unread=unread)


def _printed(turn: RunResult) -> Iterator[str]:
    for message in turn.messages:
        if message.role == "tool":
            said = message.load()
            if _matches(str(said.get("tool")), LOGGING_TOOLS):
                yield from _text(said.get("result")).splitlines()


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


def capture_note(run: RunResult) -> str:
    """One line that names the turns of a run whose hooks missed something, judges' too; "" if none did."""
    lacks = _lacks([of_turn(turn.bundle_dir.parent.name, turn) for turn in run.turns()])
    return f"Capture incomplete: {_some(lacks)}" if lacks else ""


# The checks


def tools_only(input: CheckInput, options: ToolsOnlyOptions, files: Files) -> CheckResult:
    """Whether every tool that was called, with success or not, is one of `tools`."""
    agents = input.conduct()
    wrong = {
        f"{one.name} used {call.name}": None
        for one in agents
        for call in one.calls
        if call.name != ANSWER_TOOL and not _matches(call.name, options.tools)
    }
    allowed = ", ".join(options.tools) or "none"
    return _concluded(input, agents, [*wrong], f"Only the allowed tools were used ({allowed}).")


def tool_used(input: CheckInput, options: ToolUsedOptions, files: Files) -> CheckResult:
    """Whether the turns called `tool` with success at least `min` and at most `max` times, all together."""
    turns = _turns(input)
    calls = [call for one in turns for call in one.calls if call.name == options.tool]
    times = sum(call.ok for call in calls)
    said = f"{options.tool} succeeded {counted(times, 'time')}"
    if options.max is not None and times > options.max:
        return _concluded(input, turns, [f"{said}, at most {options.max} allowed"], "")
    if options.max is None and 0 < options.min <= times:  # whatever was not recorded
        return CheckResult("pass", f"{said}.")
    enough = times >= options.min or not turns or any(one.unread for one in turns)
    wrong = f"{said} of {options.min} wanted, and failed {counted(len(calls) - times, 'time')}"
    return _concluded(input, turns, [] if enough else [wrong], f"{said}.")


def cost_under(input: CheckInput, options: CostOptions, files: Files) -> CheckResult:
    """Whether the turns cost at most `max_usd` all together."""
    turns = _turns(input)
    usd = sum(one.usd or 0.0 for one in turns)
    told = ", ".join(f"{one.name} ${one.usd:.4f}" for one in turns if one.usd is not None)
    if usd > options.max_usd and any(one.usd_at_most for one in turns):
        return CheckResult("abstain", f"It cost at most ${usd:.4f}: a model has no list price ({told}).")
    wrong = [f"${usd:.4f} is more than ${options.max_usd:.4f} ({told})"] if usd > options.max_usd else []
    if not wrong and (unknown := [one.name for one in turns if one.usd is None and not one.unread]):
        return CheckResult("abstain", f"What {unknown[0]} cost is not known.")
    return _concluded(input, turns, wrong, f"${usd:.4f} of at most ${options.max_usd:.4f}.")


def todos_completed(input: CheckInput, options: NoOptions, files: Files) -> CheckResult:
    """Whether nothing is left on the agents' own lists; of a stage that ran again, on its last one."""
    agents = input.conduct()
    listed = [one for one in agents if not one.superseded and (one.todos or one.unread)]
    if agents and not listed:
        return CheckResult("not_applicable", "No agent had a list of todos.")
    left = (f"{one.name}: {todo.status.replace('_', ' ')}: {todo.text}" for one in listed for todo in one.todos
            if todo.status != "completed")  # fmt: skip
    return _concluded(input, listed, [*left], "All todos are completed.")


def no_errors_in_logs(input: CheckInput, options: LogOptions, files: Files) -> CheckResult:
    """Whether nothing that programs printed looks like an error; of a stage that ran again, in its last turn."""
    turns = [one for one in _turns(input) if not one.superseded]
    patterns, ignored = map(any_of, (options.patterns, options.ignore))
    lines = ((one.name, line[:MAX_SCANNED_LINE]) for one in turns for line in one.log())
    wrong = [f"{name}: {line.strip()}" for name, line in lines if patterns(line) and not ignored(line)]
    return _concluded(input, turns, wrong, "No program printed an error.")


def complete_capture(input: CheckInput, options: NoOptions, files: Files) -> CheckResult:
    """Whether hooks saw every tool call of the turns start and end."""
    turns = _turns(input)
    return _concluded(input, turns, _lacks(turns), "Hooks saw every tool call start and end.")


def _lacks(turns: Sequence[Conduct]) -> list[str]:
    return [f"{one.name}: {one.unread or one.lacks}" for one in turns if one.unread or one.lacks]


def _turns(input: CheckInput) -> list[Conduct]:
    return [one for one in input.conduct() if not one.is_session]


def _concluded(input: CheckInput, looked_at: Sequence[Conduct], wrong: list[str], passes: str) -> CheckResult:
    """Fail with what is wrong, each a finding about the whole change; all of it is untrusted text."""
    if wrong:
        return failed(input, _some(wrong), [Hit(line) for line in wrong])
    if not looked_at:
        return CheckResult("not_applicable", "There is no turn of an agent to look at.")
    if unread := [f"{one.name}: {one.unread}" for one in looked_at if one.unread]:
        return CheckResult("abstain", f"Not known: {'; '.join(unread)}.")
    return CheckResult("pass", passes)


def _some(lines: list[str]) -> str:
    more = f"; and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
    return f"{'; '.join(lines[:NAMED])}{more}."
