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
from vibe_gate.domain.document import plain, read, read_text_of, require_few, without_none
from vibe_gate.domain.turn import ChainChange, Content, TurnTodo
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
from vibe_gate.store.patch_files import place_patch
from vibe_gate.store.recording_status import RecordingStatus, never_fails
from vibe_gate.store.turn_summary import (
    MAX_LEFT_OUT,
    MAX_LISTED_CALLS,
    MAX_LISTED_FILES,
    MAX_LISTED_TODOS,
    HookMark,
    TurnMetrics,
    TurnSetup,
    TurnSummary,
    apply_todo_event,
    correlate_hooks,
    count_beyond,
    count_changes,
)

if TYPE_CHECKING:
    from vibe_gate.domain.wire import TurnResult

_HEAD_NAMES = (
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

_TEXT_NAMES = ("content", "text", "thinking", "input", "result", "subtype")
"""Of an event, what a transcript tells: the first that is there."""

_SPEAKER_NAMES = ("type", "role", "tool")
"""Of an event, who speaks in a transcript."""

_TOO_DEEP = "nested too deeply to be recorded"

NoteCompletion = Callable[["TurnRecorder", Mapping[str, Any]], None]
"""Tells the run that a turn is over, and what turn.completed says of it."""


class TurnParts:
    """What a recorded turn writes with."""

    def __init__(
        self,
        folder: Folder,
        contents: Contents,
        redact: CountingRedactor,
        clock: Callable[[], datetime],
        note_completion: NoteCompletion,
    ) -> None:
        self.folder = folder
        self.redact = redact
        self.clock = clock
        self.note_completion = note_completion
        self.contents = contents
        self.events = Log(folder, bundle_names.EVENTS, first=0)
        self.hooks = Log(folder, bundle_names.HOOKS, first=0)
        self.transcript = folder.appending(bundle_names.TURN_LOG)


class TurnRecorder:
    """Writes one turn's bundle; like its run's recorder it never fails."""

    def __init__(
        self,
        run_id: str,
        node_id: str,
        number: int,
        parts: TurnParts | None,
        status: RecordingStatus,
    ) -> None:
        folder_name = bundle_names.turn_folder_name(number)
        self.node_id = node_id
        self.number = number
        """Of the turn among those of its node, from 1."""
        self.relative = f"nodes/{node_id}/{folder_name}" if parts else ""
        """The turn's folder relative to the run's bundle, "" if it is not recorded."""
        self.session_id = ""
        self._test_id = f"{run_id}/{node_id}/{folder_name}"
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
        safe = _redact_event(parts.redact, data, unredacted_fields.STREAM)
        ts = _event_time(safe, parts.clock)

        def number_event(seq: int) -> dict[str, Any]:
            head = {"seq": seq, "ts": ts}
            return head | safe | head  # these come first, and an event's own are replaced

        parts.events.append(number_event)
        write_all(parts.transcript, render_transcript_entry(safe, ts).encode())
        if safe.get("type") == "todo":
            self._todos = apply_todo_event(self._todos, safe)

    @never_fails
    def hook(self, parts: TurnParts, data: Mapping[str, Any]) -> None:
        """Append one hook's input as the CLI gave it, `tool_use_id` included."""
        safe = _redact_event(parts.redact, data, unredacted_fields.of_hook(data))
        ts = _event_time(safe, parts.clock)
        hook = escape.show_text(read_text_of(safe, "hook_event_name") or read_text_of(safe, "hook"))
        tool_use_id = escape.show_text(read_text_of(safe, "tool_use_id"))
        tool_name = escape.show_text(read_text_of(safe, "tool_name"))

        def number_hook(seq: int) -> dict[str, Any]:
            head = {"seq": seq, "ts": ts, "hook": hook, "tool_use_id": tool_use_id}
            return head | safe | head

        seq = parts.hooks.append(number_hook)
        self._marks.append(HookMark(seq, ts, hook, tool_use_id, tool_name))

    @never_fails
    def keep_content(self, parts: TurnParts, side: Side, data: bytes) -> Content:
        """Keep one side of a file that the agent changed, among the run's contents; hash and size
        for `TurnFile`, None if not recorded.
        """
        stored = parts.contents.keep(side, data, parts.redact)
        return Content(sha256=stored.sha256, size=stored.size)

    def restore(
        self, events: Iterable[Mapping[str, Any]], hooks: Iterable[Mapping[str, Any]]
    ) -> None:
        """Take up what an earlier process recorded of this turn, and cut torn lines."""
        self._cut_torn_lines()
        for seq, hook in enumerate(hooks):
            ts = hook.get("ts")
            mark = HookMark(
                seq=seq,
                ts=ts if isinstance(ts, int) else 0,
                hook=read_text_of(hook, "hook"),
                tool_use_id=read_text_of(hook, "tool_use_id"),
                tool_name=read_text_of(hook, "tool_name"),
            )
            self._marks.append(mark)
        for event in events:
            if event.get("type") == "todo":
                self._todos = apply_todo_event(self._todos, event)

    @never_fails
    def _cut_torn_lines(self, parts: TurnParts) -> None:
        parts.events.cut_torn_line()
        parts.hooks.cut_torn_line()

    def seal(self, result: TurnResult) -> None:
        """Write turn.patch if anything changed, and the turn's summary last."""
        self._seal(result)
        self.close()

    def close(self) -> None:
        """Close the turn's files; nothing is written afterwards."""
        with self._status.lock:
            parts = self._parts
            self._parts = None
            if parts is not None:
                parts.events.close()
                parts.hooks.close()
                close_descriptor(parts.transcript)

    @never_fails
    def _seal(self, parts: TurnParts, result: TurnResult) -> None:
        self.session_id = result.session_id
        patch = result.change.patch
        if patch:
            redacted_patch = redact_patch(patch, parts.redact.data)
            place_patch(parts.folder, bundle_names.TURN_PATCH, redacted_patch)
        chain = result.change.chain
        if chain is not None:
            _place_chain_patches(parts, chain)
        document = without_none(plain(self._summarize(parts, result)))
        safe = unredacted_fields.redacted(document, unredacted_fields.TURN, parts.redact.value)
        safe["redacted"] = count_redactions(parts.redact)
        read(TurnSummary, safe)  # what readers would refuse is not sealed
        parts.folder.place(bundle_names.SUMMARY, encode_line(safe))
        parts.note_completion(self, _completion_of(result))

    def _summarize(self, parts: TurnParts, result: TurnResult) -> TurnSummary:
        """The turn's summary; only its `redacted` is still empty."""
        change = result.change
        denied_calls = _denied_calls(result, parts.redact)
        calls, capture = correlate_hooks(self._marks, denied_calls)
        # No hook told what it did after its last recorded event.
        if result.status == "interrupted":
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
        return TurnSummary(
            test_id=self._test_id,
            metrics=metrics,
            git=change.git,
            file_stats=count_changes(file.change_type for file in change.files),
            files=change.files[:MAX_LISTED_FILES],
            tool_calls=calls[:MAX_LISTED_CALLS],
            todos=tuple(self._todos[:MAX_LISTED_TODOS]),
            hook_capture_status=capture,
            session_id=escape.show_text(result.session_id),
            status=result.status,
            detail=escape.show_text(result.detail),
            more_files=count_beyond(change.files, MAX_LISTED_FILES),
            more_tool_calls=count_beyond(calls, MAX_LISTED_CALLS),
            more_todos=count_beyond(self._todos, MAX_LISTED_TODOS),
            chain=change.chain.chain if change.chain else None,
            setup=_summarize_setup(result),
        )


def _denied_calls(result: TurnResult, redact: TextRedactor) -> set[str]:
    """Ids of the calls that permissions refused, as the bundle has them."""
    denied_calls = set()
    for denial in result.permission_denials:
        call = redact.text(str(denial.get("tool_use_id", "")))
        denied_calls.add(escape.show_text(call))
    return denied_calls


def _summarize_setup(result: TurnResult) -> TurnSetup | None:
    """What of the project's own Claude Code was loaded; None without a setup."""
    setup = result.setup
    if setup is None:
        return None
    left_out = tuple(map(escape.show_text, setup.left_out[:MAX_LEFT_OUT]))
    return TurnSetup(digest=setup.digest, parts=len(setup.digests), left_out=left_out)


def _place_chain_patches(parts: TurnParts, chain: ChainChange) -> None:
    """Write the patch of a chain, and those of its steps that no other turn of the run has."""
    names = [step.patch for step in chain.chain.steps if step.patch]
    patches = dict(zip(names, chain.step_patches, strict=True))
    for name, patch in {**patches, bundle_names.CHAIN_PATCH: chain.patch}.items():
        place_patch(parts.folder, name, redact_patch(patch, parts.redact.data))


def _completion_of(result: TurnResult) -> dict[str, Any]:
    """What turn.completed says of the turn's end."""
    completion: dict[str, Any] = {"status": result.status}
    message = result.text
    if not message and result.answer is not None:
        message = json.dumps(result.answer, ensure_ascii=False, default=repr)
    completion["message"] = message
    if result.change.after:
        completion["before"] = result.change.before
        completion["after"] = result.change.after
        completion["files"] = len(result.change.files)
        completion["added"] = sum(file.added for file in result.change.files)
        completion["deleted"] = sum(file.deleted for file in result.change.files)
    completion["usd"] = 0.0 if result.cost.replayed else result.cost.usd
    return completion


def _redact_event(
    redact: TextRedactor, data: Mapping[str, Any], own_fields: unredacted_fields.Own
) -> dict[str, Any]:
    """The event without secrets; its names if the rest cannot be kept: a session goes on, and says
    what is missing.

    A model can nest a tool's input as deep as it likes, and write what no redactor was tried with.
    """
    try:
        safe: dict[str, Any] = unredacted_fields.redacted(dict(data), own_fields, redact.value)
    except RecursionError:
        return _redact_head(redact, data, _TOO_DEEP)
    except Exception as error:  # noqa: BLE001  one event is lost, and not the run
        return _redact_head(redact, data, f"not recorded: {type(error).__name__}")
    try:
        require_few(json.dumps(safe, default=repr).encode())
    except RecursionError:
        return _redact_head(redact, data, _TOO_DEEP)
    except ValueError:
        return _redact_head(redact, data, "too many values to be recorded")
    return safe


def _redact_head(redact: TextRedactor, data: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """What is recorded of an event that cannot be kept whole, and why it is no more."""
    head = {name: data[name] for name in _HEAD_NAMES if isinstance(data.get(name), str)}
    return {**redact.value(head), "left_out": reason}


def render_transcript_entry(event: Mapping[str, Any], ts: int) -> str:
    """One event as lines of a transcript, safe to print: nothing hidden, no control character.

    What the program tells of itself, and what each answer used, is in events.ndjson only: "" here.
    """
    if event.get("type") in ("system", "usage"):
        return ""
    speaker_parts = [read_text_of(event, name) for name in _SPEAKER_NAMES]
    speaker = " ".join(filter(None, speaker_parts))
    text = _transcript_text(event)
    return f"{_clock_time(ts)} {escape.show_text(speaker)}: {escape.show_block(text)}\n"


def _transcript_text(event: Mapping[str, Any]) -> str:
    """What the event says: a text, the texts of its blocks, else JSON."""
    value = _transcript_value(event)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(map(_is_text_block, value)):
        return "\n".join(block["text"] for block in value)
    return json.dumps(value, default=repr, ensure_ascii=False)


def _transcript_value(event: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """The field that has what the event says, else all but those of its head."""
    for name in _TEXT_NAMES:
        if event.get(name) not in (None, ""):
            return event[name]
    fields = {}
    for name, value in event.items():
        if name not in (*_SPEAKER_NAMES, "ts") and value != "":
            fields[name] = value
    return fields


def _is_text_block(block: object) -> bool:
    return isinstance(block, dict) and bool(read_text_of(block, "text"))


def _clock_time(ts: int) -> str:
    """`hh:mm:ss.mmm` of milliseconds since 1970, in UTC."""
    all_seconds, milliseconds = divmod(ts, 1000)
    all_minutes, seconds = divmod(all_seconds, 60)
    hours, minutes = divmod(all_minutes, 60)
    return f"{hours % 24:02d}:{minutes:02d}:{seconds:02d}.{milliseconds:03d}"


def _event_time(data: Mapping[str, Any], clock: Callable[[], datetime]) -> int:
    """The time that an event was given where it was seen, else now; milliseconds since 1970."""
    ts = data.get("ts")
    if isinstance(ts, int):
        return ts
    return bundle_names.to_milliseconds(clock())
