"""The list of findings that a coding agent is handed: each once, whole, and what became of it."""

from __future__ import annotations

import pytest
import summaries
from fail_votes import fail_vote
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.summary import LeftAlone
from vibe_gate.domain.verdict import CheckedEvidence, FindingPlace, Proof, SecondLook, Vote
from vibe_gate.report.finding_list import (
    ListedFinding,
    ReviewedRound,
    fit_findings,
    list_findings,
    rounds_sentence,
)
from vibe_gate.report.html import render_verdict_page


def line(number: int, quote: str = "x = 1") -> CheckedEvidence:
    return CheckedEvidence(
        path="src/a.py", line=number, end_line=number, quote=quote, standing="holds"
    )


def listed_finding(name: str, number: int = 3, **fields):
    """A finding of the criterion `x` with the fingerprint `name`, sixteen times."""
    message = fields.pop("message", f"defect {name}")
    fields = {"basis": "inferred"} | fields
    return summaries.finding(
        message, number, criterion="x", fingerprint=name * 16, evidence=(line(number),), **fields
    )


def reviewed(number: int, *findings, outcome="fail", votes=()) -> ReviewedRound:
    criterion = summaries.criterion("x", outcome, kind="judge", votes=votes)
    rubric = summaries.rubric(criterion, outcome=outcome)
    return ReviewedRound(
        number=number, rubrics=(rubric,), findings=findings, questions={"x": "Is it right?"}
    )


def fail(reason: str, *numbers: int, counterexample: str = "1 -> 2", **fields) -> Vote:
    evidence = tuple(map(line, numbers))
    return fail_vote(reason, *evidence, counterexample=counterexample, **fields)


def states(findings: list[ListedFinding]) -> list[str]:
    return [f"{finding.fingerprint[0]} {finding.state_words}" for finding in findings]


def test_a_fail_that_quotes_several_lines_is_one_finding_with_several_places():
    vote = fail("defect a", 3, 9)
    other_places = (FindingPlace(path="src/a.py", line=9, end_line=9),)
    finding = listed_finding("a", 3, message="defect a", other_places=other_places)
    (listed,) = list_findings([reviewed(0, finding, votes=(vote,))])
    assert listed.lines() == [
        "[open] src/a.py:3: failure: defect a [x] [aaaaaaaa]",
        "   asked: Is it right?",
        "   also at: src/a.py:9",
        "   counterexample: 1 -> 2",
        "   src/a.py:3: x = 1",
        "   src/a.py:9: x = 1",
    ]


def test_what_a_check_finds_at_two_places_is_two_findings():
    findings = (
        listed_finding("a", 3, message="TODO", basis=UNSET),
        listed_finding("b", 9, message="TODO", basis=UNSET),
    )
    listed = list_findings([reviewed(0, *findings)])
    assert [finding.places for finding in listed] == [("src/a.py:3",), ("src/a.py:9",)]


def test_a_long_reason_and_counterexample_are_whole():
    reason, example = "why " * 200 + "END", "input " * 300 + "END"
    vote = fail(reason, 3, counterexample=example)
    message = f"{reason[:279]}…"
    (listed,) = list_findings([reviewed(0, listed_finding("a", message=message), votes=(vote,))])
    text = "\n".join(listed.lines())
    assert f"whole reason: {reason}" in text
    assert f"counterexample: {example}" in text


def test_what_a_second_look_traced_stands_with_the_finding():
    look = SecondLook(outcome="stands", said="stands", reason="It happens.", trace="one\ntwo")
    (listed,) = list_findings([reviewed(0, listed_finding("a", second_look=look))])
    assert listed.lines()[1:] == [
        "   Second look: stands. It happens.",
        "   what it traced in the code:",
        "      one",
        "      two",
        "   src/a.py:3: x = 1",
    ]


def test_what_a_second_look_says_of_a_counterexample_stands_directly_after_it():
    look = SecondLook(outcome="stands", said="stands", reason="With 2 it happens, not with 1.")
    votes = (fail("defect a", 3), fail("also this", 3, counterexample="3 -> 4"))
    (listed,) = list_findings([reviewed(0, listed_finding("a", second_look=look), votes=votes)])
    assert listed.lines()[2:6] == [
        "   counterexample: 1 -> 2",
        "   Second look: stands. With 2 it happens, not with 1.",
        "   another vote: also this",
        "   counterexample: 3 -> 4",
    ]


def test_a_failing_test_stands_with_what_obliges_the_code_and_what_it_printed():
    proof = Proof(
        status="proven",
        path="tests/test_counterexample_0.py",
        test="assert f(1)\n",
        output="E  assert 0\n1 failed\n",
        obligation=(line(1, "f gives 1"), replace(line(2, "f gives 2"), standing="void")),
    )
    (listed,) = list_findings([reviewed(0, listed_finding("a", proof=proof))])
    assert listed.lines()[2:] == [
        "   what obliges the code, src/a.py:1: f gives 1",
        "   this test fails; it ran as tests/test_counterexample_0.py, which is not among the files:",
        "      assert f(1)",
        "   the end of what it printed:",
        "      E  assert 0",
        "      1 failed",
    ]


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([reviewed(0, listed_finding("a"))], ["a open"]),
        (
            [reviewed(0, listed_finding("a")), reviewed(1, listed_finding("b"))],
            ["b new in round 1", "a repaired in round 1"],
        ),
        ([reviewed(0, listed_finding("a")), reviewed(1, listed_finding("a"))], ["a open"]),
        (
            [
                reviewed(0, listed_finding("a")),
                reviewed(1, listed_finding("b")),
                reviewed(2, listed_finding("b")),
            ],
            ["b open", "a repaired in round 1"],
        ),
        (
            [
                reviewed(0, listed_finding("a")),
                reviewed(1, outcome="pass"),
                reviewed(2, listed_finding("a")),
            ],
            ["a back after round 2"],
        ),
        ([reviewed(0, listed_finding("a")), reviewed(1, outcome="abstain")], ["a open"]),
        (
            [reviewed(0, listed_finding("a")), reviewed(1, listed_finding("a", waiver="let pass"))],
            [],
        ),
    ],
    ids=["first", "new", "still", "later", "back", "undecided", "waived"],
)
def test_a_finding_has_one_state_after_all_rounds(rounds, expected):
    assert states(list_findings(rounds)) == expected


def test_details_are_left_out_before_a_finding_is():
    votes = (fail("defect a", 3, counterexample="a" * 400), fail("defect b", 4))
    findings = list_findings(
        [reviewed(0, listed_finding("a"), listed_finding("b", 4), votes=votes)]
    )
    fitted = fit_findings(findings, 200, str)
    assert (len(fitted.lines), fitted.shortened, fitted.unlisted) == (2 + 3, 1, 0)
    assert fit_findings(findings, 60, str).unlisted == 1
    assert fit_findings(findings, 0, str).lines == ()


def test_the_rounds_of_a_repair_are_one_sentence():
    rounds = [
        reviewed(0, listed_finding("a"), listed_finding("c", 7)),
        reviewed(1, listed_finding("b")),
    ]
    assert rounds_sentence(list_findings(rounds), 1) == (
        "After 1 round of repair: 2 findings repaired, 1 open (src/a.py:3 new in round 1)."
    )


def test_a_page_tells_what_an_agent_left_alone():
    note = LeftAlone(node="fix", text="src/a.py:2 <b>never</b> closed")
    page = render_verdict_page(summaries.summary(left_alone=(note,)))
    assert "Seen and left alone" in page
    assert "src/a.py:2 &lt;b&gt;never&lt;/b&gt; closed" in page
