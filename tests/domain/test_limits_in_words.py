"""What may be spent, as people read it."""

from __future__ import annotations

import pytest

from vibe_gate.domain.cause import format_limit


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0.0001, "0.0001"), (0.015, "0.015"), (0.02, "0.02"), (3 * 0.1, "0.30"), (1, "1.00")],
)
def test_a_small_limit_is_not_rounded_to_nothing(usd, text):
    assert format_limit(usd) == text
