"""Calibration: exact intervals, kappa, and the rule that earns blocking, which may be looked at
after every answer.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from vibe_gate.domain.calibration import (
    CriterionBaseline,
    at_most,
    clean_needed,
    earned,
    kappa,
    mean,
    share,
)
from vibe_gate.domain.interval import Interval

BOUND = 0.05


def interval(estimate: Interval | None) -> tuple[float, ...]:
    return (
        ()
        if estimate is None
        else tuple(round(entry, 3) for entry in (estimate.value, estimate.low, estimate.high))
    )


@pytest.mark.parametrize(
    ("hits", "cases", "most"),
    [
        (0, 8, 0.312),
        (0, 60, 0.0487),
        (0, 300, 0.00994),
        (1, 60, 0.0767),
        (0, 1, 0.95),
        (3, 3, 1.0),
        (5, 10, 0.7776),
    ],
)
def test_what_so_few_hits_leave_possible_is_exact_for_small_numbers(
    hits: int, cases: int, most: float
) -> None:
    assert at_most(hits, cases) == pytest.approx(most, abs=5e-5 if most < 0.01 else 5e-4)


@pytest.mark.parametrize(
    ("hits", "cases", "low", "high"),  # as tables of Clopper and Pearson have them
    [
        (27, 30, 0.735, 0.979),
        (0, 10, 0.0, 0.308),
        (10, 10, 0.692, 1.0),
        (1, 60, 0.0, 0.089),
        (500, 1000, 0.469, 0.531),
    ],
)
def test_an_interval_is_clopper_and_pearsons(
    hits: int, cases: int, low: float, high: float
) -> None:
    assert interval(share(hits, cases)) == (round(hits / cases, 3), low, high)


def test_no_cases_have_no_share_and_one_kind_of_cases_no_kappa() -> None:
    assert share(0, 0) is None
    assert kappa(0, 0, 1, 60) is None


def test_kappa_is_cohens_with_an_interval_that_holds_it() -> None:
    assert interval(kappa(27, 30, 1, 60)) == (0.898, 0.622, 0.987)  # (86/90 - 0.563) / (1 - 0.563)
    assert interval(kappa(30, 30, 0, 60))[0] == 1
    assert interval(kappa(15, 30, 30, 60))[0] == 0


def test_a_mean_has_students_interval() -> None:
    assert interval(mean([1, 2, 3, 4, 5])) == (3.0, 1.042, 4.958)  # 2.776 x 1.581 / sqrt(5), to 1 %
    assert interval(mean([1, 2, 3])) == (2.0, 0.0, 4.408)  # 4.303 x 1 / sqrt(3), to 3 %
    assert mean([1, 2]) is None


def ever_earns(rate: float, looks: int = 300) -> float:
    """The exact probability that a judge with this rate of false blocks ever earns blocking within
    so many looks.
    """
    remaining_fields, ever = {0: 1.0}, 0.0
    for clean in range(1, looks + 1):
        after: dict[int, float] = defaultdict(float)
        for blocked, probability in remaining_fields.items():
            after[blocked] += probability * (1 - rate)
            after[blocked + 1] += probability * rate
        ever += sum(part for blocked, part in after.items() if earned(clean, blocked, BOUND))
        remaining_fields = {
            blocked: part for blocked, part in after.items() if not earned(clean, blocked, BOUND)
        }
    return ever


def test_a_judge_at_the_bound_ever_earns_blocking_in_under_5_of_100_histories_and_a_good_one_nearly_always() -> (
    None
):
    assert {rate: round(ever_earns(rate), 3) for rate in (0.01, 0.05, 0.10)} == {
        0.01: 0.981,
        0.05: 0.046,
        0.1: 0.0,
    }


@pytest.mark.parametrize(
    ("rate", "most", "least"), [(0.01, 1.0, 0.95), (0.05, 0.05, 0.0), (0.10, 0.005, 0.0)]
)
def test_simulated_judges_agree_with_that(rate: float, most: float, least: float) -> None:
    earning = 0
    for history in range(1000):
        draw, blocked = random.Random(f"{rate} {history}"), 0
        for clean in range(1, 301):
            blocked += draw.random() < rate
            if earned(clean, blocked, BOUND):
                earning += 1
                break
    assert least <= earning / 1000 <= most


def test_what_is_earned_is_lost_when_clean_changes_are_blocked_and_can_be_earned_again() -> None:
    assert [clean_needed(blocked, BOUND) for blocked in range(4)] == [78, 115, 151, 188]
    for blocked in range(20):
        needed = clean_needed(blocked, BOUND)
        assert (earned(needed - 1, blocked, BOUND), earned(needed, blocked, BOUND)) == (False, True)
    assert not earned(80, 1, BOUND)
    assert (earned(1_000_000, 0, 0.0), earned(0, 0, 1.0), earned(0, 0, BOUND)) == (
        False,
        True,
        False,
    )


def test_counts_that_contradict_each_other_are_refused() -> None:
    counts = {"id": "a", "clean": 2, "clean_blocked": 0, "defective": 1, "found": 1}
    assert CriterionBaseline(**counts).cases == 3  # type: ignore[arg-type]
    for wrong in ({"clean_blocked": 3}, {"found": 2}, {"flips": 4}, {"abstained": 4}):
        with pytest.raises(ValueError, match="cannot be more"):
            CriterionBaseline(**counts | wrong)  # type: ignore[arg-type]
