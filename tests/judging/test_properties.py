"""What holds of every verdict: of the arithmetic by itself, and of simulated voters that err."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from domain.changes import change
from fail_votes import change_defects, fail_vote
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.voting import closed, simulated
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CheckedEvidence, CriterionResult, Outcome, SecondLook, Vote
from vibe_gate.judging.reading import read_answers
from vibe_gate.judging.rubric_tally import decide
from vibe_gate.judging.second_look import check_look
from vibe_gate.judging.vote_counting import check_vote, combine_parts, result_of_votes, settle_votes

RANKS: dict[Outcome, int] = {"fail": 0, "error": 1, "abstain": 1, "pass": 2}
OUTCOMES: tuple[Outcome, ...] = (*RANKS, "not_applicable")
OUTCOME_LISTS = st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=9)
EVIDENCE = st.lists(st.sampled_from(["holds", "relocated", "void"]), max_size=3)


def vote(outcome: Outcome, *standings: str) -> Vote:
    lines = tuple(
        CheckedEvidence(
            path="a.py",
            line=number,
            end_line=number,
            quote="if x is None:",
            standing=standing,
            why="why",
        )
        for number, standing in enumerate(standings, 1)
    )
    return fail_vote("so", *lines, outcome=outcome, said=outcome)


def result(criterion: Criterion, outcomes: Sequence[Outcome]) -> CriterionResult:
    return result_of_votes(
        criterion, [vote(outcome, "holds") for outcome in outcomes], len(outcomes)
    )


CRITERIA = [
    Criterion(id=f"c{number}", kind="judge", question="?", must=number < 2) for number in range(3)
]
RUBRIC = Rubric(schema=1, id="r", criterion=tuple(CRITERIA))


@pytest.mark.parametrize("planned", [1, 2, 3, 4])
def test_a_worse_vote_never_betters_its_criterion(planned):
    """A fail is worse than an error or an abstention, and those are worse than a pass."""
    for outcomes in itertools.product(RANKS, repeat=planned):
        before = result(CRITERIA[0], outcomes).outcome
        for at, worse in itertools.product(range(planned), RANKS):
            if RANKS[worse] <= RANKS[outcomes[at]]:
                after = result(CRITERIA[0], [*outcomes[:at], worse, *outcomes[at + 1 :]]).outcome
                assert RANKS[after] <= RANKS[before]


def test_a_worse_criterion_never_betters_the_rubric():
    by_outcome = {
        (criterion.id, outcome): result(criterion, [outcome])
        for criterion in CRITERIA
        for outcome in RANKS
    }

    def came_out(outcomes: Sequence[Outcome]) -> int:
        pairs = zip((criterion.id for criterion in CRITERIA), outcomes, strict=True)
        return RANKS[
            decide(RUBRIC, [by_outcome[pair] for pair in pairs]).outcome.replace(
                "inconclusive", "abstain"
            )
        ]

    for outcomes in itertools.product(RANKS, repeat=len(CRITERIA)):
        for at, worse in itertools.product(range(len(CRITERIA)), RANKS):
            if RANKS[worse] <= RANKS[outcomes[at]]:
                assert came_out([*outcomes[:at], worse, *outcomes[at + 1 :]]) <= came_out(outcomes)


@settings(max_examples=30)
@given(OUTCOME_LISTS, st.data())
def test_the_order_of_votes_parts_and_criteria_changes_no_outcome(outcomes, data):
    other = data.draw(st.permutations(outcomes))
    assert result(CRITERIA[0], outcomes).outcome == result(CRITERIA[0], other).outcome
    assert (
        combine_parts([vote(outcome) for outcome in outcomes]).outcome
        == combine_parts([vote(outcome) for outcome in other]).outcome
    )
    criteria = [replace(CRITERIA[0], id=f"c{index}") for index in range(len(outcomes))]
    rubric = replace(RUBRIC, criterion=tuple(criteria))
    results = [
        result(criterion, [outcome]) for criterion, outcome in zip(criteria, outcomes, strict=True)
    ]
    turned = data.draw(st.permutations(results))
    assert decide(rubric, results).outcome == decide(rubric, turned).outcome


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.data())
def test_only_a_criterion_with_one_known_answer_is_read_in_whatever_order_they_come(names, data):
    """Unknown and duplicate answers never pass."""
    words = data.draw(
        st.lists(
            st.sampled_from(["pass", "fail", "perhaps"]), min_size=len(names), max_size=len(names)
        )
    )
    entries = [
        {"criterion": name, "outcome": word} for name, word in zip(names, words, strict=True)
    ]
    read = read_answers(["a", "b"], {"answers": entries}).answers
    assert (
        read.keys()
        == read_answers(["a", "b"], {"answers": data.draw(st.permutations(entries))}).answers.keys()
    )
    if "c" in names:
        assert not read
        return
    once = {
        name for name in names if names.count(name) == 1 and words[names.index(name)] != "perhaps"
    }
    assert read.keys() == once


@settings(max_examples=30)
@given(EVIDENCE)
def test_without_evidence_that_stands_there_is_no_fail(standings):
    outcome = check_vote(vote("fail", *standings)).outcome
    assert outcome == ("fail" if {*standings} - {"void"} else "abstain")


@settings(max_examples=30)
@given(st.lists(EVIDENCE, min_size=1, max_size=3))
def test_a_refutation_whose_evidence_does_not_all_stand_never_helps(quoted):
    looks = [
        check_look(
            SecondLook(
                outcome="refuted",
                said="refuted",
                reason="so",
                evidence=vote("pass", *standings).evidence,
            ),
            change(),
        )
        for standings in quoted
    ]
    votes = [change_defects(vote("fail", "holds"), second_look=look) for look in looks]
    holds = all(standings and "void" not in standings for standings in quoted)
    outcome = result_of_votes(CRITERIA[0], votes, len(votes)).outcome
    assert outcome == ("pass" if holds else "fail")


def test_early_stopping_gives_the_outcome_of_all_votes():
    for outcomes in itertools.product(OUTCOMES, repeat=4):
        votes = [vote(outcome) for outcome in outcomes]
        number = next(number for number in range(5) if settle_votes(votes[:number], 4) is not None)
        assert settle_votes(votes[:number], 4)[0] == settle_votes(votes, 4)[0]


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("defective", [False, True])
def test_simulated_voters_come_out_as_the_formula_says(defective, looks):
    """`bench/voting.py` prints the whole table; here within four standard errors."""
    trials = 300
    for votes, error in ((1, 0.3), (3, 0.15), (5, 0.3)):
        details = {"defective": defective, "votes": votes, "error": error, "looks": looks}
        simulation, exact = simulated(**details, trials=trials), closed(**details)
        assert abs(simulation.wrong - exact.wrong) < 4 * math.sqrt(
            exact.wrong * (1 - exact.wrong) / trials
        )
        assert simulation.calls == pytest.approx(exact.calls, rel=0.1)
