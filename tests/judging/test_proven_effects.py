"""What running a fail's test changes: effects on the rubric, levels of findings, and which fails
are proofs. Tables.
"""

from __future__ import annotations

from datetime import date

import pytest
from fail_votes import change_defects, fail_vote
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.cause import TimeUsedUp
from vibe_gate.domain.gate import Waivers
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CheckedEvidence, Outcome, Proof, ProofStatus, SecondLook, Vote
from vibe_gate.judging.decide import decide_rubrics
from vibe_gate.judging.findings import findings_of, name_findings
from vibe_gate.judging.rubric_tally import effect_of
from vibe_gate.judging.vote_counting import is_proven, pick_worst_result, result_of_votes

DEADLINE = TimeUsedUp(seconds=60)
PLAIN = Criterion(id="works", kind="judge", question="?")
MUST = replace(PLAIN, must=True)
PROVEN_ONLY = replace(MUST, proof="required")
LINE = CheckedEvidence(path="a.py", line=1, end_line=1, quote="x = 1", standing="holds")
INVENTED = replace(LINE, standing="void", why="not there")


def vote(
    outcome: Outcome,
    status: ProofStatus | None = None,
    obligation: tuple[CheckedEvidence, ...] = (),
) -> Vote:
    proof = Proof(status=status, obligation=obligation) if status else UNSET
    evidence = (LINE,) if outcome == "fail" else ()
    lines = (LINE,) if status else evidence
    return fail_vote("so", *lines, outcome=outcome, said=outcome, proof=proof)


@pytest.mark.parametrize(
    ("criterion", "cast", "effect"),
    [
        (MUST, vote("fail"), "stops"),
        (MUST, vote("fail", "shown"), "stops"),
        (PROVEN_ONLY, vote("fail"), "none"),
        (PROVEN_ONLY, vote("fail", "shown"), "none"),
        (PROVEN_ONLY, vote("fail", "proven"), "stops"),
        (PROVEN_ONLY, vote("pass"), "raises"),
        # A test that passed voids its fail: code under review can make any test pass.
        (PLAIN, vote("abstain"), "undecided"),
        (PLAIN, vote("abstain", "void"), "doubts"),
        (PLAIN, vote("abstain", "flaky"), "undecided"),
        (PLAIN, vote("error", "void"), "undecided"),
        (replace(PROVEN_ONLY, must=False), vote("abstain", "void"), "undecided"),
        (replace(PROVEN_ONLY, must=False), vote("abstain", "void", (INVENTED,)), "undecided"),
        (replace(PROVEN_ONLY, must=False), vote("abstain", "void", (INVENTED, LINE)), "doubts"),
        (MUST, vote("abstain", "void"), "leaves open"),
    ],
)
def test_what_a_fails_test_makes_of_its_criterion(
    criterion: Criterion, cast: Vote, effect: str
) -> None:
    assert effect_of(criterion, result_of_votes(criterion, [cast], 1)) == effect


@pytest.mark.parametrize(
    ("votes", "proven"),
    [
        ([vote("fail", "proven")], True),
        ([vote("fail", "shown"), vote("fail", "proven")], True),
        ([vote("fail", "shown"), vote("fail")], False),
        ([vote("abstain", "proven"), vote("fail", "void")], False),
        ([], False),
    ],
)
def test_one_proof_proves_a_criterion(votes: list[Vote], proven: bool) -> None:
    assert is_proven(result_of_votes(MUST, votes, max(len(votes), 1))) is proven


@pytest.mark.parametrize(
    ("criterion", "status", "level"),
    [
        (MUST, None, "failure"),
        (PROVEN_ONLY, "proven", "failure"),
        (PLAIN, None, "warning"),
        (replace(PLAIN, weight=0.1), "proven", "warning"),
    ],
)
def test_a_finding_is_a_failure_where_its_fail_blocks(criterion, status, level) -> None:
    other = Criterion(id="other", kind="judge", question="?", weight=9)
    rubric = Rubric(schema=1, id="r", criterion=(criterion, other))
    results = [
        result_of_votes(criterion, [vote("fail", status)], 1),
        result_of_votes(other, [vote("pass")], 1),
    ]
    raw_findings = findings_of(criterion, results[0])
    findings = name_findings(raw_findings, {finding: {"r"} for finding in raw_findings})
    outcomes = decide_rubrics([rubric], [results], findings, Waivers(date(2026, 3, 1)))
    assert [finding.level for finding in outcomes.findings] == [level]


@pytest.mark.parametrize(("other_id", "rubric_ids"), [("works", ("r",)), ("other", UNSET)])
def test_a_finding_names_its_rubric_where_two_rubrics_have_a_criterion_of_that_name(
    other_id, rubric_ids
) -> None:
    rubrics = [
        Rubric(schema=1, id="r", criterion=(MUST,)),
        Rubric(schema=1, id="s", criterion=(replace(MUST, id=other_id),)),
    ]
    results = [
        [result_of_votes(MUST, [vote("fail")], 1)],
        [result_of_votes(rubrics[1].criterion[0], [vote("pass")], 1)],
    ]
    raw_findings = findings_of(MUST, results[0][0])
    findings = name_findings(raw_findings, {finding: {"r"} for finding in raw_findings})
    (finding,) = decide_rubrics(rubrics, results, findings, Waivers(date(2026, 3, 1))).findings
    assert finding.rubrics == rubric_ids


def refuted() -> Vote:
    look = SecondLook(outcome="refuted", said="refuted", reason="a guard", evidence=(LINE,))
    return change_defects(vote("fail"), second_look=look)


@pytest.mark.parametrize(
    ("votes", "decided_by", "reason"),
    [
        ([vote("fail"), vote("fail")], "unanimous", "so"),
        ([vote("fail"), vote("fail"), vote("pass")], "majority", "so"),
        ([], "none", DEADLINE.reason),
        ([refuted()], "refuted", "Raised and refuted: a guard"),
        (
            [refuted(), refuted(), replace(vote("abstain"), reason="which?")],
            "refuted",
            "Raised and refuted: a guard",
        ),
    ],
)
def test_a_result_says_how_it_came_about(votes: list[Vote], decided_by: str, reason: str) -> None:
    result = result_of_votes(MUST, votes, max(len(votes), 1), DEADLINE)
    assert (result.decided_by, result.reason) == (decided_by, reason)


def test_of_two_equal_results_the_refuted_one_is_told() -> None:
    passed, raised = result_of_votes(MUST, [vote("pass")], 1), result_of_votes(MUST, [refuted()], 1)
    for order in ([passed, raised], [raised, passed]):
        assert pick_worst_result(order).decided_by == "refuted"
        assert len(pick_worst_result(order).votes) == 2
