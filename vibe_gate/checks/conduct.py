"""Checks of conduct: what agents did, whatever the change looks like.

Each is a pure function `(conduct, options) -> ConductResult` with an outcome, a sentence and its evidence, a line each.
`conduct` holds an entry for each agent that is looked at. Two voices use them:

- a criterion of a rubric: `CHECKS` wraps each with `as_check`, and the gate gives it the turns of the stages that it
  comes after and the captured sessions that wrote files of the change;
- whoever has a `RunResult`: `tools_only([of_turn("fix", result)], ToolsOnlyOptions(tools=("Read",)))`.

Without anything to look at the outcome is not_applicable, and abstain if something that should be looked at is not
recorded: never pass.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from vibe_gate.checks.contract import (
    MAX_SCANNED_LINE,
    CheckInput,
    CheckResult,
    Files,
    Hit,
    NoOptions,
    RegularExpression,
    failed,
    sentence,
)
from vibe_gate.domain.escape import counted
from vibe_gate.domain.model import Field, Model
from vibe_gate.domain.verdict import ANSWER_TOOL, Outcome

if TYPE_CHECKING:
    from vibe_gate.domain.turn import TurnTodo
    from vibe_gate.store import RunResult, captures

LOG_ERRORS = (
    r"\bERROR\b", r"\bFATAL\b", r"\bCRITICAL\b", r"Traceback \(most recent call last\)", r"^panic: ", r"Unhandled\w* ",
    r"\bSegmentation fault\b", r"\bUncaught \w+",
)  # fmt: skip
"""What programs write when something broke, in the spellings of common loggers and runtimes."""

LOGGING_TOOLS = ("Bash", "BashOutput", "TaskOutput", "mcp__*")
"""Tools that return what a program printed. Others return files and pages, which may tell of errors."""

NAMED = 3
"""Pieces of evidence that a sentence names; the findings have all of them."""


class ToolsOnlyOptions(Model):
    """Options of `tools-only`."""

    tools: tuple[str, ...] = Field(description="names of tools; `*` and `?` as in file names, such as `mcp__docs__*`")


class ToolUsedOptions(Model):
    """Options of `tool-used`."""

    tool: str = Field(min_length=1, description="the tool's name")
    min: int = Field(default=1, strict=True, ge=0, description="how often at least")
    max: int | None = Field(default=None, strict=True, ge=0, description="how often at most")


class CostOptions(Model):
    """Options of `cost-under`."""

    max_usd: float = Field(ge=0, description="US dollars that the agents' turns may cost together")


class LogOptions(Model):
    """Options of `no-errors-in-logs`."""

    patterns: tuple[RegularExpression, ...] = Field(
        default=LOG_ERRORS, min_length=1, description="regular expressions of errors, by default of common loggers"
    )
    ignore: tuple[RegularExpression, ...] = Field(
        default=(), description="regular expressions of lines that do not count"
    )


class Call(Protocol):
    """A tool call: the tool's name, and whether it succeeded."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def ok(self) -> bool: ...  # noqa: D102


class Conduct(NamedTuple):
    """What one agent did: in a turn of this program's, or in a captured session of the change's author.

    `name` is for people. `usd` is None if it is not known; `usd_at_most`: it may have been less. `lacks`: what hooks
    did not see of it, "" if they saw every call start and end. `log` gives the lines that programs printed.
    `superseded`: its stage ran again later. `unread` says why there is nothing to look at, "" if there is.
    """

    name: str
    calls: Sequence[Call] = ()
    todos: Sequence[TurnTodo] = ()
    usd: float | None = None
    usd_at_most: bool = False
    lacks: str = ""
    log: Callable[[], Iterable[str]] = tuple
    is_session: bool = False
    superseded: bool = False
    unread: str = ""


class ConductResult(NamedTuple):
    """The answer: a sentence, and what it rests on, a line each; a fail has evidence. All of it is untrusted text."""

    outcome: Outcome
    sentence: str
    evidence: tuple[str, ...] = ()


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


def of_session(session: str, captured: captures.CapturedSession | None) -> Conduct:
    """A captured session by its id; None: its events are not in the store."""
    name = f"Claude Code session {session[:8]}"
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
    turns = [of_turn(turn.bundle_dir.parent.name, turn) for turn in run.turns()]
    result = complete_capture(turns, NoOptions())
    return f"Capture incomplete: {result.sentence}" if result.outcome == "fail" else ""


# The checks


def tools_only(conduct: Sequence[Conduct], options: ToolsOnlyOptions) -> ConductResult:
    """Whether every tool that was called, with success or not, is one of `tools`."""
    wrong = {
        f"{one.name} used {call.name}": None
        for one in conduct
        for call in one.calls
        if call.name != ANSWER_TOOL and not _matches(call.name, options.tools)
    }
    allowed = ", ".join(options.tools) or "none"
    return _concluded(conduct, tuple(wrong), f"Only the allowed tools were used ({allowed}).")


def tool_used(conduct: Sequence[Conduct], options: ToolUsedOptions) -> ConductResult:
    """Whether the turns called `tool` with success at least `min` and at most `max` times, all together."""
    turns = _turns(conduct)
    calls = [call for one in turns for call in one.calls if call.name == options.tool]
    times = sum(call.ok for call in calls)
    said = f"{options.tool} succeeded {counted(times, 'time')}"
    if options.max is not None and times > options.max:
        return _concluded(turns, (f"{said}, at most {options.max} allowed",), "")
    if options.max is None and 0 < options.min <= times:  # whatever was not recorded
        return ConductResult("pass", f"{said}.")
    enough = times >= options.min or not turns or any(one.unread for one in turns)
    wrong = f"{said} of {options.min} wanted, and failed {counted(len(calls) - times, 'time')}"
    return _concluded(turns, () if enough else (wrong,), f"{said}.")


def cost_under(conduct: Sequence[Conduct], options: CostOptions) -> ConductResult:
    """Whether the turns cost at most `max_usd` all together."""
    turns = _turns(conduct)
    usd = sum(one.usd or 0.0 for one in turns)
    told = ", ".join(f"{one.name} ${one.usd:.4f}" for one in turns if one.usd is not None)
    if usd > options.max_usd and any(one.usd_at_most for one in turns):
        return ConductResult("abstain", f"It cost at most ${usd:.4f}: a model has no list price ({told}).")
    wrong = (f"${usd:.4f} is more than ${options.max_usd:.4f} ({told})",) if usd > options.max_usd else ()
    if not wrong and (unknown := [one.name for one in turns if one.usd is None and not one.unread]):
        return ConductResult("abstain", f"What {unknown[0]} cost is not known.")
    return _concluded(turns, wrong, f"${usd:.4f} of at most ${options.max_usd:.4f}.")


def todos_completed(conduct: Sequence[Conduct], _: NoOptions) -> ConductResult:
    """Whether nothing is left on the agents' own lists; of a stage that ran again, on its last one."""
    listed = [one for one in conduct if not one.superseded and (one.todos or one.unread)]
    if conduct and not listed:
        return ConductResult("not_applicable", "No agent had a list of todos.")
    left = (f"{one.name}: {todo.status.replace('_', ' ')}: {todo.text}" for one in listed for todo in one.todos
            if todo.status != "completed")  # fmt: skip
    return _concluded(listed, tuple(left), "All todos are completed.")


def no_errors_in_logs(conduct: Sequence[Conduct], options: LogOptions) -> ConductResult:
    """Whether nothing that programs printed looks like an error; of a stage that ran again, in its last turn."""
    turns = [one for one in _turns(conduct) if not one.superseded]
    patterns, ignored = map(_compiled, (options.patterns, options.ignore))
    lines = ((one.name, line[:MAX_SCANNED_LINE]) for one in turns for line in one.log())
    wrong = (f"{name}: {line.strip()}" for name, line in lines if patterns(line) and not ignored(line))
    return _concluded(turns, tuple(wrong), "No program printed an error.")


def _compiled(sources: Iterable[str]) -> Callable[[str], bool]:
    patterns = [re.compile(source) for source in sources]
    return lambda line: any(pattern.search(line) for pattern in patterns)


def complete_capture(conduct: Sequence[Conduct], _: NoOptions) -> ConductResult:
    """Whether hooks saw every tool call of the turns start and end."""
    turns = _turns(conduct)
    lacks = tuple(f"{one.name}: {one.unread or one.lacks}" for one in turns if one.unread or one.lacks)
    return _concluded(turns, lacks, "Hooks saw every tool call start and end.")


def _turns(conduct: Iterable[Conduct]) -> list[Conduct]:
    return [one for one in conduct if not one.is_session]


def _concluded(looked_at: Sequence[Conduct], wrong: tuple[str, ...], passes: str) -> ConductResult:
    if wrong:
        more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        return ConductResult("fail", f"{'; '.join(wrong[:NAMED])}{more}.", wrong)
    if not looked_at:
        return ConductResult("not_applicable", "There is no turn of an agent to look at.")
    if unread := [f"{one.name}: {one.unread}" for one in looked_at if one.unread]:
        return ConductResult("abstain", f"Not known: {'; '.join(unread)}.")
    return ConductResult("pass", passes)


Options = TypeVar("Options", bound=Model)


def as_check(
    answer: Callable[[Sequence[Conduct], Options], ConductResult],
) -> Callable[[CheckInput, Options, Files], CheckResult]:
    """The function as an entry of CHECKS: its evidence becomes findings about the whole change."""

    def check(input: CheckInput, options: Options, files: Files) -> CheckResult:
        result = answer(input.conduct(), options)
        if result.outcome == "fail":
            return failed(input, result.sentence, [Hit(line) for line in result.evidence])
        return CheckResult(result.outcome, sentence(result.sentence, input.redact))

    return check
