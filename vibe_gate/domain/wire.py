"""What the gateway and an agent's session tell each other: marks in refusals, what a session cost,
what came of a turn.

The gateway answers a request that it will not forward with HTTP 403, which the agent's program
never retries, and puts one of these marks into the message; the session reads it back from its
result. Neither door knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from vibe_gate.domain.cause import Cause
from vibe_gate.domain.project_setup import ProjectSetup
from vibe_gate.domain.summary import CostBasis, least_certain
from vibe_gate.domain.turn import TurnChange

FINAL_STOPS = ("refusal", "max_tokens")
"""After these the agent's program would ask again by itself, and pay again; for us they decide."""

REFUSED_STATUS = 403
"""Agents retry 400 (with other headers), 429 and 5xx; 401 sends people to their key. 403 ends the
session.
"""

MAX_TOKENS = 10_000_000
"""Of one kind in one answer: more than any model reads or writes; a higher count is an endpoint's
mistake.
"""

MAX_USD = 1_000_000.0
"""Of one session, as the agent's program counted it."""

BUDGET_REACHED = "[vibe-gate: budget reached]"
"""What is left of the run's budget does not pay for a useful answer."""

CEILING_REACHED = "[vibe-gate: session budget reached]"
"""What is left of the session's own ceiling does not pay for a useful answer."""

UNMATCHED = "[vibe-gate: no recorded answer]"
"""The cassette holds no answer to this request."""

UNAVAILABLE = "[vibe-gate: model not available]"
"""The model's API did not recover while there was time; what follows is a sentence."""

UNREACHABLE = "[vibe-gate: model's API not reached]"
"""There is no way to the model's API; what follows is a sentence."""

CONVERSATION_ENDED = "[vibe-gate: conversation ended]"
"""The model's last answer was a refusal or was cut at its token limit; asking on would only
cost.
"""


class ModelCost(Struct, frozen=True):
    """What one model cost in a session."""

    usd: float
    basis: CostBasis
    """"known" if the price is a listed one."""


class SessionCost(Struct, frozen=True):
    """What a session cost."""

    input_tokens: int = 0
    """Those read from and written to the cache included."""
    output_tokens: int = 0
    by_model: Mapping[str, ModelCost] = {}
    """By the model's name."""
    replayed: bool = False
    """Whether that is what it cost when it was recorded, and nothing was paid this time."""
    cache_read_tokens: int = 0
    """Of the input, what was read from the cache."""
    waits: tuple[tuple[int, int], ...] = ()
    """While the model's API could not be asked, from and to, in milliseconds since 1970."""

    @property
    def usd(self) -> float:
        """USD over all models."""
        return sum(cost.usd for cost in self.by_model.values())

    @property
    def basis(self) -> CostBasis:
        """The least certain basis of its models."""
        return least_certain(cost.basis for cost in self.by_model.values())


Status = Literal[
    "answered",
    "done",
    "aborted",
    "refused",
    "max_tokens",
    "no_answer",
    "two_answers",
    "max_turns",
    "budget",
    "timeout",
    "api_error",
    "died",
    "interrupted",
]


EndKind = Literal["finished", "stopped", "limit", "unanswered", "broken"]
"""Finished; stopped by who watches; out of budget or time; without an answer that counts; broken by
what it runs on.
"""

_KINDS: Mapping[str, EndKind] = {
    "answered": "finished",
    "done": "finished",
    "aborted": "stopped",
    "budget": "limit",
    "timeout": "limit",
    "refused": "unanswered",
    "max_tokens": "unanswered",
    "no_answer": "unanswered",
    "two_answers": "unanswered",
    "max_turns": "unanswered",
    "api_error": "broken",
    "died": "broken",
    "interrupted": "broken",
}


def end_kind(status: str) -> EndKind:
    """What an end of a session means: votes, stages, nodes and tests of agents go by this."""
    return _KINDS.get(status, "broken")


class TurnResult(Struct, frozen=True):
    """What came of one turn of an agent."""

    status: Status
    answer: dict[str, Any] | None
    """What fills the schema; None unless the status is "answered"."""
    detail: str
    """A sentence for people."""
    text: str = ""
    """The agent's last message as a whole, if the session came to its end."""
    cost: SessionCost = field(default_factory=SessionCost)
    session_id: str = ""
    duration_ms: int = 0
    permission_denials: tuple[dict[str, Any], ...] = ()
    used_tools: bool = False
    """Whether the model called a tool that is not the one to answer with."""
    is_unavailable: bool = False
    """Whether the model stayed overloaded, or the API does not know it: another may answer."""
    cause: Cause | None = None
    """Why there is no answer; None if there is one, if the turn was stopped, or if a limit was
    reached.
    """
    change: TurnChange = TurnChange()
    """What the agent changed."""
    folder: str = ""
    """Where the turn is recorded, relative to the run's bundle; "" if it is not."""
    error: Exception | None = None
    """What a watcher raised that stopped the turn."""
    setup: ProjectSetup | None = None
    """What was loaded of the project's Claude Code."""

    @property
    def kind(self) -> EndKind:
        """What its status means."""
        return end_kind(self.status)
