"""What people asked in captured sessions, read out of their redacted events (`captures` writes them).

A session's events lie in the store of the working tree in which vibe-gate folded them, so those of one session may be
spread over several stores.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.domain.bundles import STORE
from vibe_gate.domain.document import Timestamp, parse_object, read
from vibe_gate.store import names
from vibe_gate.store.captures import EVENTS, CaptureMeta, agent_of, kept_sessions
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import lines
from vibe_gate.store.writes import AGENTS, CapturedEvent, prompt_of

_KIND_WITHIN = 200
"""Bytes of a line within which the kind of its event stands: most lines are none of these, and not parsed."""


class CapturedPrompt(Struct, frozen=True):
    """What a person typed in a captured session, redacted: the first prompt begins turn 1."""

    agent: str
    session: str
    turn: int
    at: datetime
    text: str


class _Asked(Struct, frozen=True, order=True):
    at: datetime
    text: str
    agent: str


class _PromptLine(Struct, frozen=True):
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
        for place, meta in kept_sessions(Folder.at(root).below(f"{STORE}/{names.CAPTURES}"), session):
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
            event = read(_PromptLine, parse_object(line))
            text = prompt_of(CapturedEvent(event.ts, event.data, agent))
            if text and text.strip():
                yield _Asked(event.ts, text, agent)
