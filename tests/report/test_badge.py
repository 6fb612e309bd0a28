"""What a judge has earned stands wherever its criterion stands: in every document of a run, told by
one sentence.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
import reports
from msgspec.structs import replace
from summaries import HEAD, criterion, finding, summary, weighed

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.calibration import Baseline, CriterionBaseline
from vibe_gate.domain.document import to_json
from vibe_gate.domain.gate import Gate, GateFile, ModelChoice, Trust
from vibe_gate.domain.label import Label
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import TrustBadge, Vote
from vibe_gate.judging.brief import TEMPLATE_VERSION
from vibe_gate.judging.trust import badges
from vibe_gate.report import queries, sentences
from vibe_gate.report.anchors import read_anchors
from vibe_gate.report.annotations import annotate_finding, make_check_run
from vibe_gate.report.comment import render_comment, render_job_summary
from vibe_gate.report.finding_comments import make_review_comments
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.junit import render_junit
from vibe_gate.report.run_figures import extract_figures
from vibe_gate.report.sarif import render_sarif
from vibe_gate.report.statistics import compute_statistics, render_statistics
from vibe_gate.report.verdict_screen import render_screen

NAME = "errors-not-swallowed"
QUALITY = Rubric(schema=1, id="quality", criterion=(
    Criterion(id="no-secrets", kind="check", check="no-secrets"),
    Criterion(id=NAME, kind="judge", question="Is every error handled?", must=True),
))  # fmt: skip
REWORDED = replace(
    QUALITY, criterion=(QUALITY.criterion[0], replace(QUALITY.criterion[1], question="Really?"))
)
MEASURED = CriterionBaseline(id=NAME, clean=60, clean_blocked=1, defective=30, found=27)
WRONG = Label(ts=datetime(2026, 11, 27, tzinfo=UTC), finding="0" * 16, rubric="quality", criterion=NAME, right=False,
              by="Ada <ada@x.org>", digest=QUALITY.digest, model="m", source="cli")  # fmt: skip


def calibrated_summary(
    of: Rubric = QUALITY,
    measured: CriterionBaseline | None = MEASURED,
    *labels: Label,
    **trust: object,
) -> Summary:
    """A run in which the question failed, with what was measured of QUALITY."""
    baseline = Baseline(schema=1, rubric="quality", digest=QUALITY.digest, model="m", template=TEMPLATE_VERSION,
                        created_at="2026-11-27T00:00:00Z", criterion=(measured,) if measured else ())  # fmt: skip
    file = GateFile(schema=1, trust=Trust(**trust), model=ModelChoice(default="m"))
    [badge] = badges(Gate(file, (of,), "trusted", "", baselines=(baseline,)), labels, "m").values()
    text = "the handler hides the error"
    vote = Vote(outcome="fail", said="fail", reason=text)
    judged_criterion = criterion(
        NAME, "fail", kind="judge", decided_by="unanimous", reason=text, votes=(vote,), trust=badge
    )
    result = weighed(criterion(), judged_criterion)
    level = "failure" if result.outcome == "fail" else "warning"
    return summary(
        outcome=result.outcome, exit_code=int(result.outcome == "fail"), rubrics=(result,),
        findings=(finding(text, level=level, fingerprint="3f9a1c2b4d5e6f70"),),
    )  # fmt: skip


def documents(summary: Summary) -> dict[str, str]:
    """Every document in which a criterion stands, as text."""
    report = reports.first_report(summary)
    rows = [
        case.findtext("system-out")
        for case in ElementTree.fromstring(render_junit(summary)).iter("testcase")
    ]
    return {
        "terminal": " ".join(render_screen(summary, (), 200).plain.split()),
        "comment": render_comment(report),
        "markdown": render_job_summary(report),
        "check run": make_check_run(report).summary,
        "html": render_verdict_page(summary),
        "json": to_json(summary),
        "junit": "\n".join(filter(None, rows)),
        "sarif": json.loads(render_sarif(summary))["runs"][0]["tool"]["driver"]["rules"][1][
            "fullDescription"
        ]["text"],
    }


@pytest.mark.parametrize(
    ("run_summary", "badge"),
    [
        (calibrated_summary(), "calibrated: 1 of 60 clean blocked, 27 of 30 found"),
        (calibrated_summary(REWORDED), "stale (calibrated before the rubric changed)"),
        (calibrated_summary(measured=None), "uncalibrated"),
        (calibrated_summary(QUALITY, replace(MEASURED, flips=2, repeats=3)),
         "unsteady: 2 of 90 cases flipped, 1 of 60 clean blocked, 27 of 30 found"),
    ],
    ids=["calibrated", "reworded", "no case", "flips"],
)  # fmt: skip
def test_a_reworded_question_makes_its_badge_stale_in_every_document(run_summary, badge):
    for name, text in documents(run_summary).items():
        assert badge in text, name
        has_figures = badge.startswith(("calibrated", "unsteady")) and name not in (
            "terminal",
            "json",
        )
        assert ("at most 7.7% of clean changes blocked, 73% to 98% found" in text) is has_figures, (
            name
        )


def test_a_fail_that_only_advised_is_counted_and_named_beside_the_verdict():
    advised_summary = calibrated_summary(measured=None, uncalibrated="advise")
    sentence = f"1 criterion would have blocked: {NAME} (uncalibrated)"
    assert (
        sentences.verdict_headline(advised_summary) == f"PASS with 1 warning · quality; {sentence}"
    )
    report = reports.first_report(advised_summary)
    assert sentence in render_comment(report).partition("<details>")[0].replace("\\", "").replace(
        "`", ""
    )
    assert sentence in make_check_run(report).title
    assert "would have blocked (uncalibrated" not in documents(advised_summary)["terminal"]
    [result] = advised_summary.rubrics
    assert json.loads(to_json(advised_summary))["rubrics"][0]["criteria"][1]["would_block"] is True
    assert "skipped" in render_junit(
        advised_summary
    ) and 'type="would have blocked"' in render_junit(advised_summary)
    placed = annotate_finding(advised_summary.findings[0], report)
    assert placed is not None and placed.annotation_level == "warning"
    assert "Would have blocked: uncalibrated; only advises" in placed.raw_details
    assert result.score == 1.0, "what advises takes nothing from the score"


def test_what_has_not_earned_to_block_says_what_is_missing():
    advised_summary = calibrated_summary(
        QUALITY, replace(MEASURED, clean_blocked=0), block="earned"
    )
    assert advised_summary.outcome == "pass"
    assert (
        "only advises until 18 more clean changes are labelled"
        in documents(advised_summary)["comment"]
    )
    assert f"{NAME} (not earned)" in sentences.verdict_headline(advised_summary)
    # A person's word counts as a clean change that was blocked: the bound moves.
    earned = replace(MEASURED, clean=78, clean_blocked=0)
    assert calibrated_summary(QUALITY, earned, block="earned").outcome == "fail"
    second_summary = calibrated_summary(QUALITY, earned, WRONG, block="earned")
    assert second_summary.outcome == "pass"
    assert "1 of 79 clean blocked" in documents(second_summary)["comment"]


def test_an_unsteady_judge_is_an_outcome_of_its_own_where_criteria_are_listed():
    texts_by_name = documents(calibrated_summary(QUALITY, replace(MEASURED, flips=2, repeats=3)))
    assert "must unsteady fail: 1 finding below" in texts_by_name["terminal"]
    assert "| unsteady: **fail** |" in texts_by_name["comment"]
    assert ">unsteady: fail</span>" in texts_by_name["html"]
    assert '"outcome":"fail"' in texts_by_name["json"].replace(" ", ""), "what it answered stays"


def test_a_terminal_says_once_what_holds_for_all_judges_of_a_rubric():
    unknown = TrustBadge(state="uncalibrated", sentence="uncalibrated")
    criteria = [
        criterion(name, kind="judge", reason="So it is.", trust=unknown) for name in ("a", "b")
    ]
    narrow_screen = render_screen(
        summary(rubrics=(weighed(criterion(), *criteria),)), (), 100
    ).plain
    assert narrow_screen.count("uncalibrated") == 1
    assert "quality  pass · score 1.00 · coverage 100% · uncalibrated\n" in narrow_screen
    criteria[1] = replace(criteria[1], trust=reports.CALIBRATED)
    wide_screen = render_screen(summary(rubrics=(weighed(criterion(), *criteria),)), (), 200).plain
    assert "So it is. · uncalibrated\n" in wide_screen
    assert "27 of 30 found\n" in wide_screen


def test_a_line_comment_says_that_its_finding_would_have_blocked():
    advised_summary = calibrated_summary(measured=None, uncalibrated="advise")
    patch = b"--- a/src/a.py\n+++ b/src/a.py\n@@ -40,1 +40,2 @@\n a\n+b\n"
    [entry] = make_review_comments(
        reports.first_report(advised_summary),
        read_anchors(b"diff --git a/src/a.py b/src/a.py\n" + patch),
    )
    assert entry.body.startswith("<!-- vibe-gate:finding ") and "**warning**" in entry.body
    assert "Would have blocked: uncalibrated; only advises" in entry.body


def test_a_notice_beside_it_would_not_have_blocked():
    advised_summary = calibrated_summary(measured=None, uncalibrated="advise")
    refuted = replace(advised_summary.findings[0], level="notice", line=9)
    assert [
        queries.advice_behind(entry, advised_summary) is None
        for entry in (refuted, advised_summary.findings[0])
    ] == [
        True,
        False,
    ]


def test_stats_count_what_would_have_blocked_once_for_each_finding():
    advised_summary = calibrated_summary(measured=None, uncalibrated="advise")
    runs = [
        RunEntry(name, HEAD, outcome="pass", rubrics=(("quality", "pass"),)) for name in ("a", "b")
    ]
    total = compute_statistics(runs, {}, lambda run: extract_figures(advised_summary))
    assert total.would_have_blocked == {f"quality/{NAME}": 1}
    assert f"would have blocked: 1 of quality/{NAME}" in render_statistics(total)


def test_without_definitions_nobody_is_told_that_a_judge_is_uncalibrated():
    texts_by_name = documents(
        summary(key=HEAD, rubrics=(weighed(criterion(), criterion(NAME, kind="judge")),))
    )
    assert not any("calibrated" in text for text in texts_by_name.values())
