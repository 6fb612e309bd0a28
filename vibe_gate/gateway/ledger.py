"""The run's money: reserved before a request leaves, settled when its answer is metered.

One source of what a session cost: the gateway's own count, which sees every token that was paid
for, also of an answer that broke off and of a session that died. Only the price of a model that
the table does not know comes from the agent's program, when its session has ended.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

from msgspec import Struct

from vibe_gate.domain import wire
from vibe_gate.domain.summary import Cost, CostBasis, least_certain
from vibe_gate.domain.wire import ModelCost, SessionCost
from vibe_gate.gateway.prices import price_of, price_usage
from vibe_gate.gateway.token_usage import CHARACTERS_PER_TOKEN, Usage

FAIR_TOKENS = 16_000
"""Beyond this a request takes at most half of what is left, so that other sessions get a turn."""

OVERHEAD_TOKENS = 500
"""What the API itself adds to a request with tools, beyond its bytes: about 350 tokens."""


OnSettled = Callable[[float, str, int], object]
"""Hears USD, the node's id, and tokens of input and output."""


class Reservation(Struct, frozen=True, eq=False):
    """Leave to ask a model once."""

    model: str
    usd: float
    """What is set aside until the request is settled."""
    max_tokens: int
    """The most output that is paid for."""
    limit: str
    """The mark of what sets the bound: the run's budget or the session's ceiling."""


class Account:
    """One session of a node: what it has cost until now, and what its next request may cost."""

    def __init__(
        self,
        node_id: str,
        ceiling_usd: float | None = None,
        working: bool = False,
        until: float = math.inf,
    ) -> None:
        """`working`: the session goes on after a cut answer. `until`: on `time.monotonic`."""
        self.node_id = node_id
        self.ceiling_usd = ceiling_usd
        """All that it may cost; None for the run's budget."""
        self.working = working
        self.until = until
        """When it ends."""
        self.input_tokens = 0
        self.output_tokens = 0
        self.cache_read_tokens = 0
        self.by_model: dict[str, ModelCost] = {}
        self.waits: list[tuple[int, int]] = []
        """While its requests waited for the API, from and to, in milliseconds since 1970."""
        self.setup: Mapping[str, str] = {}
        """Digests by path of the project's set-up that the agent has, and its `system_prompt`; a
        cassette keeps them.
        """
        self.ended = ""
        """The mark that its further requests are refused with; "" while it goes on."""
        self.ended_because = "This session is over."
        self.limit = wire.BUDGET_REACHED
        """The mark of what set the bound of its last request."""
        self.open: list[Reservation] = []
        """What is set aside for its requests that are not settled yet."""
        self._bytes = 0
        self._usage = Usage()

    @property
    def cost(self) -> SessionCost:
        """What it has cost, as it is told."""
        return SessionCost(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            by_model=dict(self.by_model),
            cache_read_tokens=self.cache_read_tokens,
            waits=tuple(self.waits),
        )

    @property
    def remaining_usd(self) -> float:
        """What its ceiling leaves, USD."""
        if self.ceiling_usd is None:
            return math.inf
        return self.ceiling_usd - self.bound

    @property
    def bound(self) -> float:
        """What it has cost and what is set aside for it, USD."""
        return self.cost.usd + sum(reservation.usd for reservation in self.open)

    def add(self, model: str, usd: float, basis: CostBasis, used: Usage) -> None:
        """Count an answer of a model, if it used anything."""
        if used == Usage():
            return
        before = self.by_model.get(model)
        self.by_model[model] = ModelCost(usd + (before.usd if before else 0.0), basis)
        self.input_tokens += used.all_input
        self.output_tokens += used.output
        self.cache_read_tokens += used.cache_read

    def take_prices(self, counted: SessionCost) -> dict[str, float]:
        """Replace prices that are not known by those of `counted` that are; how they compare to
        what was assumed.
        """
        rates: dict[str, float] = {}
        for model, assumed in self.cost.by_model.items():
            listed = counted.by_model.get(model, assumed)
            if assumed.basis == "unknown" and listed.basis == "known":
                self.by_model[model] = listed
                rates[model] = listed.usd / assumed.usd if assumed.usd else 1.0
        return rates

    def expected(self, size: int) -> Usage:
        """The input that a request of `size` bytes will be charged.

        Guessed cautiously from its bytes, and from the session's last request once
        there is one: what that one left in the cache is read from there, as long as
        the conversation only grows.
        """
        last_input = self._usage.all_input
        if not last_input or size < self._bytes:
            return Usage(cache_write=int(size / CHARACTERS_PER_TOKEN) + OVERHEAD_TOKENS)
        added = int((size - self._bytes) / CHARACTERS_PER_TOKEN)
        if self._usage.input < last_input:
            return Usage(
                cache_write=added + self._usage.input, cache_read=last_input - self._usage.input
            )
        return Usage(cache_write=added + last_input)

    def learn(self, size: int, used: Usage) -> None:
        """Remember what a request of `size` bytes was charged."""
        if used.all_input:
            self._bytes, self._usage = size, used


class Ledger:
    """Thread-safe. Requests that only wait for other requests' change wait; what never fits is
    refused.
    """

    def __init__(
        self,
        budget_usd: float,
        on_settled: OnSettled = lambda usd, node_id, tokens: None,
        earlier: Cost | None = None,
    ) -> None:
        """Count on a budget.

        Args:
            budget_usd: Of the whole run.
            on_settled: Hears (US dollars, node's id, tokens) of every answer that was paid for, and
                of every correction (less than 0).
            earlier: What the run had cost before it was resumed; it counts on the budget, too.
        """
        self._earlier = earlier or Cost()
        self._budget = budget_usd
        self._on_settled = on_settled
        self._changed = threading.Condition()
        self._accounts: list[Account] = []
        self._rates: dict[str, float] = {}
        """Of models without a listed price: the share of the dearest's."""
        self.reached = False
        """Whether the budget refused a request, or cut an answer short."""
        self._closed = False

    def account(
        self,
        node_id: str,
        ceiling_usd: float | None = None,
        working: bool = False,
        until: float = math.inf,
    ) -> Account:
        """A new session's account."""
        with self._changed:
            self._accounts.append(Account(node_id, ceiling_usd, working, until))
            return self._accounts[-1]

    def reserve(
        self, account: Account, model: str, expected: Usage, max_tokens: int, useful: int
    ) -> Reservation | None:
        """Set aside what this request may cost, or None when budget or ceiling cannot pay for it.

        `expected` is the input; of `max_tokens` of output as many are granted as are paid for, and
        `useful` is the fewest that make sense. The run's budget is reached, and said to be, only
        where it is less than what the session's ceiling leaves.
        """
        with self._changed:
            while not self._closed:
                input_usd, _ = self._cost(model, expected)
                token_usd, _ = self._cost(model, Usage(output=1))
                remaining_usd = self._remaining_usd()
                account.limit = wire.BUDGET_REACHED
                if account.remaining_usd < remaining_usd:
                    account.limit = wire.CEILING_REACHED
                    remaining_usd = account.remaining_usd
                affordable = int((remaining_usd - input_usd) / token_usd)
                if affordable >= min(useful, max_tokens):
                    fair = max(FAIR_TOKENS, affordable // 2, useful)
                    granted = min(max_tokens, affordable, fair)
                    usd = input_usd + granted * token_usd
                    reservation = Reservation(model, usd, granted, account.limit)
                    account.open.append(reservation)
                    return reservation
                if account.limit == wire.CEILING_REACHED and not account.open:
                    return None
                if not self._waited_for():
                    self.reached = True
                    return None
                self._changed.wait()
        return None

    def price(self, model: str, tokens: Mapping[str, int]) -> ModelCost:
        """As `Gateway.price`."""
        written = tokens.get("cache_write", 0)
        written_for_an_hour = min(tokens.get("cache_write_1h", 0), written)
        read = tokens.get("cache_read", 0)
        used = Usage(
            input=tokens.get("input", 0) - written - read,
            output=tokens.get("output", 0),
            cache_write=written - written_for_an_hour,
            cache_write_1h=written_for_an_hour,
            cache_read=read,
        )
        with self._changed:
            return ModelCost(*self._cost(model, used))

    def settle(self, reservation: Reservation, account: Account, used: Usage) -> None:
        """Count what the request used in place of what was set aside for it."""
        with self._changed:
            account.open.remove(reservation)
            usd, basis = self._cost(reservation.model, used)
            account.add(reservation.model, usd, basis, used)
            self._changed.notify_all()
        if usd:
            self._on_settled(usd, account.node_id, used.all_input + used.output)

    def count_replayed(self, account: Account, model: str, used: Usage) -> None:
        """Count a recorded answer, for which nothing is paid: its account is none of the run's."""
        with self._changed:
            account.add(model, *self._cost(model, used), used)

    def close_account(self, account: Account, counted: SessionCost) -> SessionCost:
        """What the session cost, at its end.

        The price of a model that the table does not know comes from `counted` if it is a listed one
        there; later requests to that model are reserved by the same price.
        """
        with self._changed:
            before = account.cost
            for model, rate in account.take_prices(counted).items():
                self._rates.setdefault(model, rate)
            correction = account.cost.usd - before.usd  # no request is settled in between
            self._changed.notify_all()
        if correction:
            self._on_settled(correction, account.node_id, 0)
        return account.cost

    def add(self, node_id: str, counted: SessionCost) -> SessionCost:
        """Count what an agent used past the gateway (Bedrock, Vertex), by its own program's
        count.
        """
        account = self.account(node_id)
        with self._changed:
            account.by_model.update(counted.by_model)
            account.input_tokens = counted.input_tokens
            account.output_tokens = counted.output_tokens
            account.cache_read_tokens = counted.cache_read_tokens
            self.reached = self.reached or self._remaining_usd() <= 0
        self._on_settled(counted.usd, node_id, counted.input_tokens + counted.output_tokens)
        return counted

    def spent(self) -> Cost:
        """What was spent until now; tokens of input with those of the cache."""
        earlier = self._earlier
        by_node: dict[str, float] = defaultdict(float, earlier.by_node)
        by_model: dict[str, float] = defaultdict(float, earlier.by_model)
        bases = [earlier.basis]
        input_tokens = earlier.input_tokens
        output_tokens = earlier.output_tokens
        cache_read_tokens = earlier.cache_read_tokens
        with self._changed:
            for account in self._accounts:
                for model, used in account.by_model.items():
                    by_node[account.node_id] += used.usd
                    by_model[model] += used.usd
                    bases.append(used.basis)
                input_tokens += account.input_tokens
                output_tokens += account.output_tokens
                cache_read_tokens += account.cache_read_tokens
            return Cost(
                usd=round(sum(by_node.values(), 0.0), 6),
                basis=least_certain(bases),
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cache_read_tokens=cache_read_tokens,
                by_node=by_node,
                by_model=by_model,
            )

    def close(self, patience_s: float) -> None:
        """Let no request wait any longer; wait until those under way are settled, at most so
        long.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waited_for(), patience_s)

    def _remaining_usd(self) -> float:
        """What the run's budget leaves, USD."""
        return self._budget - self._earlier.usd - sum(account.bound for account in self._accounts)

    def _waited_for(self) -> bool:
        """Whether any request is not settled yet."""
        return any(account.open for account in self._accounts)

    def _cost(self, model: str, used: Usage) -> tuple[float, CostBasis]:
        price, basis = price_of(model)
        return price_usage(used, price) * self._rates.get(model, 1.0), basis
