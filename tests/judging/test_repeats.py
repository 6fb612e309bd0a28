"""What an answer repeats of the prompt word for word is left out of it."""

from __future__ import annotations

import pytest

from vibe_gate.judging.repeats import LEFT_OUT, without_repeats

PRIVATE = "==== request 1\n  Rename load to read. Our customer Acme in Basel waits, see https://wiki.acme.example/x/y\n"
JAPANESE = "\u95a2\u6570\u306e\u540d\u524d\u3092\u5909\u3048\u3066\u304f\u3060\u3055\u3044"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Asked was a new name; a test is gone.", "Asked was a new name; a test is gone."),
        ('The request says "our CUSTOMER acme, in basel waits": no.', f'The request says "{LEFT_OUT}": no.'),
        ("wiki.acme.example/x/y", LEFT_OUT),
        ("load to read", "load to read"),
        ("Rename load to read. It deletes a test.", "Rename load to read. It deletes a test."),
        ("our customer Acme in Basel waits and Acme in Basel waits, see", f"{LEFT_OUT} and {LEFT_OUT}"),
        ("", ""),
    ],
)
def test_stretches_of_the_prompt_are_left_out_unless_the_change_says_them(text: str, left: str) -> None:
    assert without_repeats(text, PRIVATE, lambda: ["rename(load) to: read", "Rename load to read, please"]) == left


def test_a_script_without_spaces_is_compared_by_its_characters() -> None:
    assert without_repeats(f"It says {JAPANESE}!", f"  x {JAPANESE}", tuple) == f"It says {LEFT_OUT}!"


def test_a_long_prompt_and_a_long_change_cost_little() -> None:
    words = " ".join(f"w{number}" for number in range(4_000))
    assert without_repeats(words[:280], words, lambda: [words] * 10) == words[:280]
