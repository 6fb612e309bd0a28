"""`verify` in-process: reviews that another working tree of the repository keeps."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from repos import Repo
from walks import run_review

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.receipts.verify_range import Verification, VerifyRequest, verify_commits
from vibe_gate.report import verified


class Trees(Repo):
    """A repository with an empty gate, and a linked working tree `feature` beside it, on a branch
    of that name.
    """

    def __init__(self, path: Path, environ: dict[str, str]) -> None:
        super().__init__(path, environ)
        self.commit("Gate", **{".vibe-gate/gate.toml": "schema = 1\nrubrics = []\n"})
        self.feature = path.parent / "feature"
        self.git("worktree", "add", "-q", "-b", "feature", str(self.feature))
        (self.feature / "a").write_text("one\n")
        self.git("-C", str(self.feature), "add", "a")
        self.git("-C", str(self.feature), "commit", "-q", "-m", "Add")
        run_review(self.feature, environ, Selection("commit", "HEAD"))
        shutil.move(self.store(path), self.store(self.feature))  # where earlier versions kept it

    def verify(self, span: str, at: Path | None = None) -> Verification:
        return verify_commits(
            VerifyRequest(span),
            start=at or self.path,
            environment=read_environment(self.environ),
            now=datetime.now(UTC),
        )

    def store(self, root: Path) -> Path:
        return root / ".vibe-artifacts"


def _lines(verification: Verification) -> list[str]:
    """The lines that `verify` prints of the commits."""
    lines: list[str] = []
    for identity, status in verification.commits:
        lines += verified.render_commit_status(identity, status)
    return lines


@pytest.fixture
def trees(tmp_path: Path, environ: dict[str, str]) -> Trees:
    return Trees(tmp_path / "repo", environ)


@pytest.mark.slow
def test_what_was_reviewed_in_one_working_tree_counts_in_all_of_them_and_the_line_says_where(trees):
    verification = trees.verify("feature")
    assert verification.exit_code == 0
    assert "    kept in worktree ../feature" in _lines(verification)
    [row] = verified.build_commit_rows(verification)
    assert (row["worktree"], row["place"].partition("/.vibe-artifacts/")[0]) == (
        "../feature",
        "../feature",
    )
    feature_verification = trees.verify("feature", trees.feature)
    assert feature_verification.exit_code == 0
    assert "    kept in worktree ." in _lines(feature_verification)
    trees.commit("Here", b="one\n")
    run_review(trees.path, trees.environ, Selection("commit", "HEAD"))
    assert not any("kept in" in line for line in _lines(trees.verify("feature", trees.feature)))
    assert trees.verify("main", trees.feature).exit_code == 0


def test_a_review_of_ones_own_comes_before_the_same_one_elsewhere(trees):
    shutil.copytree(trees.store(trees.feature), trees.store(trees.path))
    [row] = verified.build_commit_rows(trees.verify("feature"))
    assert row["worktree"] is None


def test_the_other_store_is_only_read(trees):
    before = sorted(
        (path, path.stat().st_mtime_ns) for path in trees.store(trees.feature).rglob("*")
    )
    trees.verify("feature")
    assert (
        sorted((path, path.stat().st_mtime_ns) for path in trees.store(trees.feature).rglob("*"))
        == before
    )


def test_a_bundle_that_git_tracks_in_another_working_tree_is_forged(trees):
    trees.git("-C", str(trees.feature), "add", "-f", ".vibe-artifacts")
    verification = trees.verify("feature")
    assert (verification.exit_code, verification.commits[0][1].status) == (5, "forged")


def test_a_bundle_that_was_changed_in_another_working_tree_is_forged(trees):
    [receipt] = trees.store(trees.feature).glob("*/2*/receipt.json")
    receipt.chmod(0o600)
    receipt.write_bytes(receipt.read_bytes().replace(b'"payload":"', b'"payload":"A'))
    assert trees.verify("feature").exit_code == 5


def test_a_working_tree_that_is_gone_is_left_out(trees):
    shutil.rmtree(trees.feature)
    verification = trees.verify("feature")
    assert verification.exit_code == 1
    assert verification.commits[0][1].status == "missing"
    assert verification.remark == ""


def test_another_repository_in_the_place_of_a_working_tree_is_left_out(trees):
    (trees.feature / ".git").unlink()
    trees.git("init", "-q", str(trees.feature))
    verification = trees.verify("feature")
    assert (verification.exit_code, verification.commits[0][1].status) == (1, "missing")


def test_a_store_that_cannot_be_read_is_left_out_with_a_remark(trees):
    shutil.rmtree(trees.store(trees.feature))
    trees.store(trees.feature).write_text("no folder")
    verification = trees.verify("feature")
    assert (verification.exit_code, verification.commits[0][1].status) == (1, "missing")
    assert verification.remark.startswith("bundles of worktree ../feature ignored: ")
