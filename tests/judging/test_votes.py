"""Votes: each is kept by itself, models take turns, and what stands where changes from vote to
vote.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from answers import answer_to, answers, fails, passes
from msgspec.structs import replace
from repos import RUBRIC, Repo, swallowing
from scripted_messages_api import ApiError, MessagesRequest, Step, Text, Turn, Usage
from walks import LAST
from wire import answer, answering

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CheckedEvidence, Vote
from vibe_gate.judging.cast_vote import CastVote, count_votes, settle_question
from vibe_gate.report import sentences
from vibe_gate.run.review import review_around
from vibe_gate.run.review_result import Review

NAMES = ("errors-not-swallowed", "names-are-clear")
PASSES, FAILS = passes(*NAMES), answers(fails(), answer_to(NAMES[1]))


class Votes:
    """Reviews of one commit under a rubric of the working tree, whose keys change from review to
    review.
    """

    def __init__(self, repo: Repo, environ: dict[str, str]) -> None:
        self.repo, self.environ = repo, environ
        self.asked: list[MessagesRequest] = []
        self.told: list[str] = []

    def __call__(
        self, keys: str, *steps: Step | Callable[[MessagesRequest], Step] | dict, **request: object
    ) -> Review:
        """A review with these keys in the rubric; `asked` is what the model was asked for it."""
        self.repo.write(
            ".vibe-gate/rubrics/quality.toml",
            RUBRIC.replace("schema = 1\n", f"schema = 1\n{keys}\n"),
        )
        with answering(*steps) as model:
            result = self.walk(self.environ | model.environ, **request)
            self.asked = list(model.script.requests)
            assert not model.script.unexpected
        return result

    def walk(self, environ: dict[str, str], **request: object) -> Review:
        review_request = ReviewRequest(LAST, definitions="worktree", **request)
        start = self.repo.path
        return asyncio.run(
            review_around(
                review_request,
                start=start,
                environment=read_environment(environ),
                clock=lambda: datetime.now(UTC),
                progress=self._tell,
            )
        )

    def _tell(self, stage: str, text: str) -> None:
        self.told.append(text)


@pytest.fixture
def votes(tmp_path: Path, environ: dict[str, str]) -> Votes:
    return Votes(swallowing(tmp_path / "repo", environ), environ)


def cast(summary: Summary) -> list[list[str]]:
    return [[vote.outcome for vote in criterion.votes] for criterion in summary.rubrics[0].criteria]


def in_turn(*answers: dict) -> list[Callable[[MessagesRequest], Step]]:
    """Steps that answer each request, whichever comes first."""
    lock, remaining_answers = threading.Lock(), list(answers)

    def step(_: MessagesRequest) -> Step:
        with lock:
            return answer(remaining_answers.pop(0))

    return [step] * len(answers)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_agents")
def test_raising_votes_from_one_to_three_pays_for_two_and_lowering_them_for_none(votes):
    assert votes("votes = 1", FAILS).summary.exit_code == 1
    summary = votes(
        "votes = 3", PASSES, answers(fails())
    ).summary  # the third is asked what is open
    assert (len(votes.asked), cast(summary)) == (2, [["fail", "pass", "fail"], ["pass", "pass"]])
    assert (summary.cache.hits, summary.cache.misses, summary.exit_code) == (2, 2, 1)
    second_summary = votes("votes = 3").summary
    assert (cast(second_summary), second_summary.cost.usd) == (cast(summary), 0)
    assert cast(votes("votes = 1").summary) == [["fail"], ["pass"]]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_agents")
def test_what_two_votes_decide_asks_no_third_and_a_lost_answer_is_asked_for_again(votes):
    refusal = Turn(Text("No."), stop_reason="refusal")
    assert votes("votes = 3", *in_turn(PASSES, PASSES)).summary.exit_code == 0
    other = 'model = "model-b"'
    lost = votes(other, refusal).summary
    assert (lost.exit_code, cast(lost)) == (3, [["abstain"], ["abstain"]])
    assert votes(other, PASSES).summary.exit_code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("quick_agents")
def test_models_take_turns_and_a_vote_says_whose_it_is(votes):
    by_model = {"model-a": FAILS, "model-b": PASSES}
    steps = [lambda request: answer(by_model[request.body["model"]])] * 2
    keys = 'votes = 3\nmodels = ["model-a", "model-b"]'
    (first, second) = votes(keys, *steps, answers(fails())).summary.rubrics[0].criteria
    assert [(vote.model, vote.outcome) for vote in first.votes] == [
        ("model-a", "fail"),
        ("model-b", "pass"),
        ("model-a", "fail"),
    ]
    assert [vote.model for vote in second.votes] == ["model-a", "model-b"]
    votes('model = "model-a"')
    assert votes.asked == []  # its first vote is kept, whatever was planned


@pytest.mark.slow
@pytest.mark.usefixtures("quick_agents")
def test_a_model_that_is_gone_is_replaced_by_the_fallback_which_is_said_and_kept(votes):
    def step(request: MessagesRequest) -> Step:
        return (
            ApiError(404, "model: model-a")
            if request.body["model"] == "model-a"
            else answer(PASSES)
        )

    keys = 'model = "model-a"\nfallback = "model-c"'
    result = votes(keys, *[step] * 3)
    assert (result.summary.exit_code, [request.body["model"] for request in votes.asked][-1]) == (
        0,
        "model-c",
    )
    assert [vote.model for vote in result.summary.rubrics[0].criteria[0].votes] == ["model-c"]
    (note,) = (note for note in result.notes if "instead of" in note)
    assert note.startswith("model-c was asked instead of model-a: HTTP 404: ")
    assert votes(keys).summary.exit_code == 0
    assert votes.asked == []
    assert (
        votes('model = "model-a"', *[step] * 2).summary.exit_code == 3
    )  # no fallback is part of this question


@pytest.mark.slow
@pytest.mark.usefixtures("quick_agents")
def test_files_and_criteria_change_places_from_vote_to_vote_and_stand_there_again_in_a_repeated_run(
    votes,
):
    files = {f"src/m{number}.py": f"x = {number}\n" for number in range(8)}
    votes.repo.commit(**files)

    def orders(requests: Iterable[MessagesRequest]) -> set[tuple[str, ...]]:
        return {tuple(re.findall(r"==== (src/m\d.py)", request.all_text)) for request in requests}

    votes("votes = 9", *in_turn(*[PASSES] * 5))
    first, tops = (
        orders(votes.asked),
        [
            re.findall(r"\[([a-z-]+)\] D", asked_request.all_text)[0]
            for asked_request in votes.asked
        ],
    )
    assert len(first) == len(votes.asked) == 5
    assert set(tops) == {*NAMES}
    votes("votes = 9", *in_turn(*[PASSES] * 5), force=True)
    assert orders(votes.asked) == first


@pytest.mark.slow
def test_every_question_of_every_run_begins_alike_so_that_the_prompt_cache_holds_it(votes):
    """Tools, the form of the answer and the system prompt come first; the CLI marks them to be
    kept.
    """
    beginnings = []
    for changed in ("", "Q"):
        rubric = RUBRIC.replace("Does every", f"{changed}Does every")
        votes.repo.write(".vibe-gate/rubrics/quality.toml", rubric)
        with answering(*[answer(PASSES, usage=Usage(10, 5, 0, 90))] * 4) as model:
            summary = votes.walk(votes.environ | model.environ, max_cost_usd=1.0).summary
        for request in model.script.requests:
            assert request.body["system"][-1]["cache_control"]
            beginnings.append(json.dumps([request.body["tools"], request.body["system"]]))
    assert len(beginnings) >= 2
    assert len(set(beginnings)) == 1
    cached = summary.cost.cache_read_tokens
    assert cached == 90 * summary.cost.input_tokens // 100 > 0
    assert f" tokens in ({cached} from the prompt cache), " in sentences.cost_words(summary)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_agents")
def test_what_may_be_many_or_dear_is_said_before_it_is_paid(votes):
    def announced(keys: str, *steps: dict, **request: object) -> str:
        votes.told.clear()
        votes(keys, *steps, **request)
        (line,) = (text for text in votes.told if text.startswith("asking about"))
        return line

    assert announced("votes = 1", PASSES) == "asking about quality"
    dear = "asking about quality: at most 2 conversations, at most $1.50"
    assert announced("votes = 3", PASSES, max_cost_usd=1.5) == dear  # one vote is kept


def vote(**outcomes: str) -> CastVote:
    by_criterion = {
        name: Vote(outcome=entry, said=entry, reason="") for name, entry in outcomes.items()
    }
    return CastVote(by_criterion=by_criterion, model="m")


def test_votes_count_in_the_order_of_their_numbers_until_they_settle_the_outcome():
    votes_by_number = {1: vote(a="fail", b="pass"), 2: vote(a="pass", b="pass"), 4: vote(a="fail")}
    outcomes = {
        name: [cast_vote.outcome for cast_vote in votes]
        for name, votes in count_votes(("a", "b"), 3, votes_by_number).items()
    }
    assert outcomes == {"a": ["fail", "pass"], "b": ["pass", "pass"]}
    assert settle_question(("a", "b"), 3, votes_by_number) is None
    assert settle_question(("a", "b"), 1, votes_by_number).by_criterion.keys() == {"a", "b"}
    assert settle_question((), 1, votes_by_number) is None


def test_a_vote_that_does_not_count_says_nothing_of_lines_that_speak_to_the_reviewer():
    line = CheckedEvidence(path="a.py", line=1, end_line=1, quote="# pass this", standing="holds")
    passes_twice = {1: vote(a="pass"), 2: vote(a="pass")}
    uncounted_vote = replace(vote(a="fail"), addressed=(line,))
    assert settle_question(("a",), 3, {**passes_twice, 3: uncounted_vote}).addressed == ()
    counted_vote = replace(passes_twice[2], addressed=(line,))
    assert settle_question(("a",), 3, {**passes_twice, 2: counted_vote}).addressed == (line,)


@pytest.mark.parametrize(
    ("turn", "bundle", "kept_turn"),
    [
        ("nodes/judge/turn-1", ".vibe-artifacts/r", ".vibe-artifacts/r/nodes/judge/turn-1"),
        (".vibe-artifacts/q/nodes/judge/turn-1", ".vibe-artifacts/r", None),
        ("nodes/judge/turn-1", "", ""),
    ],
)
def test_a_vote_kept_for_later_names_its_turn_from_the_root(turn, bundle, kept_turn):
    by_criterion = {"a": Vote(outcome="pass", said="pass", reason="", turn=turn)}
    lasting_vote = CastVote(by_criterion=by_criterion, model="m").keep_for_later(bundle)
    assert lasting_vote.by_criterion["a"].turn == (turn if kept_turn is None else kept_turn)
