"""Disputes in one process: when one is asked, what it is kept under, and which answers count."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from scripted_model import answered
from summaries import criterion, rubric, summary
from test_look_again import (
    CHANGE,
    NOW,
    REFUTED,
    STANDS,
    TOKEN,
    Looking,
    fail_at,
    look_answer,
    rubric_of,
)

from vibe_gate.context.deadline import Deadline
from vibe_gate.context.mode import DisputeMode
from vibe_gate.domain.cause import DisputedBefore, DisputeUnderWay, NoKey
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.verdict import Finding, Proof, SecondLook, Vote
from vibe_gate.judging.disputable import is_open_to_dispute, why_undisputable
from vibe_gate.judging.second_look import LookCache, look_questions
from vibe_gate.judging.second_look_brief import DISPUTE_PROMPT, LOOK_PROMPT, compute_dispute_key

NAME, OTHER = "a" * 16, "b" * 16
DISPUTE = DisputeMode(finding=NAME, argument="main leaves first.", by="Claude Code")


@pytest.fixture
def looking(tmp_path: Path) -> Looking:
    looking = Looking(tmp_path)
    looking.fingerprint = NAME
    return looking


def turns_of(looking: Looking) -> int:
    return len(looking.model.turns)


def test_a_dispute_asks_although_a_look_is_kept_and_its_answer_takes_that_ones_place(looking):
    looking(STANDS)
    look = looking.look(REFUTED, mode=DISPUTE)
    assert (look.outcome, turns_of(looking)) == ("refuted", 1)
    (turn,) = looking.model.turns
    assert (turn.system_prompt, turn.prompt.count("main leaves first.")) == (DISPUTE_PROMPT, 1)
    assert looking.look(STANDS).outcome == "refuted"
    assert turns_of(looking) == 0


def test_without_a_dispute_nothing_is_told_of_one(looking):
    looking(STANDS)
    assert looking.model.turns[0].system_prompt == LOOK_PROMPT
    assert LOOK_PROMPT in DISPUTE_PROMPT


@pytest.mark.parametrize(
    "dispute",
    [
        DISPUTE,
        replace(DISPUTE, argument="Another argument."),
        replace(DISPUTE, by="Ada"),
    ],
)
def test_a_second_dispute_of_the_fail_asks_nothing_whatever_it_says(looking, dispute):
    first = looking.look(STANDS, mode=DISPUTE)
    second_result = looking.look(REFUTED, mode=dispute)
    assert (second_result.dispute, second_result.outcome, turns_of(looking)) == (
        first.dispute,
        "stands",
        0,
    )


@pytest.mark.parametrize(
    "script",
    [
        look_answer("refuted"),
        look_answer("refuted", {"path": "src/main.py", "line": 5, "quote": "return None"}),
        look_answer("undecided"),
    ],
)
def test_what_refutes_nothing_uses_the_dispute_up(looking, script):
    assert looking.look(script, mode=DISPUTE).outcome == "undecided"
    assert looking.look(REFUTED, mode=DISPUTE).outcome == "undecided"
    assert turns_of(looking) == 0


def test_an_answer_in_a_wrong_form_does_not_use_it_up(looking):
    assert looking.look(answered({"outcome": "maybe"}), mode=DISPUTE).said is None
    assert looking.look(REFUTED, mode=DISPUTE).outcome == "refuted"


def test_without_a_key_the_dispute_says_so_and_is_not_used_up(looking):
    looking(STANDS)
    look = looking.look(REFUTED, mode=DISPUTE, obstacle=NoKey())
    assert (look.said, look.cause) == (None, NoKey())
    assert looking.look(REFUTED).dispute is UNSET
    assert looking.look(REFUTED, mode=DISPUTE).outcome == "refuted"


def test_a_finding_that_another_command_disputes_just_now_is_not_asked_about(looking):
    looking(STANDS)
    looking.deadline = Deadline(time.monotonic() - 58, 60)
    key = compute_dispute_key(NAME, (CHANGE.before, CHANGE.after))
    assert looking.state.answers.claim([key])
    other = Looking(looking.folder)
    other.fingerprint, other.deadline = looking.fingerprint, looking.deadline
    look = other.look(REFUTED, mode=DISPUTE)
    assert (look.said, look.cause, turns_of(other)) == (None, DisputeUnderWay(), 0)
    looking.state.answers.release([key])


def test_a_refutation_counts_for_the_words_that_it_was_about(looking, tmp_path):
    assert looking.look(REFUTED, mode=DISPUTE).outcome == "refuted"
    other = Looking(tmp_path, fail_at(2))
    other.fingerprint = looking.fingerprint
    assert other.look(STANDS).outcome == "stands"
    look = other.look(REFUTED, mode=DISPUTE)
    assert (look.said, look.cause) == (None, DisputedBefore(run="run", outcome="refuted"))
    assert turns_of(other) == 0


def test_a_refutation_without_a_dispute_is_not_disputed(looking):
    looking(REFUTED)
    look = looking.look(STANDS, mode=DISPUTE)
    assert (look.outcome, look.dispute, turns_of(looking)) == ("refuted", UNSET, 0)


def test_a_dispute_of_another_finding_leaves_the_fail_alone(looking):
    assert looking.look(STANDS, mode=replace(DISPUTE, finding="c" * 16)).dispute is UNSET


def test_the_argument_is_redacted_before_it_is_shown_or_kept(looking):
    look = looking.look(STANDS, mode=replace(DISPUTE, argument=f"It is {TOKEN}."))
    assert TOKEN not in looking.model.turns[0].prompt
    assert TOKEN not in str(look)
    key = compute_dispute_key(NAME, (CHANGE.before, CHANGE.after))
    assert TOKEN not in str(looking.state.answers.get(key, NOW))


def test_a_dispute_is_kept_under_finding_and_trees_alone():
    trees = ("before", "after")
    keys = {
        compute_dispute_key(NAME, trees),
        compute_dispute_key(OTHER, trees),
        compute_dispute_key(NAME, ("before", "later")),
        compute_dispute_key(NAME, ("earlier", "after")),
    }
    assert len(keys) == 4


def test_of_a_judge_that_was_shown_a_private_prompt_the_dispute_stays_in_the_clone(looking):
    looking(STANDS)
    (question,) = look_questions(looking.fails, looking.facts, looking.run, DISPUTE)
    store = SharedKeys()
    looking.state.answers.shared = store  # type: ignore[assignment]
    cache = LookCache(looking.run, Wire(), CHANGE, force=False)
    look = replace(LOOK, dispute=question.dispute)
    for visibility in ({"prompt": "private"}, {}):
        asking = replace(question, visibility=visibility)
        cache.find([asking])
        cache.keep({question.key: look}, [asking])
        is_shared = not visibility
        assert (store.put_keys == [question.dispute_key]) == is_shared
        assert store.fetched_keys == []  # of the private question, and then it is known here


class SharedKeys:
    """A team's store that holds nothing; what was looked for and what was put there."""

    def __init__(self) -> None:
        self.put_keys: list[str] = []
        self.fetched_keys: list[str] = []

    def put(self, key: str, answer: Any, created_at: float) -> bool:
        self.put_keys.append(key)
        return True

    def answers(self, keys: Any) -> dict[str, Any]:
        self.fetched_keys += keys
        return {}


FAIL = fail_at(41)
LOOK = SecondLook(outcome="stands", said="stands", reason="So it is.")


def finding_of(**values: Any) -> Finding:
    details: dict[str, Any] = {
        "path": "src/load.py",
        "line": 41,
        "end_line": 41,
        "level": "failure",
        "criterion": "works",
        "message": "at 41",
        "evidence": FAIL.evidence,
        "fingerprint": NAME,
        "basis": "inferred",
        "second_look": LOOK,
    }
    return Finding(**details | values)


def summary_with(vote: Vote) -> Any:
    judged = criterion("works", "fail", kind="judge", decided_by="unanimous", votes=(vote,))
    return summary(rubrics=(rubric(judged, outcome="fail"),))


@pytest.mark.parametrize(
    ("finding", "vote", "keys", "reason"),
    [
        (finding_of(), FAIL, {}, ""),
        (finding_of(second_look=UNSET), FAIL, {}, ""),
        (finding_of(level="warning"), FAIL, {}, "it does not block"),
        (finding_of(level="notice", waiver="Ada"), FAIL, {}, "somebody let it pass already"),
        (
            finding_of(second_look=replace(LOOK, outcome="refuted")),
            FAIL,
            {},
            "a second look refuted it already",
        ),
        (finding_of(basis=UNSET), FAIL, {}, "a check found it"),
        (finding_of(proof=Proof(status="proven")), FAIL, {}, "a test was run"),
        (finding_of(evidence=()), FAIL, {}, "it quotes no line"),
        (finding_of(), replace(FAIL, outranked="error"), {}, "other parts of the change"),
        (finding_of(), FAIL, {"second_look": "never"}, "takes no second look"),
    ],
)
def test_what_can_be_disputed(finding, vote, keys, reason):
    refusal = why_undisputable(finding, summary_with(vote), [rubric_of(**keys)])
    assert refusal.startswith(reason) if "never" not in keys.values() else reason in refusal
    assert (refusal == "") == (reason == "")
    assert is_open_to_dispute(finding, summary_with(vote), [rubric_of(**keys)]) == (reason == "")
