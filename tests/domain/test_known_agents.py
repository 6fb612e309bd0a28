from datetime import date
from pathlib import Path

import pytest

from vibe_gate.domain.known_agents import ADDRESSES, LINES, TRAILERS, VARIABLES
from vibe_gate.domain.provenance import Commit, agent_hints, agents_in

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "git-hooks.md"


def hints(
    message: str = "Fix\n", email: str = "ada@example.org", **environ: str
) -> tuple[str, ...]:
    commit = Commit("", "Ada", email, "ada@example.org", message)
    return tuple(hint.sentence for hint in agent_hints(agents_in(environ), (commit,)))


def test_every_sign_of_an_agent_has_a_source_and_the_day_it_was_read():
    for sign in (*VARIABLES, *ADDRESSES, *TRAILERS, *LINES):
        assert len(sign.source) > 5, sign.text
        assert date(2026, 11, 1) <= date.fromisoformat(sign.read), sign.text


def test_the_page_names_every_variable_and_trailer_that_is_a_sign():
    page_text = PAGE.read_text().lower()
    names = [f"{sign.text}={sign.value}" if sign.value else sign.text for sign in VARIABLES]
    assert [
        name
        for name in (*names, *(sign.text for sign in TRAILERS))
        if f"`{name}`".lower() not in page_text
    ] == []
    assert [
        sign.agent for sign in (*VARIABLES, *ADDRESSES) if sign.agent.lower() not in page_text
    ] == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"AGENT": "goose"}, ("AGENT=goose is set: Goose runs this",)),
        ({"AI_AGENT": "Crush@0.96"}, ("AI_AGENT=crush is set: Crush runs this",)),
        (
            {"AGENT": "amp", "AI_AGENT": "amp", "AMP_CURRENT_THREAD_ID": "T-1"},
            ("AMP_CURRENT_THREAD_ID is set: Amp runs this",),
        ),
        ({"QWEN_CODE": "1", "AGENT": ""}, ("QWEN_CODE is set: Qwen Code runs this",)),
        *[
            ({"AGENT": value, "AI_AGENT": value}, ())
            for value in ("", "1", "true", "Default Agent 3", "goosebumps")
        ],
        ({"AGENT_NAME": "goose", "AGENT_ID": "7", "AGENT_SESSION_ID": "20261127_1"}, ()),
    ],
)
def test_a_general_variable_is_a_sign_only_where_it_names_an_agent(environ, expected):
    assert hints(**environ) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Fix\n\nCo-authored-by: Amp <amp@ampcode.com>\n", ["trailer Co-authored-by: Amp"]),
        (
            "Fix\n\nAmp-Thread-ID: https://ampcode.com/threads/T-1\n",
            ["trailer Amp-Thread-ID: https://ampcode.com/"],
        ),
        ("Fix\n\nCo-Authored-By: Crush <crush@charm.land>\n", ["trailer Co-Authored-By: Crush"]),
        (
            "Fix\n\n💘 Generated with Crush\n\nAssisted-by: Crush:m\n",
            ["Assisted-by: Crush:m", "generated with Crush"],
        ),
        (
            "Fix\n\nCo-authored-by: Qwen-Coder <qwen-coder@alibabacloud.com>\n",
            ["Co-authored-by: Qwen Code"],
        ),
        ("Fix\n\nCo-Authored-By: opencode <noreply@opencode.ai>\n", ["Co-Authored-By: opencode"]),
        ("Fix\n\nCo-authored-by: Jo <stamp@ampcode.com>\n", []),
        ("Say what `Amp-Thread-ID` is, and crush@charm.land\n", []),
    ],
)
def test_a_message_tells_of_agents_by_their_own_trailers(message, expected):
    said_hints = hints(message)
    assert len(said_hints) == len(expected)
    assert all(part in hint for part, hint in zip(expected, said_hints, strict=True))


@pytest.mark.parametrize(
    "email", ["1+google-labs-jules[bot]@users.noreply.github.com", "codex@openai.com"]
)
def test_an_address_of_an_agent_is_a_sign_as_before(email):
    assert len(hints(email=email)) == 1
