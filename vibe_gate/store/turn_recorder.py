"""One turn of an agent's session: the SDK's stream and the hooks as they come, the summary at its
end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from vibe_gate.domain import escape, unredacted_fields
from vibe_gate.domain.change import Side
from vibe_gate.domain.document import plain, read, require_few, text_of, without_none
from vibe_gate.domain.turn import Content, TurnTodo
from vibe_gate.store import bundle_names
from vibe_gate.store.contents import (
    Contents,
    CountingRedactor,
    TextRedactor,
    count_redactions,
    redact_patch,
)
from vibe_gate.store.folder import Folder, close_descriptor, write_all
from vibe_gate.store.ndjson_log import Log, encode_line
from vibe_gate.store.recording_status import RecordingStatus, never_fails
from vibe_gate.store.turn_summary import (
    HookMark,
    TurnMetrics,
    TurnSummary,
    apply_todo_event,
    correlate_hooks,
    count_changes,
)

if TYPE_CHECKING:
    from vibe_gate.domain.wire import TurnResult

_NAMES = (
    "type",
    "role",
    "tool",
    "hook",
    "hook_event_name",
    "tool_name",
    "tool_use_id",
    "session_id",
)
"""What is kept of an event that cannot be kept whole."""

_SAID = ("content", "text", "thinking", "input", "result", "subtype")
"""Of an event, what a transcript tells: the first that is there."""

_IN_THE_HEAD = frozenset({"type", "role", "tool", "ts"})


Completed = Callable[["TurnRecorder", Mapping[str, Any]], None]
"""Tells the run that a turn is over, and what turn.completed says of it."""


class TurnParts:
    """What a recorded turn writes with."""

    def __init__(
        self,
        folder: Folder,
        redact: CountingRedactor,
        clock: Callable[[], datetime],
        completed: Completed,
    ) -> None:
        self.folder, self.redact, self.clock, self.completed = folder, redact, clock, completed
        self.contents = Contents(folder, redact)
        self.events = Log(folder, bundle_names.EVENTS, first=0)
        self.hooks = Log(folder, bundle_names.HOOKS, first=0)
        self.transcript = folder.appending(bundle_names.TURN_LOG)


class TurnRecorder:
    """Writes one turn's bundle; like its run's recorder it never fails.

    `relative` is the turn's folder relative to the run's bundle, "" if it is not
    recorded; `number` counts a node's turns from 1.
    """

    def __init__(
        self,
        run_id: str,
        node_id: str,
        number: int,
        parts: TurnParts | None,
        status: RecordingStatus,
    ) -> None:
        self.node_id = node_id
        self.number = number
        self.relative = f"nodes/{node_id}/{bundle_names.turn_folder_name(number)}" if parts else ""
        self.session_id = ""
        self._test_id = f"{run_id}/{node_id}/{bundle_names.turn_folder_name(number)}"
        self._parts = parts
        self._status = status
        self._marks: list[HookMark] = []
        self._todos: list[TurnTodo] = []

    @never_fails
    def event(self, parts: TurnParts, data: Mapping[str, Any]) -> None:
        """Append one message, usage, todo ... of the SDK's stream; its own `ts` is kept if it has
        one.

        Pieces of a message do not belong here: a secret that is cut in two is not found. Append
        whole messages.
        """
        safe = _redacted(parts.redact, data, unredacted_fields.STREAM)
        ts = _ts(safe, parts.clock)
        parts.events.append(lambda seq: {"seq": seq, "ts": ts} | safe | {"seq": seq, "ts": ts})
        write_all(parts.transcript, render_transcript_entry(safe, ts).encode())
        if safe.get("type") == "todo":
            self._todos = apply_todo_event(self._todos, safe)

    @never_fails
    def hook(self, parts: TurnParts, data: Mapping[str, Any]) -> None:
        """Append one hook's input as the CLI gave it, `tool_use_id` included."""
        safe = _redacted(parts.redact, data, unredacted_fields.of_hook(data))
        hook = escape.show_text(text_of(safe, "hook_event_name") or text_of(safe, "hook"))
        tool_use_id = escape.show_text(text_of(safe, "tool_use_id"))
        ts = _ts(safe, parts.clock)
        own = {"ts": ts, "hook": hook, "tool_use_id": tool_use_id}
        seq = parts.hooks.append(lambda seq: {"seq": seq, **own} | safe | {"seq": seq, **own})
        self._marks.append(
            HookMark(seq, ts, hook, tool_use_id, escape.show_text(text_of(safe, "tool_name")))
        )

    @never_fails
    def content(self, parts: TurnParts, side: Side, data: bytes) -> Content:
        """Keep one side of a file that the agent changed; hash and size for `TurnFile`, None if not
        recorded.
        """
        kept = parts.contents.keep(side, data)
        return Content(sha256=kept.sha256, size=kept.size)

    def restore(
        self, events: Iterable[Mapping[str, Any]], hooks: Iterable[Mapping[str, Any]]
    ) -> None:
        """Take up what an earlier process recorded of this turn, and cut torn lines."""
        self._cut()
        for seq, hook in enumerate(hooks):
            named = (text_of(hook, name) for name in ("hook", "tool_use_id", "tool_name"))
            ts = hook.get("ts")
            self._marks.append(HookMark(seq, ts if isinstance(ts, int) else 0, *named))
        for event in events:
            if event.get("type") == "todo":
                self._todos = apply_todo_event(self._todos, event)

    @never_fails
    def _cut(self, parts: TurnParts) -> None:
        parts.events.cut()
        parts.hooks.cut()

    def seal(self, result: TurnResult) -> None:
        """Write turn.patch if anything changed, and the turn's summary last."""
        self._seal(result)
        self.close()

    def close(self) -> None:
        """Let go of the turn's files; nothing is written afterwards."""
        with self._status.lock:
            parts, self._parts = self._parts, None
            if parts is not None:
                parts.events.close()
                parts.hooks.close()
                close_descriptor(parts.transcript)

    @never_fails
    def _seal(self, parts: TurnParts, result: TurnResult) -> None:
        self.session_id = result.session_id
        change = result.change
        if change.patch:
            parts.folder.place(
                bundle_names.TURN_PATCH, redact_patch(change.patch, parts.redact.data)
            )
        denied = (str(denial.get("tool_use_id", "")) for denial in result.permission_denials)
        calls, capture = correlate_hooks(
            self._marks, frozenset(escape.show_text(parts.redact.text(call)) for call in denied)
        )
        if (
            result.status == "interrupted"
        ):  # what it did after its last recorded event, no hook told
            warnings = (*capture.warnings, f"cut off: {escape.show_text(result.detail)}")
            capture = replace(capture, complete=False, warnings=warnings)
        metrics = TurnMetrics(
            total_tokens=result.cost.input_tokens + result.cost.output_tokens,
            total_cost_usd=float(result.cost.usd),
            cost_basis=result.cost.basis,
            duration_ms=result.duration_ms,
            tool_calls=len(calls),
            files_changed=len(change.files),
        )
        summary = TurnSummary(
            test_id=self._test_id,
            metrics=metrics,
            git=change.git,
            file_stats=count_changes(file.change_type for file in change.files),
            files=change.files,
            tool_calls=calls,
            todos=tuple(self._todos),
            hook_capture_status=capture,
            session_id=escape.show_text(result.session_id),
            status=result.status,
            detail=escape.show_text(result.detail),
        )
        document = without_none(plain(summary))
        safe = unredacted_fields.redacted(document, unredacted_fields.TURN, parts.redact.value)
        safe["redacted"] = count_redactions(parts.redact)
        read(TurnSummary, safe)
        parts.folder.place(bundle_names.SUMMARY, encode_line(safe))
        trees = {"before": change.before, "after": change.after} if change.after else {}
        parts.completed(
            self,
            {
                "status": result.status,
                **trees,
                "usd": 0.0 if result.cost.replayed else result.cost.usd,
            },
        )


def _redacted(
    redact: TextRedactor, data: Mapping[str, Any], own: unredacted_fields.Own = False
) -> dict[str, Any]:
    """The event without secrets; its names if the rest cannot be kept: a session goes on, and says
    what is missing.

    A model can nest a tool's input as deep as it likes, and write what no redactor was tried with.
    """
    try:
        safe: dict[str, Any] = unredacted_fields.redacted(dict(data), own, redact.value)
    except RecursionError:
        return _head(redact, data, "nested too deeply to be recorded")
    except Exception as error:  # noqa: BLE001  one event is lost, and not the run
        return _head(redact, data, f"not recorded: {type(error).__name__}")
    try:
        require_few(json.dumps(safe, default=repr).encode())
    except RecursionError:
        return _head(redact, data, "nested too deeply to be recorded")
    except ValueError:
        return _head(redact, data, "too many values to be recorded")
    return safe


def _head(redact: TextRedactor, data: Mapping[str, Any], why: str) -> dict[str, Any]:
    kept = {name: data[name] for name in _NAMES if isinstance(data.get(name), str)}
    return {**redact.value(kept), "left_out": why}


def render_transcript_entry(event: Mapping[str, Any], ts: int) -> str:
    """One event as lines of a transcript, safe to print: nothing hidden, no control character.

    What the program tells of itself, and what each answer used, is in events.ndjson only: "" here.
    """
    if event.get("type") in ("system", "usage"):
        return ""
    who = " ".join(
        text_of(event, name) for name in ("type", "role", "tool") if text_of(event, name)
    )
    told = next((event[name] for name in _SAID if event.get(name) not in (None, "")), None)
    if told is None:
        told = {
            name: value for name, value in event.items() if name not in _IN_THE_HEAD and value != ""
        }
    if isinstance(told, list) and all(
        isinstance(block, dict) and text_of(block, "text") for block in told
    ):
        told = "\n".join(block["text"] for block in told)
    said = told if isinstance(told, str) else json.dumps(told, default=repr, ensure_ascii=False)
    seconds, milliseconds = divmod(ts, 1000)
    clock = (
        f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{milliseconds:03d}"
    )
    return f"{clock} {escape.show_text(who)}: {escape.show_block(said)}\n"


def _ts(data: Mapping[str, Any], clock: Callable[[], datetime]) -> int:
    """The time that an event was given where it was seen, else now; milliseconds since 1970."""
    ts = data.get("ts")
    return ts if isinstance(ts, int) else bundle_names.to_milliseconds(clock())
