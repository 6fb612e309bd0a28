"""From answers to the verdict of a run, as tables."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from fail_votes import fail_vote
from msgspec.structs import replace

from vibe_gate.checks import CheckResults
from vibe_gate.context.facts import Facts
from vibe_gate.context.mode import HookMode
from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.cause import (
    BudgetReached,
    CheckFails,
    CommitsReviewed,
    NoJudge,
    NoKey,
    NoQuestion,
    NotByAgent,
    PassedInRun,
)
from vibe_gate.domain.change import Change, FileDiff, Selection
from vibe_gate.domain.gate import Gate, GateFile, Override, Waivers
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import AgentAuthored
from vibe_gate.domain.verdict import CheckedEvidence, CriterionResult, Outcome, RawFinding, Vote
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.policy import PolicyFile, PolicyImpact
from vibe_gate.judging.answers import Answers, blocking_check, without_asking
from vibe_gate.judging.cast_vote import RubricVotes
from vibe_gate.judging.counted_answers import count_answers
from vibe_gate.judging.findings import name_findings
from vibe_gate.judging.run_verdict import RunVerdict, passes_by_checks, verdict_of
from vibe_gate.report import queries

TODAY = date(2026, 3, 1)
NOBODY = Waivers(TODAY)
CLEAN = PolicyImpact(())


def file(path: str) -> FileDiff:
    return FileDiff(path, None, "modified", None, None, False, 1, 1, ())


CHANGE = Change("commit", "before", "after", "base", "head", "", "", (file("src/a.py"),))


def rubric(
    *judged: str, name: str = "r", must: bool = True, votes: int = 1, **fields: Any
) -> Rubric:
    """A check `secrets`, and judge criteria with these names."""
    check = Criterion(id="secrets", kind="check", check="no-secrets", must=must)
    criteria = (
        Criterion(id=name_of_judge, kind="judge", question="?", must=must, **fields)
        for name_of_judge in judged
    )
    return Rubric(schema=1, id=name, votes=votes, criterion=(check, *criteria))


def checked(
    outcome: Outcome, name: str = "r", *findings: RawFinding, must: bool = True
) -> CheckResults:
    result = CriterionResult(
        id="secrets",
        kind="check",
        must=must,
        weight=1,
        outcome=outcome,
        decided_by="check",
        reason=f"checked: {name}",
    )
    return CheckResults({(name, "secrets"): result}, findings, dict.fromkeys(findings, (name,)))


def cast_rubric_votes(*outcomes: Outcome, stopped: str = "") -> RubricVotes:
    """The answers of a conversation about the criterion `clear`."""
    evidence = (
        CheckedEvidence(path="src/a.py", line=4, end_line=4, quote="pass", standing="holds"),
    )
    votes = tuple(
        fail_vote(f"so {outcome}", *evidence, outcome=outcome, said=outcome) for outcome in outcomes
    )
    return RubricVotes(by_criterion={"clear": votes}, stopped=stopped)


def answered(*conversations: RubricVotes, **fields: Any) -> Answers:
    return Answers(by_rubric={"r": conversations}, **{"asked": frozenset("r")} | fields)


def facts_of(rubrics: tuple[Rubric, ...], *, by_agent: bool = False) -> Facts:
    gate = Gate(GateFile(schema=1), rubrics, "trusted", "")
    return Facts(CHANGE, gate, rubrics, (), AgentAuthored(decision=by_agent))


def verdict(
    answers: Answers, of: Rubric | None = None, checks: CheckResults | None = None, waivers: Waivers = NOBODY,
    impact: PolicyImpact = CLEAN, *, intact: bool = True,
) -> RunVerdict:  # fmt: skip
    rubrics = (of or rubric("clear"),)
    counted = count_answers(facts_of(rubrics), impact, checks or checked("pass"), answers)
    return verdict_of(counted, waivers, () if intact else ("src/a.py",))


BUDGET = BudgetReached(limit_usd=1)
UNASKED = Answers(unasked=NoKey())
CHOSEN = Answers(unasked=NoJudge(), chosen=True)
REUSED = Answers(unasked=PassedInRun(run=7), chosen=True, reused={"r": 0.8})


@pytest.mark.parametrize(
    ("answers", "outcome", "decided_by", "reason"),
    [
        (answered(cast_rubric_votes("pass")), "pass", "unanimous", "so pass"),
        (answered(cast_rubric_votes("fail")), "fail", "unanimous", "so fail"),
        (answered(cast_rubric_votes("pass"), asked=frozenset()), "pass", "cache", "so pass"),
        # Asked with and without the message: the worse answer.
        (
            answered(cast_rubric_votes("pass"), cast_rubric_votes("fail")),
            "fail",
            "unanimous",
            "so fail",
        ),
        (
            answered(cast_rubric_votes("fail"), cast_rubric_votes("pass")),
            "fail",
            "unanimous",
            "so fail",
        ),
        (answered(cast_rubric_votes(stopped=BUDGET)), "abstain", "none", BUDGET.reason),
        (answered(RubricVotes(by_criterion={}, stopped=BUDGET)), "abstain", "none", BUDGET.reason),
        (UNASKED, "abstain", "none", "not asked: no API key"),
        (CHOSEN, "not_applicable", "none", "not asked: --no-judge"),
        (REUSED, "not_applicable", "cache", "passed in run 7; not asked again"),
        # What was answered about another rubric only.
        (
            Answers(by_rubric={"other": (cast_rubric_votes("fail"),)}, unasked=NoKey()),
            "abstain",
            "none",
            "not asked: no API key",
        ),
    ],
)
def test_a_judged_criterion_is_what_was_answered_about_it(answers, outcome, decided_by, reason):
    check, judged = verdict(answers).rubrics[0].criteria
    assert (check.outcome, check.decided_by, check.reason) == ("pass", "check", "checked: r")
    assert (judged.id, judged.kind, judged.must, judged.weight) == ("clear", "judge", True, 1)
    assert (judged.outcome, judged.decided_by, judged.reason) == (outcome, decided_by, reason)


def test_a_rubric_with_three_votes_needs_two_that_agree():
    criterion = (
        verdict(answered(cast_rubric_votes("pass", "fail")), rubric("clear", votes=3))
        .rubrics[0]
        .criteria[1]
    )
    assert (criterion.outcome, criterion.decided_by) == ("abstain", "majority")


def test_a_criterion_that_no_changed_file_concerns_is_not_applicable_whatever_was_answered():
    judged = (
        verdict(answered(cast_rubric_votes("fail")), rubric("clear", paths=("docs/**",)))
        .rubrics[0]
        .criteria[1]
    )
    assert (judged.outcome, judged.decided_by) == ("not_applicable", "none")
    assert judged.reason == "no changed file matches its paths"


@pytest.mark.parametrize(
    ("check", "score", "outcome"),
    [("pass", 0.8, "pass"), ("fail", 0.0, "fail"), ("error", 0.0, "error")],
)
def test_a_pass_taken_from_a_receipt_has_the_score_of_then_and_no_other_outcome_has(
    check, score, outcome
):
    result = verdict(REUSED, checks=checked(check)).rubrics[0]
    assert (result.score, result.outcome) == (score, outcome)
    assert verdict(CHOSEN).rubrics[0].score == 1.0


@pytest.mark.parametrize(
    ("check", "answers", "intact", "outcome", "code"),
    [
        ("pass", answered(cast_rubric_votes("pass")), True, "pass", 0),
        ("pass", answered(cast_rubric_votes("fail")), True, "fail", 1),
        ("fail", UNASKED, True, "fail", 1),
        ("pass", UNASKED, True, "inconclusive", 3),
        ("pass", CHOSEN, True, "pass", 0),
        ("error", answered(cast_rubric_votes("pass")), True, "error", 3),
        ("pass", answered(cast_rubric_votes("pass")), False, "error", 5),
        ("pass", answered(cast_rubric_votes("fail")), False, "error", 5),
    ],
)
def test_the_run_comes_out_as_its_rubrics_do_if_what_was_reviewed_is_still_there(
    check, answers, intact, outcome, code
):
    run_verdict = verdict(answers, checks=checked(check), intact=intact)
    assert (run_verdict.outcome, run_verdict.exit_code, run_verdict.intact) == (
        outcome,
        code,
        intact,
    )


BLOCKS = PolicyFile(file(".vibe-gate/gate.toml"), "block")
STEERS = PolicyFile(file("AGENTS.md"), "warn")
APPROVAL = Waiver(finding="policy-", reason="agreed", by="ada", expires=None)


def override(name: str) -> Override:
    return Override(
        ts="", finding=name, reason="meant", by="Ada <ada@x>", email="ada@x", expires=TODAY
    )


@pytest.mark.parametrize(
    ("impact", "waivers", "answers", "code", "messages"),
    [
        (PolicyImpact((STEERS,)), NOBODY, "pass", 0, ["Can change what AI agents do"]),
        (PolicyImpact((BLOCKS,)), NOBODY, "pass", 4, []),
        (PolicyImpact((BLOCKS,)), NOBODY, "fail", 1, ["so fail"]),
        (PolicyImpact((), first_gate=True), NOBODY, "pass", 4, []),
        (
            PolicyImpact((BLOCKS,)),
            Waivers(TODAY, approval=APPROVAL),
            "pass",
            0,
            ["approved by ada: agreed"],
        ),
        (
            PolicyImpact((BLOCKS, STEERS)),
            Waivers(TODAY, (override(f"policy-{PolicyImpact((BLOCKS,)).fingerprint}"),)),
            "pass",
            0,
            ["Can change what AI agents do", "overridden by Ada <ada@x> until 2026-03-01: meant"],
        ),
        (
            PolicyImpact((BLOCKS,)),
            Waivers(TODAY, (override("policy-0123456789abcdef"),)),
            "pass",
            4,
            [],
        ),
    ],
)
def test_a_change_of_the_gate_needs_the_word_of_a_person(impact, waivers, answers, code, messages):
    run_verdict = verdict(answered(cast_rubric_votes(answers)), waivers=waivers, impact=impact)
    assert (run_verdict.exit_code, run_verdict.needs_approval) == (
        code,
        bool(impact.needs_approval and code in (1, 4)),
    )
    assert [
        finding.message[: len(text)]
        for finding, text in zip(run_verdict.findings, messages, strict=True)
    ] == messages
    assert len(run_verdict.waivers) == sum("by" in text for text in messages)


def test_findings_have_names_levels_and_an_order_and_what_is_waived_no_longer_blocks():
    judged = rubric("clear")
    plain = verdict(answered(cast_rubric_votes("fail")), judged)
    (finding,) = plain.findings
    assert (finding.level, finding.path, finding.line, len(finding.fingerprint)) == (
        "failure",
        "src/a.py",
        4,
        16,
    )
    waived = verdict(
        answered(cast_rubric_votes("fail")),
        judged,
        waivers=Waivers(TODAY, (override(finding.fingerprint),)),
    )
    assert (waived.outcome, waived.findings[0].level) == ("pass", "notice")
    assert [waiver.finding for waiver in waived.waivers] == [finding.fingerprint]
    assert waived.rubrics[0].criteria[1].outcome == "fail"
    sentence = f"{finding.fingerprint}: overridden by Ada <ada@x> until 2026-03-01: meant"
    assert (plain.notes, waived.notes) == ((), (sentence,))


def test_of_two_rubrics_that_share_a_criterion_id_each_has_its_own_level():
    """In `a` the criterion is a must; in `b` it is one of eleven weights, and b passes."""

    def rubric_of(name: str, *, must: bool) -> Rubric:
        calm = Criterion(id="calm", kind="judge", question="?", weight=10)
        return Rubric(
            schema=1,
            id=name,
            criterion=(
                Criterion(id="clear", kind="judge", question=f"In {name}?", must=must),
                calm,
            ),
        )

    def voted(line: int) -> tuple[RubricVotes]:
        evidence = (
            CheckedEvidence(path="src/a.py", line=line, end_line=line, quote="x", standing="holds"),
        )
        cast = (fail_vote("so", *evidence),)
        return (
            RubricVotes(
                by_criterion={
                    "clear": cast,
                    "calm": (Vote(outcome="pass", said="pass", reason="so"),),
                }
            ),
        )

    answers = Answers(by_rubric={"a": voted(1), "b": voted(2)}, asked=frozenset("ab"))
    facts = facts_of((rubric_of("a", must=True), rubric_of("b", must=False)))
    counted = count_answers(facts, CLEAN, CheckResults({}, ()), answers)
    run_verdict = verdict_of(counted, NOBODY, ())
    assert [rubric.outcome for rubric in run_verdict.rubrics] == ["fail", "pass"]
    assert [(finding.line, finding.level) for finding in run_verdict.findings] == [
        (1, "failure"),
        (2, "warning"),
    ]
    assert [finding.rubrics for finding in run_verdict.findings] == [("a",), ("b",)]
    let_pass = Waivers(TODAY, (override(run_verdict.findings[0].fingerprint),))
    waived = verdict_of(counted, let_pass, ())
    assert (waived.outcome, [rubric.score for rubric in waived.rubrics]) == (
        "pass",
        [1.0, run_verdict.rubrics[1].score],
    )
    assert [bool(finding.waiver) for finding in waived.findings] == [False, True]
    are_waived = [
        queries.is_waived(rubric.id, "clear", waived.findings) for rubric in waived.rubrics
    ]
    assert are_waived == [True, False]


def test_of_two_rubrics_that_share_the_id_of_a_check_a_waiver_of_the_ones_findings_keeps_the_other_blocking():
    first, second = (
        checked("fail", "r", FOUND),
        checked("fail", "s", replace(FOUND, line=9, message="other")),
    )
    findings, raised_by = first.findings + second.findings, {**first.raised_by, **second.raised_by}
    both_check_results = CheckResults(first.results | second.results, findings, raised_by)
    assert (
        blocking_check(both_check_results, Waivers(TODAY, (override(NAMED.fingerprint),)))
        == "secrets"
    )
    alone = CheckResults(first.results, findings, raised_by)
    assert blocking_check(alone, Waivers(TODAY, (override(NAMED.fingerprint),))) is None


def test_a_waived_finding_stands_behind_those_that_block():
    two = RawFinding(
        path="src/a.py", line=1, end_line=1, level="failure", criterion="secrets", message="first"
    )
    checks = checked("fail", "r", two)
    blocked = verdict(answered(cast_rubric_votes("fail")), checks=checks)
    assert [finding.message for finding in blocked.findings] == ["first", "so fail"]
    waived = verdict(
        answered(cast_rubric_votes("fail")),
        checks=checks,
        waivers=Waivers(TODAY, (override(blocked.findings[0].fingerprint),)),
    )
    assert [(finding.level, finding.criterion) for finding in waived.findings] == [
        ("failure", "clear"),
        ("notice", "secrets"),
    ]


@pytest.mark.parametrize(
    ("check", "passes"),
    [("pass", True), ("not_applicable", True), ("fail", False), ("error", False)],
)
def test_answers_are_taken_over_only_where_the_checks_pass_by_themselves(check, passes):
    assert passes_by_checks(rubric("clear"), facts_of(()), checked(check)) is passes


FOUND = RawFinding(
    path="src/a.py", line=1, end_line=1, level="failure", criterion="secrets", message="found"
)
(NAMED,) = name_findings([FOUND], {})


@pytest.mark.parametrize(
    ("checks", "waivers", "blocking"),
    [
        (checked("fail", "r", FOUND), NOBODY, "secrets"),
        (checked("fail", "r", FOUND), Waivers(TODAY, (override(NAMED.fingerprint),)), None),
        (
            checked("fail", "r", FOUND, FOUND),
            Waivers(TODAY, (override(NAMED.fingerprint),)),
            "secrets",
        ),
        (checked("fail"), Waivers(TODAY, (override(NAMED.fingerprint),)), "secrets"),
        (checked("fail", "r", FOUND, must=False), NOBODY, None),
        (checked("error", "r", FOUND), NOBODY, None),
        (checked("pass"), NOBODY, None),
        (CheckResults({}, ()), NOBODY, None),
    ],
)
def test_a_must_check_that_fails_and_that_nobody_lets_pass_keeps_judges_from_being_asked(
    checks, waivers, blocking
):
    assert blocking_check(checks, waivers) == blocking


FAILED = CheckFails(check="secrets")
KNOWN = CommitsReviewed(count=2)


@pytest.mark.parametrize(
    ("options", "check", "unasked", "chosen"),
    [
        ({}, "pass", None, None),
        ({"judge": "never"}, "pass", NoJudge(), True),
        ({"judge": "never"}, "fail", NoJudge(), True),
        # A check that fails: nothing a judge says helps; asked anyway, but never about a secret.
        ({}, "fail", FAILED, False),
        ({"judge": "always"}, "fail", FAILED, False),
        ({"judge": "always"}, "fail elsewhere", None, None),
        ({}, "fail elsewhere", CheckFails(check="other"), False),
        ({"judge": "always"}, "both", FAILED, False),
        # A hook asks as the gate says for it: without a rule, where an agent wrote the change.
        ({"mode": HookMode("pre-commit")}, "pass", NotByAgent(), True),
    ],
)
def test_a_judge_is_not_asked_where_nothing_depends_on_the_answer(options, check, unasked, chosen):
    clear_rubric = rubric("clear")
    other = Criterion(
        id="other", kind="check", check="forbidden-pattern", options={"pattern": "x"}, must=True
    )
    clear_rubric = replace(
        clear_rubric, criterion=(clear_rubric.criterion[0], other, *clear_rubric.criterion[1:])
    )
    (ours,) = checked("fail" if check in ("fail", "both") else "pass").results.values()
    theirs = replace(
        ours, id="other", outcome="fail" if check in ("fail elsewhere", "both") else "pass"
    )
    checks = CheckResults({("r", "secrets"): ours, ("r", "other"): theirs}, ())
    unasked_answers = without_asking(
        ReviewRequest(Selection("commit"), **options), facts_of((clear_rubric,)), checks, NOBODY
    )
    assert (
        unasked_answers and unasked_answers.unasked,
        unasked_answers and unasked_answers.chosen,
    ) == (unasked, chosen)
    assert unasked_answers is None or unasked_answers.by_rubric == {}


@pytest.mark.parametrize(
    ("covered", "force", "check", "unasked"),
    [
        (KNOWN, False, "pass", KNOWN),
        (None, False, "pass", None),
        (KNOWN, True, "pass", None),
        (KNOWN, False, "fail", FAILED),
    ],
)
def test_what_other_reviews_cover_is_not_asked_again_at_a_push_unless_that_is_forced(
    covered, force, check, unasked
):
    mode = HookMode("pre-push", find_reviews=lambda: covered)
    review_request = ReviewRequest(Selection("commit"), force=force, mode=mode)
    unasked_answers = without_asking(
        review_request, facts_of((rubric("clear"),), by_agent=True), checked(check), NOBODY
    )
    assert (unasked_answers and unasked_answers.unasked) == unasked


def test_a_hook_asks_about_an_agents_change_and_nobody_about_a_rubric_of_checks():
    review_request = ReviewRequest(Selection("commit"), mode=HookMode("pre-commit"))
    assert (
        without_asking(
            review_request, facts_of((rubric("clear"),), by_agent=True), checked("pass"), NOBODY
        )
        is None
    )
    unasked_answers = without_asking(
        review_request, facts_of((rubric(),), by_agent=True), checked("fail"), NOBODY
    )
    assert unasked_answers is not None
    assert (unasked_answers.unasked, unasked_answers.chosen) == (NoQuestion(), True)


def test_answers_of_this_run_are_whole_and_final_and_counted_by_criteria():
    half = RubricVotes(by_criterion={"clear": (), "short": ()})
    answers = Answers(
        by_rubric={
            "new": (cast_rubric_votes("pass"), cast_rubric_votes("fail")),
            "old": (cast_rubric_votes("pass"),),
            "both": (cast_rubric_votes("pass"), cast_rubric_votes("fail")),
            "half": (half, cast_rubric_votes("pass")),
        },
        asked=frozenset(("new", "both", "half")),
        cached=frozenset(("old", "both")),
    )
    assert answers.answered_now == ["new"]
    assert (answers.cache.hits, answers.cache.misses) == (2, 4)
