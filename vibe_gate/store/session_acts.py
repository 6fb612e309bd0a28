"""What a captured session did, in the order of its events: prompts, commands with their ends, writes of
files, and what the agent said when a turn ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from vibe_gate.store.agent_events import (
    AGENTS,
    AgentEvents,
    CapturedEvent,
    read_background_end,
    read_command,
    read_last_words,
    read_prompt,
)
from vibe_gate.store.captured_turns import read_session_events
from vibe_gate.store.captures import StoredEvent, agent_of, count_damaged
from vibe_gate.store.event_writes import blob_id, open_file, paths_written

GIVEN_BACK = "vibe-gate: what this session wrote does not pass the gate"
"""As `faces/agent_hook/spool.py` has it: Gemini CLI gives the stop hook's findings to its agent as a
prompt.
"""


class ActedCommand(Struct, frozen=True):
    """A command of a session."""

    line: str
    at: datetime
    """When the event came that told of it first."""
    began_at: datetime | None
    """Not later than this it began; None if that is not known."""
    ended_at: datetime | None
    """None: its end was not seen."""
    exit_status: int | None


class ActedWrite(Struct, frozen=True):
    """A write of one of a session's tools."""

    path: str
    """Absolute, with links resolved."""
    at: datetime


class SpokenWords(Struct, frozen=True):
    """What the agent said last in a turn."""

    at: datetime
    text: str


class SessionActs(Struct, frozen=True):
    """What a session did."""

    session: str
    prompts: tuple[datetime, ...]
    """When each turn began."""
    requests: tuple[datetime, ...]
    """Those of them at which people typed something."""
    commands: tuple[ActedCommand, ...]
    writes: tuple[ActedWrite, ...]
    words: tuple[SpokenWords, ...]
    damaged: int
    """Events that could not be kept."""


def session_acts_of(roots: Iterable[Path], session: str) -> SessionActs:
    """What the session did, out of the stores of these working trees; what cannot be read is left
    out.
    """
    root_list = list(roots)
    name = agent_of(session)
    reading = _ActReading(name)
    last_event: StoredEvent | None = None
    for event in sorted(_act_events(root_list, session, AGENTS[name]), key=lambda event: event.ts):
        if event == last_event:  # two stores have it, because folding was interrupted
            continue
        last_event = event
        with contextlib.suppress(ValueError, TypeError, RecursionError):  # a hostile event
            reading.add(event)
    return SessionActs(
        session,
        tuple(reading.prompts),
        tuple(reading.requests),
        tuple(reading.commands.values()),
        tuple(reading.writes),
        tuple(reading.words),
        count_damaged(root_list, session),
    )


def moment_of_content(path: Path, blob: str, size: int) -> datetime | None:
    """When the file was written last; None if it is not a file with this content, by git's id and
    size.
    """
    try:
        with open_file(path) as file:
            if blob_id(file.read(size + 1)) != blob:
                return None
            return datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return None


def _act_events(root_list: list[Path], session: str, agent: AgentEvents) -> list[StoredEvent]:
    """The events that tell of such acts. Within a JSON text the quotes would be escaped."""
    tools = [b'"tool_name":"%b"' % name.encode() for name in (agent.command_tool, *agent.writes)]
    kinds = [b'"type":"%b"' % kind.encode() for kind in (agent.prompt, agent.stopped)]
    marks = [*tools, *kinds]

    def is_act(line: bytes) -> bool:
        return any(mark in line for mark in marks)

    return list(read_session_events(root_list, session, is_act))


class _ActReading:
    """Reads the events of one session in their order."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._last_at: datetime | None = None
        self.prompts: list[datetime] = []
        self.requests: list[datetime] = []
        self.commands: dict[str, ActedCommand] = {}
        """By the id of the call, or a number if the agent has no ids."""
        self.writes: list[ActedWrite] = []
        self.words: list[SpokenWords] = []

    def add(self, stored_event: StoredEvent) -> None:
        """Read the next event."""
        event = CapturedEvent(stored_event.ts, stored_event.data, self._agent)
        prompt = read_prompt(event)
        if prompt and prompt.strip():
            self.prompts.append(event.at)
            if not prompt.startswith(GIVEN_BACK):
                self.requests.append(event.at)
        text = read_last_words(event)
        if text.strip():
            self.words.append(SpokenWords(event.at, text))
        for path in paths_written(event):
            self.writes.append(ActedWrite(path, event.at))
        self._add_command(event)
        self._end_background(event)
        self._last_at = event.at

    def _add_command(self, event: CapturedEvent) -> None:
        command = read_command(event)
        if command is None:
            return
        began_at = self._last_at
        if command.duration_ms is not None:
            began_at = event.at - timedelta(milliseconds=command.duration_ms)
        ended_at = None if command.goes_on else event.at
        call_id = command.tool_use_id or str(len(self.commands))
        self.commands[call_id] = ActedCommand(
            command.line, event.at, began_at, ended_at, command.exit_status
        )

    def _end_background(self, event: CapturedEvent) -> None:
        end = read_background_end(event)
        begun = self.commands.get(end.tool_use_id) if end else None
        if end is None or begun is None or begun.ended_at is not None:
            return
        self.commands[end.tool_use_id] = ActedCommand(
            begun.line, begun.at, begun.began_at, event.at, end.exit_status
        )
