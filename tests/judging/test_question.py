"""The key of a question: everything that an answer depends on changes it, and nothing else does."""

from __future__ import annotations

import re

import pytest

from vibe_gate.domain.document import plain, read
from vibe_gate.judging.brief import TEMPLATE_VERSION
from vibe_gate.judging.questions import CastVote, question_key

ASKED = {
    "about": ("a" * 40, "b" * 40),
    "rubric": "c" * 64,
    "model": "claude-sonnet-5",
    "tools": ("Read", "Grep"),
    "message": "",
    "versions": {"vibe-gate": "0.1.0", "claude-agent-sdk": "0.2.0"},
}
OTHERS = {
    "about": ("a" * 40, "d" * 40),
    "rubric": "d" * 64,
    "model": "claude-opus-4-1",
    "tools": ("Read",),
    "message": "Fix it",
    "versions": {"vibe-gate": "0.1.1", "claude-agent-sdk": "0.2.0"},
    "template": TEMPLATE_VERSION + 1,
    "vote": 1,
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_value_of_any_part_is_another_question(name):
    assert question_key(**ASKED | {name: OTHERS[name]}) != question_key(**ASKED)


def test_the_key_is_sha_256_in_hex():
    assert re.fullmatch("[0-9a-f]{64}", question_key(**ASKED))


def test_a_vote_that_state_db_keeps_has_these_keys():
    kept = {
        "votes": {"clear": {"outcome": "pass", "said": "pass", "reason": "so"}},
        "model": "claude-sonnet-5",
        "unreviewed": [],
        "used_tools": False,
    }
    vote = read(CastVote, kept)
    assert vote.by_criterion["clear"].reason == "so"
    assert plain(vote).keys() == kept.keys()
