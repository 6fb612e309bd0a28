"""The comment and what goes with it: golden files, sizes, cuts, and what a second round says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import reports
from github_page import page, skeleton
from msgspec.structs import replace
from summaries import failed, finding, policy, summary, unseen, weighed

from vibe_gate.report import queries
from vibe_gate.report.anchors import read_anchors
from vibe_gate.report.annotations import make_check_run
from vibe_gate.report.comment import (
    MARKER,
    MAX_COMMENT,
    MAX_SUMMARY,
    read_comment_state,
    render_comment,
    render_job_summary,
)
from vibe_gate.report.finding_comments import (
    is_marked_fixed,
    make_review_comments,
    mark_accepted,
    mark_fixed,
    read_finding_marker,
)
from vibe_gate.report.html import render_verdict_page
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.report.sarif import render_sarif
from vibe_gate.report.verdict_screen import render_screen
from vibe_gate.report.workflow_commands import guard_log_text, render_workflow_commands
from vibe_gate.version import __version__

GOLDEN = Path(__file__).parents[1] / "golden" / "comments"
GROUNDS = "by @ada: it logs two frames up, see #12"
LOST = ("The check run was refused (403): this token may not write checks.",)

RENDERED = {
    "first-round.md": lambda: render_comment(reports.first()),
    "second-round.md": lambda: render_comment(reports.second(), LOST),
    "advised.md": lambda: render_comment(reports.advised()),
    "passed.md": lambda: render_comment(reports.passed()),
    "openings.md": lambda: "\n\n".join(
        f"<!-- {name} -->\n{opened(build_report())}" for name, build_report in reports.CASES.items()
    ),
    "job-summary.md": lambda: render_job_summary(reports.second(), LOST),
    "check-run.md": lambda: make_check_run(reports.first()).summary,
    "review-comments.md": lambda: "\n---\n\n".join(
        comment.body for comment in comments(reports.first())
    ),
    "accepted-comment.md": lambda: mark_accepted(comments(reports.first())[0].body, GROUNDS),
    "commands.txt": lambda: render_workflow_commands(reports.first(), "TOKEN", LOST),
}


def opened(report: Report) -> str:
    """What is read without opening a fold."""
    return render_comment(report).partition("<details>")[0].partition("\n")[2].strip() + "\n"


def comments(report: Report):
    return make_review_comments(report, read_anchors(report.patch.encode()))


@pytest.mark.parametrize("name", RENDERED)
def test_it_reads_as_it_did(name):
    """`python tests/report/write_golden.py` writes them anew; look at what changed."""
    assert without_state(RENDERED[name]()) == (GOLDEN / name).read_text()
    assert RENDERED[name]() == RENDERED[name]()


def without_state(text: str) -> str:
    """Compressed, the state is the same from run to run, but not from one zlib to another; releases
    have links.
    """
    return re.sub(r"(?<=<!-- vibe-gate:state )[A-Za-z0-9+/=]+", "STATE", text).replace(
        f"/v{__version__}/", "/VERSION/"
    )


def big(findings: int, patch: str = "") -> Report:
    many_findings = tuple(
        finding(f"finding {n} " + "which says a good deal " * 9, line=n + 1, path=f"src/{'deep/' * 9}file{n}.py",
                fingerprint=f"{n:016x}", level="failure" if n % 4 == 0 else "warning")
        for n in range(findings)
    )  # fmt: skip
    failure = failed(
        0,
        200,
        first_findings=many_findings,
        policy_changes=(policy(),) * 30,
        unreviewed=(unseen(),) * 2000,
    )
    head = reports.FIRST
    return Report(
        failure,
        ("a note",) * 50,
        first_round(many_findings, head),
        links=reports.links(head),
        patch=patch,
        artifact="summary",
    )


LINES = "".join(f"+{n} {'x' * 60}\n" for n in range(16_000))
ONE_LINE = "diff --git a/f b/f\n+" + "y" * 1_000_000 + "\n"
MEGABYTE = (
    f"diff --git a/big.py b/big.py\n--- /dev/null\n+++ b/big.py\n@@ -0,0 +1,16000 @@\n{LINES}"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("findings", "patch"),
    [
        (0, ""),
        (1, MEGABYTE),
        (400, ONE_LINE),
        (3000, ""),
    ],
)
def test_it_fits_and_says_what_it_leaves_out(findings, patch):
    report = big(findings, patch)
    body = render_comment(report, LOST * 50)
    assert len(body.encode()) <= MAX_COMMENT
    shown_count = body.count("\n- **failure**") + body.count("\n- **warning**")
    missing = re.search(
        r"\*\*([\d,]+) more findings\*\* did not fit: see \[the job's summary\]\(", body
    )
    assert shown_count + (int(missing[1].replace(",", "")) if missing else 0) == findings
    assert body.count("<details>") == body.count("</details>")
    assert len(re.findall(r"(?m)^```", body)) % 2 == 0
    assert "Run this review in a clone" in body
    assert read_comment_state(body).head == reports.FIRST
    text = render_job_summary(report)
    assert len(text.encode()) <= MAX_SUMMARY
    if findings <= 400:
        assert text.count("\n- **failure**") + text.count("\n- **warning**") == findings


@pytest.mark.slow
def test_the_gravest_findings_are_the_ones_that_stay():
    body = render_comment(big(400))
    assert body.count("\n- **failure**") == 100
    assert 0 < body.count("\n- **warning**") < 300
    numbers = [int(number) for number in re.findall(r"finding (\d+) which", body)]
    assert numbers == sorted(numbers, key=lambda n: (n % 4 != 0, n))


@pytest.mark.slow
def test_cut_or_not_the_parts_are_whole():
    for body in (
        render_comment(big(400, MEGABYTE)),
        render_comment(big(1, MEGABYTE)),
        render_job_summary(big(400, MEGABYTE)),
    ):
        tags = skeleton(page(body))
        assert tags.count("details") == tags.count("summary")
        assert all(
            len(row.findall("td")) == 3 for row in page(body).iter("tr") if row.findall("td")
        )


@pytest.mark.parametrize("case", reports.CASES)
def test_what_is_decided_why_and_what_to_do_are_said_in_sixty_words(case):
    """Without the findings, whose number is not ours. A link counts as the words that are shown."""
    tree = page(re.sub(r"(?ms)^#### .*", "", opened(reports.CASES[case]())))
    steps = 1 + ("Last, " in tree.text_content())
    assert len(tree.text_content().split()) <= 47 + 15 * steps
    links = [link.get("href") for link in tree.iter("a")]
    assert all("/docs/" in link or "/commit/" in link for link in links)
    assert case == "nothing to review" or any(
        link.endswith("github.md#the-comment") for link in links
    )


def test_a_diff_of_the_gate_names_no_file_but_keeps_every_line_of_its_hunks():
    diff = 'diff --git "a/\\303\\244" "b/\\303\\244"\nindex 1..2\n--- "a/\\303\\244"\n+++ b/x\n@@ -1 +1 @@\n--- x\n+++ y\n'
    change = replace(policy("ä"), diff=diff)
    body = render_comment(reports.first_report(summary(exit_code=4, policy_changes=(change,))))
    assert "```diff\n@@ -1 +1 @@\n--- x\n+++ y\n```" in body
    assert "<code>ä</code>" in body and "303" not in body.partition("<!-- vibe-gate:state")[0]


def test_a_gate_without_judge_questions_says_of_no_place_that_a_judge_missed_it():
    report = reports.first_report(summary(unreviewed=(unseen(reason="no criterion asks a judge"),)))
    without_key = reports.first_report(reports.CASES["no key"]().summary)
    for text in (
        render_comment,
        lambda report: render_sarif(report.summary),
        lambda report: render_screen(report.summary, (), 80).plain,
    ):
        assert not re.search("(?i)not judged|no judge saw|asks a judge", text(report))
        assert re.search("(?i)not judged|no judge saw", text(without_key))


@pytest.mark.parametrize(("case", "reason"), [("key refused", "does not accept the key"), ("overload", "overloaded"),
                                              ("no key", "No API key"), ("budget", "is reached")])  # fmt: skip
def test_why_questions_have_no_answer_is_in_sight_and_in_the_fold(case, reason):
    body = render_comment(reports.CASES[case]())
    above, _, folded = body.partition("<details>")
    assert above.count(reason) == 1
    assert folded.lower().count(reason.lower()) == 1, "equal reasons are told once"
    assert "doctor" not in above, "what to do is another line's"


def test_a_reason_leads_nowhere_else_and_what_other_programs_said_is_folded():
    for name, build_report in reports.CASES.items():
        body = render_comment(build_report())
        assert "see above" not in body, name
        assert "\\|" not in body, name
        assert not re.search(r"Details:|Failed to|attempts", opened(build_report())), name
    folded = render_comment(reports.CASES["answer without its form"]()).partition("<details>")[2]
    assert "Details: Failed to provide valid structured output after 5 attempts" in folded
    assert (
        "authenticate" in render_comment(reports.CASES["key refused"]()).partition("<details>")[2]
    )


def test_no_case_contradicts_the_arithmetic():
    for name, build_report in reports.CASES.items():
        summary = build_report().summary
        for rubric in summary.rubrics:
            waived_ids = queries.waived_ids(rubric, summary.findings)
            real = weighed(*rubric.criteria, waived_ids=waived_ids)
            assert (rubric.outcome, rubric.coverage) == (real.outcome, real.coverage), name
            assert not queries.has_score(rubric) or rubric.score == real.score, name


def test_a_rubric_without_a_verdict_has_no_score():
    report = reports.CASES["judge undecided"]()
    assert "Rubric <code>quality</code>: inconclusive, 1 of 2 undecided" in render_comment(report)
    assert "score" not in render_comment(report) + render_verdict_page(report.summary)
    beside = replace(report.summary.rubrics[0], id="other", score=0.1)
    copy_of_both = replace(reports.CASES["failed by its score"]().summary, exit_code=1)
    assert (
        queries.lowest_score(replace(copy_of_both, rubrics=(*copy_of_both.rubrics, beside))) == 0.25
    )


@pytest.mark.parametrize("render", [render_comment, render_job_summary])
def test_what_was_not_posted_is_in_sight(render):
    assert LOST[0] in page(render(reports.first(), LOST)).text_content()
    assert LOST[0] not in "".join(
        fold.text_content() for fold in page(render(reports.first(), LOST)).iter("details")
    )


def test_three_hundred_files_are_eight_kilobytes():
    assert len(render_comment(reports.CASES["deadline"]()).encode()) < 8_000


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, "success"), (1, "failure"), (2, "failure"), (3, "failure"), (4, "action_required"), (5, "failure")],
)  # fmt: skip
def test_a_check_run_is_neutral_only_where_the_verdict_does_not_block(code, expected):
    report = Report(summary(exit_code=code), (), first_round((), reports.FIRST))
    assert make_check_run(report).conclusion == expected
    free = make_check_run(replace(report, blocks=False))
    assert free.conclusion == ("success" if code == 0 else "neutral")
    assert free.title.startswith("PASS" if code == 0 else "would have failed: ")


def test_a_second_round_says_what_is_new_open_fixed_and_held():
    body = render_comment(reports.second())
    assert "Round 2: 1 new, 2 still open, 1 fixed, 1 accepted. Held back: 1 finding" in body
    assert (
        f"fixed at [`{reports.SECOND[:12]}`](https://github.com/example/ledger/commit/{reports.SECOND})"
        in body
    )
    assert "This name says little. (" not in body
    assert "This name says little. (" in render_job_summary(reports.second())


def test_annotations_stand_at_new_and_open_findings_and_the_rest_is_in_the_summary():
    report = reports.second()
    run = make_check_run(report)
    assert [(note.path, note.start_line, note.annotation_level) for note in run.annotations] == [
        ("src/ledger/transfer.py", 41, "failure"),
        ("src/ledger/transfer.py", 43, "failure"),
        ("CLAUDE.md", 1, "warning"),
        ("tests/fixtures/keys.py", 3, "notice"),
    ]
    assert run.annotations[1].raw_details.startswith("Counterexample: transfer(account, -5)")
    first = first_round((finding("too many lines", path="", line=0),), reports.FIRST)
    assert "too many lines" in make_check_run(replace(report, round=first)).summary


def test_review_comments_stand_only_at_lines_of_the_diff_and_only_for_new_findings():
    line_comments = comments(reports.first())
    assert [
        (comment.path, comment.start_line, comment.line, comment.side) for comment in line_comments
    ] == [
        ("src/ledger/transfer.py", 43, 44, "RIGHT"),
        ("src/ledger/rights.py", 13, 13, "RIGHT"),
    ]
    assert [read_finding_marker(comment.body) for comment in line_comments] == [
        comment.fingerprint for comment in line_comments
    ]
    assert [comment.line for comment in comments(reports.second())] == [41]


def test_a_fixed_comment_says_so_once_and_keeps_what_it_said():
    body = comments(reports.first())[0].body
    fixed = mark_fixed(body, reports.SECOND, reports.links(reports.SECOND))
    assert fixed.splitlines()[1].startswith(
        f"**Fixed** at [`{reports.SECOND[:12]}`](https://github.com/example/ledger/commit/"
    )
    assert reports.SWALLOWED in fixed
    assert read_finding_marker(fixed) == read_finding_marker(body)
    assert is_marked_fixed(fixed)
    assert not is_marked_fixed(body)
    assert mark_fixed(fixed, "c" * 40) == fixed
    assert mark_fixed("somebody else's comment", "c" * 40) == "somebody else's comment"


@pytest.mark.parametrize(
    "edit", [str.rstrip, lambda body: body.replace("\n", "\r\n"), lambda body: body + "\n\n"]
)
def test_the_state_is_found_whatever_the_forge_did_to_line_ends(edit):
    comment = render_comment(reports.first())
    comment_state = read_comment_state(comment)
    assert comment_state is not None
    assert read_comment_state(edit(comment)) == comment_state
    first = first_round(reports.first().summary.findings, reports.FIRST).state
    assert [reported.fingerprint for reported in comment_state.findings] == [
        reported.fingerprint for reported in first.findings
    ]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "x",
        MARKER,
        f"x\n{render_comment(reports.first())}",
        render_comment(reports.first()) + "more",
    ],
)
def test_no_state_is_read_from_what_is_not_ours(body):
    assert read_comment_state(body) is None


def test_commands_are_ten_of_each():
    text = render_workflow_commands(big(400), "TOKEN")
    heads = [
        line.split(" ")[0]
        for line in text.splitlines()
        if line.startswith(("::error", "::warning"))
    ]
    assert (heads.count("::error"), heads.count("::warning")) == (10, 10)
    assert len(re.findall(r"finding \d+ which", text)) == 19
    assert guard_log_text("", "T") == ""


def test_a_command_escapes_what_would_end_it():
    odd_finding = finding("50% off, a::b", path="a,b:c.py", criterion="x,y:z")
    report = Report(
        failed(first_findings=(odd_finding,), findings=0),
        (),
        first_round((odd_finding,), reports.FIRST),
    )
    assert (
        "::error file=a%2Cb%3Ac.py,line=41,endLine=41,title=x%2Cy%3Az::50%25 off, a::b"
        in render_workflow_commands(report, "T")
    )
