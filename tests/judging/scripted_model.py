"""The way to a model that is a script: each conversation ends as a test says, and no process is
started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vibe_gate.agent import TurnRequest
from vibe_gate.domain.cause import Cause, NoConversation
from vibe_gate.domain.summary import Cost
from vibe_gate.domain.wire import TurnResult

NONCE = "0" * 32
TURN = "nodes/judge-quality/turn-001"
"""The folder in which each conversation is recorded."""

Script = TurnResult | list[TurnResult] | Callable[[TurnRequest], TurnResult]
"""How conversations end: all alike, in the order in which they begin, or as it depends on what is
asked.
"""


def answered(answer: dict[str, Any], **values: Any) -> TurnResult:
    return TurnResult("answered", answer, "", folder=TURN, **values)


def unanswered_end(status: str, detail: str = "as it was seen", **values: Any) -> TurnResult:
    """An end without an answer."""
    return TurnResult(status, None, detail, folder=TURN, **values)


class ScriptedModel:
    """Has what judges use of a ModelAccess."""

    def __init__(self, script: Script, folder: Path = Path("/run")) -> None:
        self.slots = asyncio.Semaphore(4)
        self.unavailable: dict[str, str] = {}
        self.replacements: set[tuple[str, str]] = set()
        self.nonce, self.limit_usd, self.folder = NONCE, 0.25, folder
        self.wire = SimpleNamespace(mode="live")
        ledger = SimpleNamespace(reached=False)
        self.gateway = SimpleNamespace(ledger=ledger, on_wait=None, spent=lambda: Cost(usd=0.125))
        self.obstacle, self.is_open = None, False
        self.turns: list[TurnRequest] = []
        """What was asked, in that order."""
        self._script = script

    def open(self) -> None:
        self.is_open = True

    def notes(self) -> Iterator[str]:
        yield "a note of the model"

    async def run_turn(self, turn: TurnRequest) -> TurnResult:
        number = len(self.turns)
        self.turns.append(turn)
        await asyncio.sleep(0)  # conversations of one round are held side by side
        if isinstance(self._script, list):
            return self._script[number]
        return self._script if isinstance(self._script, TurnResult) else self._script(turn)

    def why_unanswered(self, result: TurnResult) -> Cause:
        return NoConversation(message=f"why: {result.detail}", details=result.text)


class EventLog:
    """The events of a run's record."""

    relative = "commit/run"
    run_id = "run"

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def event(self, type: str, node_id: str = "", **data: Any) -> None:
        self.events.append((type, node_id, data))
