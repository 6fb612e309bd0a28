"""What a turn needs of the store and of the gateway, which this room does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from vibe_gate.domain.change import Side
from vibe_gate.domain.turn import Content
from vibe_gate.domain.wire import ModelCost, SessionCost, TurnResult


class SessionRecord(Protocol):
    """Where a session writes what it sees, as it sees it; values are safe for JSON."""

    def event(self, data: dict[str, Any]) -> object:
        """One item of the conversation: its `type` (message, usage, todo, result ...), `ts` and
        more.
        """

    def hook(self, data: dict[str, Any]) -> object:
        """One hook event, raw, with `seq` (from 0, its line), `ts` (ms) and `tool_use_id`."""


class TurnRecord(SessionRecord, Protocol):
    """Where one turn is written."""

    relative: str
    """Its folder in the run's bundle; "" if it is not recorded."""

    def keep_content(self, side: Side, data: bytes) -> Content | None:
        """Keep one side of a file that the agent changed; None if the turn is not recorded."""

    def seal(self, result: TurnResult) -> None:
        """Write the patch of what the agent changed, and last the turn's summary."""


class RunRecord(Protocol):
    """Where the run is written."""

    def event(self, type: Literal["node.status"], node_id: str | None = None, **data: Any) -> None:  # noqa: ANN401
        """Append an event to the run's log."""

    def turn(self, node_id: str) -> TurnRecord:
        """Open the node's next turn."""


class ModelGateway(Protocol):
    """The server that agents take for the model's API."""

    @property
    def cloud(self) -> Mapping[str, str]:
        """Variables with which agents reach a cloud themselves; {} as a rule."""

    def url(
        self,
        node_id: str,
        *,
        ceiling_usd: float | None = None,
        working: bool = False,
        setup: Mapping[str, str] = {},
        timeout_s: float,
    ) -> str:
        """The address of the model for one session; "" if agents reach their cloud themselves.

        The session may spend `ceiling_usd` of the run's budget, and waits `timeout_s` for an
        overloaded API. A `working` agent may go on after a cut answer. `setup`: digests by path of
        what is loaded for it, and its `system_prompt`.
        """

    def price(self, model: str, tokens: Mapping[str, int]) -> ModelCost:
        """What tokens of a model cost, by the prices that are known now."""

    def settle(self, node_id: str, url: str, counted: SessionCost) -> SessionCost:
        """What the session at `url` cost, given what the agent's program counted. The run's one
        answer to that.
        """
