"""What must be seen before it is shown; which characters count is in the tests of
`no-invisible-unicode`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_gate.checks.text_checks import MAX_FOUND, invisible
from vibe_gate.domain import escape


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("plain text, naïve 中文", "plain text, naïve 中文"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("\x1b[31m", "⟦U+001B⟧[31m"),
        ("a\nb\tc", "a⟦U+000A⟧b\tc"),
        ("\udcff", "⟦0xFF⟧"),
        ("x\U000e0041", "x⟦U+E0041⟧"),
        ("a\ufe0f", "a⟦U+FE0F⟧"),
        ("\u3164", "⟦U+3164⟧"),
        ("", ""),
    ],
)
def test_what_hides_is_shown_by_its_number(text: str, visible: str) -> None:
    assert escape.show_text(text) == visible


def test_a_sentence_ends_with_one_mark() -> None:
    texts = (
        "it hides",
        "it hides.",
        "who calls? ",
        'it says "no."',
        "call (it)",
        "cut…",
        " ",
    )
    assert [escape.end_sentence(text) for text in texts] == [
        "it hides.", "it hides.", "who calls?", 'it says "no."', "call (it).", "cut…", "",
    ]  # fmt: skip


@given(st.text(st.characters(exclude_categories=())))
def test_escaped_text_hides_nothing_and_can_be_encoded(text: str) -> None:
    escaped = escape.show_text(text)
    assert invisible(escaped) == []
    assert escaped.encode("utf-8").decode("utf-8") == escaped


@given(st.text())
def test_positions_point_at_the_characters_found(text: str) -> None:
    assert all(
        entry.name.startswith(f"U+{ord(text[entry.position]):04X}") for entry in invisible(text)
    )


def test_no_more_than_a_thousand_are_named() -> None:
    assert len(invisible("\u200b" * 5000)) == MAX_FOUND
