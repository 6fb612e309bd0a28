"""The record of captured sessions: what they ran and when, seen from the files of one change. Pure.

A record says what was seen to happen. What an agent's events do not tell is None, or "unknown".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.document import Count, Timestamp
from vibe_gate.domain.runner_calls import find_runner_call

Order = Literal["after", "before", "unknown"]
"""Of a command: whether it ran after the last write to the change's files."""

TestsState = Literal["passed", "failed", "before", "unknown", "none"]
"""What became of the tests: they ended so after the last write, ran before it only, it is not known,
or none ran.
"""

MAX_COMMANDS = 2_000
"""Commands of a record; of more, the latest."""

MAX_LINE = 4_000
"""Characters of a command's line in a record."""

LATENCY = timedelta(seconds=2)
"""An event's time is that of a process that starts after it happened, on a busy machine so late."""


class LastWrite(Struct, frozen=True, kw_only=True):
    """The last write to a file of the change."""

    path: str
    """From the root of the tree."""

    at: Timestamp | None
    """None: the file is not as a session left it, and who wrote it then is not known."""

    is_exact: bool = False
    """Whether that is the moment of the file, not that of an event some time later."""


class CommandRecord(Struct, frozen=True, kw_only=True):
    """A command that a session ran."""

    session: str
    agent: str
    """What people call the agent."""
    turn: Count
    """From 1; 0 of what stands before the first prompt."""
    line: str
    """Redacted."""
    is_cut: bool = False
    """Whether the line was longer."""
    began_at: Timestamp | None
    """Not later than this it began; None if that is not known."""
    ended_at: Timestamp | None
    """None: it went on in the background, and its end was not seen."""
    exit_status: int | None
    """Of the whole line; None if the agent's events do not tell it."""
    order: Order = "unknown"


class CapturedRecord(Struct, frozen=True, kw_only=True):
    """record.json of a run: what the captured sessions ran that wrote the change."""

    schema: Literal[1] = 1
    sessions: tuple[str, ...] = ()
    writes: tuple[LastWrite, ...] = ()
    commands: tuple[CommandRecord, ...] = ()
    """By time."""
    omitted: Annotated[int, Meta(ge=0)] = 0
    """Earlier commands than these."""
    unrecorded: Annotated[int, Meta(ge=0)] = 0
    """Events of the sessions that could not be kept."""

    def about_files(self, paths: Collection[str]) -> CapturedRecord:
        """The same, seen from some of the change's files."""
        writes = tuple(write for write in self.writes if write.path in paths)
        return replace(self, writes=writes, commands=order_commands(self.commands, writes))


class TestsRecord(Struct, frozen=True, kw_only=True):
    """What a record says of the tests."""

    __test__ = False  # the name is no test's

    state: TestsState
    command: str = ""
    """The call of the runner, on one line and bounded."""
    turn: Count = 0


def make_session_record(
    sessions: Sequence[str],
    writes: Sequence[LastWrite],
    commands: Iterable[CommandRecord],
    unrecorded: int,
) -> CapturedRecord:
    """The record of these sessions, whose commands come in any order."""
    sorted_commands = sorted(commands, key=_command_order)
    omitted = max(len(sorted_commands) - MAX_COMMANDS, 0)
    return CapturedRecord(
        sessions=tuple(sessions),
        writes=tuple(writes),
        commands=order_commands(sorted_commands[omitted:], writes),
        omitted=omitted,
        unrecorded=unrecorded,
    )


def _command_order(command: CommandRecord) -> tuple[float, str, str]:
    moment = command.ended_at or command.began_at
    seconds = moment.timestamp() if moment else 0.0
    return seconds, command.session, command.line


def order_commands(
    commands: Iterable[CommandRecord], writes: Sequence[LastWrite]
) -> tuple[CommandRecord, ...]:
    """The commands, each with its order to these writes."""
    ordered = [replace(command, order=_order_of(command, writes)) for command in commands]
    return tuple(ordered)


def _order_of(command: CommandRecord, writes: Sequence[LastWrite]) -> Order:
    orders = {_order_to(command, write) for write in writes}
    if "before" in orders:
        return "before"
    if "unknown" in orders or command.ended_at is None:
        return "unknown"
    return "after"


def _order_to(command: CommandRecord, write: LastWrite) -> Order:
    """Whether the command ran after one write.

    While a command runs the file may change by the command itself, or by a part of its line: then
    that is not known. The write of a tool is no part of a command: the command began before it.
    """
    if write.at is None or command.ended_at is None:
        return "unknown"
    if command.ended_at <= write.at:
        return "before"
    began_at = command.began_at
    if write.is_exact:
        if began_at is not None and began_at >= write.at:
            return "after"
        return "unknown"
    if began_at is None or began_at + LATENCY >= write.at:
        return "after"
    return "before"


def judge_tests(record: CapturedRecord, commands: Sequence[str] = ()) -> TestsRecord:
    """What the record says of the tests: the latest call of a runner that decides it.

    `commands` as `find_runner_call` takes them.
    """
    unknown: TestsRecord | None = None
    before: TestsRecord | None = None
    for command in reversed(record.commands):
        call = find_runner_call(command.line, command.exit_status, commands)
        if call is None:
            continue
        end = "unknown" if command.is_cut else call.end
        tests = TestsRecord(state="unknown", command=call.command, turn=command.turn)
        if command.order == "before":
            before = before or replace(tests, state="before")
        elif command.order == "unknown" or end == "unknown":
            unknown = unknown or tests
        elif end == "failed" and unknown is not None:
            return unknown  # the later call may have passed
        else:
            return replace(tests, state="passed" if end == "passed" else "failed")
    return unknown or before or TestsRecord(state="none")
