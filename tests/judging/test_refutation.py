"""What a second look changes, as tables: only a refutation whose evidence holds, and only a
fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import pytest
from fail_votes import change_defects, fail_vote
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.gate import Override, Waivers
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    LookOutcome,
    NamedFinding,
    Outcome,
    Proof,
    RawFinding,
    SecondLook,
    TrustBadge,
    Vote,
)
from vibe_gate.judging.brief import QuotedLine
from vibe_gate.judging.decide import decide_rubrics, find_rubric_open_fails
from vibe_gate.judging.defects import group_defects, judge_defect
from vibe_gate.judging.evidence import quote_in_tree
from vibe_gate.judging.findings import findings_of, name_findings
from vibe_gate.judging.vote_counting import combine_parts, result_of_votes

TODAY = date(2026, 3, 1)
NOBODY = Waivers(TODAY)
ASKED = Criterion(id="works", kind="judge", question="?", must=True)
SOFT = Criterion(id="tested", kind="judge", question="?")


def at(line: int, standing: str = "holds") -> CheckedEvidence:
    return CheckedEvidence(
        path="a.py", line=line, end_line=line, quote=f"x{line}", standing=standing
    )


def look(outcome: LookOutcome) -> SecondLook:
    return SecondLook(outcome=outcome, said=outcome, reason="a guard", evidence=(at(9),))


def vote(outcome: Outcome = "fail", *lines: int, look_at: LookOutcome | None = None) -> Vote:
    evidence = tuple(map(at, lines or (1,))) if outcome == "fail" else ()
    second_look = look(look_at) if look_at else UNSET
    if outcome != "fail":
        return Vote(outcome=outcome, said=outcome, reason=f"at {lines}")
    return fail_vote(f"at {lines}", *evidence, second_look=second_look)


def name_all(findings: Iterable[RawFinding]) -> tuple[NamedFinding, ...]:
    """With fingerprints, all of the rubric r."""
    findings = list(findings)
    return name_findings(findings, {finding: {"r"} for finding in findings})


def result(*votes: Vote, of: Criterion = ASKED) -> CriterionResult:
    return result_of_votes(of, votes, len(votes))


@pytest.mark.parametrize(
    ("looks", "outcome", "levels"),
    [
        (["refuted"], "pass", ["notice"]),
        (["stands"], "fail", ["failure"]),
        (["undecided"], "fail", ["failure"]),
        ([None], "fail", ["failure"]),
        (["refuted", "refuted"], "pass", ["notice", "notice"]),
        (["refuted", "stands"], "fail", ["notice", "failure"]),
        (["refuted", "refuted", "stands"], "fail", ["notice", "notice", "failure"]),
        (["refuted", None], "fail", ["notice", "failure"]),
    ],
)
def test_a_criterion_stays_failed_while_one_of_its_fails_stands(looks, outcome, levels):
    decided = result(
        *(
            vote("fail", line, look_at=second_look)
            for line, second_look in enumerate(looks, start=1)
        )
    )
    assert decided.outcome == outcome
    assert (decided.decided_by == "refuted") is (outcome != "fail")
    findings = findings_of(ASKED, decided)
    outcomes = decide_rubrics([ALONE], [[decided]], name_all(findings), NOBODY)
    assert [finding.level for finding in outcomes.findings] == levels
    assert [finding.message for finding in findings] == [
        cast_vote.reason for cast_vote in decided.votes
    ], "both sides stay to be told"


@pytest.mark.parametrize(
    ("other_votes", "outcome"),
    [
        ([("abstain", "abstain")], "abstain"),
        ([("error", None)], "error"),
        ([("abstain", None)], "abstain"),
        ([("pass", "pass"), ("not_applicable", "not_applicable")], "pass"),
    ],
)
def test_a_refutation_reveals_what_the_fail_outranked_and_makes_no_pass_of_it(other_votes, outcome):
    remaining_votes = [
        Vote(outcome=entry, said=said_outcome, reason="the rest")
        for entry, said_outcome in other_votes
    ]
    refuted = vote("fail", 1, look_at="refuted")
    combined = combine_parts([vote("fail", 1), *remaining_votes])
    assert combined.outranked == (
        UNSET if outcome == "pass" else "error" if remaining_votes[0].said is None else "abstain"
    )
    failed = result(combined)
    named_findings = name_all(findings_of(ASKED, failed))
    fails = find_rubric_open_fails(
        RUBRIC, [failed, result(vote("pass"), of=SOFT)], named_findings, NOBODY
    )
    assert bool(fails) is (outcome == "pass"), "a fail that stands for more could not become a pass"
    looked_at = result(change_defects(combined, second_look=refuted.defects[0].second_look))
    assert looked_at.outcome == ("pass" if combined.outranked is UNSET else combined.outranked)


def test_what_is_still_open_beside_refuted_fails_is_said():
    remaining_vote = Vote(outcome="abstain", said="abstain", reason="the rest")
    refuted = replace(vote("fail", 1, look_at="refuted"), outranked="abstain")
    decided = result(refuted, refuted, remaining_vote)
    assert (decided.outcome, decided.decided_by) == ("abstain", "refuted")
    assert decided.reason == "Raised and refuted: a guard Still open: the rest"


def test_of_two_parts_that_fail_each_defect_is_refuted_by_itself():
    combined = combine_parts([vote("fail", 1), vote("fail", 5)])
    assert combined.outranked is UNSET
    first, second = combined.defects
    refuted = replace(first, second_look=look("refuted"))
    assert result(replace(combined, defects=(refuted, second))).outcome == "fail"
    both_change_defects = change_defects(combined, second_look=look("refuted"))
    assert result(both_change_defects).outcome == "pass"


def test_a_defect_that_two_parts_name_is_one():
    combined = combine_parts([vote("fail", 1, 2), vote("fail", 2), vote("fail", 2, 3)])
    assert [[line.line for line in defect.evidence] for defect in combined.defects] == [
        [1, 2],
        [2, 3],
    ]


def test_a_defect_that_a_passing_test_voids_in_one_part_voids_none_of_another():
    voided = change_defects(vote("fail", 1), proof=Proof(status="void"))
    combined = combine_parts([vote("fail", 1), voided])
    assert sorted(map(judge_defect, combined.defects)) == ["counts", "voided"]


def test_a_vote_that_passes_or_abstains_needs_no_refutation():
    refuted = vote("fail", 1, look_at="refuted")
    decided = result(vote("pass"), refuted, refuted)
    assert (decided.outcome, decided.reason) == ("pass", "Raised and refuted: a guard")


@given(
    st.lists(
        st.sampled_from(["pass", "fail", "abstain", "not_applicable", "error"]),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.sampled_from(["stands", "refuted", "undecided", None]), min_size=5, max_size=5),
)
def test_a_second_look_raises_no_fail_and_changes_nothing_but_a_fail(outcomes, looks):
    before = result(*map(vote, outcomes))
    cast = [
        change_defects(cast_vote, second_look=look(look_outcome))
        if look_outcome and cast_vote.outcome == "fail" and before.outcome == "fail"
        else cast_vote
        for cast_vote, look_outcome in zip(before.votes, looks, strict=False)
    ]
    after = result(*cast)
    assert after.outcome == before.outcome or before.outcome == "fail"
    if after.outcome == "pass" and before.outcome == "fail":
        passing = [
            cast_vote for cast_vote in cast if cast_vote.outcome == "pass" or is_refuted(cast_vote)
        ]
        assert len(passing) > len(cast) / 2
        assert all(is_refuted(cast_vote) for cast_vote in cast if cast_vote.outcome == "fail")


def is_refuted(vote: Vote) -> bool:
    """Whether each defect of it is."""
    return bool(vote.defects) and all(defect.is_refuted for defect in vote.defects)


@pytest.mark.parametrize(("status", "looks"), [("proven", 1), ("shown", 2), ("could_not_run", 2)])
def test_a_proven_fail_needs_no_second_look_because_it_was_seen_to_happen(status, looks):
    tested = change_defects(vote("fail", 1), proof=Proof(status=status))
    failed = result(tested, vote("fail", 5))
    results = [failed, result(vote("pass"), of=SOFT)]
    fails = find_rubric_open_fails(RUBRIC, results, name_all(findings_of(ASKED, failed)), NOBODY)
    assert len(fails) == looks


def test_a_refuted_finding_keeps_the_fingerprint_that_it_would_have_as_a_failure():
    lines = [replace(at(line), quote="same") for line in (1, 2)]
    votes = [fail_vote("so", line) for line in lines]
    first, second = (entry.fingerprint for entry in name_all(findings_of(ASKED, result(*votes))))
    votes[0] = change_defects(votes[0], second_look=look("refuted"))
    decided = result(*votes)
    outcomes = decide_rubrics([ALONE], [[decided]], name_all(findings_of(ASKED, decided)), NOBODY)
    assert [(entry.fingerprint, entry.level) for entry in outcomes.findings] == [
        (first, "notice"),
        (second, "failure"),
    ]


@pytest.mark.parametrize(
    ("lines", "groups"),
    [
        ([(1,), (1,)], [2]),  # several votes that point at one place are one
        ([(1,), (2,)], [1, 1]),
        ([(1, 2), (2,)], [2]),
        ([(1, 2), (2, 3)], [1, 1]),  # one line in common may be in two defects
        ([(1,), (3,), (1, 3)], [2, 1]),
    ],
)
def test_votes_that_quote_the_same_are_looked_at_together(lines, groups):
    cast = [vote("fail", *line) for line in lines]
    defect_groups = group_defects([vote("pass"), *cast])
    assert [len(group.defects) for group in defect_groups] == groups


RUBRIC = Rubric(schema=1, id="r", pass_threshold=0.0, criterion=(ASKED, SOFT))
ALONE = Rubric(schema=1, id="r", criterion=(ASKED,))
ADVISES = TrustBadge(state="uncalibrated", sentence="", blocks=False)


def asked_lines(
    rubric: Rubric = RUBRIC, waivers: Waivers = NOBODY, *, advises: bool = False
) -> list[str]:
    """The criteria and lines that get a second look, where both criteria have failed: `works` at 1
    and 5.
    """
    results = [result(vote("fail", 1), vote("fail", 5)), result(vote("fail", 2), of=SOFT)]
    if advises:
        results[0] = replace(results[0], trust=ADVISES)
    named_findings = name_all(
        finding
        for pair in zip(rubric.criterion, results, strict=True)
        for finding in findings_of(*pair)
    )
    fails = find_rubric_open_fails(rubric, results, named_findings, waivers)
    return [f"{finding.criterion.id}:{finding.evidence[0].line}" for finding in fails]


def waived(*places: tuple[Criterion, int]) -> Waivers:
    def override(criterion: Criterion, line: int) -> Override:
        (identified,) = name_all(findings_of(criterion, result(vote("fail", line), of=criterion)))
        return Override(
            ts="", finding=identified.fingerprint, reason="ok", by="Ada", email="", expires=TODAY
        )

    return Waivers(TODAY, tuple(override(*place) for place in places))


def test_what_would_block_is_looked_at_again_or_nothing_as_the_rubric_says():
    assert asked_lines() == ["works:1", "works:5"]
    assert asked_lines(replace(RUBRIC, second_look="never")) == []
    assert asked_lines(replace(RUBRIC, pass_threshold=0.5)) == ["works:1", "works:5", "tested:2"], (
        "the score blocks, too"
    )


def test_a_criterion_that_only_advises_is_looked_at_as_if_it_would_block():
    assert asked_lines(advises=True) == ["works:1", "works:5"]


def test_what_people_let_pass_needs_no_second_look():
    assert asked_lines(waivers=waived((ASKED, 1))) == ["works:5"]
    assert asked_lines(waivers=waived((ASKED, 1), (ASKED, 5))) == []


@pytest.mark.parametrize(
    ("quote", "line", "content", "standing", "expected_line"),
    [
        ("    if path is None:", 2, b"def f(path):\n    if path is None:\n", "holds", 2),
        ("if path is None:", 7, b"def f(path):\n    if path is None:\n", "relocated", 2),
        ("if path == '':", 2, b"def f(path):\n    if path is None:\n", "void", 2),
        ("}", 9, b"{\n}\n", "void", 9),
        ("", 1, b"x\n", "void", 1),
        ("if path is None:", 1, None, "void", 1),
    ],
)
def test_a_line_of_a_tree_is_quoted_though_no_change_touches_it(
    quote, line, content, standing, expected_line
):
    checked = quote_in_tree(QuotedLine(path="b.py", line=line, quote=quote, side="after"), content)
    assert (checked.standing, checked.line) == (standing, expected_line)
    assert bool(checked.why) is (standing == "void")
    assert checked.side == "after"


def test_a_line_is_quoted_on_the_side_that_it_names():
    line = QuotedLine(path="b.py", line=1, quote="if path is None:", side="before")
    assert quote_in_tree(line, b"if path is None:\n").side == "before"
    assert quote_in_tree(replace(line, side=""), None).why == "there is no such file"
    assert quote_in_tree(line, b"x\n").why == "the quoted text is not in the file"


@pytest.mark.parametrize(
    ("quote", "standing"),
    [
        ("def f(path):\n    ...\n    if path is None:", "holds"),
        ("def f(path):\n…\n    if path is None:", "holds"),
        ("def f(path):\n⋮\n    if path is None:", "holds"),
        ("`if path is None:`", "relocated"),
        ("''", "void"),
        ("def f(path):\n    if path is None:", "holds"),
        ("def f(path):\n    if path == '':", "void"),
        ("    if path == '':\ndef f(path):", "void"),
        ("def f(path):\n    invented()\n    if path is None:", "void"),
    ],
)
def test_of_a_quote_over_several_lines_all_must_stand(quote, standing):
    content = b"def f(path):\n    if path is None:\n        return\n"
    checked = quote_in_tree(QuotedLine(path="b.py", line=1, quote=quote, side="after"), content)
    assert checked.standing == standing
