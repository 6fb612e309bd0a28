"""A defect at several places is told once everywhere, with all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from spread_findings import (
    QUOTES,
    report_of,
    run_with,
    spread_finding,
)
from summaries import finding, summary
from test_comment import without_state
from test_formats import entries, log

from vibe_gate.domain.verdict import FindingPlace, SecondLook
from vibe_gate.report import sentences
from vibe_gate.report.annotations import make_check_run
from vibe_gate.report.comment import render_comment
from vibe_gate.report.explanation import Explanation, explanation_rows
from vibe_gate.report.finding_comments import make_review_comments
from vibe_gate.report.finding_list import ReviewedRound, list_findings
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.junit import render_junit
from vibe_gate.report.markdown import escape_prose
from vibe_gate.report.report import Report
from vibe_gate.report.sarif import render_sarif
from vibe_gate.report.verdict_screen import render_screen
from vibe_gate.report.workflow_commands import render_workflow_commands

GOLDEN = Path(__file__).parents[1] / "golden" / "places"


def review_comments(report: Report) -> str:
    comments = make_review_comments(report, report.anchors)
    heads = [f"{comment.path}:{comment.line}\n" for comment in comments]
    bodies = [comment.body for comment in comments]
    return "\n---\n\n".join(map(str.__add__, heads, bodies))


def articles(report: Report) -> str:
    """The findings of the page, an element a line."""
    page = render_verdict_page(report.summary)
    findings = page[page.index("<article") : page.rindex("</article>")]
    return findings.replace("><", ">\n<") + "</article>\n"


RENDERED = {
    "comment.md": lambda report: without_state(render_comment(report)),
    "review-comments.md": review_comments,
    "run.sarif": lambda report: without_version(render_sarif(report.summary, report.links)),
    "report-findings.html": articles,
    "screen.txt": lambda report: render_screen(report.summary, (), 80).plain + "\n",
    "concise.txt": lambda report: "\n".join(sentences.concise_lines(report.summary)) + "\n",
}


def without_version(text: str) -> str:
    document = json.loads(text)
    for key in ("version", "semanticVersion"):
        document["runs"][0]["tool"]["driver"][key] = "VERSION"
    return json.dumps(document, indent=1) + "\n"


@pytest.mark.parametrize("file_name", RENDERED)
def test_it_reads_as_it_did(file_name):
    """`python tests/report/write_golden.py` writes them anew; look at what changed."""
    rendered = RENDERED[file_name](report_of(spread_finding()))
    assert rendered == (GOLDEN / file_name).read_text()


REFUTED = SecondLook(outcome="refuted", said="refuted", reason="main leaves before it.")

PLACES = [f"{line.path}:{line.line}" for line in QUOTES]
TEXTS = {
    "terminal": lambda report: render_screen(report.summary, (), 200).plain,
    "concise": lambda report: "\n".join(sentences.concise_lines(report.summary)),
    "comment": render_comment,
    "line comment": lambda report: review_comments(report),
    "junit": lambda report: render_junit(report.summary),
    "annotation": lambda report: make_check_run(report).annotations[0].message,
    "workflow commands": lambda report: render_workflow_commands(report, "T"),
    "code quality": lambda report: entries(report.summary)[1]["description"],
    "sarif": lambda report: json.dumps(sarif_result(report)),
    "explain": lambda report: "\n".join(
        text for _, text in explanation_rows(explained(spread_finding(), report))
    ),
    "agent": lambda report: "\n".join(listed_lines(report)),
    "page": articles,
}
"""Every output of the run as text."""


def sarif_result(report: Report) -> dict:
    [result] = log(report.summary)["results"]
    return result


def listed_lines(report: Report) -> list[str]:
    reviewed = ReviewedRound(
        number=0, rubrics=report.summary.rubrics, findings=report.summary.findings
    )
    [listed] = list_findings([reviewed])
    return listed.lines()


def explained(finding, report: Report) -> Explanation:
    return Explanation(finding, report.summary, "")


@pytest.mark.parametrize("output", TEXTS)
def test_every_output_names_the_other_places(output):
    text = TEXTS[output](report_of(spread_finding()))
    assert [place for place in PLACES[1:] if place not in text] == [], text


COUNTS = {
    "annotations": lambda report: len(make_check_run(report).annotations),
    "line comments": lambda report: len(make_review_comments(report, report.anchors)),
    "code quality entries besides the verdict": lambda report: len(entries(report.summary)) - 1,
    "results": lambda report: len(log(report.summary)["results"]),
    "lines for an editor": lambda report: len(sentences.concise_lines(report.summary)) - 1,
    "commands": lambda report: render_workflow_commands(report, "T").count("\n") - 1,
}


@pytest.mark.parametrize("output", COUNTS)
def test_every_output_counts_a_defect_once(output):
    assert COUNTS[output](report_of(spread_finding())) == 1


def test_a_sarif_result_links_to_its_related_locations():
    result = sarif_result(report_of(spread_finding()))
    related = {
        related_location["id"]: related_location["message"]["text"]
        for related_location in result["relatedLocations"]
    }
    assert related == {
        1: "Also at src/ledger/refund.py:19: except BankError:",
        2: "Also at src/ledger/payout.py:8: except BankError:",
        3: "Decided by src/ledger/receipt.py:31: if sent == 0: return NOTHING_TO_DO",
    }
    text = result["message"]["text"]
    assert "Also at [src/ledger/refund.py:19](1), [src/ledger/payout.py:8](2)" in text


def test_a_path_with_brackets_makes_no_link_of_its_own():
    place = FindingPlace(path="a](https://evil.example)[.py", line=1, end_line=1)
    report = report_of(spread_finding(other_places=(place,)))
    text = sarif_result(report)["message"]["text"]
    assert "[a\\](https://evil.example)\\[.py:1](1)" in text


def test_many_places_are_counted_and_not_listed():
    many = [FindingPlace(path=f"src/{number}.py", line=1, end_line=1) for number in range(300)]
    report = report_of(spread_finding(other_places=tuple(many)))
    assert "and 295 more" in sentences.concise_lines(report.summary)[0]
    assert "and 296 more places" in TEXTS["terminal"](report)
    assert len(sarif_result(report)["relatedLocations"]) <= 100
    assert len(render_comment(report)) < 10_000


def test_a_removed_place_is_named_at_its_side():
    removed_lines = tuple(replace(line, side="before") for line in QUOTES)
    report = report_of(spread_finding(evidence=removed_lines, also=()))
    assert "19 -     except BankError:" in TEXTS["terminal"](report)
    assert "#f=src/ledger/refund.py:-19" in articles(report)


def test_a_place_in_a_file_that_the_page_lacks_is_named_without_a_link():
    page = articles(report_of(spread_finding()))
    assert 'href="#f=src/ledger/refund.py:19"' in page
    assert 'href="#f=src/ledger/receipt.py:31"' not in page
    assert "src/ledger/receipt.py:31" in page


@pytest.mark.parametrize(
    ("remark", "words"),
    [
        ("answer", "not worth stopping for"),
        ("second look", "not worth stopping for, says a second look"),
        ("intended", "intended, by lines that were there before"),
    ],
)
@pytest.mark.parametrize("output", [name for name in TEXTS if name != "agent"])
def test_every_output_says_why_a_remark_does_not_block(output, remark, words):
    remark_finding = spread_finding(level="warning", remark=remark)
    text = TEXTS[output](report_of(remark_finding))
    assert words in text or output == "explain"
    rows = explanation_rows(explained(remark_finding, report_of(remark_finding)))
    assert dict(rows)["remark"] == words


def test_a_change_with_remarks_alone_passes_with_warnings():
    remarks = (finding(level="warning", remark="answer"), finding(level="warning", line=2))
    assert sentences.verdict_words(summary(findings=remarks)) == "PASS with 2 warnings"


def test_an_agent_is_not_asked_to_repair_a_remark():
    report = report_of(spread_finding(level="warning", remark="answer"))
    reviewed = ReviewedRound(
        number=0, rubrics=report.summary.rubrics, findings=report.summary.findings
    )
    assert list_findings([reviewed]) == []


HOSTILE = (
    "Speaks to the reviewer: \x1b[2J<script>alert(1)</script> [x](https://evil.example) "
    "@security\n::error::"
)
ADDRESSED = finding(
    HOSTILE,
    3,
    criterion="addressed",
    level="warning",
    path="README.md",
    fingerprint="addadd0011223344",
)
"""Of a criterion that no rubric has."""


@pytest.mark.parametrize(
    "output", [name for name in TEXTS if name not in ("explain", "agent", "line comment")]
)
def test_text_that_speaks_to_the_reviewer_is_told_and_acts_on_nothing(output):
    text = TEXTS[output](report_of(ADDRESSED))
    assert "Speaks to the reviewer" in text
    assert "\x1b" not in text
    if output == "page":
        assert "<script>alert" not in text
    if output == "comment":
        assert escape_prose(HOSTILE) in text


def test_a_place_that_the_diff_lacks_is_named_and_the_comment_stands_at_the_first_that_it_has():
    first = spread_finding()
    moved = replace(
        first,
        path=QUOTES[2].path,
        line=QUOTES[2].line,
        end_line=QUOTES[2].line,
        other_places=tuple(
            FindingPlace(path=q.path, line=q.line, end_line=q.line) for q in QUOTES[:2]
        ),
    )
    report = report_of(moved)
    [comment] = make_review_comments(report, report.anchors)
    assert (comment.path, comment.line) == (QUOTES[0].path, QUOTES[0].line)
    assert "src/ledger/payout.py:8" in comment.body
    assert "src/ledger/refund.py:19" in comment.body


def test_a_line_for_an_editor_says_that_its_lines_were_removed():
    lines = (replace(QUOTES[0], side="before"),)
    run = report_of(spread_finding(evidence=lines, other_places=())).summary
    assert ": failure: (removed) Three handlers" in sentences.concise_lines(run)[0]


def test_a_comment_names_more_places_only_beyond_its_limit():
    places = [FindingPlace(path="b.py", line=line, end_line=line) for line in range(1, 8)]
    at_limit, beyond = (
        render_comment(report_of(spread_finding(evidence=(), other_places=tuple(places[:count]))))
        for count in (4, 6)
    )
    assert "more place" not in at_limit
    assert "and 2 more places: " in beyond


@pytest.mark.parametrize(
    "fields", [{"criterion": "addressed"}, {"level": "notice", "second_look": REFUTED}]
)
def test_a_page_asks_for_no_label_of_what_fails_no_criterion(fields):
    assert "Next: fix it" in articles(report_of(spread_finding()))
    assert "Next: fix it" not in articles(report_of(spread_finding(**fields)))


def test_a_page_says_that_a_finding_counts_in_each_of_its_files():
    page = render_verdict_page(run_with(spread_finding()))
    assert "A finding with places in several files counts once in each of them." in page
