"""`summary.json` of a turn: what it used, its tool calls, its todos, in the seed's names exactly.

Tool calls are put together from hook events by `tool_use_id` only: parallel calls of one tool end
in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from vibe_gate.domain import escape
from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.document import Count, Named, Usd
from vibe_gate.domain.summary import CostBasis
from vibe_gate.domain.turn import (
    TODO_STATUSES,
    SeedModel,
    TodoStatus,
    TurnChain,
    TurnFile,
    TurnGit,
    TurnTodo,
)

MAX_LISTED_FILES = 20_000
"""Changed files in a turn's summary; its patch has all of them."""

MAX_LISTED_CALLS = 10_000
"""Tool calls in a turn's summary; hooks.ndjson has all of them."""

MAX_LISTED_LACKS = 1_000
"""Missing events in a turn's summary, and as many warnings; hooks.ndjson has what they are made
of.
"""

MAX_LISTED_TODOS = 1_000
"""Todos in a turn's summary; events.ndjson has all of them."""

MAX_TODO = 1_000
"""Characters of one; the model writes what it likes."""

MAX_NAME = 200
"""Characters of a tool's name, and of a call's id in what a capture lacks."""


class TurnMetrics(SeedModel, frozen=True, kw_only=True):
    """What the turn used. None is "not known" and left out of the file."""

    total_tokens: Count | None = None
    total_cost_usd: Usd | None = None
    cost_basis: CostBasis | None = None
    """ "unknown": the USD are the most that it may have cost."""
    duration_ms: Count | None = None
    tool_calls: Count | None = None
    files_changed: Count | None = None


class FileStats(SeedModel, frozen=True, kw_only=True):
    """Changed files by the kind of change."""

    added: int = 0
    modified: int = 0
    deleted: int = 0
    renamed: int = 0
    total: int = 0


class HookRef(SeedModel, frozen=True, kw_only=True):
    """Lines of hooks.ndjson, counted from 0 (their `seq`)."""

    pre: int | None = None
    post: int | None = None


class ToolCall(SeedModel, frozen=True, kw_only=True):
    """One tool call. Times are milliseconds since 1970; no `ended_at`: it was denied, or its end
    was not captured.
    """

    name: str
    ok: bool
    started_at: int
    ended_at: int | None = None
    duration_ms: int | None = None
    hook_ref: HookRef


MOST_LACKS = 3
"""Of what a capture lacks, in one line; the rest is in the turn's summary."""


class HookCaptureStatus(SeedModel, frozen=True, kw_only=True):
    """Whether every tool call was seen to start and to end, and what was not."""

    complete: bool = True
    missing_events: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    more_missing_events: Count | None = None
    """Missing events beyond those in `missing_events`; None if there are none."""
    more_warnings: Count | None = None
    """Warnings beyond those in `warnings`; None if there are none."""

    @property
    def lacks(self) -> str:
        """What was not seen, in a few words for people; "" of a complete capture."""
        if self.complete:
            return ""
        reasons = [f"no {event}" for event in self.missing_events]
        reasons += self.warnings
        return escape.list_names(reasons, MOST_LACKS) or "no reason recorded"


class Redacted(SeedModel, frozen=True, kw_only=True):
    """How many secrets were replaced in what the turn wrote, in all and by kind."""

    count: int = 0
    kinds: Named[int] = field(default_factory=dict)


MAX_LEFT_OUT = 20
"""Of what a set-up leaves out; people read the first few."""


class TurnSetup(SeedModel, frozen=True, kw_only=True):
    """What was loaded of the project's own Claude Code."""

    source: Literal["project"] = "project"
    digest: str
    """sha-256 of all that was loaded; run.json has that of each part."""
    parts: Count
    """How many files, hooks and MCP servers these were."""
    left_out: tuple[str, ...] = ()
    """What of them was not loaded, MAX_LEFT_OUT at most."""


class TurnSummary(SeedModel, frozen=True, kw_only=True):
    """The document."""

    schema: Literal[1] = 1
    test_id: str
    """`<run id>/<node id>/<turn>`."""
    metrics: TurnMetrics = TurnMetrics()
    git: TurnGit | None = None
    file_stats: FileStats = FileStats()
    files: tuple[TurnFile, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    todos: tuple[TurnTodo, ...] = ()
    hook_capture_status: HookCaptureStatus = HookCaptureStatus()
    session_id: str = ""
    status: str = ""
    """How the session ended."""
    detail: str = ""
    """Why it ended so, as a sentence."""
    more_files: Count | None = None
    """Changed files beyond those in `files`; None if there are none."""
    more_tool_calls: Count | None = None
    """Tool calls beyond those in `tool_calls`; None if there are none."""
    more_todos: Count | None = None
    """Todos beyond those in `todos`; None if there are none."""
    setup: TurnSetup | None = None
    redacted: Redacted = Redacted()
    chain: TurnChain | None = None
    """None of a turn that began with no other's files."""


class HookMark(Struct, frozen=True):
    """What correlation needs of one line of hooks.ndjson."""

    seq: int
    ts: int
    """In milliseconds."""
    hook: str
    tool_use_id: str
    tool_name: str


_ENDS = {"PostToolUse": True, "PostToolUseFailure": False}
"""Hook events that end a tool call, and whether the call succeeded."""


def correlate_hooks(
    marks: Iterable[HookMark], denied: Collection[str]
) -> tuple[tuple[ToolCall, ...], HookCaptureStatus]:
    """Tool calls in the order in which they started, and what of them is missing.

    A start without an end is a failed call, and a missing event unless it was denied.
    """
    starts, ends, warnings = _pair_marks(marks)
    missing: list[str] = []
    calls: list[tuple[int, ToolCall]] = []
    for tool_use_id in starts | ends:
        start, end = starts.get(tool_use_id), ends.get(tool_use_id)
        if start is None:
            missing.append(name_missing_event("PreToolUse", tool_use_id))
        if end is None and tool_use_id not in denied:
            missing.append(name_missing_event("PostToolUse", tool_use_id))
        first = start or ends[tool_use_id]
        calls.append((first.seq, _call(start, end, first)))
    calls.sort(key=lambda call: call[0])
    status = HookCaptureStatus(
        complete=not missing and not warnings,
        missing_events=tuple(missing[:MAX_LISTED_LACKS]),
        warnings=tuple(warnings[:MAX_LISTED_LACKS]),
        more_missing_events=count_beyond(missing, MAX_LISTED_LACKS),
        more_warnings=count_beyond(warnings, MAX_LISTED_LACKS),
    )
    return tuple(call for _, call in calls), status


def count_beyond(items: Sized, limit: int) -> int | None:
    """How many a list of `limit` leaves out; None if it has all."""
    return len(items) - limit if len(items) > limit else None


def name_missing_event(hook: str, tool_use_id: str) -> str:
    """An event of a call that was not captured, as a summary names it."""
    return f"{hook} {escape.shorten_text(tool_use_id, MAX_NAME)}"


def _pair_marks(
    marks: Iterable[HookMark],
) -> tuple[dict[str, HookMark], dict[str, HookMark], list[str]]:
    """The first start and the first end of each call by its id, and what is wrong with others."""
    starts: dict[str, HookMark] = {}
    ends: dict[str, HookMark] = {}
    warnings: list[str] = []
    for mark in marks:
        if mark.hook == "PreToolUse":
            side = starts
        elif mark.hook in _ENDS:
            side = ends
        else:
            continue
        if not mark.tool_use_id:
            warnings.append(f"hook {mark.seq} ({mark.hook}) has no tool_use_id")
        elif mark.tool_use_id in side:
            call = escape.shorten_text(mark.tool_use_id, MAX_NAME)
            warnings.append(f"hook {mark.seq} ({mark.hook}) repeats {call}")
        else:
            side[mark.tool_use_id] = mark
    return starts, ends, warnings


def _call(start: HookMark | None, end: HookMark | None, first: HookMark) -> ToolCall:
    duration_ms = None
    if start is not None and end is not None:
        duration_ms = end.ts - start.ts
    hooks = HookRef(pre=start.seq if start else None, post=end.seq if end else None)
    return ToolCall(
        name=escape.shorten_text(first.tool_name, MAX_NAME),
        ok=end is not None and _ENDS[end.hook],
        started_at=first.ts,
        ended_at=end.ts if end else None,
        duration_ms=duration_ms,
        hook_ref=hooks,
    )


def count_changes(changes: Iterable[ChangeType]) -> FileStats:
    """Changed files by kind of change; a changed type counts as modified."""
    counts = Counter(changes)
    return FileStats(
        added=counts["added"],
        modified=counts["modified"] + counts["type_changed"],
        deleted=counts["deleted"],
        renamed=counts["renamed"],
        total=counts.total(),
    )


def apply_todo_event(todos: Sequence[TurnTodo], event: Mapping[str, Any]) -> list[TurnTodo]:
    """The agent's list after a todo event: {action: add | update | set, text, status}.

    An update names a todo by its text; `set` adds what is not there; "deleted" takes it off.
    """
    text = escape.shorten_text(escape.show_text(str(event.get("text", ""))), MAX_TODO)
    status = str(event.get("status", ""))
    action = event.get("action")
    new_todos = list(todos)
    index = next((index for index, todo in enumerate(new_todos) if todo.text == text), None)
    if action == "add" or (action == "set" and index is None):
        return [*new_todos, TurnTodo(text=text, status=_todo_status(status))]
    if index is None:
        return new_todos
    if status == "deleted":
        del new_todos[index]
    else:
        new_todos[index] = replace(new_todos[index], status=_todo_status(status))
    return new_todos


def _todo_status(text: str) -> TodoStatus:
    for status in TODO_STATUSES:
        if status == text:
            return status
    return "pending"
