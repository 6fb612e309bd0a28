"""What the reader of a comment is told to do next, where the cause says it."""

from __future__ import annotations

import json

import pytest
import summaries
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from vibe_gate.domain.cause import (
    ApiStatus,
    ApiUnavailable,
    AsksNoModel,
    BrokeOff,
    BudgetReached,
    Cause,
    DraftWaits,
    Misfit,
    ModelRefused,
    NoCredit,
    NoForm,
    NoKey,
    NoSdk,
    ProcessEnded,
    ProgramMissing,
    TextTooLong,
    TimeUsedUp,
    TurnsUsedUp,
    Unreachable,
)
from vibe_gate.domain.document import decode_document
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, RubricResult, Vote
from vibe_gate.errors import FAIL, INCONCLUSIVE
from vibe_gate.report.next_step import at_a_terminal, next_step, remediable_cause
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.report.verdict_screen import render_screen

AGAIN = "review again; if that does not help, run vibe-gate doctor"


def report_of_cause(cause: Cause | UnsetType = UNSET, **fields: object) -> Report:
    """A report whose criterion could not be decided for this cause; or, without one, whose judge
    said no.
    """
    outcome = "error" if cause else "fail"
    result = CriterionResult(
        id="a", kind="judge", must=True, weight=1, outcome=outcome, decided_by="none", cause=cause
    )
    rubric = RubricResult(
        id="r", digest="", outcome=outcome, score=0, coverage=0, criteria=(result,)
    )
    code = INCONCLUSIVE if cause else FAIL
    summary = replace(
        summaries.summary(), outcome=outcome, exit_code=code, rubrics=(rubric,), findings=()
    )
    return Report(replace(summary, **fields), (), first_round((), "a" * 40), review="a1b2..c3d4")


@pytest.mark.parametrize(
    ("cause", "words", "terminal"),
    [
        (NoKey(), "add the secret `ANTHROPIC_API_KEY`", "set ANTHROPIC_API_KEY"),
        (
            NoKey(is_sdk_missing=True),
            "`vibe-gate-core`, add the secret `ANTHROPIC_API_KEY`",
            "run `pip install vibe-gate`, which has what asks a judge, set ANTHROPIC_API_KEY",
        ),
        (NoSdk(), "install `vibe-gate` where", "run `pip install vibe-gate`, which"),
        (AsksNoModel(), "re-run the job of the newest push", AGAIN),
        (DraftWaits(), "mark the pull request as ready for review", AGAIN),
        (BudgetReached(limit_usd=0.5), "above $0.50; then re-run", AGAIN),
        (TimeUsedUp(seconds=300), "above 300 s; then re-run", AGAIN),
        (ModelRefused(), "name another model", AGAIN),
        (NoCredit(details="x"), "add credit to the account", "add credit to the account"),
        (ApiStatus(status=404, details="x"), "name a model", "name a model"),
        (ApiStatus(status=413), "split the change", "smaller range"),
        (ApiStatus(status=401), "replace the secret", "replace the key"),
        (ApiStatus(status=403), "replace the secret", "replace the key"),
        (ApiStatus(status=501), "correct `ANTHROPIC_BASE_URL`", "doctor --ask"),
        (ApiStatus(status=500), "wait some minutes", "doctor --ask"),
        (ApiStatus(status=529), "wait some minutes", "review again"),
        (ApiStatus(status=400), "repair what failed", "doctor --ask"),
        (
            Unreachable(message="x cannot be reached."),
            "check that this runner reaches",
            "doctor --ask",
        ),
        (
            ApiUnavailable(message="HTTP 529 and did not recover in time."),
            "wait some minutes",
            "doctor --ask",
        ),
        (BrokeOff(), "wait some minutes", "doctor --ask"),
        (ProcessEnded(details="x"), "wait some minutes", AGAIN),
        (NoForm(), "re-run this job; if that does not help, name another model", AGAIN),
        (Misfit(details="x"), "re-run this job; if that does not help, name another model", AGAIN),
        (
            TextTooLong(limit=100_000_000),
            "name it in `exclude`",
            "let git ignore the file or split it",
        ),
        (ProgramMissing(program="ruff"), "install `ruff`", "install ruff"),
        (ProgramMissing(program="ruff"), "`vibe-gate config check`", "`vibe-gate config check`"),
        (TurnsUsedUp(), "repair what failed", AGAIN),
    ],
)
def test_each_cause_has_a_next_step_of_its_own(cause, words, terminal):
    report = report_of_cause(cause)
    assert words in next_step(report)
    assert terminal in at_a_terminal(report.summary)


def test_after_a_pass_without_questions_the_step_names_all_that_is_missing():
    steps = []
    for is_sdk_missing in (False, True):
        question = summaries.open_question("asked", NoKey(is_sdk_missing=is_sdk_missing))
        rubric = summaries.rubric(question, outcome="pass")
        passed = replace(summaries.summary(), rubrics=(rubric,), findings=())
        steps.append(next_step(replace(report_of_cause(), summary=passed)))
    assert steps == [
        "set `ANTHROPIC_API_KEY` and review again to ask 1 judge question",
        "run `pip install vibe-gate`, set `ANTHROPIC_API_KEY` and review again to ask 1 judge question",
    ]


def test_of_several_causes_the_gravest_is_mended_first():
    causes = (TextTooLong(limit=1), ApiStatus(status=529), BudgetReached(limit_usd=0.5), NoKey())
    results = tuple(
        summaries.open_question(f"q{number}", cause) for number, cause in enumerate(causes)
    )
    for number in range(len(results), 0, -1):
        rubric = summaries.rubric(*results[:number], outcome="inconclusive")
        summary = summaries.summary(
            outcome="inconclusive", exit_code=INCONCLUSIVE, rubrics=(rubric,)
        )
        assert remediable_cause(summary) == causes[number - 1]


def test_what_broke_is_mended_before_what_was_only_not_asked():
    missing = summaries.criterion("lint", "error", cause=ProgramMissing(program="ruff"))
    rubric = summaries.rubric(missing, summaries.open_question("asked", NoKey()), outcome="error")
    summary = summaries.summary(outcome="error", exit_code=INCONCLUSIVE, rubrics=(rubric,))
    assert at_a_terminal(summary).startswith("install ruff")


def test_a_pass_that_a_missing_program_left_undecided_names_the_program():
    missing = summaries.criterion("lint", "error", cause=ProgramMissing(program="ruff"))
    rubric = summaries.rubric(missing, outcome="pass")
    passed = replace(summaries.summary(), rubrics=(rubric,), findings=())
    step = next_step(replace(report_of_cause(), summary=passed))
    assert step.startswith("nothing has to change; install `ruff`"), step
    assert "install ruff, or correct" in render_screen(
        replace(passed, key=""), (), 80
    ).plain.replace("\n", " ")


def test_a_summary_of_an_older_version_reads_and_has_no_special_next_step():
    plain = report_of_cause(NoKey()).summary.to_json()
    document = json.loads(plain)
    assert document["rubrics"][0]["criteria"][0].pop("cause") == {"code": "no_key"}
    summary = decode_document(Summary, json.dumps(document))
    report = replace(report_of_cause(NoKey()), summary=summary)
    assert "repair what failed" in next_step(report)
    assert at_a_terminal(summary) == AGAIN


@pytest.mark.parametrize(
    ("workflow", "expected"), [("review", True), ("fix", False), ("own", False)]
)
def test_a_workflow_that_ran_is_not_the_next_step(workflow, expected):
    assert ("vibe-gate run fix" in next_step(report_of_cause(workflow=workflow))) is expected


def test_what_an_answer_left_undecided_is_asked_anew():
    """A review without `--force` takes the same answer from the cache."""
    abstention = Vote(outcome="abstain", said="fail", reason="a quote that is not there")
    undecided = summaries.criterion("works", "abstain", kind="judge", votes=(abstention,))
    rubric = summaries.rubric(undecided, outcome="inconclusive")
    summary = summaries.summary(outcome="inconclusive", exit_code=INCONCLUSIVE, rubrics=(rubric,))
    assert at_a_terminal(summary).startswith("run `vibe-gate review --force`, which asks anew")
    assert at_a_terminal(summary, is_agent=True).startswith("ask the user to run")


def test_of_tests_that_the_record_cannot_tell_next_says_who_runs_them():
    unknown = summaries.criterion("tests-ran", "abstain")
    rubric = summaries.rubric(unknown, outcome="inconclusive")
    summary = summaries.summary(outcome="inconclusive", exit_code=INCONCLUSIVE, rubrics=(rubric,))
    assert at_a_terminal(summary) == AGAIN
    step = at_a_terminal(summary, frozenset({"tests-ran"}))
    assert step.startswith("ask the agent to run the tests once more, by themselves")
