"""The issues that a pull request closes, as rubrics see them."""

from __future__ import annotations

from vibe_gate.faces.action.issues import MAX_ISSUES, MAX_TEXT, ClosedIssues
from vibe_gate.faces.action.trigger import Trigger


def test_issues_of_the_repository_come_in_one_request_within_limits(github, forge):
    trigger = Trigger(kind="pull_request", repository=github.repository, number=7)
    issues = ClosedIssues(forge, trigger)
    assert issues() == ""
    github.add_closed_issue(7, 12, "Rename total", "Everywhere.\r\nAlso in docs.")
    github.add_closed_issue(7, 3, "Elsewhere", "A secret plan", "octo/private")
    github.add_closed_issue(7, 13, "No text", "")
    before = github.requests
    assert issues() == "#12: Rename total\n\nEverywhere.\nAlso in docs.\n\n#13: No text"
    assert github.requests == before + 1
    for number in range(20, 40):
        github.add_closed_issue(7, number, "Long", "y" * 12_000)
    text = issues()
    assert len(text) < MAX_TEXT + 100
    assert text.endswith(" characters left out here]")
    assert text.count("#2") <= MAX_ISSUES
    assert issues.notes == []
    github.fail("POST", "/graphql", 403, times=None)
    assert issues() == ""
    assert "could not be read" in issues.notes[0]
    assert ClosedIssues(None, trigger)() == ""
