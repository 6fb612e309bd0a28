"""The key of a question: everything that an answer depends on changes it, and nothing else does."""

from __future__ import annotations

import re

import pytest

from vibe_gate.domain.document import plain, read
from vibe_gate.domain.rubric import Claim
from vibe_gate.judging.brief import TEMPLATE_VERSION
from vibe_gate.judging.cast_vote import CastVote
from vibe_gate.judging.questions import question_key

ASKED = {
    "content_ids": ("a" * 40, "b" * 40),
    "rubric": "c" * 64,
    "model": "claude-sonnet-5",
    "tools": ("Read", "Grep"),
    "claims": (),
    "versions": {"vibe-gate": "0.1.0", "claude-agent-sdk": "0.2.0"},
}
OTHERS = {
    "content_ids": ("a" * 40, "d" * 40),
    "rubric": "d" * 64,
    "model": "claude-opus-4-1",
    "tools": ("Read",),
    "claims": (Claim("message", "Fix it"),),
    "unshown": ("prompt",),
    "versions": {"vibe-gate": "0.1.1", "claude-agent-sdk": "0.2.0"},
    "template": TEMPLATE_VERSION + 1,
    "vote": 1,
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_value_of_any_part_is_another_question(name):
    assert question_key(**ASKED | {name: OTHERS[name]}) != question_key(**ASKED)


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ("", "bfbe0eaee6c06a779698042ccd85b95e32ea9d28aa7ef5e3ea58e045356585c9"),
        ("Fix it", "b750e765e876b5f488c1b32e7a225712aec0bf90d8f97c061c720fc81e37f8eb"),
    ],
)
def test_what_was_asked_before_there_were_other_claims_has_its_key(message, key):
    claims = (Claim("message", message),) if message else ()
    versions, content_ids = {"v": "1"}, ("a" * 40, "b" * 40)
    current_key = question_key(
        content_ids=content_ids,
        rubric="c" * 64,
        model="m",
        versions=versions,
        claims=claims,
        template=6,
    )
    assert current_key == key


def test_each_claim_is_told_apart():
    claims = [
        (Claim("message", "a"),),
        (Claim("prompt", "a"),),
        (Claim("message", "a"), Claim("prompt", "b")),
    ]
    assert len({question_key(**ASKED | {"claims": claim}) for claim in claims}) == 3


def test_the_key_is_sha_256_in_hex():
    assert re.fullmatch("[0-9a-f]{64}", question_key(**ASKED))


def test_a_vote_that_state_db_keeps_has_these_keys():
    stored_vote = {
        "votes": {"clear": {"outcome": "pass", "said": "pass", "reason": "so"}},
        "model": "claude-sonnet-5",
        "unreviewed": [],
        "addressed": [],
        "used_tools": False,
    }
    vote = read(CastVote, stored_vote)
    assert vote.by_criterion["clear"].reason == "so"
    assert plain(vote).keys() == stored_vote.keys()
