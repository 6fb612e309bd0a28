"""The gateway: an HTTP server on loopback between the agents and the model."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.summary import Cost
from vibe_gate.domain.wire import ModelCost, SessionCost
from vibe_gate.errors import GatewayError
from vibe_gate.gateway.cassette import Cassette
from vibe_gate.gateway.exchange import Relay, Server
from vibe_gate.gateway.ledger import Account, Ledger, OnSettled
from vibe_gate.gateway.upstream import NO_CREDENTIALS, Upstream

SETTLING_S = 0.5
"""How long closing waits for requests of agents that have just ended to be metered."""


class Gateway(Relay):
    """A context manager; while it is open, agents reach the model through `url`."""

    def __init__(
        self,
        upstream: Upstream | None,
        wire: Wire,
        budget_usd: float,
        redact: Callable[[str], str],
        *,
        placeholders: Mapping[str, str] | None = None,
        on_settled: OnSettled = lambda usd, node_id, tokens: None,
        earlier: Cost | None = None,
    ) -> None:
        """`upstream`: the model's API, which replay does without. Raises GatewayError for a wire
        that cannot work.

        `budget_usd` is for everything that passes. `redact` cleans what a cassette keeps.
        `placeholders` maps literals that change from run to run (a nonce, a temporary directory) to
        names for them: requests are matched with the names, answers are replayed with the literals.
        `on_settled(usd, node_id, tokens)` hears, in threads of the gateway, of every answer that
        was paid for. `earlier`: what the run had cost before it was resumed.
        """
        super().__init__(
            Ledger(budget_usd, on_settled, earlier), _cassette(wire, redact), placeholders or {}
        )
        self.cloud: Mapping[str, str] = {}
        """The variables with which agents reach Bedrock or Vertex themselves; {} as a rule."""
        self._mode = wire.mode
        self._server: Server | None = None
        if wire.mode != "replay":
            self._connect(upstream)

    def url(
        self,
        node_id: str,
        *,
        ceiling_usd: float | None = None,
        working: bool = False,
        setup: Mapping[str, str] = {},
        timeout_s: float = math.inf,
    ) -> str:
        """ANTHROPIC_BASE_URL for one session of that node; "" where agents talk to their cloud
        themselves.

        The address is a secret: whoever knows it can spend the budget, at most `ceiling_usd` of it.
        Each call is a session of its own; that of a `working` agent goes on after an answer that
        was cut at its token limit. For an API that is overloaded the session waits while its
        `timeout_s` lasts. `setup`: digests by path of what is loaded for the agent, and its
        `system_prompt`; a recorded answer is of the same.
        """
        if self.cloud:
            return ""
        if self._server is None:
            raise GatewayError("The gateway is not open.")
        token = secrets.token_urlsafe(24)
        if self._mode == "replay":
            account = Account(node_id, working=working)
        else:
            account = self.ledger.account(
                node_id, ceiling_usd, working, time.monotonic() + timeout_s
            )
        account.setup = setup
        self.sessions[token] = account
        return f"http://127.0.0.1:{self._server.server_address[1]}/{token}"

    @property
    def notes(self) -> Sequence[str]:
        """Where a replayed session's commands said something else than in the recording."""
        return self.cassette.notes if self.cassette else ()

    def spent(self) -> Cost:
        """What the run's models have cost until now; nothing in replay."""
        return self.ledger.spent()

    def price(self, model: str, tokens: Mapping[str, int]) -> ModelCost:
        """What tokens of a model cost, by the prices that are known now.

        `tokens`: `input` with those of the prompt cache, of these `cache_read`, `cache_write` and, of
        what was written, `cache_write_1h`; `output`. A kind that is not named has none.
        """
        return self.ledger.price(model, tokens)

    def settle(self, node_id: str, url: str, counted: SessionCost) -> SessionCost:
        """What the session at `url` cost: the run's one answer to that, given what the agent's
        program counted.

        In replay: what it cost when it was recorded, by today's prices.
        """
        if self.cloud:
            return self.ledger.add(node_id, counted)
        account = self.sessions[url.rpartition("/")[2]]
        if self._mode == "replay":
            account.take_prices(counted)
            return replace(account.cost, replayed=True)
        return self.ledger.close_account(account, counted)

    def __enter__(self) -> Self:
        self._server = Server(self)
        threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="vibe-gate-gateway",
            daemon=True,
        ).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening; takes a second at most. An answer under way ends with its agent."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        self.ledger.close(SETTLING_S)
        if self.client is not None:
            self.client.close()
        if kind is None and self.failures:
            raise self.failures[0]

    def _connect(self, upstream: Upstream | None) -> None:
        """Load what it takes to forward requests, if they pass here at all."""
        if upstream is None:
            raise GatewayError(NO_CREDENTIALS)
        if not upstream.passed_through:
            from vibe_gate.gateway.forward import (
                Client,
            )  # requests (65 ms), which replay does without

            self.client = Client(upstream)
        elif self._mode == "record":
            raise GatewayError(
                f"A conversation with {upstream.source} passes the gateway by and cannot be recorded."
            )
        self.cloud = upstream.cloud


def _cassette(wire: Wire, redact: Callable[[str], str]) -> Cassette | None:
    if wire.mode == "live":
        return None
    if wire.cassette is None:
        raise GatewayError(f"To {wire.mode}, a cassette's directory is needed.")
    cassette = Cassette(wire.cassette, redact)
    if wire.mode == "replay":
        cassette.load()
    return cassette
