"""What a review points at, in which order, and the names that findings keep from run to run."""

from __future__ import annotations

import pytest
from fail_votes import fail_vote
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Level,
    Outcome,
    RawFinding,
    Vote,
    whole_change_finding,
)
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.policy import PolicyFile, PolicyImpact
from vibe_gate.judging.findings import (
    collect_findings,
    findings_of,
    name_findings,
    order_findings,
    policy_approval,
)


def at(line: int, standing: str = "holds", path: str = "a.py") -> CheckedEvidence:
    return CheckedEvidence(
        path=path, line=line, end_line=line + 1, quote=f"line {line}", standing=standing
    )


def vote(outcome: Outcome, *evidence: CheckedEvidence, reason: str = "r") -> Vote:
    return fail_vote(reason, *evidence, outcome=outcome)


def result(
    outcome: Outcome, *votes: Vote, must: bool = False, name: str = "c", reason: str = "why"
) -> CriterionResult:
    return CriterionResult(
        id=name,
        kind="judge",
        must=must,
        weight=1,
        outcome=outcome,
        decided_by="majority",
        votes=votes,
        reason=reason,
    )


@pytest.mark.parametrize(
    ("outcome", "votes", "places"),
    [
        ("fail", [vote("fail", at(3), at(9, "relocated"))], [("a.py", 3, "r")]),
        ("fail", [vote("fail", at(3), at(9, "void"))], [("a.py", 3, "r")]),
        ("fail", [vote("fail", at(3)), vote("pass", at(5))], [("a.py", 3, "r")]),
        ("fail", [vote("fail", at(3)), vote("abstain", at(5))], [("a.py", 3, "r")]),
        # What several votes say of one place is said once, with the words of the first.
        ("fail", [vote("fail", at(9)), vote("fail", at(3), at(9), reason="s")], [("a.py", 9, "r")]),
        ("fail", [vote("fail", at(3), at(3, path="b.py"))], [("a.py", 3, "r")]),
        ("fail", [vote("fail", at(3), reason="")], [("a.py", 3, "The answer gives no reason.")]),
        # Without a place it is about the change.
        ("fail", [vote("fail", at(3, "void"))], [("", 0, "why")]),
        ("fail", [], [("", 0, "why")]),
        ("abstain", [vote("fail", at(3))], []),
        ("pass", [vote("fail", at(3))], []),
    ],
)
@pytest.mark.parametrize(("must", "level"), [(True, "failure"), (False, "warning")])
def test_a_failed_criterion_points_at_evidence_that_stands_or_at_the_change(
    outcome, votes, places, must, level
):
    criterion = Criterion(id="c", kind="judge", question="?", must=must)
    findings = findings_of(criterion, result(outcome, *votes, must=must))
    assert [
        (raw_finding.path, raw_finding.line, raw_finding.message) for raw_finding in findings
    ] == places
    assert {(raw_finding.criterion, raw_finding.level) for raw_finding in findings} <= {
        ("c", level)
    }
    assert all(
        raw_finding.end_line == raw_finding.line + bool(raw_finding.line)
        for raw_finding in findings
    )
    for raw_finding in findings:
        lines = [quoted.line for quoted in raw_finding.evidence]
        assert (
            lines
            == [raw_finding.line, *(place.line for place in raw_finding.other_places)][: len(lines)]
        )


def test_a_failed_check_has_findings_of_its_own():
    criterion = Criterion(id="c", kind="check", check="no-secrets")
    assert findings_of(criterion, result("fail", vote("fail", at(3)))) == []


def test_a_failure_without_a_reason_says_so():
    assert whole_change_finding(result("fail", reason="")).message == "Failed without a reason."


def finding(
    path: str = "a.py", line: int = 1, level: Level = "failure", criterion: str = "c", message: str = "m", *quotes: str,
    distinction: str = "",
) -> RawFinding:  # fmt: skip
    evidence = tuple(
        CheckedEvidence(path=path, line=line, end_line=line, quote=quote, standing="holds")
        for quote in quotes
    )
    return RawFinding(
        path=path, line=line, end_line=line, level=level, criterion=criterion, message=message, evidence=evidence,
        distinction=distinction,
    )  # fmt: skip


def test_failures_come_first_then_what_stands_earlier():
    rows = [
        ("b", 1, "notice"),
        ("a", 9, "warning"),
        ("b", 2, "failure"),
        ("a", 3, "warning"),
        ("b", 1, "failure"),
    ]
    sorted_ = [
        ("b", 1, "failure"),
        ("b", 2, "failure"),
        ("a", 3, "warning"),
        ("a", 9, "warning"),
        ("b", 1, "notice"),
    ]
    assert [
        (order_finding.path, order_finding.line, order_finding.level)
        for order_finding in order_findings(finding(*row) for row in rows)
    ] == sorted_


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"line": 7}, True),
        ({"level": "notice"}, True),
        ({"message": "other words"}, True),  # whoever makes the finding says what tells it apart
        ({"quotes": ("x  =\t1",)}, True),
        ({"quotes": ("x = 2",)}, False),
        ({"quotes": ("x = 1", "y")}, False),
        ({"path": "b.py"}, False),
        ({"criterion": "d"}, False),
        ({"distinction": "told apart"}, False),
    ],
)
def test_a_fingerprint_is_made_of_criterion_path_and_quote(changes, is_same):
    def fingerprint(
        path="a.py",
        line=1,
        level="failure",
        criterion="c",
        message="m",
        quotes=("x = 1",),
        distinction="asked",
    ):
        return name_findings(
            [finding(path, line, level, criterion, message, *quotes, distinction=distinction)], {}
        )[0].fingerprint

    assert (fingerprint(**changes) == fingerprint()) is is_same


FINGERPRINTS = [
    (finding("a.py", 1, "failure", "c", "m", "x = 1", distinction="why"), "91cdefe397151401"),
    (finding("a.py", 5, "failure", "c", "m", "x = 1", distinction="why"), "98f6f60f34820cb8"),
    (finding("a.py", 5, "failure", "c", "m", "x = 1"), "8d6c9e98f80acfdd"),
    (finding("a.py", 5, "failure", "c", "says this"), "f35f948386201aec"),
    (finding("", 0, "failure", "c", "says this"), "0874d0ee0b71fc62"),
    (finding("a.py", 5, "failure", "c", "m", "x = 1", "y  =\t2"), "83ab0958d26c7866"),
]


def test_fingerprints_stay_as_they_are():
    """Waivers, rounds of a pull request and code scanning know findings by them. The second is told
    from the first.
    """
    findings = name_findings([finding for finding, _ in FINGERPRINTS], {})
    assert [finding.fingerprint for finding in findings] == [
        expected for _, expected in FINGERPRINTS
    ]
    assert [finding.raw for finding in findings] == [finding for finding, _ in FINGERPRINTS]


JUDGED = Criterion(id="c", kind="judge", question="Is every error logged?")


def judged_fingerprint(
    reason: str = "r", criterion: Criterion = JUDGED, line: int = 3, *evidence: CheckedEvidence
):
    failed = result("fail", vote("fail", *(evidence or (at(line),)), reason=reason))
    [identified] = name_findings(findings_of(criterion, failed), {})
    return identified.fingerprint


def test_a_judged_finding_keeps_its_fingerprint_in_other_words():
    assert judged_fingerprint() == judged_fingerprint("the same defect, worded anew")
    moved = replace(at(3), line=90, end_line=91)
    assert judged_fingerprint() == judged_fingerprint("r", JUDGED, 3, moved)


def test_another_question_of_the_same_criterion_id_has_findings_of_its_own():
    other = replace(JUDGED, question="Is no input passed to a shell?")
    assert judged_fingerprint() != judged_fingerprint(criterion=other)
    assert judged_fingerprint() == judged_fingerprint(
        criterion=replace(JUDGED, question="Is every  error\nlogged?")
    )


def test_what_is_said_of_the_change_as_a_whole_is_told_apart_by_its_words():
    def about_change(reason: str) -> str:
        [identified] = name_findings(findings_of(JUDGED, result("fail", reason=reason)), {})
        return identified.fingerprint

    assert about_change("no test") != about_change("no documentation")


def file(path: str) -> FileDiff:
    return FileDiff(path, None, "modified", None, None, False, 1, 1, ())


def test_an_approval_of_the_gate_is_a_notice_about_the_whole_change():
    approval = Waiver(finding="policy-", reason="\n agreed", by="ada", expires=None)
    notice = policy_approval(approval)
    assert (notice.path, notice.line, notice.level, notice.criterion) == ("", 0, "notice", "policy")
    assert (notice.message, notice.waiver, notice.allowed_by) == (
        "approved by ada: agreed",
        UNSET,
        approval,
    )


def test_all_findings_are_those_of_checks_judges_and_of_files_that_steer_agents():
    names = {"a": "check", "b": "judge", "c": "judge"}
    rubric = Rubric(
        schema=1,
        id="r",
        criterion=tuple(
            Criterion(id=name, kind="judge", question="?", must=name == "b")
            if kind == "judge"
            else Criterion(id=name, kind="check", check="no-secrets", must=True)
            for name, kind in names.items()
        ),
    )
    results = [
        result("fail", name="a"),
        result("fail", name="b"),
        result("fail", vote("fail", at(2)), name="c"),
    ]
    checks = CheckResults({("r", "a"): results[0]}, (finding("z.py", 4, "failure", "a"),))
    steers = [
        PolicyFile(file("AGENTS.md"), "warn"),
        PolicyFile(file("CLAUDE.md"), "warn", adopted=True),
    ]
    impact = PolicyImpact((PolicyFile(file(".vibe-gate/gate.toml"), "block"), *steers))
    raw_findings = [
        identified.raw for identified in collect_findings([rubric], [results], checks, impact)
    ]
    assert [(raw.path, raw.line, raw.level, raw.criterion) for raw in raw_findings] == [
        ("z.py", 4, "failure", "a"),
        ("", 0, "warning", "b"),
        ("AGENTS.md", 0, "warning", "policy"),
        ("a.py", 2, "warning", "c"),
    ]
