"""What is told of growth: a square is refused, a line is not."""

from __future__ import annotations

import pytest
from growth import assert_linear


@pytest.mark.slow
def test_what_takes_the_square_of_its_size_is_refused() -> None:
    with pytest.raises(AssertionError, match="times the size costs"):
        assert_linear(lambda size: sum(1 for _ in range(size * size)), int, 2_000)


def test_what_grows_with_its_size_is_not_whatever_it_costs_to_begin() -> None:
    assert_linear(lambda size: [None for _ in range(20_000 + size)], int, 400_000)
