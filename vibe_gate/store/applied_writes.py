"""What agents of our own wrote into the working tree: patches of runs that `--apply` put there.

Kept in state.db, each write as a line of `writes.jsonl` that needs none before it: no text, digests
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from vibe_gate.store.captured_writes import CapturedWrites
from vibe_gate.store.clone_state import CloneState
from vibe_gate.store.event_writes import FileWrite
from vibe_gate.store.stored_writes import LineDigests, WriteLog, WriteReader


class AppliedWrite(Struct, frozen=True):
    """A file as the turn of an agent found and left it."""

    agent: str
    """The id of an agent of the gate."""
    session: str
    """The SDK's id."""
    path: str
    """Absolute."""
    before: str
    """The text that the turn found."""
    after: str
    """The text that it left."""
    blob: str
    """The id of the blob that it left."""


def note_applied(
    state: CloneState, writes: Iterable[AppliedWrite], at: datetime, redact: Callable[[Any], Any]
) -> None:
    """Note them, in their order. If the state cannot be written, `State.problem` says so."""
    key = state.line_key.read_or_make()
    rows = []
    for applied in writes:
        write = FileWrite(
            applied.path, "", "", applied.before, applied.after, frozenset({applied.blob})
        )
        line = WriteLog(LineDigests(key) if key else None, redact).line(write, at)
        rows.append((redact(applied.agent), applied.session, line))
    state.applied_lines.append(rows)


def applied_writes(
    state: CloneState, digests: LineDigests, is_wanted: Callable[[str], bool]
) -> tuple[CapturedWrites, ...]:
    """The writes to paths that are wanted, oldest first; `agent` is the id of an agent of the
    gate.
    """
    wanted_writes = []
    for agent, session, line in state.applied_lines.all():
        write = WriteReader(digests.id).write(line)
        if write is not None and is_wanted(write.path):
            wanted_writes.append(CapturedWrites(agent, session, write.at, (write,)))
    return tuple(wanted_writes)
