"""Whether a finding is executed or inferred, and its test, wherever a finding stands."""

from __future__ import annotations

import json

import pytest
from fail_votes import fail_vote
from msgspec.structs import replace
from reports import first

from vibe_gate.domain.verdict import CheckedEvidence, Finding, Proof, ProofStatus
from vibe_gate.report import queries, sentences
from vibe_gate.report.anchors import read_anchors
from vibe_gate.report.annotations import annotate_finding
from vibe_gate.report.comment import render_comment
from vibe_gate.report.finding_comments import make_review_comments
from vibe_gate.report.html.page_body import render_body
from vibe_gate.report.html.view import verdict_view
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round
from vibe_gate.report.sarif import render_sarif
from vibe_gate.report.verdict_screen import render_screen

TEST = "def test_it():\n    assert transfer(1) == 1  # ``` </details> @team\n"
LINE = CheckedEvidence(
    path="docs/api.md", line=7, end_line=7, quote="transfer(1) gives 1", standing="holds"
)
PATH = "tests/test_counterexample_0a1b2c3d.py"
COMMAND = f".venv/bin/python -m pytest -q {PATH}"


def reported(status: ProofStatus | None) -> tuple[Report, Finding]:
    base_report = first()
    reason = "Its test fails after the change and passed before: AssertionError: 0 != 1."
    first_finding, *other_findings = base_report.summary.findings
    proven_finding = replace(
        first_finding, basis="executed" if status in ("proven", "shown") else "inferred"
    )
    if status:
        details = {"reason": reason, "path": PATH, "test": TEST, "command": COMMAND}
        proven_finding = replace(
            proven_finding, proof=Proof(status=status, obligation=(LINE,), **details)
        )
    summary = replace(base_report.summary, findings=(proven_finding, *other_findings))
    return replace(
        base_report,
        summary=summary,
        round=first_round(summary.findings, summary.change.head_commit),
    ), proven_finding


def everywhere(report: Report, finding: Finding) -> dict[str, str]:
    """What each face says of the finding, as text."""
    [at_line, *_] = make_review_comments(report, read_anchors(report.patch.encode()))
    annotation = annotate_finding(finding, report)
    assert annotation is not None
    return {
        "terminal": render_screen(report.summary, (), 200).plain,
        "comment": render_comment(report),
        "line comment": at_line.body,
        "annotation": f"{annotation.title} {annotation.raw_details}",
        "sarif": json.dumps(json.loads(render_sarif(report.summary))["runs"][0]["results"][0]),
        "html": str(render_body(verdict_view(report.summary))),
    }


@pytest.mark.parametrize("status", ["proven", "could_not_run", None])
def test_every_face_says_how_a_finding_is_known_and_gives_the_test_to_take_over(
    status: ProofStatus | None,
) -> None:
    report, finding = reported(status)
    word, other = ("executed", "inferred") if status == "proven" else ("inferred", "executed")
    for name, text in everywhere(report, finding).items():
        assert word in text.lower(), name
        assert other not in text.lower(), name
        assert (PATH in text) is bool(status), name
        assert (".venv/bin/python -m pytest" in text) is bool(status), name
        assert ("roven" in text) is (status == "proven"), name
        if status and name in ("comment", "line comment", "html"):
            assert "assert transfer(1) == 1" in text, name
    comment = render_comment(report)
    assert comment.count("<details>") == comment.count("</details>") - (
        1 if status else 0
    )  # the test's own stands in a fence


def test_a_test_that_voided_a_fail_is_told_with_its_command_though_no_finding_has_it() -> None:
    proof = Proof(
        status="void",
        reason="Its own test passes after the change.",
        path=PATH,
        test=TEST,
        command=COMMAND,
    )
    vote = fail_vote("its own test passes after the change", outcome="abstain", proof=proof)
    summary = first().summary
    undecided = replace(
        summary.rubrics[0].criteria[0], outcome="abstain", kind="judge", votes=(vote, vote)
    )
    rubric = replace(
        summary.rubrics[0],
        outcome="abstain",
        criteria=(undecided, *summary.rubrics[0].criteria[1:]),
    )
    report = replace(summary, rubrics=(rubric, *summary.rubrics[1:]))
    screen = render_screen(report, (), 200).plain
    assert (
        screen.count(
            f"Its own test passes after the change.\n    repeat: {COMMAND} (the bundle has the test)"
        )
        == 1
    )
    page = str(render_body(verdict_view(report)))
    assert COMMAND in page and "assert transfer(1) == 1" in page


def test_what_a_judge_finds_is_inferred_and_what_a_check_finds_is_neither() -> None:
    report = first()
    swallowed, hidden, policy, key = report.summary.findings
    assert [queries.finding_basis(entry) for entry in (swallowed, hidden, policy, key)] == [
        "inferred",
        "",
        "",
        "",
    ]
    assert (
        sentences.proof_sentence(Proof(status="shown", reason="Its test fails."))
        == "Shown: its test fails."
    )
