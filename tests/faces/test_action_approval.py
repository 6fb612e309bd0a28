"""Whose approving review lets a change of the gate pass, and what stands against it."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.github import loopback_github
from faces import events
from faces.jobs import Project, project

SOFTER = {".vibe-gate/gate.toml": 'schema = 1\nrubrics = ["quality"]\n# softer\n'}


@pytest.fixture
def made(tmp_path: Path, environ: dict[str, str]):
    with loopback_github() as github:
        github.permissions.update(bob="write", carol="write", dave="read")
        yield project(tmp_path, environ, github)


def softened(made: Project, message: str = "soften") -> str:
    made.origin.git("checkout", "-q", "-B", "topic", "main")
    head = made.origin.commit(message, **SOFTER)
    made.origin.git("checkout", "-q", "main")
    made.pull(head)
    return head


@pytest.mark.slow
def test_a_co_author_does_not_approve_but_somebody_else_does(made):
    head = softened(made, "soften\n\nCo-authored-by: Bob <583231+bob@users.noreply.github.com>")
    made.github.add_review(7, "bob", "APPROVED", head)
    assert made.review_pull(head).code == 4
    made.github.add_review(7, "carol", "APPROVED", head)
    assert made.review_pull(head).code == 0
    assert made.act("merge_group", events.merge_group(made.main(), head), checkout=head).code == 0


@pytest.mark.slow
def test_whoever_asks_for_changes_and_may_write_stands_against_an_approval(made):
    head = softened(made)
    made.github.add_review(7, "bob", "APPROVED", head)
    made.github.add_review(7, "dave", "CHANGES_REQUESTED", head)
    assert made.review_pull(head).code == 0
    made.github.add_review(7, "carol", "CHANGES_REQUESTED", head)
    assert made.review_pull(head).code == 4
    assert "does not count while @carol asks for changes" in made.summary.replace("`", "")
    made.github.add_review(7, "carol", "APPROVED", head)
    assert made.review_pull(head).code == 0


@pytest.mark.slow
def test_beyond_the_commits_that_github_lists_no_approval_counts(made):
    head = softened(made)
    made.github.pulls[7].commits = [(f"{number:040x}", "zoe") for number in range(1, 251)]
    made.github.add_review(7, "bob", "APPROVED", head)
    assert made.review_pull(head).code == 4
    assert "An approval of the change of the gate cannot count" in made.summary
