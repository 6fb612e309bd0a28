"""Votes in one process: which conversations are held, with whom, and what their ends count for.

The model is a script: each conversation ends as its test says. What is asked and read is the
product's own.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answers import HANDLER, answer_to, answers, fails, passes
from domain.changes import change, file_change, read
from fail_votes import change_defects
from msgspec.structs import replace
from repos import GOOD, SWALLOWS
from scripted_model import NONCE, TURN, EventLog, Script, ScriptedModel, answered, unanswered_end
from text_tree import text_tree

from vibe_gate.agent import TurnRequest
from vibe_gate.context.deadline import Deadline
from vibe_gate.context.facts import Facts
from vibe_gate.domain.cause import NoConversation
from vibe_gate.domain.document import read as read_document
from vibe_gate.domain.rubric import Claim, Rubric
from vibe_gate.domain.summary import AgentAuthored, Unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Proof, Vote
from vibe_gate.domain.wire import TurnResult
from vibe_gate.gate.loading import built_in_gate
from vibe_gate.gate.prompts import requests_text
from vibe_gate.judging import brief
from vibe_gate.judging.cast_vote import CastVote
from vibe_gate.judging.questions import RubricQuestion
from vibe_gate.judging.rubric_brief import RubricBrief
from vibe_gate.judging.surroundings import Surroundings
from vibe_gate.judging.votes import FALLBACK_AFTER_S, NewVotes, VoteContext, cast_votes, node_id
from vibe_gate.secrets import Redactor

pytestmark = pytest.mark.every_python

ERRORS, NAMES = "errors-not-swallowed", "names-are-clear"
CHANGE = change(file_change("src/load.py", GOOD.encode(), SWALLOWS.encode()))
TOKEN = "gh" + "p_" + "Zq8vW3nB5mK7xL2cR9tY4uI6oP1aS0dF3gH5"
MODEL = "model-a"


def rubric_of(criteria: Iterable[str] = (ERRORS, NAMES), **keys: object) -> Rubric:
    listed = [
        {"id": name, "kind": "judge", "question": f"Is {name} so?", "must": True}
        for name in criteria
    ]
    return read_document(Rubric, {"schema": 1, "id": "quality", "criterion": listed} | keys)


SEEN = NoConversation(message="why: as it was seen")


TREES = {"after": {"src/load.py": SWALLOWS.encode()}.get, "before": lambda path: None}
"""What may be quoted beside the change."""


class Voting:
    """A question about `CHANGE`, asked of a scripted model."""

    def __init__(
        self,
        *rubric_args: Any,
        claims: tuple[Claim, ...] = (),
        models: tuple[str, ...] = (MODEL,),
        **keys,
    ):
        self.rubric = rubric_of(*rubric_args, **keys)
        question = RubricQuestion(self.rubric, claims, models, ("1" * 40, "2" * 40), (), {})
        parts, unshown = brief.cut_into_parts(CHANGE, self.rubric, {}, claims, ())
        around = Surroundings({}, ())
        self.brief = RubricBrief(question, CHANGE, around, parts, unshown, "about")
        self.record = EventLog()
        gate = built_in_gate(text_tree({}))
        self.facts = Facts(CHANGE, gate, (self.rubric,), claims, AgentAuthored())
        self.prover: Any = None

    def ask(self, script: Script, cast: dict[int, CastVote] | None = None) -> NewVotes:
        """The votes of one run; `cast`: those of earlier runs."""
        self.model = ScriptedModel(script)
        deadline = Deadline(time.monotonic(), 60)
        run: Any = SimpleNamespace(record=self.record, redactor=Redactor({}), deadline=deadline)
        context = VoteContext(
            self.facts, run, self.model, read, TREES, Path("/run/trees"), self.prover
        )
        return asyncio.run(cast_votes(self.brief, cast or {}, context))

    @property
    def criteria_asked(self) -> list[tuple[str, ...]]:
        """The criteria of each conversation, sorted."""
        conversations = []
        for turn in self.model.turns:
            conversations.append(
                tuple(name for name in (ERRORS, NAMES) if f"[{name}]" in turn.prompt)
            )
        return conversations


def outcomes(result: NewVotes) -> dict[str, list[str]]:
    return {
        name: [vote.outcome for vote in votes] for name, votes in result.votes.by_criterion.items()
    }


PASSES, FAILS = answered(passes(ERRORS, NAMES)), answered(answers(fails(), answer_to(NAMES)))


def test_a_conversation_is_told_what_the_run_allows_it() -> None:
    voting = Voting()
    voting.ask(PASSES)
    (turn,) = voting.model.turns
    assert (turn.node, turn.model, turn.tools) == ("judge-quality", MODEL, ("Read", "Grep", "Glob"))
    assert (turn.max_turns, turn.max_cost_usd, turn.patience_s) == (20, 0.25, math.inf)
    assert turn.folder == Path("/run/trees")
    assert NONCE in turn.prompt
    assert turn.schema == brief.build_answer_schema(tests=False)
    assert turn.system_prompt == brief.SYSTEM_PROMPT
    assert turn.objection(passes(ERRORS, NAMES)) == ""
    assert NAMES in turn.objection(passes(ERRORS))


def test_each_question_is_a_node_behind_the_checks() -> None:
    voting = Voting()
    voting.ask(PASSES)
    assert voting.record.events == [
        (
            "node.added",
            "judge-quality",
            {
                "kind": "judge",
                "digest": voting.rubric.digest,
                "config": {
                    "model": "model-a",
                    "tools": ["Read", "Grep", "Glob"],
                    "max_turns": 20,
                    "rubrics": ["quality"],
                    "criteria": ["quality/errors-not-swallowed", "quality/names-are-clear"],
                },
            },
        ),
        ("edge.added", "", {"from": "checks", "to": "judge-quality"}),
    ]


@pytest.mark.parametrize(
    ("criteria", "nodes"),
    [
        # A first question without the claim was asked before; without a criterion that needs none
        # there was none.
        ([{"id": ERRORS}, {"id": "asked", "needs": "message"}], ["judge-quality-b"]),
        ([{"id": "asked", "needs": "message"}], ["judge-quality"]),
    ],
)
def test_a_question_with_claims_has_the_nodes_behind_those_without(criteria, nodes) -> None:
    listed = [{"kind": "judge", "question": "Is it so?"} | criterion for criterion in criteria]
    voting = Voting(
        (), criterion=listed, sees=["message"], claims=(Claim("message", "Repair it."),)
    )
    voting.ask(answered(passes(*(criterion["id"] for criterion in criteria))))
    assert [turn.node for turn in voting.model.turns] == nodes


def test_the_nodes_of_a_stage_bear_its_name() -> None:
    assert node_id(rubric_of(), 0) == "judge-quality"
    assert node_id(rubric_of(), 1, "review") == "review-quality-b"


def test_one_answer_is_one_vote_with_the_model_and_the_turn_that_gave_it() -> None:
    result = Voting().ask(FAILS)
    assert outcomes(result) == {ERRORS: ["fail"], NAMES: ["pass"]}
    (fail,) = result.votes.by_criterion[ERRORS]
    assert (fail.model, fail.turn, fail.said) == (MODEL, TURN, "fail")
    assert [(line.path, line.line, line.standing) for line in fail.evidence] == [
        ("src/load.py", 4, "holds")
    ]
    (defect,) = fail.defects
    assert (fail.reason, defect.reason, defect.counterexample, defect.stops) == (
        "The error is dropped.",
        "The error is dropped.",
        "a missing file -> load returns None",
        True,
    )
    (passed,) = result.votes.by_criterion[NAMES]
    assert passed.defects == ()
    assert fail.changes == passed.changes == "load gives None for a file that is not there"
    assert (result.votes.stopped, result.votes.unreviewed, result.votes.is_kept) == (
        None,
        (),
        False,
    )
    assert (list(result.cast), result.cast[1].model, result.cast[1].used_tools) == (
        [1],
        MODEL,
        False,
    )
    assert result.cast[1].by_criterion == {ERRORS: fail, NAMES: passed}


def test_more_than_half_of_the_votes_are_cast_side_by_side_and_then_what_is_open_one_at_a_time() -> (
    None
):
    voting, passes_errors = Voting(votes=5), answered(passes(ERRORS))
    result = voting.ask([FAILS, PASSES, FAILS, passes_errors, passes_errors])
    assert voting.criteria_asked == [(ERRORS, NAMES)] * 3 + [(ERRORS,)] * 2
    assert outcomes(result) == {
        ERRORS: ["fail", "pass", "fail", "pass", "pass"],
        NAMES: ["pass"] * 3,
    }
    assert sorted(result.cast) == [1, 2, 3, 4, 5]


def test_earlier_votes_count_and_only_what_they_leave_open_is_asked() -> None:
    voting = Voting(votes=3)
    earlier = voting.ask(PASSES).cast
    assert sorted(earlier) == [1, 2]
    second_answer = voting.ask(PASSES, earlier)
    assert (voting.model.turns, second_answer.cast, second_answer.votes.is_kept) == ([], {}, True)
    only_names = {1: replace(earlier[1], by_criterion={NAMES: earlier[1].by_criterion[NAMES]})}
    further_votes = voting.ask([answered(passes(ERRORS)), PASSES], only_names)
    assert voting.criteria_asked == [(ERRORS,), (ERRORS, NAMES)]
    assert outcomes(further_votes) == {ERRORS: ["pass"] * 2, NAMES: ["pass"] * 2}
    assert sorted(further_votes.cast[1].by_criterion) == [ERRORS]


def test_models_take_turns_by_the_number_of_the_vote() -> None:
    voting = Voting(votes=3, models=("model-a", "model-b"))
    result = voting.ask([FAILS, PASSES, answered(passes(ERRORS))])
    assert [vote.model for vote in result.votes.by_criterion[ERRORS]] == [
        "model-a",
        "model-b",
        "model-a",
    ]


OVERLOADED = unanswered_end("api_error", f"HTTP 529 {TOKEN}", is_unavailable=True)


def test_an_overloaded_model_is_replaced_by_the_fallback_and_not_waited_for_again() -> None:
    voting = Voting(fallback="model-c", votes=3)
    result = voting.ask(lambda turn: OVERLOADED if turn.model == MODEL else PASSES)
    patience = {turn.model: turn.patience_s for turn in voting.model.turns}
    assert patience == {MODEL: FALLBACK_AFTER_S, "model-c": math.inf}
    assert [vote.model for vote in result.votes.by_criterion[ERRORS]] == ["model-c"] * 2
    assert (result.cast[1].model, voting.model.replacements) == ("model-c", {(MODEL, "model-c")})
    assert TOKEN not in voting.model.unavailable[MODEL]
    assert voting.model.unavailable[MODEL].startswith("HTTP 529 ")


def test_a_model_that_is_known_to_be_gone_is_not_asked() -> None:
    voting = Voting(fallback="model-c", votes=3)
    errors_alone = answered(passes(ERRORS))
    voting.ask([OVERLOADED, FAILS, PASSES, errors_alone])
    assert [turn.model for turn in voting.model.turns] == [MODEL, MODEL, "model-c", "model-c"]


def test_a_fallback_is_asked_only_where_the_model_is_unavailable() -> None:
    refused, plain_error = unanswered_end("refused"), unanswered_end("api_error")
    for end in (refused, plain_error, PASSES):
        voting = Voting(fallback="model-c")
        voting.ask(end)
        assert [turn.model for turn in voting.model.turns] == [MODEL]
    alone = Voting()
    assert outcomes(alone.ask(OVERLOADED)) == {ERRORS: ["error"], NAMES: ["error"]}
    same_voting = Voting(fallback=MODEL)
    same_voting.ask(OVERLOADED)
    assert [(turn.model, turn.patience_s) for turn in same_voting.model.turns] == [
        (MODEL, math.inf)
    ]


@pytest.mark.parametrize(
    ("status", "outcome", "stops"),
    [
        ("refused", "abstain", False),
        ("max_tokens", "abstain", False),
        ("no_answer", "abstain", False),
        ("two_answers", "abstain", False),
        ("max_turns", "abstain", False),
        ("budget", "abstain", True),
        ("timeout", "abstain", True),
        ("api_error", "error", True),
        ("died", "error", True),
    ],
)
def test_an_end_without_an_answer_is_neither_a_fail_nor_a_pass(
    status: str, outcome: str, stops: bool
) -> None:
    voting = Voting(votes=3)
    result = voting.ask(unanswered_end(status))
    assert set(outcomes(result)[ERRORS]) == {outcome}
    vote = result.votes.by_criterion[ERRORS][0]
    assert (vote.said, vote.reason, vote.turn) == (None, "why: as it was seen", TURN)
    assert vote.cause == SEEN
    assert result.votes.stopped == (SEEN if stops else None)
    assert [(item.reason, item.cause) for item in result.votes.unreviewed] == [
        ("why: as it was seen", SEEN)
    ]
    assert [item.path for item in result.votes.unreviewed] == ["src/load.py"]


def test_after_a_limit_no_further_conversation_is_held() -> None:
    voting = Voting(votes=3)
    result = voting.ask([FAILS, unanswered_end("budget")])
    assert len(voting.model.turns) == 2
    assert result.votes.stopped == SEEN
    assert result.votes.unreviewed == ()  # the other vote has seen the whole change


def test_what_was_answered_once_is_reviewed() -> None:
    result = Voting(votes=3).ask([unanswered_end("refused"), PASSES, PASSES])
    assert result.votes.unreviewed == ()
    assert result.votes.stopped is None


class InParts(Voting):
    """The same question, of which the change is shown in two parts."""

    def __init__(self, **keys: Any) -> None:
        super().__init__(**keys)
        (part,) = self.brief.parts
        piece = part.pieces[0]
        second = replace(part, number=2, of=2, pieces=(replace(piece, line=7, end_line=9),))
        self.brief = replace(self.brief, parts=(replace(part, of=2), second))


def test_of_a_change_in_parts_each_is_asked_and_the_worst_answer_counts() -> None:
    voting = InParts()
    result = voting.ask(lambda turn: FAILS if turn.node.endswith("-b") else PASSES)
    assert [turn.node for turn in voting.model.turns] == ["judge-quality", "judge-quality-b"]
    assert outcomes(result) == {ERRORS: ["fail"], NAMES: ["pass"]}


def test_a_part_without_an_answer_is_listed_with_the_reason_and_an_answered_one_is_not() -> None:
    result = InParts().ask(
        lambda turn: unanswered_end("refused") if turn.node.endswith("-b") else PASSES
    )
    assert outcomes(result) == {ERRORS: ["abstain"], NAMES: ["abstain"]}
    assert result.votes.unreviewed == (
        Unreviewed(path="src/load.py", line=7, end_line=9, reason="why: as it was seen", cause=SEEN),
    )  # fmt: skip


def test_what_earlier_votes_have_answered_is_not_unreviewed() -> None:
    voting = Voting(votes=3)
    earlier = {1: voting.ask(FAILS).cast[1]}
    result = voting.ask(unanswered_end("budget"), earlier)
    assert result.votes.unreviewed == ()
    assert result.votes.is_kept


def test_a_conversation_that_used_tools_may_depend_on_both_trees() -> None:
    assert Voting().ask(answered(passes(ERRORS, NAMES), used_tools=True)).cast[1].used_tools


class Prover:
    """Says of each fail that it was proven."""

    async def prove(self, vote: Vote, answer: object) -> Vote:
        proof = Proof(status="proven", reason="It fails.")
        return change_defects(vote, proof=proof)


def test_a_test_that_was_run_has_seen_all_code() -> None:
    voting = Voting()
    voting.prover = Prover()
    result = voting.ask(FAILS)
    assert result.votes.by_criterion[ERRORS][0].defects[0].proof.status == "proven"
    assert result.cast[1].used_tools
    assert not voting.ask(PASSES).cast[1].used_tools


def test_what_no_part_shows_is_unreviewed_whatever_was_answered() -> None:
    voting = Voting()
    unshown = Unreviewed(path="big.py", line=0, end_line=0, reason="too large")
    voting.brief = replace(voting.brief, unshown=(unshown,))
    result = voting.ask(PASSES)
    assert result.votes.unreviewed == (unshown,)
    assert result.cast[1].unreviewed == (unshown,)


def test_an_abstention_says_what_is_missing() -> None:
    abstains = answer_to(ERRORS, "abstain", "It depends", missing="the caller of load")
    (vote,) = Voting().ask(answered(answers(abstains, answer_to(NAMES)))).votes.by_criterion[ERRORS]
    assert vote.outcome == vote.said == "abstain"
    assert vote.reason == "It depends. Missing: the caller of load."
    plain = answer_to(ERRORS, "abstain", "It depends.", missing=" ")
    (vote,) = Voting().ask(answered(answers(plain, answer_to(NAMES)))).votes.by_criterion[ERRORS]
    assert vote.reason == "It depends."


def test_what_does_not_fit_the_form_is_no_vote() -> None:
    unfit = answered({"changes": "", "answers": [answer_to("no-such-criterion")]})
    result = Voting().ask(unfit)
    vote = result.votes.by_criterion[ERRORS][0]
    assert (vote.outcome, vote.said) == ("abstain", None)
    assert vote.reason.startswith("The model's answer does not fit its form.")
    assert [item.path for item in result.votes.unreviewed] == ["src/load.py"]


def test_one_criterion_that_does_not_fit_costs_that_vote_alone() -> None:
    result = Voting().ask(answered(answers(answer_to(ERRORS, "perhaps"), answer_to(NAMES))))
    assert outcomes(result) == {ERRORS: ["abstain"], NAMES: ["pass"]}
    vote = result.votes.by_criterion[ERRORS][0]
    assert (vote.said, vote.turn) == (None, TURN)
    assert vote.reason.startswith("The model's answer does not fit its form.")
    assert result.votes.unreviewed == ()


def test_no_word_of_a_vote_has_a_secret() -> None:
    secret = fails(reason=f"a {TOKEN}", counterexample=f"b {TOKEN}")
    result = Voting().ask(
        answered(answers(secret, answer_to(NAMES, reason=TOKEN), changes=f"c {TOKEN}"))
    )
    assert TOKEN not in repr(result)
    assert repr(result).count("[redacted:github-token:") == 7 + 5
    perhaps = answers(answer_to(ERRORS, TOKEN), answer_to(NAMES))
    assert TOKEN not in repr(Voting().ask(answered(perhaps)))


REQUEST = "please drop the customer Grete Hermann from all our tables"
PRIVATE = Claim(
    "prompt",
    requests_text([SimpleNamespace(session="s", turn=1, text=REQUEST)], str),
    is_private=True,
)
INVENTED = {"path": "src/load.py", "line": 2, "quote": REQUEST, "side": "after"}


def test_no_word_of_a_vote_repeats_what_a_person_asked_for() -> None:
    repeating = fails(
        HANDLER, INVENTED, reason=f"Asked: {REQUEST}.", counterexample=f"{REQUEST} -> None"
    )
    voting = Voting(claims=(PRIVATE,), sees=["prompt"])
    result = voting.ask(answered(answers(repeating, answer_to(NAMES), changes=REQUEST)))
    (vote,) = result.votes.by_criterion[ERRORS]
    assert "Grete" not in repr(result)
    assert vote.reason == "Asked: (request left out)."
    assert vote.defects[0].counterexample == "(request left out) -> None"
    assert vote.changes == "(request left out)"
    assert [line.quote for line in vote.evidence] == ["except OSError:", "(request left out)"]


def test_a_line_of_the_change_is_the_changes_even_if_it_was_asked_for() -> None:
    request = "    except OSError: pass and go on with the next file"
    claim = Claim(
        "prompt",
        requests_text([SimpleNamespace(session="s", turn=1, text=request)], str),
        is_private=True,
    )
    (vote,) = Voting(claims=(claim,), sees=["prompt"]).ask(FAILS).votes.by_criterion[ERRORS]
    assert [line.quote for line in vote.evidence] == ["except OSError:"]


def test_a_refusal_repeats_no_request_either() -> None:
    voting = Voting(claims=(PRIVATE,), sees=["prompt"], votes=1)
    result = voting.ask(unanswered_end("refused", f"I cannot {REQUEST}", text=REQUEST))
    assert "Grete" not in repr(result)


def test_an_error_ends_the_other_conversations_and_is_raised_itself() -> None:
    def break_down(turn: TurnRequest) -> TurnResult:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        Voting(votes=3).ask(break_down)


def test_evidence_is_checked_against_the_change() -> None:
    invented = {"path": "src/load.py", "line": 4, "quote": "    except KeyError:", "side": "after"}
    result = Voting().ask(answered(answers(fails(invented), answer_to(NAMES))))
    (vote,) = result.votes.by_criterion[ERRORS]
    assert (vote.outcome, vote.said) == ("abstain", "fail")
    assert isinstance(vote.evidence[0], CheckedEvidence)
    assert json.dumps(vote.reason).startswith('"answered')
