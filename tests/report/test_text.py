"""Text of others, on its way to a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.domain.escape import safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("grüße, 世界 — ok", "grüße, 世界 — ok"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("two\nlines\r\tand", "two\\nlines\\r\\tand"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("selector\ufe0f", "selector\\ufe0f"),
        ("csi\x9b31m", "csi\\x9b31m"),
        ("\udcff", "\\udcff"),
        ("filler\u3164", "filler\\u3164"),
        ("line\u2028sep", "line\\u2028sep"),
    ],
)
def test_invisible_characters_become_escapes(text, shown):
    assert safe(text) == shown


@given(st.text())
def test_the_result_is_encodable_on_one_line_and_stays_as_it_is(text):
    shown = safe(text)
    assert len(shown.splitlines()) <= 1
    assert shown.encode().decode() == shown
    assert safe(shown) == shown
