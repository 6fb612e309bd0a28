"""The run's money, without a wire: what is granted, set aside, counted and refused. Tables."""

from __future__ import annotations

import math
import threading

import pytest

from vibe_gate.domain import wire
from vibe_gate.domain.summary import Cost
from vibe_gate.domain.wire import ModelCost, SessionCost
from vibe_gate.gateway.ledger import FAIR_TOKENS, OVERHEAD_TOKENS, Account, Ledger, Reservation
from vibe_gate.gateway.token_usage import CHARACTERS_PER_TOKEN, Usage

HAIKU, NEW = "claude-haiku-4-5", "claude-new-9"
"""A model of 1, 5, 1.25 and 0.1 USD a million tokens of input, output, cache written and read; one
without a price.
"""

CENT = 0.010001
"""USD: a cent, and less than a token's price more, as sums of floating point are not exact."""

A_CENT = Usage(output=2_000)
"""Of HAIKU's."""


def granted(
    ledger: Ledger, account: Account, output: int, useful: int = 1, model: str = HAIKU
) -> Reservation:
    reservation = ledger.reserve(account, model, Usage(), output, useful)
    assert reservation is not None
    return reservation


def paid(ledger: Ledger, account: Account, used: Usage, model: str = HAIKU) -> None:
    """One answer, asked for and paid."""
    ledger.settle(granted(ledger, account, used.output or 1, model=model), account, used)


@pytest.mark.parametrize(
    ("budget", "ceiling", "expected", "requested_tokens", "useful", "max_tokens"),
    [
        (1.0, None, Usage(), 1_000, 100, 1_000),
        (1.0, None, Usage(input=1_000), 1_000, 100, 1_000),
        # All that the budget pays for, if that is useful at all.
        (CENT, None, Usage(), 64_000, 100, 2_000),
        (CENT, None, Usage(input=5_000), 64_000, 100, 1_000),
        (CENT, None, Usage(input=5_000), 64_000, 1_000, 1_000),
        (CENT, None, Usage(input=5_000), 64_000, 1_001, None),
        (CENT, None, Usage(input=5_000), 500, 1_001, 500),
        (CENT, None, Usage(input=10_000), 1, 1, None),
        # Beyond a fair share a request takes at most half of what is left.
        (0.16, None, Usage(), 64_000, 100, FAIR_TOKENS),
        (0.2, None, Usage(), 64_000, 100, 20_000),
        (0.2, None, Usage(), 64_000, 30_000, 30_000),
        (0.079001, None, Usage(), 64_000, 100, 15_800),
        # What the session may cost.
        (1.0, CENT, Usage(), 64_000, 100, 2_000),
        (CENT, 1.0, Usage(), 64_000, 100, 2_000),
        (1.0, CENT, Usage(), 64_000, 2_001, None),
    ],
)
def test_as_much_output_is_granted_as_is_paid_for(
    budget, ceiling, expected, requested_tokens, useful, max_tokens
) -> None:
    ledger = Ledger(budget)
    reservation = ledger.reserve(
        ledger.account("fix", ceiling), HAIKU, expected, requested_tokens, useful
    )
    assert (reservation.max_tokens if reservation else None) == max_tokens
    if reservation is not None:
        assert reservation.usd == pytest.approx(
            expected.input * 1e-6 + reservation.max_tokens * 5e-6
        )
        assert reservation.model == HAIKU


@pytest.mark.parametrize(
    ("budget", "ceiling", "limit", "reached"),
    [
        (0.001, None, wire.BUDGET_REACHED, True),
        (0.001, 0.002, wire.BUDGET_REACHED, True),
        (0.001, 0.001, wire.BUDGET_REACHED, True),
        (0.002, 0.001, wire.CEILING_REACHED, False),
    ],
)
def test_a_refusal_names_the_lower_limit_and_only_the_runs_own_is_told_of_the_run(
    budget, ceiling, limit, reached
) -> None:
    ledger = Ledger(budget)
    account = ledger.account("fix", ceiling)
    assert ledger.reserve(account, HAIKU, Usage(), 1_000, 1_000) is None
    assert (account.limit, ledger.reached) == (limit, reached)


def test_a_reservation_has_the_mark_of_what_bounds_it() -> None:
    ledger = Ledger(1.0)
    assert granted(ledger, ledger.account("fix", 0.5), 10).limit == wire.CEILING_REACHED
    assert granted(ledger, ledger.account("fix", 2.0), 10).limit == wire.BUDGET_REACHED


def test_what_is_set_aside_for_one_session_is_not_left_for_another() -> None:
    ledger = Ledger(2 * CENT)
    first, second = ledger.account("fix", 0.015), ledger.account("judge")
    reservation = granted(ledger, first, 2_000)
    assert (first.bound, first.remaining_usd, second.bound, second.remaining_usd) == (
        0.01,
        pytest.approx(0.005),
        0,
        math.inf,
    )
    assert granted(ledger, second, 64_000).max_tokens == 2_000
    ledger.settle(reservation, first, Usage(output=200))
    assert first.bound == pytest.approx(0.001)
    assert granted(ledger, first, 64_000).max_tokens == pytest.approx(1_800, abs=1)


def waiting(act, ledger: Ledger) -> threading.Thread:
    """A thread that asks for more than is left now."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    return thread


def test_a_request_waits_while_others_may_cost_less_than_was_set_aside() -> None:
    ledger = Ledger(0.01)
    first, second = ledger.account("fix"), ledger.account("judge")
    reservation = granted(ledger, first, 2_000)
    results: list[Reservation | None] = []
    thread = waiting(
        lambda: results.append(ledger.reserve(second, HAIKU, Usage(), 1_000, 1_000)), ledger
    )
    ledger.settle(reservation, first, Usage(output=100))
    thread.join(10)
    assert [result.max_tokens for result in results if result] == [1_000]
    assert not ledger.reached


def test_when_nothing_more_can_become_free_who_waits_is_refused() -> None:
    ledger = Ledger(0.01)
    first, second = ledger.account("fix"), ledger.account("judge")
    reservation = granted(ledger, first, 2_000)
    results: list[Reservation | None] = []
    thread = waiting(
        lambda: results.append(ledger.reserve(second, HAIKU, Usage(), 1_000, 1_000)), ledger
    )
    ledger.settle(reservation, first, A_CENT)
    thread.join(10)
    assert (results, ledger.reached) == ([None], True)


def test_a_session_at_its_ceiling_waits_for_its_own_requests_alone() -> None:
    ledger = Ledger(1.0)
    other, account = ledger.account("judge"), ledger.account("fix", 0.01)
    granted(ledger, other, 2_000)
    paid(ledger, account, Usage(output=1_900))
    assert ledger.reserve(account, HAIKU, Usage(), 1_000, 1_000) is None
    busy = ledger.account("fix", 0.01)
    reservation = granted(ledger, busy, 2_000)
    results: list[Reservation | None] = []
    thread = waiting(
        lambda: results.append(ledger.reserve(busy, HAIKU, Usage(), 1_000, 1_000)), ledger
    )
    ledger.settle(reservation, busy, Usage())
    thread.join(10)
    assert [result.max_tokens for result in results if result] == [1_000]


def test_closing_ends_all_waiting_and_waits_for_what_is_under_way() -> None:
    ledger = Ledger(0.01)
    account = ledger.account("fix")
    reservation = granted(ledger, account, 2_000)
    results: list[Reservation | None] = []
    thread = waiting(
        lambda: results.append(ledger.reserve(account, HAIKU, Usage(), 1_000, 1_000)), ledger
    )
    closing = waiting(lambda: ledger.close(10), ledger)
    thread.join(10)
    assert results == [None]
    ledger.settle(reservation, account, Usage())
    closing.join(10)
    assert not closing.is_alive()
    assert ledger.reserve(account, HAIKU, Usage(), 1, 1) is None
    assert not ledger.reached


def test_closing_waits_no_longer_than_it_is_told() -> None:
    ledger = Ledger(1.0)
    granted(ledger, ledger.account("fix"), 1)
    ledger.close(0.01)


def test_each_answer_is_counted_by_session_and_model_and_heard_of() -> None:
    settlements: list[tuple[float, str, int]] = []
    ledger = Ledger(
        1.0, lambda usd, node_id, tokens: settlements.append((round(usd, 6), node_id, tokens))
    )
    account = ledger.account("judge")
    paid(ledger, account, Usage(input=100, cache_write=200, cache_read=1_000, output=10))
    paid(ledger, account, Usage(output=10))
    assert settlements == [(0.0005, "judge", 1_310), (0.00005, "judge", 10)]
    assert account.cost == SessionCost(
        1_300, 20, {HAIKU: ModelCost(0.00055, "known")}, cache_read_tokens=1_000
    )
    assert account.open == []


def test_an_answer_that_used_nothing_costs_nothing_and_is_not_told() -> None:
    settlements: list[float] = []
    ledger = Ledger(1.0, lambda usd, node_id, tokens: settlements.append(usd))
    account = ledger.account("judge")
    paid(ledger, account, Usage())
    assert (settlements, account.by_model, ledger.spent()) == ([], {}, Cost())


def test_what_a_session_waited_for_is_told_with_its_cost() -> None:
    account = Account("judge")
    account.waits.append((1, 2))
    assert account.cost.waits == ((1, 2),)


def test_a_replayed_answer_is_counted_for_its_session_alone() -> None:
    ledger = Ledger(1.0)
    account = Account("judge")
    ledger.count_replayed(account, HAIKU, A_CENT)
    assert (account.cost.usd, ledger.spent().usd) == (0.01, 0)


EARLIER = Cost(
    usd=0.02, basis="known", input_tokens=7, output_tokens=8, cache_read_tokens=3, by_node={"judge": 0.02},
    by_model={HAIKU: 0.02},
)  # fmt: skip


def test_what_was_spent_is_the_sum_of_all_sessions_and_of_the_run_before_it_was_resumed() -> None:
    ledger = Ledger(0.05, earlier=EARLIER)
    paid(ledger, ledger.account("judge"), Usage(input=1_000, cache_read=100, output=2_000))
    paid(ledger, ledger.account("fix"), A_CENT)
    assert ledger.spent() == Cost(
        usd=0.04101, basis="known", input_tokens=1_107, output_tokens=4_008, cache_read_tokens=103,
        by_node={"judge": pytest.approx(0.03101), "fix": pytest.approx(0.01)}, by_model={HAIKU: pytest.approx(0.04101)},
    )  # fmt: skip


def test_what_the_run_cost_before_counts_on_its_budget() -> None:
    ledger = Ledger(0.03, earlier=EARLIER)
    assert granted(ledger, ledger.account("fix"), 64_000).max_tokens == pytest.approx(2_000, abs=1)


def test_a_model_without_a_listed_price_is_the_dearest_until_its_program_has_told_its_own() -> None:
    settlements: list[tuple[float, int]] = []
    ledger = Ledger(5.0, lambda usd, node_id, tokens: settlements.append((round(usd, 6), tokens)))
    account, used = ledger.account("judge"), Usage(output=1_000)
    paid(ledger, account, used, NEW)
    assert account.cost.by_model == {NEW: ModelCost(0.05, "unknown")}
    assert ledger.spent().basis == "unknown"
    counted = SessionCost(
        by_model={NEW: ModelCost(0.01, "known"), "claude-other": ModelCost(9, "known")}
    )
    assert ledger.close_account(account, counted).by_model == {NEW: ModelCost(0.01, "known")}
    assert settlements == [(0.05, 1_000), (-0.04, 0)]
    assert (ledger.spent().usd, ledger.spent().basis) == (0.01, "known")
    second_account = ledger.account("judge")
    paid(ledger, second_account, used, NEW)
    assert second_account.cost.usd == pytest.approx(0.01)
    ledger.close_account(second_account, SessionCost(by_model={NEW: ModelCost(1.0, "known")}))
    paid(ledger, ledger.account("judge"), used, NEW)
    assert settlements[-1] == (0.01, 1_000), "the first price that was told stays"


@pytest.mark.parametrize("claimed_cost", [ModelCost(0.5, "unknown"), None])
def test_a_price_that_the_program_does_not_know_either_changes_nothing(
    claimed_cost: ModelCost | None,
) -> None:
    ledger = Ledger(1.0)
    account = ledger.account("judge")
    paid(ledger, account, Usage(output=1_000), NEW)
    counted = SessionCost(by_model={NEW: claimed_cost} if claimed_cost else {})
    assert ledger.close_account(account, counted).usd == 0.05


def test_a_listed_price_is_ours_whatever_the_program_says() -> None:
    settlements: list[float] = []
    ledger = Ledger(1.0, lambda usd, node_id, tokens: settlements.append(usd))
    account = ledger.account("judge")
    paid(ledger, account, A_CENT)
    ledger.close_account(account, SessionCost(by_model={HAIKU: ModelCost(0.5, "known")}))
    assert (account.cost.usd, len(settlements)) == (0.01, 1)


def test_a_price_of_nothing_leaves_the_rate_as_it_is() -> None:
    account = Account("judge")
    account.by_model[NEW] = ModelCost(0.0, "unknown")
    assert account.take_prices(SessionCost(by_model={NEW: ModelCost(0.5, "known")})) == {NEW: 1.0}


@pytest.mark.parametrize(("usd", "reached"), [(0.04, False), (0.05, True), (0.06, True)])
def test_what_was_used_past_the_gateway_counts_as_it_was_told(usd: float, reached: bool) -> None:
    settlements: list[tuple[float, str, int]] = []
    ledger = Ledger(0.05, lambda usd, node_id, tokens: settlements.append((usd, node_id, tokens)))
    counted = SessionCost(100, 10, {HAIKU: ModelCost(usd, "known")}, cache_read_tokens=50)
    assert ledger.add("fix", counted) == counted
    assert (ledger.reached, settlements) == (reached, [(usd, "fix", 110)])
    spent = ledger.spent()
    assert (spent.usd, spent.input_tokens, spent.output_tokens, spent.cache_read_tokens) == (
        usd,
        100,
        10,
        50,
    )


def test_a_budget_that_was_reached_stays_reached() -> None:
    ledger = Ledger(0.05)
    ledger.reached = True
    ledger.add("fix", SessionCost())
    assert ledger.reached


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (3_500, Usage(cache_read=900, cache_write=100 + int(500 / CHARACTERS_PER_TOKEN))),
        (3_000, Usage(cache_read=900, cache_write=100)),
        # A conversation that does not grow is another one: nothing of it is in the cache.
        (2_999, Usage(cache_write=int(2_999 / CHARACTERS_PER_TOKEN) + OVERHEAD_TOKENS)),
    ],
)
def test_the_next_requests_input_is_expected_from_the_last_one(size: int, expected: Usage) -> None:
    account = Account("judge")
    account.learn(3_000, Usage(input=100, cache_write=300, cache_read=600, output=50))
    assert account.expected(size) == expected


def test_what_was_not_cached_is_expected_to_be_charged_again() -> None:
    account = Account("judge")
    assert account.expected(3_000) == Usage(
        cache_write=int(3_000 / CHARACTERS_PER_TOKEN) + OVERHEAD_TOKENS
    )
    account.learn(3_000, Usage(input=1_000))
    assert account.expected(3_000) == Usage(cache_write=1_000)
    account.learn(9_000, Usage(output=5))
    assert account.expected(3_000) == Usage(cache_write=1_000), (
        "an answer without input taught nothing"
    )


def test_a_new_account_goes_on_and_has_no_ceiling() -> None:
    account = Account("judge")
    assert (account.ended, account.working, account.until, account.remaining_usd) == (
        "",
        False,
        math.inf,
        math.inf,
    )
    assert Ledger(1.0).account("fix", 0.5, working=True, until=9.0).until == 9.0


@pytest.mark.parametrize(
    ("tokens", "usd"),
    [
        ({}, 0.0),  # what is not told was not used
        ({"input": 1_000_000}, 1.0),
        ({"output": 1_000_000}, 5.0),
        ({"input": 1_000_000, "cache_read": 1_000_000}, 0.1),
        ({"input": 1_000_000, "cache_write": 1_000_000}, 1.25),
        ({"input": 1_000_000, "cache_write": 1_000_000, "cache_write_1h": 1_000_000}, 2.0),
        ({"input": 1_000_000, "cache_write": 500_000, "cache_write_1h": 900_000}, 1.5),
    ],
)
def test_told_tokens_have_the_price_of_their_kind(tokens, usd) -> None:
    cost = Ledger(1.0).price(HAIKU, tokens)
    assert cost.usd == pytest.approx(usd, abs=1e-9)
