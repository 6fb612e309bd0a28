"""Waivers: what is let pass, what is not, and what stays visible."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.gate import Override, Suppression, Waivers
from vibe_gate.domain.provenance import agents_in
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import (
    MAX_FINDINGS,
    CriterionResult,
    FindingPlace,
    NamedFinding,
    RawFinding,
    TrustBadge,
)
from vibe_gate.gate.authorship import agent_behind
from vibe_gate.judging.decide import RubricOutcomes, all_findings_waived, decide_rubrics

TODAY = date(2026, 3, 1)
RUBRIC = Rubric(
    schema=1,
    id="r",
    criterion=tuple(
        Criterion(id=name, kind="check", check="no-secrets", must=name != "c") for name in "abc"
    ),
)


def finding(criterion: str, number: int = 1, path: str = "src/x.py") -> NamedFinding:
    name = f"{criterion}{number:03d}".ljust(16, "0")
    raw = RawFinding(
        path=path, line=1, end_line=1, level="failure", criterion=criterion, message="bad"
    )
    return NamedFinding(raw, name, ("r",))


def result(name: str, outcome: str) -> CriterionResult:
    return CriterionResult(
        id=name,
        kind="check",
        must=name != "c",
        weight=1,
        outcome=outcome,
        decided_by="check",
        reason="why",
    )


def override(target: NamedFinding | str, expires: date = TODAY) -> Override:
    name = target if isinstance(target, str) else target.fingerprint
    return Override(
        ts="", finding=name, reason="it | is", by="Ada <ada@x>", email="ada@x", expires=expires
    )


def decided(
    results: list[CriterionResult], findings: list[NamedFinding], waivers: Waivers
) -> RubricOutcomes:
    return decide_rubrics([RUBRIC], [results], findings, waivers)


def applied(
    outcomes, findings, *overrides: Override, suppressions: tuple[Suppression, ...] = ()
) -> RubricOutcomes:
    results = [result(name, outcome) for name, outcome in zip("abc", outcomes, strict=True)]
    return decided(results, findings, Waivers(TODAY, overrides, suppressions))


def test_without_waivers_a_failed_must_blocks_with_its_finding():
    without = applied(("fail", "pass", "pass"), [finding("a")])
    [blocking] = without.findings
    assert (blocking.level, blocking.message, blocking.fingerprint) == (
        "failure",
        "bad",
        finding("a").fingerprint,
    )
    assert (without.rubrics[0].outcome, without.effective_waivers) == ("fail", ())


def test_what_only_advised_and_is_waived_would_not_have_blocked():
    advises = TrustBadge(state="uncalibrated", sentence="", blocks=False)
    results = [replace(result(name, "fail"), trust=advises) for name in "abc"]
    findings = [finding(name) for name in "abc"]
    (unwaived,) = decided(results, findings, Waivers(TODAY)).rubrics
    assert [criterion.would_block for criterion in unwaived.criteria] == [True] * 3
    (rubric,) = decided(results, findings, Waivers(TODAY, (override(finding("a")),))).rubrics
    assert (rubric.outcome, [criterion.would_block for criterion in rubric.criteria]) == (
        "pass",
        [UNSET, True, True],
    )


def test_a_waived_must_leaves_the_arithmetic_and_stays_a_fail():
    waived = applied(("fail", "pass", "pass"), [finding("a")], override(finding("a")))
    (rubric,) = waived.rubrics
    assert (rubric.outcome, rubric.score, rubric.criteria[0].outcome) == ("pass", 1.0, "fail")
    assert rubric.criteria[0].reason == "why"
    [waived_finding] = waived.findings
    assert (waived_finding.level, waived_finding.message) == ("notice", finding("a").raw.message)
    assert waived_finding.waiver == "overridden by Ada <ada@x> until 2026-03-01: it | is"
    assert [waiver.finding for waiver in waived.effective_waivers] == [finding("a").fingerprint]


def test_all_findings_of_a_criterion_must_be_waived():
    two = [finding("a", 1), finding("a", 2)]
    assert applied(("fail", "pass", "pass"), two, override(two[0])).rubrics[0].outcome == "fail"
    assert applied(("fail", "pass", "pass"), two, *map(override, two)).rubrics[0].outcome == "pass"


def test_where_there_may_be_more_findings_than_are_kept_nothing_is_waived():
    many = [finding("a", number) for number in range(MAX_FINDINGS)]
    assert (
        applied(("fail", "pass", "pass"), many, *map(override, many)).rubrics[0].outcome == "fail"
    )
    assert (
        applied(("fail", "pass", "pass"), many[1:], *map(override, many)).rubrics[0].outcome
        == "pass"
    )


def test_a_waiver_of_what_did_not_fail_has_no_effect_on_the_receipt():
    waived = applied(("pass", "pass", "pass"), [finding("a")], override(finding("a")))
    assert (waived.effective_waivers, waived.findings[0].level) == ((), "notice")


@pytest.mark.parametrize(("expires", "outcome"), [(date(2026, 2, 28), "fail"), (TODAY, "pass")])
def test_a_waiver_holds_until_its_last_day(expires, outcome):
    waived = applied(("fail", "pass", "pass"), [finding("a")], override(finding("a"), expires))
    assert waived.rubrics[0].outcome == outcome


def test_what_is_not_waived_counts_as_before():
    applied_pair = applied(
        ("fail", "pass", "fail"), [finding("a"), finding("c")], override(finding("a"))
    )
    assert (applied_pair.rubrics[0].outcome, applied_pair.rubrics[0].score) == ("fail", 0.5)


def test_abstentions_and_errors_cannot_be_waived():
    for outcome in ("abstain", "error"):
        waived = applied((outcome, "pass", "pass"), [finding("a")], override(finding("a")))
        assert waived.rubrics == applied((outcome, "pass", "pass"), [finding("a")]).rubrics


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        ({"finding": "a001000000000000"}, True),
        ({"criterion": "a"}, True),
        ({"paths": ("src/**",)}, True),
        ({"paths": ("docs/**",)}, False),
        ({"criterion": "b", "paths": ("src/*.py",)}, False),
    ],
)
def test_a_suppression_covers_what_it_says(rule, covered):
    assert Suppression(reason="x", **rule).covers(finding("a")) is covered


@pytest.mark.parametrize(("other_file", "is_covered"), [("src/y.py", True), ("lib/y.py", False)])
def test_globs_cover_a_finding_only_if_all_its_places_are_in_such_files(other_file, is_covered):
    first = finding("a")
    places = (FindingPlace(path=other_file, line=3, end_line=3),)
    spread = NamedFinding(replace(first.raw, other_places=places), first.fingerprint, ("r",))
    assert Suppression(reason="x", paths=("src/**",)).covers(spread) is is_covered


def test_a_failed_check_that_is_waived_keeps_no_judge_from_being_asked():
    assert all_findings_waived("r", "a", [finding("a")], Waivers(TODAY, (override(finding("a")),)))
    assert not all_findings_waived(
        "r", "a", [finding("a"), finding("a", 2)], Waivers(TODAY, (override(finding("a")),))
    )
    assert not all_findings_waived("r", "a", [], Waivers(TODAY))


def test_the_gate_itself_is_waived_by_its_fingerprint_only():
    waivers = Waivers(TODAY, (override("policy-0123456789abcdef"),))
    assert waivers.of_policy("0123456789abcdef") is not None
    assert waivers.of_policy("0123456789abcdee") is None
    assert waivers.of_policy("") is None


@pytest.mark.parametrize(
    ("environ", "emails", "expected"),
    [
        ({}, ["ada@example.org"], ""),
        ({"CLAUDECODE": ""}, [], ""),
        ({"CLAUDECODE": "1"}, [], "CLAUDECODE is set"),
        ({}, ["x@y", "noreply@aider.chat"], "is Aider"),
        ({}, ["12345+Copilot@users.noreply.github.com"], "is Copilot"),
    ],
)
def test_an_agent_is_known_by_its_environment_or_address(environ, emails, expected):
    agent = agent_behind(agents_in(environ), emails)
    assert agent == expected if not expected else expected in agent
