"""`verify` in-process: a commit that was made anew, and the review of what it was before."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from repos import Repo
from standing import GATE, TIDY
from walks import run_review

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.provenance import Record
from vibe_gate.receipts.commit_status import CommitStatus
from vibe_gate.receipts.verify_range import VerifyRequest, verify_commits
from vibe_gate.store.clone_state import open_state


class Place(Repo):
    """A repository with an empty gate; `main` is its first commit."""

    def review(self, revision: str = "HEAD") -> str:
        """Review one commit; the id of the run."""
        return run_review(self.path, self.environ, Selection("commit", revision)).summary.run_id

    def id(self, revision: str = "HEAD") -> str:
        return self.git("rev-parse", revision)

    def amend(self, *options: str, **files: str) -> None:
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "-A")
        self.git("commit", "-q", "--amend", *(options or ("--no-edit",)))

    def forget_reflogs(self) -> None:
        self.git("reflog", "expire", "--expire=all", "--all")

    def status(self, span: str = "HEAD") -> CommitStatus:
        verification = verify_commits(
            VerifyRequest(span),
            start=self.path,
            environment=read_environment(self.environ),
            now=datetime.now(UTC),
        )
        assert verification.exit_code == (
            0 if verification.commits[0][1].status == "reviewed" else 1
        )
        return verification.commits[0][1]


@pytest.fixture
def place(tmp_path: Path, environ: dict[str, str]) -> Place:
    place = Place(tmp_path / "repo", environ)
    place.commit("Gate", **{".vibe-gate/gate.toml": "schema = 1\nrubrics = []\n"})
    return place


@pytest.mark.slow
def test_an_amended_commit_names_the_commit_that_was_reviewed_its_run_and_what_to_do(place):
    old = place.commit("Add", a="one\n")
    run = place.review()
    place.amend(a="two\n")
    new = place.id()
    commit_status = place.status()
    assert (commit_status.status, commit_status.match) == ("stale", None)
    assert commit_status.why == (
        f"{old[:12]} was reviewed (run {run}: pass), and an amend, rebase or cherry-pick changed it"
    )
    assert commit_status.commands == (f"vibe-gate review --commit {new[:12]}",)
    assert commit_status.found.run_id == run
    place.review()
    assert place.status().status == "reviewed"


def test_the_title_and_the_author_may_change_with_an_amend_as_long_as_the_reflog_has_it(place):
    place.commit("Add", a="one\n")
    place.review()
    place.amend("-m", "Another title", "--reset-author", "--date=2001-02-03T04:05:06", a="two\n")
    place.amend(a="three\n")
    assert place.status().status == "stale"
    place.forget_reflogs()
    assert place.status().status == "missing"


@pytest.mark.slow
def test_a_rebased_commit_with_a_solved_conflict_is_stale_by_author_date_and_title(place):
    place.git("checkout", "-q", "-b", "topic")
    old = place.commit("Add", a="one\n")
    place.review()
    place.git("checkout", "-q", "main")
    place.commit("Near", a="zero\n")
    place.git("rebase", "-q", "-X", "theirs", "main", "topic")
    assert place.status().why.startswith(f"{old[:12]} was reviewed")
    place.forget_reflogs()  # then the run names the commit, which is still here
    assert place.status().why.startswith(f"{old[:12]} was reviewed")


def test_a_record_of_the_hooks_is_enough(place):
    old = place.commit("Add", a="one\n")
    place.review()
    place.amend("-m", "Another title", "--reset-author", "--date=2001-02-03T04:05:06", a="two\n")
    place.forget_reflogs()
    rewritten = Record(
        ts="2026-01-01T00:00:00+00:00",
        kind="rewritten",
        stage="post-rewrite",
        commit=place.id(),
        old=old,
    )
    open_state(place.path / ".git").hook_records.append(rewritten)
    assert place.status().why.startswith(f"{old[:12]} was reviewed")


def test_what_was_reviewed_before_it_was_committed_counts_as_the_earlier_form_too(place):
    place.write("a", "one\n")
    place.git("add", "a")
    run_review(place.path, place.environ, Selection("staged"))
    old = place.commit("Add")
    place.amend(a="two\n")
    assert place.status().why.startswith(f"{old[:12]} was reviewed")


def test_a_failed_review_is_named_as_one(place):
    place.commit("Tidy", **{".vibe-gate/gate.toml": GATE, ".vibe-gate/rubrics/tidy.toml": TIDY})
    place.commit("Add", **{"src/a": "TODO\n"})
    run = place.review()
    place.amend(**{"src/a": "one\n"})
    assert f"(run {run}: fail)" in place.status().why


@pytest.mark.slow
def test_an_unreviewed_earlier_form_another_commit_and_one_of_the_history_say_nothing(place):
    place.commit("Add", a="one\n")
    place.amend(a="two\n")
    place.review("HEAD~1")
    assert place.status().status == "missing"
    place.review()
    place.commit("Next", b="one\n")
    assert place.status().status == "missing"
    place.git("revert", "--no-edit", "HEAD~1")
    place.git("-c", "merge.conflictStyle=merge", "cherry-pick", "--no-commit", "HEAD~2")
    place.write("a", "three\n")
    place.git("add", "a")
    place.git(
        "commit", "-q", "-C", "HEAD~2"
    )  # the same author, date and title as of a commit of its own history
    assert place.status().status == "missing"


def test_a_commit_that_another_branch_of_the_same_history_has_is_no_earlier_form(place):
    old = place.commit("Add", a="one\n")
    place.review()
    place.git("checkout", "-q", "-b", "side", "HEAD~1")
    place.write("b", "two\n")
    place.git("add", "b")
    place.git("commit", "-q", "-C", old)
    assert place.status().status == "stale"
    place.git("merge", "-q", "--no-edit", old)
    verification = verify_commits(
        VerifyRequest(f"{old}..HEAD"),
        start=place.path,
        environment=read_environment(place.environ),
        now=datetime.now(UTC),
    )
    assert verification.commits[1][1].status == "missing"  # below the merge


def test_a_bypass_keeps_its_name_though_the_commit_was_reviewed_before(place):
    place.commit("Add", a="one\n")
    place.review()
    place.amend(a="two\n")
    bypassed = Record(
        ts="2026-01-01T00:00:00+00:00", kind="bypassed", stage="post-commit", commit=place.id()
    )
    open_state(place.path / ".git").hook_records.append(bypassed)
    assert place.status().status == "bypassed"
