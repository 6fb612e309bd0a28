"""What an answer repeats of the prompt word for word is left out of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vibe_gate.gate.prompts import requests_of, requests_text
from vibe_gate.judging.repeats import LEFT_OUT, leave_out_repeats
from vibe_gate.report.markdown import escape_prose
from vibe_gate.store.captured_turns import CapturedPrompt

PRIVATE = (
    "  Rename load to read. Our customer Acme in Basel waits, see https://wiki.acme.example/x/y\n"
)
JAPANESE = "\u95a2\u6570\u306e\u540d\u524d\u3092\u5909\u3048\u3066\u304f\u3060\u3055\u3044"


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        ("Asked was a new name; a test is gone.", "Asked was a new name; a test is gone."),
        (
            'The request says "our CUSTOMER acme, in basel waits": no.',
            f'The request says "{LEFT_OUT}": no.',
        ),
        ("wiki.acme.example/x/y", LEFT_OUT),
        ("load to read", "load to read"),
        ("Rename load to read. It deletes a test.", "Rename load to read. It deletes a test."),
        (
            "our customer Acme in Basel waits and Acme in Basel waits, see",
            f"{LEFT_OUT} and {LEFT_OUT}",
        ),
        ("", ""),
        ("Our_customer_acme-In_Basel: no", f"{LEFT_OUT}: no"),
        ("see ourCustomerAcmeInBaselWaits()", f"see {LEFT_OUT}()"),
        ("our cus\u00adtom\u200ber Acme\u200bin Ba\u0301sel!", f"{LEFT_OUT}!"),
        ("it: \uff4f\uff55\uff52 \uff23ustomer \U0001d400cme in Basel.", f"it: {LEFT_OUT}."),
        ("o u r  c u s t o m e r  acme in Basel", LEFT_OUT),
        ("Acme in Basel waitsx", "Acme in Basel waitsx"),
        (
            "Asked was: acquire INITECH. Nothing does it; do it.",
            f"Asked was: {LEFT_OUT}. Nothing does it; do it.",
        ),
        ("Initech, acquire", "Initech, acquire"),
    ],
)
def test_stretches_of_the_prompt_are_left_out_unless_the_change_says_them(
    text: str, remaining: str
) -> None:
    change = ["rename(load) to: read", "Rename load to read, please"]
    assert (
        leave_out_repeats(text, [PRIVATE, "Acquire Initech", "do it"], lambda: change) == remaining
    )
    assert LEFT_OUT not in remaining or LEFT_OUT in escape_prose(remaining), (
        "a comment shows the mark as words, not as code"
    )


def test_a_script_without_spaces_is_compared_by_its_characters() -> None:
    assert (
        leave_out_repeats(f"It says {JAPANESE}!", [f"  x {JAPANESE}"], tuple)
        == f"It says {LEFT_OUT}!"
    )


def test_each_request_that_a_judge_is_shown_counts_for_itself_and_our_lines_above_it_do_not() -> (
    None
):
    texts = ("Acquire\n==== Initech", PRIVATE.strip())
    prompts = [
        CapturedPrompt("claude", "1f3c", turn, datetime.now(UTC), text)
        for turn, text in enumerate(texts, 1)
    ]
    requests = requests_of(requests_text(prompts, str))
    assert [" ".join(request.split()) for request in requests] == [
        "Acquire ==== Initech",
        PRIVATE.strip(),
    ]
    heading = "Request 1, turn 1 of Claude Code session 1f3c: "
    assert leave_out_repeats(f"{heading}acquire Initech", requests, tuple) == heading + LEFT_OUT


def test_a_long_prompt_and_a_long_change_cost_little() -> None:
    words = " ".join(f"w{number}" for number in range(4_000))
    assert leave_out_repeats(words[:280], [words], lambda: [words] * 10) == words[:280]
