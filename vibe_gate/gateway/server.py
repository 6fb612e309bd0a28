"""The gateway: an HTTP server on loopback between the agents and the model."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vibe_gate.domain.wire import SessionCost
from vibe_gate.errors import GatewayError
from vibe_gate.gateway.cassette import Cassette
from vibe_gate.gateway.exchange import Exchange, Handler, Server
from vibe_gate.gateway.ledger import Ledger, SessionLine, Spending
from vibe_gate.gateway.upstream import Upstream, Wire

if TYPE_CHECKING:
    from vibe_gate.gateway.forward import Client

SETTLING_S = 0.5
"""How long closing waits for cut requests to be metered."""


class Gateway:
    """A context manager; while it is open, agents reach the model through `url`.

    `budget_usd` is for everything that passes. `redact` cleans what a cassette keeps.
    `placeholders` maps literals that change from run to run (a nonce, a temporary
    directory) to names for them: requests are matched with the names, answers are
    replayed with the literals. `on_settled(usd, node_id)` hears, in threads of the gateway, of every
    answer that was paid for. Raises GatewayError for a wire that cannot work.
    """

    def __init__(
        self,
        upstream: Upstream | None,
        wire: Wire,
        budget_usd: float,
        redact: Callable[[str], str],
        *,
        placeholders: Mapping[str, str] | None = None,
        on_settled: Callable[[float, str], None] = lambda usd, node_id: None,
    ) -> None:
        self.unmatched: list[str] = []
        """Requests that the cassette had no answer to, each with its difference to the nearest one."""
        self.mode = wire.mode
        self.ledger = Ledger(budget_usd, on_settled)
        self.client: Client | None = None
        self.cassette = _cassette(wire, redact)
        self._upstream = upstream
        self._placeholders = dict(placeholders or {})
        self._lines: dict[str, SessionLine] = {}
        self._lock = threading.Lock()
        self._failures: list[str] = []
        self._server: Server | None = None
        if wire.mode != "replay":
            self._check(upstream)

    def url(self, node_id: str, placeholders: Mapping[str, str] | None = None) -> str:
        """ANTHROPIC_BASE_URL for one session of that node; "" where agents talk to their cloud themselves.

        The address is a secret: whoever knows it can spend the budget. Each call is
        a session of its own.
        """
        if self.passed_through:
            return ""
        if self._server is None:
            raise GatewayError("The gateway is not open.")
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._lines[token] = SessionLine(
                self.ledger.account(node_id), self._placeholders | dict(placeholders or {})
            )
        return f"http://127.0.0.1:{self._server.server_address[1]}/{token}"

    @property
    def passed_through(self) -> bool:
        """Whether agents talk to Bedrock or Vertex themselves: give them `cloud`."""
        return self.mode != "replay" and self._upstream is not None and self._upstream.passed_through

    @property
    def cloud(self) -> Mapping[str, str]:
        """The variables with which agents reach their cloud; {} as a rule."""
        return self._upstream.cloud if self._upstream is not None and self.passed_through else {}

    def spent(self) -> Spending:
        """What was spent until now; nothing in replay."""
        return self.ledger.spent()

    def left(self) -> float:
        """USD of the budget that are neither spent nor set aside."""
        return self.ledger.left()

    def settle(self, node_id: str, url: str, counted: SessionCost) -> SessionCost:
        """What the session at `url` cost: the run's one answer to that, given what the agent's program counted."""
        if self.mode == "replay":
            return SessionCost(counted.input_tokens, counted.output_tokens)  # nothing was paid
        if self.passed_through:
            return self.ledger.add(node_id, counted)
        line = self.line(url.rpartition("/")[2])
        return self.ledger.close_account(line.account, counted) if line else counted

    def __enter__(self) -> Self:
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.exchange = self._exchange
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="vibe-gate-gateway", daemon=True
        ).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None and self._failures:
            raise GatewayError(self._failures[0])

    def close(self) -> None:
        """Cut what still runs and stop listening; takes a second at most."""
        server, self._server = self._server, None
        if server is None:
            return
        self.ledger.close()
        server.shutdown()
        server.cut()
        if self.client is not None:
            self.client.cut()
        server.wait_idle(SETTLING_S)
        server.server_close()
        if self.client is not None:
            self.client.close()

    # What an exchange needs.

    def line(self, token: str) -> SessionLine | None:
        """The session that this token belongs to."""
        with self._lock:
            return self._lines.get(token)

    def fail(self, sentence: str) -> None:
        """Remember what went wrong, to be raised when the gateway closes."""
        with self._lock:
            self._failures.append(sentence)

    def miss(self, text: str) -> None:
        """Remember a request without a recorded answer."""
        with self._lock:
            self.unmatched.append(text)

    def _exchange(self, handler: Handler, token: str, path: str) -> Exchange | None:
        line = self.line(token)
        return Exchange(self, handler, line, path) if line is not None else None

    def _check(self, upstream: Upstream | None) -> None:
        """Whether there is something to forward to, and load what that takes."""
        if upstream is None:
            raise GatewayError("No credentials for a model were found; `vibe-gate doctor` says what can be set.")
        if not upstream.passed_through:
            from vibe_gate.gateway.forward import Client  # replay imports no network library

            self.client = Client(upstream)
        elif self.mode == "record":
            raise GatewayError(f"A conversation with {upstream.source} passes the gateway by and cannot be recorded.")


def _cassette(wire: Wire, redact: Callable[[str], str]) -> Cassette | None:
    if wire.mode == "live":
        return None
    if wire.cassette is None:
        raise GatewayError(f"To {wire.mode}, a cassette's directory is needed.")
    cassette = Cassette(wire.cassette, redact)
    if wire.mode == "replay":
        cassette.load()
    return cassette
