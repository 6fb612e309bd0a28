"""One turn of an agent's session: the SDK's stream and the hooks as they come, the summary at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from vibe_gate.domain import escape, unredacted_fields
from vibe_gate.domain.change import Side
from vibe_gate.domain.turn import (
    HookMark,
    TurnChange,
    TurnMetrics,
    TurnSummary,
    TurnTodo,
    correlate,
    count,
    todos_after,
)
from vibe_gate.store import names
from vibe_gate.store.binary import redact_sections
from vibe_gate.store.contents import Contents
from vibe_gate.store.deltas import Deltas
from vibe_gate.store.fate import Fate
from vibe_gate.store.folder import Folder, let_go, write_all
from vibe_gate.store.log import Log, encode_document
from vibe_gate.store.redactor import CountingRedactor, Redactor, tally
from vibe_gate.store.strict import require_few

NOTHING = TurnChange()
"""Of a turn that changed nothing, a judge's for one."""

_NAMES = ("type", "role", "tool", "hook", "hook_event_name", "tool_name", "tool_use_id", "session_id")
"""What is kept of an event that cannot be kept whole."""

_IN_THE_HEAD = frozenset({"type", "role", "tool", "ts"})


class SessionEnding(Protocol):
    """What a session's end tells (`agent` has it). USD, tokens, milliseconds; `detail` a sentence."""

    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def detail(self) -> str: ...  # noqa: D102
    @property
    def session_id(self) -> str: ...  # noqa: D102
    @property
    def cost_usd(self) -> float: ...  # noqa: D102
    @property
    def input_tokens(self) -> int: ...  # noqa: D102
    @property
    def output_tokens(self) -> int: ...  # noqa: D102
    @property
    def duration_ms(self) -> int: ...  # noqa: D102
    @property
    def permission_denials(self) -> Sequence[Mapping[str, Any]]: ...  # noqa: D102


class Transcript:
    """turn.log, appended to as the events come."""

    def __init__(self, folder: Folder) -> None:
        self._descriptor = folder.appending(names.TURN_LOG)

    def append(self, text: str) -> None:
        """Add whole lines. OSError."""
        write_all(self._descriptor, text.encode())

    def close(self) -> None:
        """No more text from here."""
        let_go(self._descriptor)


@dataclass(slots=True)
class TurnParts:
    """What a recorded turn writes with. `completed` tells the run that the turn is over."""

    folder: Folder
    contents: Contents
    redact: CountingRedactor
    clock: Callable[[], datetime]
    completed: Callable[[TurnRecorder, str], None]
    events: Log = field(init=False)
    hooks: Log = field(init=False)
    transcript: Transcript = field(init=False)
    deltas: Deltas = field(init=False)

    def __post_init__(self) -> None:
        self.events = Log(self.folder, names.EVENTS, first=0)
        self.hooks = Log(self.folder, names.HOOKS, first=0)
        self.transcript = Transcript(self.folder)
        self.deltas = Deltas(self.redact.text)


class TurnRecorder:
    """Writes one turn's bundle; like its run's recorder it never fails.

    `relative` is the turn's folder relative to the run's bundle, "" if it is not
    recorded; `number` counts a node's turns from 1.
    """

    def __init__(self, run_id: str, node_id: str, number: int, parts: TurnParts | None, fate: Fate) -> None:
        self.node_id = node_id
        self.number = number
        self.relative = f"nodes/{node_id}/{names.turn(number)}" if parts else ""
        self.session_id = ""
        self._test_id = f"{run_id}/{node_id}/{names.turn(number)}"
        self._maybe_parts = parts
        self._fate = fate
        self._denied: frozenset[str] = frozenset()
        self._marks: list[HookMark] = []
        self._todos: list[TurnTodo] = []

    def event(self, data: Mapping[str, Any]) -> None:
        """Append one message, usage, todo ... of the SDK's stream; its own `ts` is kept if it has one.

        Pieces of a message wait for its end, and what comes meanwhile waits behind them (see `deltas`).
        """
        self._fate.attempt(lambda: self._event(data), None)

    def hook(self, data: Mapping[str, Any]) -> None:
        """Append one hook's input as the CLI gave it, `tool_use_id` included."""
        self._fate.attempt(lambda: self._hook(data), None)

    def content(self, side: Side, data: bytes) -> str | None:
        """Keep one side of a file that the agent changed; the sha-256 for `TurnFile`, None if not recorded."""
        return self._fate.attempt(lambda: self._content(side, data), None)

    def seal(self, ending: SessionEnding, made: TurnChange = NOTHING) -> None:
        """Write turn.patch if anything changed, and the turn's summary last."""
        self._fate.attempt(lambda: self._ended(ending, made), None)
        self.close()

    def _ended(self, ending: SessionEnding, made: TurnChange) -> None:
        self.session_id = ending.session_id
        metrics = TurnMetrics(
            total_tokens=ending.input_tokens + ending.output_tokens,
            total_cost_usd=ending.cost_usd,
            duration_ms=ending.duration_ms,
        )
        self._denied = frozenset(str(denial.get("tool_use_id", "")) for denial in ending.permission_denials)
        self._seal(ending.status, ending.detail, metrics, made)

    def fail(self, reason: str) -> None:
        """End a turn whose session could not be held, `reason` in a sentence: status "died"."""
        self._fate.attempt(lambda: self._seal("died", reason, TurnMetrics(), NOTHING), None)
        self.close()

    def flush(self) -> None:
        """Write the pieces that still wait for their message's end."""
        if (parts := self._maybe_parts) is not None:
            self._fate.attempt(lambda: self._flush(parts), None)

    def close(self) -> None:
        """Let go of the turn's files; nothing is written afterwards."""
        with self._fate.lock:
            parts, self._maybe_parts = self._maybe_parts, None
            if parts is not None:
                self._fate.attempt(lambda: self._flush(parts), None)
                parts.events.close()
                parts.hooks.close()
                parts.transcript.close()

    def _event(self, data: Mapping[str, Any]) -> None:
        if (parts := self._maybe_parts) is None:
            return
        for event in parts.deltas.feed({**data, "ts": _ts(data, parts.clock)}):
            self._write(parts, event)

    def _write(self, parts: TurnParts, event: Mapping[str, Any]) -> None:
        safe = _redacted(parts.redact, event, unredacted_fields.STREAM)
        ts = _ts(safe, parts.clock)
        parts.events.append(lambda seq: {"seq": seq, "ts": ts} | safe | {"seq": seq, "ts": ts})
        parts.transcript.append(readable(safe, ts))
        if safe.get("type") == "todo":
            self._todos = todos_after(self._todos, safe)

    def _flush(self, parts: TurnParts) -> None:
        for event in parts.deltas.rest():
            self._write(parts, event)

    def _hook(self, data: Mapping[str, Any]) -> None:
        if (parts := self._maybe_parts) is None:
            return
        safe = _redacted(parts.redact, data, unredacted_fields.of_hook(data))
        hook = escape.show_text(_text(safe, "hook_event_name") or _text(safe, "hook"))
        tool_use_id = escape.show_text(_text(safe, "tool_use_id"))
        ts = _ts(safe, parts.clock)
        own = {"ts": ts, "hook": hook, "tool_use_id": tool_use_id}
        seq = parts.hooks.append(lambda seq: {"seq": seq, **own} | safe | {"seq": seq, **own})
        self._marks.append(HookMark(seq, ts, hook, tool_use_id, escape.show_text(_text(safe, "tool_name"))))

    def _content(self, side: Side, data: bytes) -> str | None:
        if (parts := self._maybe_parts) is None:
            return None
        return parts.contents.keep(side, data).sha256

    def _seal(self, status: str, detail: str, metrics: TurnMetrics, made: TurnChange) -> None:
        if (parts := self._maybe_parts) is None:
            return
        self._flush(parts)
        if made.patch:
            redact = parts.redact.data
            parts.folder.place(names.TURN_PATCH, redact(redact_sections(made.patch, redact)))
        denied = frozenset(escape.show_text(parts.redact.text(tool_use_id)) for tool_use_id in self._denied)
        calls, capture = correlate(self._marks, denied)
        counted = {"tool_calls": len(calls), "files_changed": len(made.files)}
        summary = TurnSummary(
            test_id=self._test_id,
            metrics=metrics.model_copy(update=counted),
            git=made.git,
            file_stats=count(made.files),
            files=made.files,
            tool_calls=calls,
            todos=tuple(self._todos),
            hook_capture_status=capture,
            session_id=escape.show_text(self.session_id),
            status=status,
            detail=escape.show_text(detail),
        )
        document = summary.model_dump(mode="json", by_alias=True, exclude_none=True)
        safe = unredacted_fields.redacted(document, unredacted_fields.TURN, parts.redact.value) | {
            "redacted": tally(parts.redact)
        }
        TurnSummary.model_validate(safe)
        parts.folder.place(names.SUMMARY, encode_document(safe))
        parts.completed(self, status)


def _redacted(redact: Redactor, data: Mapping[str, Any], own: unredacted_fields.Own = False) -> dict[str, Any]:
    """The event without secrets; its names where the rest cannot be kept: a session goes on, and says what is missing.

    A model can nest a tool's input as deep as it likes, and write what no redactor was tried with.
    """
    try:
        safe: dict[str, Any] = unredacted_fields.redacted(dict(data), own, redact.value)
    except RecursionError:
        return _head(redact, data, "nested too deeply to be recorded")
    except Exception as error:  # noqa: BLE001  as in `fate`; one event is lost, and not the run
        return _head(redact, data, f"not recorded: {type(error).__name__}")
    try:
        require_few(json.dumps(safe, default=repr).encode())
    except RecursionError:
        return _head(redact, data, "nested too deeply to be recorded")
    except ValueError:
        return _head(redact, data, "too many values to be recorded")
    return safe


def _head(redact: Redactor, data: Mapping[str, Any], why: str) -> dict[str, Any]:
    kept = {name: data[name] for name in _NAMES if isinstance(data.get(name), str)}
    return {**redact.value(kept), "left_out": why}


def readable(event: Mapping[str, Any], ts: int) -> str:
    """One event as lines of a transcript, safe to print: nothing hidden, no control character."""
    who = " ".join(_text(event, name) for name in ("type", "role", "tool") if _text(event, name))
    said = _text(event, "content") or _text(event, "text")
    if not said:
        rest = {name: value for name, value in event.items() if name not in _IN_THE_HEAD and value != ""}
        said = json.dumps(rest, default=repr, ensure_ascii=False)
    seconds, milliseconds = divmod(ts, 1000)
    clock = f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{milliseconds:03d}"
    return f"{clock} {escape.show_text(who)}: {escape.show_block(said)}\n"


def _ts(data: Mapping[str, Any], clock: Callable[[], datetime]) -> int:
    """The time that an event was given where it was seen, else now; milliseconds since 1970."""
    ts = data.get("ts")
    return ts if isinstance(ts, int) else names.milliseconds(clock())


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
