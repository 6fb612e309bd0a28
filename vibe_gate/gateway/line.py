"""One session's line to the model, and what its requests are expected to cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vibe_gate.gateway.ledger import USEFUL_TOKENS, Account, Ledger, Reservation
from vibe_gate.gateway.usage import CHARACTERS_PER_TOKEN, Usage

OVERHEAD_TOKENS = 500
"""What the API itself adds to a request with tools, beyond its bytes: about 350 tokens."""


@dataclass
class SessionLine:
    """What the gateway knows of one session. `ended` is the mark that its further requests are refused with."""

    account: Account
    placeholders: Mapping[str, str]
    ended: str = ""
    _bytes: int = 0
    _usage: Usage = field(default_factory=Usage)

    def expected(self, size: int) -> Usage:
        """The input that a request of `size` bytes will be charged.

        Guessed cautiously from its bytes, and from the session's last request once
        there is one: what that one left in the cache is read from there, as long as
        the conversation only grows.
        """
        known = self._usage.all_input
        if not known or size < self._bytes:
            return Usage(cache_write=int(size / CHARACTERS_PER_TOKEN) + OVERHEAD_TOKENS)
        more = int((size - self._bytes) / CHARACTERS_PER_TOKEN)
        if self._usage.input < known:
            return Usage(cache_write=more + self._usage.input, cache_read=known - self._usage.input)
        return Usage(cache_write=more + known)

    @property
    def node_id(self) -> str:
        """The node whose session it is."""
        return self.account.node_id

    def learn(self, size: int, used: Usage) -> None:
        """Remember what a request of `size` bytes was charged."""
        if used.all_input:
            self._bytes, self._usage = size, used


class Bill:
    """What one request costs: settled once, by whoever is first to know."""

    def __init__(self, ledger: Ledger, line: SessionLine, leave: Reservation, size: int) -> None:
        self.settled = False
        self._ledger = ledger
        self._line = line
        self._leave = leave
        self._size = size

    def settle(self, used: Usage) -> None:
        """Count what was used in place of what was set aside."""
        if not self.settled:
            self.settled = True
            self._ledger.settle(self._leave, self._line.account, used)
            self._line.learn(self._size, used)


def useful_tokens(body: Mapping[str, Any]) -> int:
    """The fewest output tokens with which this request makes sense: thinking must fit in besides the answer."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return USEFUL_TOKENS + (budget if isinstance(budget, int) else 0)


def wanted_tokens(body: Mapping[str, Any]) -> int:
    """The output that the request asks for; one without a limit is left to the API to refuse."""
    wanted = body.get("max_tokens")
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0 else USEFUL_TOKENS
