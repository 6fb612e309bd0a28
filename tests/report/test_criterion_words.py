"""A list of criteria says of each how many findings and remarks it has, and marks as blocking only
what blocks.
"""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from reports import first_report
from summaries import criterion, failed, finding, rubric, summary, waived, waiver

from vibe_gate.domain.summary import Summary
from vibe_gate.report.comment import render_comment
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.verdict_screen import render_screen

LOST = "a refused transfer is lost"
ZERO = "an amount of 0 is sent"
TYPO = "the comment says COLUMN for COLUMNS"


def defect(message, line, **fields):
    return finding(message, line, criterion="works", **fields)


def remark(message, line):
    return defect(message, line, level="warning", remark="answer")


def run_with(*findings, outcome="fail", must=True, reason=LOST) -> Summary:
    """A run with one judged question, which fails the rubric if it must pass."""
    works = criterion(
        "works", outcome, kind="judge", must=must, reason=reason, decided_by="majority"
    )
    blocks = outcome == "fail" and must
    judged = rubric(works, outcome="fail" if blocks else "pass", pass_threshold=0.0)
    run = failed(0, 0) if blocks else summary()
    return replace(run, rubrics=(judged,), findings=findings)


def screen_row(run: Summary) -> str:
    """The row of the question on the screen."""
    [row] = re.findall(r"^  (. works .*)$", render_screen(run, (), 200).plain, re.MULTILINE)
    return " ".join(row.split())


def comment_row(run: Summary) -> str:
    [row] = re.findall(r"^\| `works`.*$", render_comment(first_report(run)), re.MULTILINE)
    return row


def page_row(run: Summary) -> str:
    [row] = re.findall(r'<tr[^>]*data-c="quality/works".*?</tr>', render_verdict_page(run))
    return " ".join(re.sub(r"<[^>]*>", " ", row).split())


TWO_FAIL = run_with(defect(LOST, 3), defect(ZERO, 9), remark(TYPO, 12))


def test_a_fail_counts_its_findings_and_its_remarks():
    assert screen_row(TWO_FAIL) == "✗ works must fail 2 findings, 1 remark below"


@pytest.mark.parametrize("row", [comment_row, page_row])
def test_a_table_names_the_first_defect_and_how_many_more(row):
    assert f"{LOST}. And 2 more." in row(TWO_FAIL)


def test_what_was_refuted_is_not_the_reason_of_a_fail():
    run = run_with(defect(LOST, 3, level="notice"), defect(ZERO, 9), remark(TYPO, 12))
    assert f"{ZERO}. And 1 more." in comment_row(run)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (screen_row, "✓ works must pass 1 remark below"),
        (comment_row, "| `works` (must) | pass, 1 remark |"),
        (page_row, "pass, 1 remark works"),
    ],
)
def test_a_pass_says_that_it_leaves_remarks(row, text):
    assert text in row(run_with(remark(TYPO, 12), outcome="pass", reason=TYPO))


ADVISES = run_with(defect(LOST, 3, level="warning"), must=False)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (screen_row, "! works fail does not block · 1 finding below"),
        (comment_row, "| `works` | fails, does not block |"),
        (page_row, "fails, does not block works"),
    ],
)
def test_a_fail_that_only_warns_is_not_marked_as_blocking(row, text):
    assert text in row(ADVISES)


def test_a_fail_that_costs_the_score_is_marked_as_blocking():
    [judged] = ADVISES.rubrics
    run = replace(
        ADVISES, rubrics=(replace(judged, outcome="fail", score=0.2, pass_threshold=0.7),)
    )
    assert screen_row(run).startswith("✗ works fail 1 finding below")


def test_an_accepted_fail_stays_accepted_beside_a_remark():
    accepted = waived(defect(LOST, 3), waiver("ada", "known"))
    run = run_with(accepted, remark(TYPO, 12), must=False)
    assert "· works accepted" in screen_row(run)
