"""From a report to what stands on GitHub, over rounds and faults: final state and number of writes
each time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence

import pytest
from contract.github import LoopbackGitHub, loopback_github
from msgspec.structs import replace
from summaries import waived, waiver

from vibe_gate.domain.network import read_network
from vibe_gate.domain.replayed import Replayed, ReplayRow
from vibe_gate.domain.summary import ChangedFile, ChangeSummary, Cost, Summary, Trusted
from vibe_gate.domain.verdict import (
    CheckedEvidence,
    CriterionResult,
    Finding,
    RubricResult,
    SecondLook,
)
from vibe_gate.forge import open_forge
from vibe_gate.report.finding_comments import read_finding_marker
from vibe_gate.report.links import Links
from vibe_gate.report.posting import Posted, Posting, post_report
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import ReportedFinding, finding_identity
from vibe_gate.report.round import first_round
from vibe_gate.report.workflow_commands import render_workflow_commands

BASE = "b" * 40
HEADS = [digit * 40 for digit in "a123456789"]
LINES = 2_500
COMMENTS = "/repos/{owner}/{repo}/issues/{issue_number}/comments"
COMMENT = "/repos/{owner}/{repo}/issues/comments/{comment_id}"
CHECKS = "/repos/{owner}/{repo}/check-runs"
REVIEWS = "/repos/{owner}/{repo}/pulls/{pull_number}/reviews"
PULL = "/repos/{owner}/{repo}/pulls/{pull_number}"

PATCH = (
    "diff --git a/src/a.py b/src/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/src/a.py\n"
    f"@@ -0,0 +1,{LINES} @@\n" + "".join(f"+x = {n}\n" for n in range(1, LINES + 1))
)


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    with loopback_github() as started:
        started.add_pull(7, base_sha=BASE, head_sha=HEADS[0], diff=PATCH)
        yield started


def finding(number: int, *, level: str = "failure", path: str = "src/a.py") -> Finding:
    return Finding(
        path=path, line=number, end_line=number, level=level, criterion="tidy", message=f"Line {number} is untidy",
        fingerprint=f"{number:016x}",
    )  # fmt: skip


def summary(findings: Sequence[Finding], head: str) -> Summary:
    fails = any(finding.level == "failure" for finding in findings)
    outcome = "fail" if fails else "pass"
    tidy = CriterionResult(
        id="tidy",
        kind="check",
        must=True,
        weight=1,
        outcome=outcome,
        decided_by="check",
        reason="So.",
    )
    file = ChangedFile(
        path="src/a.py", old_path=None, change_type="added", added=LINES, deleted=0, binary=False
    )
    change = ChangeSummary(
        before="c" * 40, after="d" * 40, base_commit=BASE, head_commit=head, patch_id="", range_patch_id="",
        files=(file,),
    )  # fmt: skip
    return Summary(
        run_id="20261120T120000000Z-0123abcd", key=head, workflow="review", outcome=outcome, exit_code=int(fails),
        bundle="", trusted=Trusted(revision=BASE, bootstrap=False), change=change, findings=tuple(findings),
        rubrics=(RubricResult(id="q", digest="e" * 64, outcome=outcome, score=0.0, coverage=1.0, criteria=(tidy,)),),
    )  # fmt: skip


def report(findings: Sequence[Finding], head: str, name: str = "") -> Report:
    posted_summary = summary(findings, head)
    links = Links(
        "https://github.com",
        "octo/hello",
        head,
        "https://github.com/octo/hello/actions/runs/1",
        BASE,
    )
    return Report(
        posted_summary,
        (),
        first_round(posted_summary.findings, head),
        links,
        PATCH,
        number=7,
        name=name,
    )


class Since:
    """Commits that changed every line, or those that `lines` says."""

    def __init__(self, *lines: int) -> None:
        self.lines = lines

    def brings(self, finding: Finding) -> bool:
        return not self.lines or finding.line in self.lines

    def replaces(self, reported: ReportedFinding) -> bool:
        return not self.lines or any(first in self.lines for _, first, _ in reported.places)


def say(
    github: LoopbackGitHub, environ, findings: Sequence[Finding], head: str = HEADS[0], *, name: str = "",
    since=None, lines: bool = True, **fields: object,
) -> Posted:  # fmt: skip
    """One job's posting at this head, which is the pull request's newest."""
    github.pulls[7].head_sha = head
    posting = Posting(
        head=head, number=7, review_comments=lines, since=since or (lambda earlier: Since())
    )
    with open_forge(
        github.url, github.token, "octo/hello", network=read_network(environ), pause=[].append
    ) as forge:
        return post_report(replace(posting, **fields), forge, report(findings, head, name))


def ours(github: LoopbackGitHub) -> list[str]:
    return [comment.body for comment in github.comments if comment.author == "github-actions[bot]"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "lines", "checks"), [(0, 0, 1), (10, 10, 1), (60, 0, 2)])
def test_each_finding_is_a_comment_at_its_lines_or_an_annotation(
    github, environ, number, lines, checks
):
    equal = [replace(finding(n), message="Untidy.") for n in range(1, number + 1)]
    posted = say(github, environ, equal)
    assert len(github.check_runs) == 1
    assert len(github.check_runs[0].annotations) == number - lines
    assert github.check_runs[0].sent["conclusion"] == ("failure" if number else "success")
    assert len(github.review_comments) == lines
    assert github.writes == checks + 1 + bool(lines)
    assert posted.comment_url
    assert posted.downgrades == []
    [body] = ours(github)
    assert body.count("Untidy.") == bool(number)
    assert number == 0 or re.search(
        rf" and {number - 5} more places: Untidy\. \(`tidy`(, `\w{{8}}`){{3}} and {number - 3} more\)",
        body,
    )
    assert len(body) < 10_000
    assert "Untidy." not in github.check_runs[0].sent["output"]["summary"]
    workflow_commands = render_workflow_commands(
        posted.report, "T", (), {finding_identity(equal_finding) for equal_finding in equal}
    )
    assert workflow_commands.count("::") == 2


@pytest.mark.parametrize("number", [1, 10, 300, 1000])
def test_a_comment_with_diffs_is_one_that_github_takes(github, environ, number):
    findings = [finding(1 + n * 2) for n in range(number)]
    posted = say(github, environ, findings, lines=False)
    assert posted.downgrades == []
    [body] = ours(github)
    assert "  ```diff\n  @@ -0,0 +1,4 @@\n  +x = 1\n" in body
    assert len(body.encode()) <= 65_000


def accepted(number: int, by: str = "@bob", reason: str = "a fixture") -> Finding:
    return waived(finding(number), waiver(by, reason))


@pytest.mark.slow
def test_an_accepted_findings_comment_says_by_whom_and_its_thread_is_resolved_until_the_override_lapses(
    github, environ
):
    say(github, environ, [finding(1), finding(2)])
    comment, other = github.review_comments
    first, untouched = comment.body, other.body
    for by, reason in (("@bob", "a fixture"), ("@carol", "agreed")):
        say(github, environ, [accepted(1, by, reason), finding(2)])
        assert comment.body.splitlines()[1] == f"**Accepted** by `{by}`: {reason}"
        assert "~~**failure**~~ · `tidy`" in comment.body and "Line 1 is untidy" in comment.body
        assert comment.resolved
        comment.resolved = False  # by a person: what is resolved once is not resolved again
        before = github.writes
        say(github, environ, [accepted(1, by, reason), finding(2)])
        assert (github.writes, comment.resolved) == (before + 1, False)
        comment.resolved = True
    say(github, environ, [finding(1), finding(2)])  # it lapsed
    assert (comment.body.strip(), comment.resolved) == (first.strip(), False)
    say(github, environ, [accepted(1), finding(2)])
    say(github, environ, [finding(2)], HEADS[1])
    assert (
        comment.body.splitlines()[1].startswith("**Fixed** at ") and "Accepted" not in comment.body
    )
    assert comment.resolved
    assert (other.body, other.resolved) == (untouched, False)
    assert len(github.review_comments) == 2


@pytest.mark.slow
def test_a_refuted_findings_comment_says_so_and_its_thread_is_resolved_until_it_is_raised_again(
    github, environ
):
    say(github, environ, [finding(1)])
    (comment,) = github.review_comments
    first, look = (
        comment.body,
        SecondLook(outcome="refuted", said="refuted", reason="`main` leaves."),
    )
    for _ in range(2):
        say(github, environ, [replace(finding(1), level="notice", second_look=look)], HEADS[1])
        assert comment.body.splitlines()[1] == "**Refuted** by a second look: `main` leaves."
        assert comment.resolved
    say(github, environ, [finding(1)], HEADS[2])
    assert (comment.body.strip(), comment.resolved) == (first.strip(), False)


@pytest.mark.slow
def test_a_token_that_may_not_resolve_threads_edits_the_comments_and_the_next_run_tries_again(
    github, environ
):
    github.lacking.add("contents=write")
    say(github, environ, [finding(1), finding(2)])
    posted = say(github, environ, [accepted(2)], HEADS[1])
    fixed, waived = github.review_comments
    assert ("**Fixed** at" in fixed.body, "**Accepted** by" in waived.body) == (True, True)
    assert not (fixed.resolved or waived.resolved)
    assert posted.downgrades == []
    [remark] = posted.remarks
    assert (
        "2 threads at lines of the diff." in remark and "`contents: write` would allow it" in remark
    )
    before = github.writes
    assert say(github, environ, [accepted(2)], HEADS[1]).remarks == [remark]
    assert github.writes == before + 1, "the comments stay as they are"
    github.lacking.clear()
    assert say(github, environ, [accepted(2)], HEADS[1]).remarks == []
    assert (fixed.resolved, waived.resolved) == (True, True)
    assert not fixed.body.endswith("vibe-gate:thread -->\n")
    github.lacking.add("contents=write")
    say(github, environ, [finding(2)], HEADS[1])
    assert (waived.resolved, "Accepted" in waived.body) == (True, False)
    github.lacking.clear()
    say(github, environ, [finding(2)], HEADS[1])
    assert not waived.resolved


@pytest.mark.slow
def test_more_findings_than_a_check_run_shows_are_counted_and_the_gravest_are_shown(
    github, environ
):
    findings = [finding(n, level="warning" if n <= 1_200 else "failure") for n in range(1, 2_401)]
    say(github, environ, findings, lines=False)
    check_run = github.check_runs[0]
    assert [annotation["start_line"] for annotation in check_run.annotations] == list(
        range(1_201, 2_201)
    )
    assert (
        check_run.sent["output"]["summary"].count(
            "Of 2,400 findings, 1,000 are annotations: the gravest first."
        )
        == 1
    )
    assert github.writes == 21
    assert len(ours(github)[0]) <= 65_000


@pytest.mark.slow
def test_the_same_said_again_is_one_new_check_run_and_nothing_else(github, environ):
    say(github, environ, [finding(1)])
    say(github, environ, [finding(1)])  # what was new is open now
    before = github.writes
    say(github, environ, [finding(1)])
    assert github.writes == before + 1
    assert len(ours(github)) == len(github.review_comments) == 1


@pytest.mark.slow
def test_rounds_say_what_is_fixed_open_new_and_back(github, environ):
    say(github, environ, [finding(1), finding(2)])
    posted = say(github, environ, [finding(2), finding(3)], HEADS[1])
    assert posted.report.round.number == 2
    assert [finding.line for finding in posted.report.round.new] == [3]
    assert [finding.line for finding in posted.report.round.open] == [2]
    assert [(finding.line, finding.fixed) for finding in posted.report.round.fixed] == [
        (1, HEADS[1])
    ]
    bodies = {read_finding_marker(comment.body): comment.body for comment in github.review_comments}
    assert "Fixed" in bodies[f"{1:016x}"]
    assert [(comment.line, comment.resolved) for comment in github.review_comments] == [
        (1, True),
        (2, False),
        (3, False),
    ]
    assert "Fixed" not in bodies[f"{2:016x}"]
    assert len(github.review_comments) == 3
    before = github.writes
    say(github, environ, [finding(2), finding(3)], HEADS[2])
    assert github.writes == before + 2  # check run and comment: what is fixed is marked once
    assert {
        read_finding_marker(comment.body): comment.body for comment in github.review_comments
    } == bodies
    posted = say(github, environ, [finding(1), finding(2), finding(3)], HEADS[3])
    assert posted.report.round.reappeared == {f"{1:016x}"}
    assert [read_finding_marker(comment.body) for comment in github.review_comments].count(
        f"{1:016x}"
    ) == 2  # said again: it is back
    assert len(ours(github)) == 1


@pytest.mark.slow
def test_where_the_last_round_cannot_be_seen_every_line_counts_and_the_comment_says_so(
    github, environ
):
    say(github, environ, [finding(1)])
    posted = say(
        github,
        environ,
        [finding(1), finding(5, level="warning")],
        HEADS[1],
        since=lambda head: None,
    )
    assert [finding.line for finding in posted.report.round.new] == [5]
    assert "cannot be seen any more" in posted.downgrades[0]
    assert "cannot be seen any more" in ours(github)[0]


def test_a_deleted_comment_is_made_again_as_a_first_round(github, environ):
    say(github, environ, [finding(1)], lines=False)
    github.comments.clear()
    posted = say(github, environ, [finding(1)], HEADS[1], lines=False)
    assert posted.report.round.number == 1
    assert len(ours(github)) == 1


def test_a_comment_that_somebody_else_forged_is_neither_read_nor_changed(github, environ):
    say(github, environ, [finding(1)], lines=False)
    forged = ours(github)[0].replace("FAIL", "PASS")
    github.comments.clear()
    github.add_comment(7, "eve", forged)
    posted = say(github, environ, [finding(1)], lines=False)
    assert posted.report.round.number == 1
    assert [comment.author for comment in github.comments] == ["eve", "github-actions[bot]"]
    assert github.comments[0].body == forged


def test_a_review_comment_that_somebody_else_forged_silences_nothing(github, environ):
    github.add_review_comment(
        7,
        "eve",
        f"<!-- vibe-gate:finding {1:016x} -->\nfine",
        path="src/a.py",
        line=1,
        side="RIGHT",
    )
    say(github, environ, [finding(1)])
    assert [review_comment.author for review_comment in github.review_comments] == [
        "eve",
        "github-actions[bot]",
    ]


def test_a_forks_token_writes_nothing_and_every_downgrade_says_why(github, environ):
    github.read_only.add(github.token)
    posting = Posting(head=HEADS[0], number=7, review_comments=True)
    with open_forge(github.url, github.token, "octo/hello", network=read_network(environ)) as forge:
        posted = post_report(posting, forge, replace(report([finding(1)], HEADS[0]), fork=True))
    assert github.writes == 0
    assert (posted.comment_url, posted.check_run_url) == ("", "")
    assert len(posted.downgrades) == 3
    assert all(sentence.endswith("from a fork may only read.") for sentence in posted.downgrades)
    assert posted.report.summary.exit_code == 1


def test_a_permission_that_the_token_lacks_is_named_as_github_names_it_in_what_can_be_posted(
    github, environ
):
    github.lacking.add("checks=write")
    posted = say(github, environ, [finding(1)], lines=False)
    assert (posted.check_run_url, github.writes) == ("", 1)
    downgrade = "The check run could not be written: the token lacks `checks: write`; add it to the job's `permissions`."
    assert posted.downgrades == [downgrade]
    assert downgrade in ours(github)[0]
    github.lacking = {"issues=write", "pull_requests=write"}
    assert (
        "lacks `issues: write` or `pull-requests: write`;"
        in say(github, environ, [finding(2)]).downgrades[-1]
    )


@pytest.mark.slow
def test_a_finding_that_is_not_raised_again_keeps_its_thread_open_until_its_lines_change(
    github, environ
):
    say(github, environ, [finding(1), finding(2)])
    first, second = github.review_comments
    bodies = (first.body, second.body)
    say(github, environ, [], HEADS[1], since=lambda earlier: Since(2))
    assert (first.body, first.resolved) == (bodies[0], False)
    assert (second.body.split("\n")[1][:9], second.resolved) == ("**Fixed**", True)
    assert "Round 2: 0 new, 0 still open, 1 fixed, 1 not raised again." in ours(github)[0]
    assert (
        "<summary>Not raised again, on lines that did not change (1)</summary>" in ours(github)[0]
    )
    say(github, environ, [finding(1)], HEADS[2], since=lambda earlier: Since(3))
    assert "(back)" not in ours(github)[0]
    assert len(github.review_comments) == 2, "the same thread goes on"
    heads = []
    say(
        github,
        environ,
        [],
        HEADS[3],
        since=lambda earlier: heads.append(earlier) or Since(3),
    )
    say(
        github,
        environ,
        [],
        HEADS[4],
        since=lambda earlier: heads.append(earlier) or Since(1),
    )
    assert heads[-1] == HEADS[2], "where it was found last"
    assert first.resolved


@pytest.mark.slow
def test_a_finding_under_another_fingerprint_goes_on_in_its_thread(github, environ):
    pass_line = CheckedEvidence(path="src/a.py", line=1, end_line=1, quote="pass", standing="holds")
    first = replace(finding(1), evidence=(pass_line,), basis="inferred")
    second = replace(first, fingerprint="f" * 16)
    say(github, environ, [first])
    say(github, environ, [second], HEADS[1])
    [comment] = github.review_comments
    assert (comment.resolved, comment.body.count("`ffffffff`")) == (False, 1)
    assert "0 new, 1 still open, 0 fixed" in ours(github)[0]
    say(github, environ, [], HEADS[2])
    assert comment.resolved


def spend(github, environ, head: str, usd: float, **fields: object) -> str:
    """What the comment says after a run that cost so much."""
    github.pulls[7].head_sha = head
    base = report([finding(1)], head)
    cost = Cost(usd=usd, basis="known" if usd else "none")
    costed_report = replace(base, summary=replace(base.summary, cost=cost), **fields)
    with open_forge(
        github.url, github.token, "octo/hello", network=read_network(environ), pause=[].append
    ) as forge:
        post_report(Posting(head=head, number=7), forge, costed_report)
    return ours(github)[0]


@pytest.mark.slow
def test_the_comment_tells_what_the_pull_request_has_cost_so_far(github, environ):
    assert "so far" not in spend(github, environ, HEADS[0], 0.25)
    comment = spend(github, environ, HEADS[1], 0.5)
    assert "This pull request so far: $0.7500 in 2 runs that asked a model." in comment
    assert "<summary>Details: score 0.00, $0.5000 ($0.7500 so far)," in comment
    assert "so far: $0.7500 in 2 runs" in spend(github, environ, HEADS[2], 0.0)
    replayed = Replayed(rows=(ReplayRow(run_id="x", usd=0.125),))
    comment = spend(github, environ, HEADS[3], 0.0, replayed=replayed)
    assert "The replays cost $0.1250 more. This pull request so far: $0.8750 in 3 runs" in comment


@pytest.mark.slow
def test_what_a_fork_claims_to_have_cost_is_not_added_up(github, environ):
    spend(github, environ, HEADS[0], 0.25)
    comment = spend(github, environ, HEADS[1], 900.0, claimed=True)
    assert "so far" not in comment
    assert comment.splitlines()[1].startswith("### vibe-gate: FAIL (claimed) · [`")
    assert github.check_runs[-1].output["title"].startswith("FAIL (claimed) · ")
    assert "so far: $0.2500 in 1 run" in spend(github, environ, HEADS[2], 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("off", [(1,), (5,), (9,), (2, 3), (1, 5, 9), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_a_line_outside_githubs_own_diff_costs_that_comment_alone(github, environ, off):
    for line in off:
        del github.pulls[7].anchors["src/a.py", "RIGHT", line]
    posted = say(github, environ, [finding(n) for n in range(1, 10)])
    within = {n for n in range(1, 10) if n not in off}
    assert {review_comment.line for review_comment in github.review_comments} == within
    assert {
        review_comment["start_line"] for review_comment in github.check_runs[0].annotations
    } == set(off)
    assert len(github.reviews) <= len(off) * 4
    [sentence] = posted.downgrades
    assert sentence.startswith("GitHub takes no comment")
    assert all(f"src/a.py:{line}" in sentence for line in off[:5])
    assert say(github, environ, [finding(n) for n in range(1, 10)]).at_lines >= {
        f"{n:016x}" for n in within
    }
    assert len(github.review_comments) == len(within)


def test_a_file_that_is_not_in_githubs_diff_costs_its_comments_alone(github, environ):
    other = "diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -1 +1,2 @@\n b = 1\n+b = 2\n"
    findings = [finding(1), finding(2), finding(2, path="b.py")]
    findings[2] = replace(findings[2], fingerprint="f" * 16)
    github.pulls[7].head_sha = HEADS[0]
    patched_report = replace(report(findings, HEADS[0]), patch=PATCH + other)
    with open_forge(
        github.url, github.token, "octo/hello", network=read_network(environ), pause=[].append
    ) as forge:
        posted = post_report(
            Posting(head=HEADS[0], number=7, review_comments=True), forge, patched_report
        )
    assert [
        (review_comment.path, review_comment.line) for review_comment in github.review_comments
    ] == [
        ("src/a.py", 1),
        ("src/a.py", 2),
    ]
    assert "GitHub takes no comment at b.py:2, so it stands here only" in posted.downgrades[0]


def test_a_refused_line_leaves_the_finding_in_the_comment(github, environ):
    github.fail("POST", REVIEWS, 422, times=None)
    posted = say(github, environ, [finding(1)])
    assert github.review_comments == []
    assert "GitHub takes no comment at `src/a.py:1`, so it stands here only" in ours(github)[0]
    assert "Line 1 is untidy" in ours(github)[0]
    assert len(posted.downgrades) == 1
    assert github.writes == 2


def test_a_finding_off_the_diff_stands_in_the_comment_only(github, environ):
    say(github, environ, [finding(1), finding(9, path="src/other.py")])
    assert [review_comment.line for review_comment in github.review_comments] == [1]
    assert "src/other.py" in ours(github)[0]
    assert github.violations == []


def test_a_refused_comment_changes_no_verdict_and_is_a_downgrade(github, environ):
    github.fail("POST", COMMENTS, 403, times=None)
    posted = say(github, environ, [finding(1)], lines=False)
    assert posted.comment_url == ""
    assert posted.check_run_url
    assert "The comment could not be posted" in posted.downgrades[-1]
    assert posted.report.summary.outcome == "fail"


@pytest.mark.parametrize("path", [COMMENTS, CHECKS, REVIEWS])
@pytest.mark.parametrize("fault", [{"cut_when": "after"}, {"status": 502}])
def test_a_fault_that_passes_makes_nothing_twice_and_what_is_missing_is_told(
    github, environ, path, fault
):
    github.fail("POST", path, **fault)
    posted = say(github, environ, [finding(1)])
    assert len(posted.downgrades) == (path != COMMENTS)
    assert len(ours(github)) == 1
    assert max(len(github.check_runs), len(github.review_comments)) == 1


def test_a_server_that_stays_down_costs_no_verdict(github, environ):
    github.fail("*", "*", 502, times=None)
    posted = say(github, environ, [finding(1)])
    assert github.writes == 0
    assert len(posted.downgrades) >= 3
    assert posted.report.summary.outcome == "fail"


def test_a_token_that_is_not_accepted_is_told_once(github, environ):
    posting = Posting(head=HEADS[0], number=7, review_comments=True)
    with open_forge(github.url, "wrong", "octo/hello", network=read_network(environ)) as forge:
        posted = post_report(posting, forge, report([finding(1)], HEADS[0]))
    [downgrade] = posted.downgrades
    assert downgrade.startswith(
        "Nothing more was posted: the token (`github-token`) is not accepted. GitHub refused"
    )
    assert downgrade.count("401") == 1


def test_an_older_run_leaves_the_comment_to_the_newer_one(github, environ):
    say(github, environ, [finding(1)], HEADS[1])
    newest = ours(github)[0]
    posting = Posting(head=HEADS[0], number=7, review_comments=True)
    with open_forge(github.url, github.token, "octo/hello", network=read_network(environ)) as forge:
        posted = post_report(posting, forge, report([], HEADS[0]))
    assert ours(github) == [newest]
    assert "is at 111111111111 by now and this run is about aaaaaaaaaaaa" in posted.downgrades[0]
    assert [run.sent["head_sha"] for run in github.check_runs] == [HEADS[1], HEADS[0]]


def test_unreadable_earlier_words_make_a_first_round_and_no_second_comment(github, environ):
    say(github, environ, [finding(1)], lines=False)
    github.fail("GET", COMMENTS, 403, times=1)
    posted = say(github, environ, [finding(2)], HEADS[1], lines=False)
    assert posted.report.round.number == 1
    assert "counts as a first round" in posted.downgrades[0]
    assert len(ours(github)) == 1


def test_what_is_not_wanted_is_not_written_and_without_a_pull_request_only_the_commit_hears_of_it(
    github, environ
):
    posted = say(
        github, environ, [finding(1)], comment=False, check_run=False, review_comments=False
    )
    assert (github.writes, posted.downgrades) == (0, [])
    posted = say(github, environ, [finding(1)], number=None)
    assert (github.writes, bool(posted.check_run_url)) == (1, True)


def test_without_a_forge_everything_known_is_kept(environ):
    posted = post_report(
        Posting(head=HEADS[0], number=7, limits=("No token.",)),
        None,
        report([finding(1)], HEADS[0]),
    )
    assert posted.downgrades == ["No token."]
    assert not (posted.comment_url or posted.check_run_url)


def test_two_jobs_that_post_in_the_same_moment_leave_one_comment(github, environ):
    def job() -> None:
        with open_forge(
            github.url, github.token, "octo/hello", network=read_network(environ)
        ) as forge:
            post_report(Posting(head=HEADS[0], number=7), forge, report([finding(1)], HEADS[0]))

    jobs = [threading.Thread(target=job) for _ in range(2)]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join()
    assert len(ours(github)) == 1
