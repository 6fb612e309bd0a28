"""What captured sessions say, read back: what people asked and agents did, out of their redacted
events (`captures` writes them), and the lines that they wrote (`captured_writes`).

A session's events lie in the store of the working tree in which vibe-gate folded them, so those of
one session may be spread over several stores.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vibe_gate.domain.document import Timestamp, decode, parse_object, read, text_of, to_json
from vibe_gate.domain.turn import TodoChanges, TurnTodo
from vibe_gate.store.agent_events import (
    AGENTS,
    AgentEvents,
    CapturedEvent,
    paths_written,
    read_prompt,
)
from vibe_gate.store.applied_writes import AppliedWrite, applied_writes, note_applied
from vibe_gate.store.captured_writes import CapturedWrites, line_digests_of, writes_in
from vibe_gate.store.captures import (
    CAPTURES_FOLDER,
    EVENTS,
    META,
    CaptureMeta,
    StoredEvent,
    agent_of,
    find_session,
    find_sessions,
    own_id,
    read_finished_lines,
    read_meta,
)
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import read_lines
from vibe_gate.store.stored_writes import DigestedLines, LineDigests, StoredWrite, split_git_lines
from vibe_gate.store.turn_summary import HookMark, ToolCall, apply_todo_event, correlate_hooks

if TYPE_CHECKING:
    from vibe_gate.store.database.run_index import RunIndex

__all__ = [
    "AppliedWrite",
    "CapturedHead",
    "CapturedModel",
    "CapturedPrompt",
    "CapturedSession",
    "CapturedToolCall",
    "CapturedTurn",
    "CapturedWrites",
    "DigestedLines",
    "LineDigests",
    "StoredWrite",
    "applied_writes",
    "captured_turns_of",
    "delete_captured_session",
    "first_prompt_line",
    "has_captured_sessions",
    "line_digests_of",
    "list_captured_heads",
    "match_captured_heads",
    "models_of",
    "note_applied",
    "prompts_of",
    "read_captured_session",
    "split_git_lines",
    "writes_in",
]

_KIND_WITHIN = 200
"""Bytes of a line within which the kind of its event stands."""


class CapturedPrompt(Struct, frozen=True):
    """What a person typed in a captured session, redacted: the first prompt begins turn 1."""

    agent: str
    session: str
    turn: int
    at: datetime
    text: str


class CapturedToolCall(Struct, frozen=True):
    """A tool call of a captured session, redacted, and the paths of the files that it wrote.

    `refused`: why vibe-gate's guard let it not begin, or "".
    """

    at: datetime
    tool: str
    tool_use_id: str
    input: dict[str, Any]
    paths: tuple[str, ...] = ()
    failed: bool = False
    refused: str = ""

    @property
    def about(self) -> str:
        """The files that it wrote; of a call that wrote none its input, as JSON."""
        return " ".join(self.paths) or json.dumps(self.input, ensure_ascii=False)


class CapturedTurn(Struct, frozen=True):
    """A turn of a captured session. `turn` 0 is what stands before the first prompt: it has no
    `prompt`.
    """

    turn: int
    at: datetime
    prompt: str
    calls: tuple[CapturedToolCall, ...]


class CapturedHead(Struct, frozen=True):
    """What lists say of a captured session: `id` is its folder's name, `asked` the first line of
    its first prompt.

    `agent` is a key of `AGENTS`, `title` what people call that agent; `files` counts the paths that
    it wrote.
    `damaged` events are not known.
    """

    id: str
    agent: str
    title: str
    session: str
    started_at: Timestamp
    updated_at: Timestamp
    ended: bool
    turns: int
    files: int
    asked: str
    damaged: int = 0

    @property
    def own_id(self) -> str:
        """The id that the agent itself gives to the session."""
        return own_id(self.session)


class CapturedModel(Struct, frozen=True, order=True):
    """The model that an event of a captured session names, by the agent's own name for it."""

    at: datetime
    model: str


class _Asked(Struct, frozen=True, order=True):
    at: datetime
    text: str
    agent: str


def prompts_of(roots: Iterable[Path], session: str) -> tuple[CapturedPrompt, ...]:
    """What was asked in the session, oldest first, out of the stores of these working trees.

    Damaged events, stores that cannot be read and sessions that are not there are left out. An
    event that two stores have, because folding was interrupted, counts once.
    """
    agent = agent_of(session)
    events = _events_of(roots, session, _of_kind(AGENTS[agent].prompt))
    asked = {one for event in events for one in _asked_by(event, agent)}
    return tuple(
        CapturedPrompt(one.agent, session, turn, one.at, one.text)
        for turn, one in enumerate(sorted(asked), start=1)
    )


def models_of(roots: Iterable[Path], session: str) -> tuple[CapturedModel, ...]:
    """The models that events of the session name, oldest first; few agents tell theirs, and not at
    every event.
    """
    # Within a JSON text the quotes would be escaped.
    events = _events_of(roots, session, lambda line: b'"model":"' in line)
    named = ((event.ts, event.data.get("model")) for event in events)
    return tuple(
        sorted({CapturedModel(at, model) for at, model in named if isinstance(model, str)})
    )


def captured_turns_of(roots: Iterable[Path], session: str) -> tuple[CapturedTurn, ...]:
    """The session turn by turn, out of the stores of these working trees; what is damaged is left
    out.
    """
    roots, agent = tuple(roots), agent_of(session)
    prompts = prompts_of(roots, session)
    calls: list[list[CapturedToolCall]] = [[] for _ in range(len(prompts) + 1)]
    began = [prompt.at for prompt in prompts]
    started, ended = (_of_kind(kind) for kind in (AGENTS[agent].started, AGENTS[agent].ended))
    events = _events_of(
        roots, session, lambda line: ended(line) or (started(line) and b'"refused":' in line)
    )
    for call in sorted(
        (call for event in events for call in _call_by(event, agent)), key=lambda call: call.at
    ):
        calls[bisect_right(began, call.at)].append(call)
    before = [CapturedTurn(0, calls[0][0].at, "", tuple(calls[0]))] if calls[0] else []
    return (
        *before,
        *(CapturedTurn(one.turn, one.at, one.text, tuple(calls[one.turn])) for one in prompts),
    )


def list_captured_heads(root: Path, index: RunIndex | None = None) -> list[CapturedHead]:
    """The captured sessions in the store of this working tree, that which went on last first.

    Those that cannot be read are left out. `index` keeps what was read, so that only what is new
    is.
    """
    known = dict(index.folders()) if index else {}
    found: list[CapturedHead] = []
    news: dict[str, tuple[int, str]] = {}
    with contextlib.suppress(OSError):
        captures_folder = Folder.at(root).below(CAPTURES_FOLDER)
        for name in captures_folder.folders():
            row = known.pop(name, (0, ""))
            with contextlib.suppress(OSError, ValueError):
                place = captures_folder.folder(name)
                ctime = place.status(META).st_ctime_ns
                head = decode(CapturedHead, row[1]) if row[0] == ctime else _head(name, place)
                found.append(head)
                if row[0] != ctime:
                    news[name] = ctime, to_json(head)
    if index and (news or known):
        index.update(news, known)
    return sorted(found, key=lambda head: (head.updated_at, head.id), reverse=True)


def match_captured_heads(heads: Iterable[CapturedHead], text: str) -> list[CapturedHead]:
    """The sessions with this id, or those whose id begins so: the folder's name, its last part, or
    the session's id.
    """
    every = list(heads)
    whole = [head for head in every if text in (head.id, head.session, head.own_id)]
    return whole or [head for head in every if any(name.startswith(text) for name in _names(head))]


def delete_captured_session(roots: Iterable[Path], session: str) -> None:
    """Delete the events of a session in the stores of these working trees. OSError."""
    for root in roots:
        with contextlib.suppress(FileNotFoundError):
            captures_folder = Folder.at(root).below(CAPTURES_FOLDER)
            for place, _ in list(find_sessions(captures_folder, session)):
                captures_folder.remove_folder(place.path.name)


def _names(head: CapturedHead) -> tuple[str, ...]:
    return head.id, head.id.partition("_")[2], head.session, head.own_id


def _head(name: str, place: Folder) -> CapturedHead:
    """OSError, ValueError."""
    meta = read_meta(place)
    agent = agent_of(meta.session_id)
    asking, ended = (_of_kind(kind) for kind in (AGENTS[agent].prompt, AGENTS[agent].ended))
    prompts = sorted(
        asked for event in _events_in(place, meta, asking) for asked in _asked_by(event, agent)
    )
    calls = (call for event in _events_in(place, meta, ended) for call in _call_by(event, agent))
    files = {path for call in calls for path in call.paths}
    return CapturedHead(
        name,
        agent,
        AGENTS[agent].title,
        meta.session_id,
        meta.started_at,
        meta.updated_at,
        meta.ended,
        len(prompts),
        len(files),
        first_prompt_line(prompts[0].text) if prompts else "",
        meta.damaged,
    )


def first_prompt_line(prompt: str) -> str:
    """The first line that says something, at most 200 characters of it."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= 200 else line[:199] + "…"


def has_captured_sessions(roots: Iterable[Path]) -> bool:
    """Whether a captured session is kept in one of these working trees."""
    for root in roots:
        with contextlib.suppress(OSError):
            if Folder.at(root).below(CAPTURES_FOLDER).folders():
                return True
    return False


class CapturedSession(Struct, frozen=True):
    """What a captured session did until now: its tool calls, its list of todos; `damaged` events
    are not known.
    """

    calls: tuple[ToolCall, ...]
    todos: tuple[TurnTodo, ...]
    damaged: int


def read_captured_session(root: Path, session: str) -> CapturedSession | None:
    """The captured session of that id in the working tree `root`; None if it is not there or cannot
    be read.
    """
    marks: list[HookMark] = []
    todos: list[TurnTodo] = []
    changes = TodoChanges()
    try:
        place, meta = find_session(Folder.at(root).below(CAPTURES_FOLDER), session)
        for line in read_lines(place, EVENTS):
            event = parse_object(line)
            data = event.get("data")
            if not isinstance(data, dict):
                continue
            mark = _mark(len(marks), data, AGENTS[agent_of(session)])
            marks.append(mark)
            if mark.hook == "PostToolUse":
                for change in changes.of(
                    mark.tool_name, data.get("tool_input"), data.get("tool_response")
                ):
                    todos = apply_todo_event(todos, change)
    except (OSError, ValueError, LookupError):
        return None
    return CapturedSession(correlate_hooks(marks, ())[0], tuple(todos), meta.damaged)


def _mark(seq: int, data: Mapping[str, object], agent: AgentEvents) -> HookMark:
    """The event by Claude Code's name for its kind; an agent that numbers no calls tells of each
    once.
    """
    hook, tool, used = (
        str(data.get(name, "")) for name in ("hook_event_name", "tool_name", "tool_use_id")
    )
    name = {agent.started: "PreToolUse", agent.ended: "PostToolUse"}.get(hook, hook)
    return HookMark(seq, seq, name, used or f"call {seq}", tool)


def _events_of(
    roots: Iterable[Path], session: str, is_wanted: Callable[[bytes], bool]
) -> Iterator[StoredEvent]:
    """The events of a session in these working trees whose line is wanted; what cannot be read is
    left out.
    """
    for root in roots:
        with contextlib.suppress(OSError, ValueError):
            for place, meta in find_sessions(Folder.at(root).below(CAPTURES_FOLDER), session):
                with contextlib.suppress(OSError, ValueError):
                    yield from _events_in(place, meta, is_wanted)


def _events_in(
    place: Folder, meta: CaptureMeta, is_wanted: Callable[[bytes], bool]
) -> Iterator[StoredEvent]:
    for line in read_finished_lines(place, EVENTS, meta.bytes):
        if is_wanted(line):
            with contextlib.suppress(ValueError):
                yield read(StoredEvent, parse_object(line))


def _of_kind(kind: str) -> Callable[[bytes], bool]:
    """Whether a line may be an event of this kind: most lines are none, and not parsed."""
    return lambda line: kind.encode() in line[:_KIND_WITHIN]


def _asked_by(event: StoredEvent, agent: str) -> Iterator[_Asked]:
    text = read_prompt(CapturedEvent(event.ts, event.data, agent))
    if text and text.strip():
        yield _Asked(event.ts, text, agent)


def _call_by(event: StoredEvent, agent: str) -> Iterator[CapturedToolCall]:
    asked, kind = event.data.get("tool_input"), text_of(event.data, "hook_event_name")
    refused = text_of(event.data, "refused")
    if kind == AGENTS[agent].started and not refused:
        return
    with contextlib.suppress(ValueError):
        yield CapturedToolCall(
            event.ts,
            text_of(event.data, "tool_name"),
            text_of(event.data, "tool_use_id"),
            asked if isinstance(asked, dict) else {},
            paths_written(CapturedEvent(event.ts, event.data, agent)),
            not refused and kind != AGENTS[agent].ended,
            refused,
        )
