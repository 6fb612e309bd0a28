"""What every face says of a finding that was looked at again: both sides, and a pass that hides
nothing.
"""

from __future__ import annotations

import json
from xml.etree import ElementTree

from fail_votes import fail_vote
from lxml import html as lxml_html
from msgspec.structs import replace
from summaries import criterion, finding, rubric, summary

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CheckedEvidence, Finding, LookOutcome, SecondLook
from vibe_gate.report import code_quality, junit, sarif, sentences
from vibe_gate.report.annotations import annotate_finding, check_title
from vibe_gate.report.comment import render_comment
from vibe_gate.report.finding_comments import make_review_comments
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.links import Links
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.report.verdict_screen import render_screen

HEAD = "a" * 40


def line(path: str, number: int, quote: str) -> CheckedEvidence:
    return CheckedEvidence(path=path, line=number, end_line=number, quote=quote, standing="holds")


def look(outcome: LookOutcome) -> SecondLook:
    guard = line("src/main.py", 7, "if not path:")
    return SecondLook(
        outcome=outcome, said=outcome, reason="main leaves before it.", evidence=(guard,)
    )


def looked(outcome: LookOutcome) -> Summary:
    """A review of one fail, and what a second look said of it."""
    is_pass = outcome == "refuted"
    evidence = (line("src/a.py", 41, "except OSError:"),)
    vote = fail_vote(
        "It hides the error.",
        *evidence,
        counterexample="no file -> None",
        second_look=look(outcome),
    )
    looked_at: Finding = finding(
        "It hides the error.", level="notice" if is_pass else "failure", evidence=evidence, fingerprint="ab" * 8,
        second_look=look(outcome),
    )  # fmt: skip
    decided = criterion(
        "errors-not-swallowed", "pass" if is_pass else "fail", kind="judge", votes=(vote,),
        decided_by="refuted" if is_pass else "unanimous", reason="Raised and refuted: main leaves before it.",
    )  # fmt: skip
    rubrics = (rubric(decided, outcome=decided.outcome),)
    return summary(
        outcome=decided.outcome, exit_code=not is_pass, findings=(looked_at,), rubrics=rubrics
    )


def report(outcome: LookOutcome) -> Report:
    run_summary = looked(outcome)
    links = Links("https://github.com", "octo/hello", HEAD, "", "b" * 40)
    return Report(run_summary, (), first_round(run_summary.findings, HEAD), links)


BOTH = "Raised: It hides the error. Refuted: main leaves before it."


def test_a_refuted_finding_is_a_notice_with_both_sides_and_the_verdict_line_counts_it():
    run_summary = looked("refuted")
    assert sentences.verdict_headline(run_summary) == "PASS · 1 raised and refuted; quality"
    assert (
        sentences.concise_lines(run_summary)[0]
        == f"src/a.py:41: notice: {BOTH} [errors-not-swallowed] [abababab]"
    )
    screen = render_screen(run_summary, (), 100).plain
    assert BOTH in screen
    assert "    prevented by src/main.py:7\n        | if not path:" in screen
    (result,) = json.loads(sarif.render_sarif(run_summary))["runs"][0]["results"]
    assert (result["level"], result["message"]["text"].startswith(BOTH)) == ("note", True)
    (case,) = ElementTree.fromstring(junit.render_junit(run_summary)).findall(
        "testsuite[@name='quality']/testcase"
    )
    assert [child.tag for child in case] == ["system-out"]
    assert BOTH in case[0].text
    (entry,) = json.loads(code_quality.render_code_quality(run_summary))
    assert (entry["severity"], entry["description"]) == ("info", BOTH)


def test_a_pull_request_shows_it_apart_and_opens_no_thread():
    refuted_report = report("refuted")
    text = render_comment(refuted_report)
    assert text.splitlines()[1].startswith("### vibe-gate: PASS · 1 raised and refuted")
    assert "#### Raised and refuted (1)\n\n- **notice** [`src/a.py:41`]" in text
    assert f"/blob/{HEAD}/src/main.py#L7): `if not path:`" in text
    assert "#### Findings" not in text
    assert check_title(refuted_report) == "PASS · 1 raised and refuted · rubric quality (1 file)"
    noted = annotate_finding(refuted_report.round.new[0], refuted_report)
    assert (noted.annotation_level, noted.message) == ("notice", BOTH)
    assert noted.raw_details.splitlines()[1:3] == [
        "Second look: refuted. main leaves before it.",
        "Prevented by src/main.py:7: if not path:",
    ]
    assert make_review_comments(refuted_report, refuted_report.anchors) == ()


def test_a_finding_that_a_second_look_left_says_what_that_said():
    for outcome in ("stands", "undecided"):
        sentence = f"Second look: {outcome}. main leaves before it."
        looked_report = report(outcome)
        assert sentences.verdict_words(looked_report.summary) == "FAIL"
        assert f"\n    {sentence}\n" in render_screen(looked_report.summary, (), 100).plain
        assert f"\n  {sentence}\n" in render_comment(looked_report)
        assert sentence in annotate_finding(looked_report.round.new[0], looked_report).raw_details
    silent = replace(look("undecided"), said=None, reason="The budget of $1 is reached.")
    assert (
        sentences.second_look_sentence(silent)
        == "Second look: no answer. The budget of $1 is reached."
    )


def test_a_look_that_changes_nothing_has_no_colour_on_the_page():
    page = lxml_html.fromstring(render_verdict_page(looked("stands")))
    [look_box, *_] = page.xpath("//div[@class='second-look']")
    assert look_box.xpath(".//span[@class='badge']/text()") == ["second look: stands"]
    assert look_box.xpath(".//span[@class='standing']/text()") == ["holds"]


def test_the_page_has_the_second_look_at_the_finding_and_at_the_vote():
    page = lxml_html.fromstring(render_verdict_page(looked("refuted")))
    for place in ("//article[contains(@class, 'finding')]", "//li[contains(@class, 'vote ')]"):
        (look_box,) = page.xpath(f"{place}//div[@class='second-look']")
        assert look_box.xpath(".//span[@class='badge pass']/text()") == ["second look: refuted"]
        assert look_box.xpath(".//a/text()") == ["src/main.py:7"]
        assert "main leaves before it." in look_box.text_content()
