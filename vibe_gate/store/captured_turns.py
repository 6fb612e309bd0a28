"""What captured sessions say, read back: what people asked and agents did, out of their redacted
events (`captures` writes them).

A session's events lie in the store of the working tree in which vibe-gate folded them, so those of
one session may be spread over several stores.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.domain.document import parse_object, read, read_text_of
from vibe_gate.store.agent_events import AGENTS, CapturedEvent, read_prompt
from vibe_gate.store.captures import (
    CAPTURES_FOLDER,
    EVENTS,
    CaptureMeta,
    StoredEvent,
    agent_of,
    find_sessions,
    read_finished_lines,
)
from vibe_gate.store.event_writes import paths_written
from vibe_gate.store.folder import Folder

_KIND_WITHIN = 200
"""Bytes of a line within which the kind of its event stands."""


class CapturedPrompt(Struct, frozen=True):
    """What a person typed in a captured session, redacted."""

    agent: str
    """A key of `AGENTS`."""
    session: str
    turn: int
    """Which turn it began: the first prompt begins turn 1."""
    at: datetime
    text: str


class CapturedToolCall(Struct, frozen=True):
    """A tool call of a captured session, redacted."""

    at: datetime
    tool: str
    tool_use_id: str
    input: dict[str, Any]
    paths: tuple[str, ...] = ()
    """The files that it wrote."""
    failed: bool = False
    refused: str = ""
    """Why vibe-gate's guard let it not begin, or ""."""

    @property
    def subject(self) -> str:
        """The files that it wrote; of a call that wrote none its input, as JSON."""
        return " ".join(self.paths) or json.dumps(self.input, ensure_ascii=False)


class CapturedTurn(Struct, frozen=True):
    """A turn of a captured session."""

    turn: int
    """Its number from 1; 0 of what stands before the first prompt."""
    at: datetime
    prompt: str
    """ "" of turn 0."""
    calls: tuple[CapturedToolCall, ...]


class CapturedModel(Struct, frozen=True, order=True):
    """The model that an event of a captured session names, by the agent's own name for it."""

    at: datetime
    model: str


class PromptText(Struct, frozen=True, order=True):
    """What an event says that a person typed."""

    at: datetime
    text: str


def prompts_of(roots: Iterable[Path], session: str) -> tuple[CapturedPrompt, ...]:
    """What was asked in the session, oldest first, out of the stores of these working trees.

    Damaged events, stores that cannot be read and sessions that are not there are left out. An
    event that two stores have, because folding was interrupted, counts once.
    """
    agent = agent_of(session)
    texts: set[PromptText] = set()
    for event in read_session_events(roots, session, is_of_kind(AGENTS[agent].prompt)):
        prompt = prompt_in(event, agent)
        if prompt is not None:
            texts.add(prompt)
    prompts = []
    for turn, prompt in enumerate(sorted(texts), start=1):
        prompts.append(CapturedPrompt(agent, session, turn, prompt.at, prompt.text))
    return tuple(prompts)


def models_of(roots: Iterable[Path], session: str) -> tuple[CapturedModel, ...]:
    """The models that events of the session name, oldest first; few agents tell theirs, and not at
    every event.
    """
    models: set[CapturedModel] = set()
    # Within a JSON text the quotes would be escaped.
    for event in read_session_events(roots, session, lambda line: b'"model":"' in line):
        model = event.data.get("model")
        if isinstance(model, str):
            models.add(CapturedModel(event.ts, model))
    return tuple(sorted(models))


def captured_turns_of(roots: Iterable[Path], session: str) -> tuple[CapturedTurn, ...]:
    """The session turn by turn, out of the stores of these working trees; what is damaged is left
    out.
    """
    root_list = list(roots)
    prompts = prompts_of(root_list, session)
    prompt_times = [prompt.at for prompt in prompts]
    calls_by_turn: list[list[CapturedToolCall]] = [[] for _ in range(len(prompts) + 1)]
    for call in _read_calls(root_list, session):
        calls_by_turn[bisect_right(prompt_times, call.at)].append(call)
    turns = []
    calls_before_prompts = calls_by_turn[0]
    if calls_before_prompts:
        turns.append(CapturedTurn(0, calls_before_prompts[0].at, "", tuple(calls_before_prompts)))
    for prompt in prompts:
        calls = tuple(calls_by_turn[prompt.turn])
        turns.append(CapturedTurn(prompt.turn, prompt.at, prompt.text, calls))
    return tuple(turns)


def _read_calls(roots: Iterable[Path], session: str) -> list[CapturedToolCall]:
    """The tool calls of the session that ended or were refused, by time."""
    agent = agent_of(session)
    is_start = is_of_kind(AGENTS[agent].started)
    is_end = is_of_kind(AGENTS[agent].ended)

    def is_of_call(line: bytes) -> bool:
        return is_end(line) or (is_start(line) and b'"refused":' in line)

    calls = []
    for event in read_session_events(roots, session, is_of_call):
        call = call_in(event, agent)
        if call is not None:
            calls.append(call)
    return sorted(calls, key=lambda call: call.at)


def read_session_events(
    roots: Iterable[Path], session: str, is_wanted: Callable[[bytes], bool]
) -> Iterator[StoredEvent]:
    """The events of a session in these working trees whose line is wanted; what cannot be read is
    left out.
    """
    for root in roots:
        with contextlib.suppress(OSError, ValueError):
            for place, meta in find_sessions(Folder.at(root).below(CAPTURES_FOLDER), session):
                with contextlib.suppress(OSError, ValueError):
                    yield from read_folder_events(place, meta, is_wanted)


def read_folder_events(
    place: Folder, meta: CaptureMeta, is_wanted: Callable[[bytes], bool]
) -> Iterator[StoredEvent]:
    """The events in the folder of a session whose line is wanted. OSError."""
    for line in read_finished_lines(place, EVENTS, meta.bytes):
        if is_wanted(line):
            with contextlib.suppress(ValueError):
                yield read(StoredEvent, parse_object(line))


def is_of_kind(kind: str) -> Callable[[bytes], bool]:
    """Whether a line may be an event of this kind: most lines are none, and not parsed."""
    return lambda line: kind.encode() in line[:_KIND_WITHIN]


def prompt_in(event: StoredEvent, agent: str) -> PromptText | None:
    """What a person typed, if the event says so."""
    text = read_prompt(CapturedEvent(event.ts, event.data, agent))
    return PromptText(event.ts, text) if text and text.strip() else None


def call_in(event: StoredEvent, agent: str) -> CapturedToolCall | None:
    """The tool call that ended or was refused, if the event says so."""
    kind = read_text_of(event.data, "hook_event_name")
    refused = read_text_of(event.data, "refused")
    if kind == AGENTS[agent].started and not refused:
        return None
    tool_input = event.data.get("tool_input")
    with contextlib.suppress(ValueError):
        return CapturedToolCall(
            at=event.ts,
            tool=read_text_of(event.data, "tool_name"),
            tool_use_id=read_text_of(event.data, "tool_use_id"),
            input=tool_input if isinstance(tool_input, dict) else {},
            paths=paths_written(CapturedEvent(event.ts, event.data, agent)),
            failed=not refused and kind != AGENTS[agent].ended,
            refused=refused,
        )
    return None
