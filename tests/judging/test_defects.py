"""What each of several defects of a fail is worth, which are the same, and the findings that are made
of them.
"""

from __future__ import annotations

import itertools
from datetime import date

import pytest
from domain.changes import added, change, file_change
from fail_votes import change_defects
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    Defect,
    Dispute,
    LookOutcome,
    Proof,
    SecondLook,
    Vote,
)
from vibe_gate.judging.decide import decide_rubrics, find_rubric_open_fails
from vibe_gate.judging.defects import (
    STANDING_MEANINGS,
    combine_standings,
    group_defects,
    judge_defect,
)
from vibe_gate.judging.findings import findings_of, name_findings
from vibe_gate.judging.second_look import check_look
from vibe_gate.judging.vote_counting import check_vote, counted_outcome, result_of_votes

WORKS = Criterion(id="works", kind="judge", question="Does it?", must=True)
TODAY = date(2026, 3, 1)
RUBRIC = Rubric(schema=1, id="r", criterion=(WORKS,))


def at(line: int, path: str = "a.py", standing: str = "holds") -> CheckedEvidence:
    return CheckedEvidence(
        path=path, line=line, end_line=line, quote=f"line {line}", standing=standing, why="why"
    )


def defect(*lines: int, reason: str = "it breaks", **fields: object) -> Defect:
    evidence = tuple(map(at, lines))
    return Defect(**{"reason": reason, "counterexample": "x -> y", "evidence": evidence, **fields})


def vote_of(*defects: Defect) -> Vote:
    vote = Vote(outcome="fail", said="fail", reason=defects[0].reason, defects=defects)
    return check_vote(vote)


def look(outcome: LookOutcome, *, stops: bool = True) -> SecondLook:
    return SecondLook(outcome=outcome, said=outcome, reason="so", stops=stops, evidence=(at(9),))


KINDS = {
    "void": defect(),
    "voided": defect(1, proof=Proof(status="void")),
    "refuted": defect(1, second_look=look("refuted")),
    "remark": defect(1, stops=False),
    "counts": defect(1),
}
"""A defect of each standing."""


def test_each_standing_is_the_first_whose_row_holds() -> None:
    assert {standing: judge_defect(example) for standing, example in KINDS.items()} == {
        standing: standing for standing in STANDING_MEANINGS
    }
    everything = {
        "counterexample": "",
        "proof": Proof(status="void"),
        "second_look": look("refuted"),
        "stops": False,
    }
    mended = {"counterexample": "x -> y", "proof": UNSET, "second_look": UNSET, "stops": True}
    standings = [judge_defect(defect(1, **everything))]
    for name, value in mended.items():
        everything[name] = value
        standings.append(judge_defect(defect(1, **everything)))
    assert standings == list(STANDING_MEANINGS)


@pytest.mark.parametrize(
    ("second_look", "remark"),
    [
        (look("stands", stops=False), "second look"),
        (look("undecided", stops=False), UNSET),
        (look("intended"), "intended"),
        (look("stands"), UNSET),
        # A refutation that does not hold says nothing of the weight either.
        (replace(look("undecided", stops=False), said="refuted"), UNSET),
        (replace(look("undecided", stops=False), said=None), UNSET),
    ],
)
def test_a_second_look_makes_a_remark_of_what_it_would_not_stop(second_look, remark) -> None:
    vote = vote_of(defect(1, second_look=second_look))
    (finding,) = findings_of(WORKS, result_of_votes(WORKS, [vote], 1))
    assert finding.remark == remark


def test_of_two_defects_each_is_a_finding_with_all_its_lines() -> None:
    vote = vote_of(defect(3, 9, also=(at(40, "b.py"),)), defect(9, reason="and this"))
    first, second = findings_of(WORKS, result_of_votes(WORKS, [vote], 1))
    assert (first.line, [place.line for place in first.other_places]) == (3, [9])
    assert [line.line for line in first.evidence] == [3, 9]
    assert [line.path for line in first.also] == ["b.py"]
    assert (second.line, second.message, second.other_places) == (9, "and this", ())


def test_votes_that_quote_the_same_name_one_defect_and_no_vote_names_one_twice() -> None:
    votes = [vote_of(defect(1), defect(2)), vote_of(defect(2, 3)), vote_of(defect(2))]
    groups = group_defects(votes)
    assert sorted(len(group.defects) for group in groups) == [1, 3]
    for group in groups:
        assert len(group.votes) == len(group.defects)


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(
            st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True), min_size=1, max_size=3
        ),
        min_size=1,
        max_size=3,
    ),
    st.data(),
)
def test_the_order_of_votes_changes_no_group(line_lists, data) -> None:
    votes = [
        vote_of(*(defect(*lines, reason=f"{number} {lines}") for lines in vote_lines))
        for number, vote_lines in enumerate(line_lists)
    ]
    shuffled_votes = data.draw(st.permutations(votes))

    def sizes(some_votes: list[Vote]) -> list[int]:
        return sorted(len(group.defects) for group in group_defects(some_votes))

    assert sum(sizes(votes)) == sum(map(len, line_lists))
    assert sizes(votes) == sizes(shuffled_votes)


def test_a_further_place_makes_another_fingerprint_and_the_order_of_quotes_does_not() -> None:
    def fingerprint(*lines: CheckedEvidence) -> str:
        failed = result_of_votes(WORKS, [vote_of(defect(evidence=lines))], 1)
        (finding,) = name_findings(findings_of(WORKS, failed), {})
        return finding.fingerprint

    assert fingerprint(at(1), at(2)) == fingerprint(at(2), at(1))
    assert fingerprint(at(1), at(2)) != fingerprint(at(1))
    assert fingerprint(at(1), at(2), at(3)) != fingerprint(at(1), at(2))


def test_a_fail_all_of_whose_defects_are_remarks_is_a_pass_with_warnings_beside_it() -> None:
    vote = vote_of(defect(1, stops=False), defect(2, stops=False))
    assert (vote.outcome, vote.said) == ("pass", "fail")
    passed = result_of_votes(WORKS, [vote], 1)
    raw_findings = findings_of(WORKS, passed)
    findings = name_findings(raw_findings, {finding: {"r"} for finding in raw_findings})
    outcomes = decide_rubrics([RUBRIC], [[passed]], findings, Waivers(TODAY))
    assert outcomes.rubrics[0].outcome == "pass"
    assert [(finding.level, finding.remark) for finding in outcomes.findings] == [
        ("warning", "answer"), ("warning", "answer"),
    ]  # fmt: skip


def test_a_remark_needs_no_waiver_and_no_second_look() -> None:
    failed = result_of_votes(WORKS, [vote_of(defect(1), defect(2, stops=False))], 1)
    raw_findings = findings_of(WORKS, failed)
    findings = name_findings(raw_findings, {finding: {"r"} for finding in raw_findings})
    (fail,) = find_rubric_open_fails(RUBRIC, [failed], findings, Waivers(TODAY))
    assert [line.line for line in fail.evidence] == [1]


RANKS = {"fail": 0, "abstain": 1, "pass": 2}
WORSE = ("remark", "refuted"), ("void", "voided"), ("counts",)
"""Standings from what weighs least to what weighs most."""


def weight_of(standing: str) -> int:
    return next(rank for rank, names in enumerate(WORSE) if standing in names)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_worse_defect_never_betters_its_vote_and_their_order_never_matters(count) -> None:
    for standings in itertools.product(KINDS, repeat=count):
        outcome = combine_standings(standings)
        assert combine_standings(reversed(standings)) == outcome
        assert counted_outcome(check_vote(vote_of(*map(KINDS.get, standings)))) == outcome
        for index, worse in itertools.product(range(count), KINDS):
            if weight_of(worse) >= weight_of(standings[index]):
                changed = [*standings[:index], worse, *standings[index + 1 :]]
                assert RANKS[combine_standings(changed)] <= RANKS[outcome]


def test_one_defect_that_is_refuted_leaves_the_other() -> None:
    vote = vote_of(defect(1, second_look=look("refuted")), defect(2))
    assert result_of_votes(WORKS, [vote], 1).outcome == "fail"
    both_change_defects = change_defects(vote, second_look=look("refuted"))
    assert result_of_votes(WORKS, [both_change_defects], 1).outcome == "pass"
    mixed = vote_of(defect(1, second_look=look("refuted")), defect())
    assert result_of_votes(WORKS, [mixed], 1).outcome != "pass", "one could not be shown"


OLD_DOCS = b"A path that is missing gives None.\n"
CHANGE = change(
    file_change("docs/load.md", OLD_DOCS, OLD_DOCS + b"Errors give None on purpose.\n"),
    added("tests/test_load.py", b"assert load('missing') is None\n"),
)


def quoted(path: str, line: int, **fields: object) -> CheckedEvidence:
    evidence = CheckedEvidence(
        path=path, line=line, end_line=line, quote="gives None on purpose", standing="holds"
    )
    return replace(evidence, **fields)


@pytest.mark.parametrize(
    ("evidence", "flaw"),
    [
        ([quoted("docs/load.md", 1)], ""),
        (
            [quoted("docs/load.md", 1), quoted("docs/load.md", 2)],
            "a quoted line came with the change",
        ),
        ([quoted("src/caller.py", 3)], ""),
        (
            [quoted("docs/load.md", 1, side="before")],
            "a quoted line is of the tree before the change",
        ),
        ([], "no evidence was given"),
        ([quoted("docs/load.md", 2)], "a quoted line came with the change"),
        ([quoted("tests/test_load.py", 1)], "a quoted line came with the change"),
        ([quoted("docs/load.md", 1, standing="void", why="not there")], "not there"),
        (
            [quoted("docs/load.md", 1, quote="}")],
            "the quotes are too short to say anything",
        ),
    ],
)
def test_an_excuse_that_came_with_the_change_intends_nothing(evidence, flaw) -> None:
    answer = replace(look("intended"), evidence=tuple(evidence))
    checked = check_look(answer, CHANGE)
    assert (checked.outcome == "intended") is (flaw == "")
    if flaw:
        assert checked.reason == f'Answered "intended", but {flaw}: so'
    failed = result_of_votes(WORKS, [vote_of(defect(1, second_look=checked))], 1)
    assert failed.outcome == ("fail" if flaw else "pass")


def test_whoever_accepts_one_of_two_defects_at_the_same_lines_accepts_no_other() -> None:
    def name_defects(*defects: Defect) -> dict[str, str]:
        findings = findings_of(WORKS, result_of_votes(WORKS, [vote_of(*defects)], 1))
        return {finding.raw.message: finding.fingerprint for finding in name_findings(findings, {})}

    zero, cents = defect(5, reason="divides by zero"), defect(5, reason="loses cents")
    both_defects = name_defects(zero, cents)
    assert len(set(both_defects.values())) == 2
    assert both_defects == name_defects(cents, zero)
    assert not set(both_defects.values()) & set(name_defects(zero).values())
    assert not set(both_defects.values()) & set(name_defects(cents).values())


def test_the_order_and_the_paths_of_quotes_are_of_the_name_as_they_should_be() -> None:
    def name_lines(*lines: CheckedEvidence) -> str:
        vote = vote_of(replace(defect(1), evidence=lines))
        findings = findings_of(WORKS, result_of_votes(WORKS, [vote], 1))
        return name_findings(findings, {})[0].fingerprint

    first, second = at(1, "a.py"), at(2, "b.py")
    assert name_lines(first, second) == name_lines(second, first)
    assert name_lines(first, second) != name_lines(first, replace(second, path="c.py"))


def test_an_answer_to_a_dispute_makes_no_remark() -> None:
    dispute = Dispute(argument="It is meant.", by="", run="run", question="", findings=())
    for answer in (look("intended"), look("stands", stops=False)):
        disputed = replace(answer, dispute=dispute)
        vote = vote_of(defect(1, second_look=disputed))
        assert result_of_votes(WORKS, [vote], 1).outcome == "fail"
