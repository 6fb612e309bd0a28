"""Who hears of a run while it is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from vibe_gate.domain.escape import counted


class Progress(Protocol):
    """Hears what a walk is doing; `stage` is change, checks, judge or seal, or a node of a
    workflow.
    """

    def __call__(self, stage: str, text: str, /) -> object:
        """Tell people."""
        ...


def unheard(stage: str, text: str, /) -> None:
    """Progress that nobody is shown: of one of many, or where scripts and tests hear through
    watchers.
    """


class StageStep(Struct, frozen=True, kw_only=True):
    """One step of a stage of a workflow, or of the agent in it."""

    node: str

    kind: Literal["ready", "ended", "tool.started", "tool.ended", "todo", "notification", "usage"]
    """"ready": the stage has not begun. "ended": it has, or is left out. The others are the
    agent's.
    """

    tool: str = ""
    """Of a tool call: its name."""

    target: str = ""
    """Of a tool call: what it is about, without secrets; "" if nothing tells. Somebody else's
    text.
    """

    ok: bool | None = None
    """Of a tool call that has ended: whether it succeeded."""

    tokens: int = 0
    """Of usage: those of one answer of the model."""

    answers: int = 0
    """How often the agent's model has answered in this turn."""

    @property
    def call(self) -> str:
        """The tool call in words; "" if it is none."""
        return f"{self.tool} {self.target}".rstrip()

    def __str__(self) -> str:
        if self.kind in ("ready", "ended"):
            return self.kind
        progress = counted(self.answers, "answer") if self.answers else "begun"
        if self.tool:
            return f"{progress} · {self.call}"
        return progress


Tick = Callable[[StageStep], object]
"""Hears of each step, in the thread of the event loop."""

Meter = Callable[[str, int, float], object]
"""Hears, in any thread, of each answer of a model that was paid for: the node's id, its tokens and
USD.
"""


class Listeners(Struct, frozen=True):
    """Who hears what a run tells of itself while it goes on."""

    progress: Progress = unheard
    """Hears what is begun, what is waited for, and how stages end."""

    tick: Tick | None = None
    """Hears of stages that have not begun, or have ended, and of every step of an agent."""

    meter: Meter | None = None
    """Hears what it costs."""
