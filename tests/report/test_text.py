"""Text of others, on its way to a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.domain.escape import safe
from vibe_gate.report.markdown import escape_prose


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("two\nlines\r\tand", "two\\nlines\\r\\tand"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("\udcff", "\\udcff"),
        ("line\u2028sep", "line\\u2028sep"),
    ],
)
def test_invisible_characters_become_escapes(text, escaped):
    assert safe(text) == escaped


@pytest.mark.slow
@given(st.text())
def test_the_result_is_encodable_on_one_line_and_stays_as_it_is(text):
    safe_text = safe(text)
    assert len(safe_text.splitlines()) <= 1
    assert safe_text.encode().decode() == safe_text
    assert safe(safe_text) == safe_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input -> wrong outcome", "input -> wrong outcome"),
        ("a_b -> c", "`a_b` -> c"),
        ("load(None) -> TypeError => exit 1", "load(None) -> TypeError => exit 1"),
        ("x[0] -> y[1].", "`x[0]` -> `y[1]`."),
        ("ptr->next", "`ptr->next`"),
        (
            "remove it (`git rebase -i`; a further commit) now",
            "remove it (`git rebase -i`; a further commit) now",
        ),
        ("the `stripe_key`'s value", "the `stripe_key`'s value"),
        ("see '`a b`', \"`c`\".", "see '`a b`', \"`c`\"."),
        ("`a`@bob", "`` `a`@bob ``"),
        ("`<b>`<script>", "`` `<b>`<script> ``"),
        ("an `open span", "an `` `open `` span"),
    ],
)
def test_a_code_span_takes_no_half_arrow_and_a_sentence_keeps_its_backticks(text, expected):
    assert escape_prose(text) == expected
