"""`verify` in-process: which reviews of ranges speak for which commits."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from repos import Repo
from walks import walked

from vibe_gate.domain.change import Selection
from vibe_gate.errors import IntegrityError
from vibe_gate.receipts.verify import VerifyRequest, verify


class Place(Repo):
    """A repository with an empty gate; `main` is its first commit."""

    def at(self, base: str, message: str, **files: str) -> str:
        """A commit on another one."""
        self.git("checkout", "-q", "--detach", base)
        return self.commit(message, **files)

    def merge(self, one: str, other: str, *without: str, **files: str) -> str:
        """A merge from which files are left out, and to which some are added."""
        self.git("checkout", "-q", "--detach", one)
        self.git("merge", "-q", "--no-commit", "--no-ff", other)
        for name in without:
            self.git("rm", "-qf", name)
        return self.commit("Merge", **files)

    def review(self, left: str, right: str = "") -> None:
        chosen = Selection("range", left, right) if right else Selection("commit", left)
        walked(self.path, self.environ, chosen)

    def verify(self, span: str) -> tuple[int, dict[str, str]]:
        """The exit code, and what stands badly: why, by title."""
        found = verify(VerifyRequest(span), start=self.path, environ=self.environ, now=datetime.now(UTC))
        bad = {subject.title: one.why for subject, one in found.commits if one.status not in ("reviewed", "empty")}
        return found.exit_code, bad


@pytest.fixture
def place(tmp_path: Path, environ: dict[str, str]) -> Place:
    made = Place(tmp_path / "repo", environ)
    made.commit("Gate", **{".vibe-gate/gate.toml": "schema = 1\nrubrics = []\n"})
    return made


def test_what_two_branches_have_in_common_no_review_of_one_against_the_other_shows(place):
    left = place.at(place.at("main", "Left", evil="x\n"), "Left two", one="x\n")
    right = place.at(place.at("main", "Right", evil="x\n"), "Right two", two="x\n")
    merge = place.merge(left, right)
    place.review(left, merge)
    place.review(right, merge)
    code, bad = place.verify(f"main..{merge}")
    assert (code, set(bad)) == (1, {"Left", "Right"})
    for name in (f"{left}~1", f"{right}~1"):
        place.review(name)
    assert place.verify(f"main..{merge}") == (0, {})


def test_a_merge_that_drops_what_its_first_parent_brought_is_not_settled_by_a_range_from_the_other(place):
    fix = place.at("main", "Fix", fix="x\n")
    other = place.at("main", "Other", other="x\n")
    merge = place.merge(fix, other, "fix", more="x\n")
    place.review(fix)
    place.review(other)
    place.review(other, merge)
    assert set(place.verify(f"main..{merge}")[1]) == {"Merge"}
    place.review(merge)
    assert place.verify(f"main..{merge}") == (0, {})


def test_a_range_with_a_commit_that_is_gone_is_no_empty_one(place):
    gone = place.at("main", "Gone", one="x\n")
    place.commit("Head", two="x\n")
    (place.path / ".git/objects" / gone[:2] / gone[2:]).unlink()
    with pytest.raises(IntegrityError, match="not all here"):
        place.verify("main..HEAD")
