"""What captured sessions say, read back: what people asked and agents did, out of their redacted events (`captures`
writes them), and the lines that they wrote (`session_writes`).

A session's events lie in the store of the working tree in which vibe-gate folded them, so those of one session may be
spread over several stores.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import Timestamp, decode, parse_object, read, text_of, to_json
from vibe_gate.store import names
from vibe_gate.store.captures import EVENTS, META, CaptureMeta, agent_of, kept_sessions, own_id, read_meta
from vibe_gate.store.folder import Folder
from vibe_gate.store.kept_writes import FileState, KeptWrite, LineDigests, text_lines
from vibe_gate.store.log import lines
from vibe_gate.store.session_writes import SessionWrites, digests_of, session_writes
from vibe_gate.store.writes import AGENTS, CapturedEvent, paths_written, prompt_of

if TYPE_CHECKING:
    from vibe_gate.store.state import RunIndex

_SHELF = f"{STORE}/{names.CAPTURES}"

__all__ = [
    "CapturedHead", "CapturedModel", "CapturedPrompt", "CapturedTurn", "FileState", "KeptWrite", "LineDigests",
    "SessionCall", "SessionWrites", "delete", "digests_of", "first_line", "heads", "matching", "models_of",
    "prompts_of", "session_writes", "text_lines", "turns_of",
]  # fmt: skip

_KIND_WITHIN = 200
"""Bytes of a line within which the kind of its event stands: most lines are none of these, and not parsed."""


class CapturedPrompt(Struct, frozen=True):
    """What a person typed in a captured session, redacted: the first prompt begins turn 1."""

    agent: str
    session: str
    turn: int
    at: datetime
    text: str


class SessionCall(Struct, frozen=True):
    """A tool call of a captured session, redacted, and the paths of the files that it wrote."""

    at: datetime
    tool: str
    tool_use_id: str
    input: dict[str, Any]
    paths: tuple[str, ...] = ()
    failed: bool = False

    @property
    def about(self) -> str:
        """The files that it wrote; of a call that wrote none its input, as JSON."""
        return " ".join(self.paths) or json.dumps(self.input, ensure_ascii=False)


class CapturedTurn(Struct, frozen=True):
    """A turn of a captured session. `turn` 0 is what stands before the first prompt: it has no `prompt`."""

    turn: int
    at: datetime
    prompt: str
    calls: tuple[SessionCall, ...]


class CapturedHead(Struct, frozen=True):
    """What lists say of a captured session: `id` is its folder's name, `asked` the first line of its first prompt.

    `agent` is a key of `AGENTS`, `title` what people call that agent; `files` counts the paths that it wrote.
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


class _KeptEvent(Struct, frozen=True):
    ts: Timestamp
    data: dict[str, Any]


def prompts_of(roots: Iterable[Path], session: str) -> tuple[CapturedPrompt, ...]:
    """What was asked in the session, oldest first, out of the stores of these working trees.

    Damaged events, stores that cannot be read and sessions that are not there are left out. An event that two stores
    have, because folding was interrupted, counts once.
    """
    asked = {one for root in roots for one in _asked_in(root, session)}
    return tuple(
        CapturedPrompt(one.agent, session, turn, one.at, one.text) for turn, one in enumerate(sorted(asked), start=1)
    )


def _asked_in(root: Path, session: str) -> Iterator[_Asked]:
    with contextlib.suppress(OSError, ValueError):
        for place, meta in kept_sessions(Folder.at(root).below(_SHELF), session):
            with contextlib.suppress(OSError, ValueError):
                for line in _finished(place, meta):
                    yield from _asked_by(line, agent_of(session))


def _finished(place: Folder, meta: CaptureMeta) -> Iterator[bytes]:
    """The lines that are finished: what comes behind them is written at this moment, or again."""
    size = 0
    for line in lines(place, EVENTS):
        size += len(line)
        if size > meta.bytes:
            return
        yield line


def _asked_by(line: bytes, agent: str) -> Iterator[_Asked]:
    with contextlib.suppress(ValueError):
        if AGENTS[agent].prompt.encode() in line[:_KIND_WITHIN]:
            event = read(_KeptEvent, parse_object(line))
            text = prompt_of(CapturedEvent(event.ts, event.data, agent))
            if text and text.strip():
                yield _Asked(event.ts, text, agent)


def models_of(roots: Iterable[Path], session: str) -> tuple[CapturedModel, ...]:
    """The models that events of the session name, oldest first; few agents tell theirs, and not at every event."""
    return tuple(sorted({one for root in roots for one in _models_in(root, session)}))


def _models_in(root: Path, session: str) -> Iterator[CapturedModel]:
    with contextlib.suppress(OSError, ValueError):
        for place, meta in kept_sessions(Folder.at(root).below(_SHELF), session):
            with contextlib.suppress(OSError, ValueError):
                # Within a JSON text the quotes would be escaped.
                for line in (line for line in _finished(place, meta) if b'"model":"' in line):
                    with contextlib.suppress(ValueError):
                        event = read(_KeptEvent, parse_object(line))
                        if isinstance(model := event.data.get("model"), str):
                            yield CapturedModel(event.ts, model)


def turns_of(roots: Iterable[Path], session: str) -> tuple[CapturedTurn, ...]:
    """The session turn by turn, out of the stores of these working trees; what is damaged is left out."""
    roots = tuple(roots)
    prompts = prompts_of(roots, session)
    calls: list[list[SessionCall]] = [[] for _ in range(len(prompts) + 1)]
    began = [prompt.at for prompt in prompts]
    for call in sorted((call for root in roots for call in _calls_in(root, session)), key=lambda call: call.at):
        calls[bisect_right(began, call.at)].append(call)
    before = [CapturedTurn(0, calls[0][0].at, "", tuple(calls[0]))] if calls[0] else []
    return (*before, *(CapturedTurn(one.turn, one.at, one.text, tuple(calls[one.turn])) for one in prompts))


def heads(root: Path, index: RunIndex | None = None) -> list[CapturedHead]:
    """The captured sessions in the store of this working tree, that which went on last first.

    Those that cannot be read are left out. `index` keeps what was read, so that only what is new is.
    """
    known = dict(index.folders()) if index else {}
    found: list[CapturedHead] = []
    news: dict[str, tuple[int, str]] = {}
    with contextlib.suppress(OSError):
        shelf = Folder.at(root).below(_SHELF)
        for name in shelf.folders():
            row = known.pop(name, (0, ""))
            with contextlib.suppress(OSError, ValueError):
                place = shelf.folder(name)
                ctime = place.status(META).st_ctime_ns
                head = decode(CapturedHead, row[1]) if row[0] == ctime else _head(name, place)
                found.append(head)
                if row[0] != ctime:
                    news[name] = ctime, to_json(head)
    if index and (news or known):
        index.update(news, known)
    return sorted(found, key=lambda head: (head.updated_at, head.id), reverse=True)


def matching(heads: Iterable[CapturedHead], text: str) -> list[CapturedHead]:
    """The sessions with this id, or those whose id begins so: the folder's name, its last part, or the session's id."""
    every = list(heads)
    whole = [head for head in every if text in (head.id, head.session, head.own_id)]
    return whole or [head for head in every if any(name.startswith(text) for name in _names(head))]


def delete(roots: Iterable[Path], session: str) -> None:
    """Delete the events of a session in the stores of these working trees. OSError."""
    for root in roots:
        with contextlib.suppress(FileNotFoundError):
            shelf = Folder.at(root).below(_SHELF)
            for place, _ in list(kept_sessions(shelf, session)):
                shelf.remove_folder(place.path.name)


def _names(head: CapturedHead) -> tuple[str, ...]:
    return head.id, head.id.partition("_")[2], head.session, head.own_id


def _head(name: str, place: Folder) -> CapturedHead:
    """OSError, ValueError."""
    meta = read_meta(place)
    agent = agent_of(meta.session_id)
    prompts = sorted(asked for line in _finished(place, meta) for asked in _asked_by(line, agent))
    files = {path for line in _finished(place, meta) for call in _call_by(line, agent) for path in call.paths}
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
        first_line(prompts[0].text) if prompts else "",
        meta.damaged,
    )


def first_line(prompt: str) -> str:
    """The first line that says something, at most 200 characters of it."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= 200 else line[:199] + "…"


def _calls_in(root: Path, session: str) -> Iterator[SessionCall]:
    with contextlib.suppress(OSError, ValueError):
        for place, meta in kept_sessions(Folder.at(root).below(_SHELF), session):
            with contextlib.suppress(OSError, ValueError):
                for line in _finished(place, meta):
                    yield from _call_by(line, agent_of(session))


def _call_by(line: bytes, agent: str) -> Iterator[SessionCall]:
    with contextlib.suppress(ValueError):
        if AGENTS[agent].ended.encode() in line[:_KIND_WITHIN]:
            event = read(_KeptEvent, parse_object(line))
            asked = event.data.get("tool_input")
            yield SessionCall(
                event.ts,
                text_of(event.data, "tool_name"),
                text_of(event.data, "tool_use_id"),
                asked if isinstance(asked, dict) else {},
                paths_written(CapturedEvent(event.ts, event.data, agent)),
                text_of(event.data, "hook_event_name") != AGENTS[agent].ended,
            )
