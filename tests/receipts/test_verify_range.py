"""`verify` in-process: which reviews of ranges speak for which commits."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from clean_environ import clean_environ
from repos import Repo
from walks import run_review

from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import IntegrityError, UsageError
from vibe_gate.git import open_repository
from vibe_gate.receipts.commit_status import ChangeIdentity, CommitStatus
from vibe_gate.receipts.receipt_notes import share_receipt
from vibe_gate.receipts.verify_range import (
    Verification,
    VerifyRequest,
    verify_commits,
)
from vibe_gate.store.clone_state import open_state


class Place(Repo):
    """A repository with an empty gate; `main` is its first commit."""

    def at(self, base: str, message: str, **files: str) -> str:
        """Commit on top of another commit."""
        self.git("checkout", "-q", "--detach", base, "--")
        return self.commit(message, **files)

    def merge(self, first: str, second: str, *without: str, **files: str) -> str:
        """Commit a merge from which files are left out, and to which some are added."""
        self.git("checkout", "-q", "--detach", first)
        self.git("merge", "-q", "--no-commit", "--no-ff", second)
        for name in without:
            self.git("rm", "-qf", name)
        return self.commit("Merge", **files)

    def review(self, first: str, last: str = "") -> None:
        chosen = Selection("range", first, last) if last else Selection("commit", first)
        run_review(self.path, self.environ, chosen)

    def record(self, commit: str, **fields: Any) -> None:
        """Record a commit as git hooks do."""
        with open_repository(self.path, read_environment(self.environ)) as repository:
            state = open_state(repository.common_dir)
        name, tree = self.git("rev-parse", commit, f"{commit}^{{tree}}").split()
        defaults = {"ts": "2026-01-02", "stage": "post-commit", "commit": name, "tree": tree}
        state.hook_records.append(Record(**defaults | fields))

    def verified(self, span: str, **options: Any) -> Verification:
        request = VerifyRequest(span, **options)
        return verify_commits(
            request,
            start=self.path,
            environment=read_environment(self.environ),
            now=datetime.now(UTC),
        )

    def verify(self, span: str) -> tuple[int, dict[str, str]]:
        """The exit code of `verify`, and the reason of each commit that is not reviewed, by title."""
        verification = self.verified(span)
        bad = {
            subject.title: status.why
            for subject, status in verification.commits
            if status.status not in ("reviewed", "empty")
        }
        return verification.exit_code, bad


def gate_alone(path: Path, environ: dict[str, str]) -> Place:
    place = Place(path, environ)
    place.commit("Gate", **{".vibe-gate/gate.toml": "schema = 1\nrubrics = []\n"})
    return place


@pytest.fixture
def place(tmp_path: Path, environ: dict[str, str]) -> Place:
    return gate_alone(tmp_path / "repo", environ)


@pytest.mark.slow
def test_what_two_branches_have_in_common_no_review_of_one_against_the_other_shows(place):
    left_tip = place.at(place.at("main", "Left", evil="x\n"), "Left two", one="x\n")
    right_tip = place.at(place.at("main", "Right", evil="x\n"), "Right two", two="x\n")
    merge = place.merge(left_tip, right_tip)
    place.review(left_tip, merge)
    place.review(right_tip, merge)
    code, bad = place.verify(f"main..{merge}")
    assert (code, set(bad)) == (1, {"Left", "Right"})
    for name in (f"{left_tip}~1", f"{right_tip}~1"):
        place.review(name)
    assert place.verify(f"main..{merge}") == (0, {})


@pytest.mark.slow
def test_a_merge_that_drops_what_its_first_parent_brought_is_not_settled_by_a_range_from_the_other(
    place,
):
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
    missing_commit = place.at("main", "Gone", one="x\n")
    place.commit("Head", two="x\n")
    (place.path / ".git/objects" / missing_commit[:2] / missing_commit[2:]).unlink()
    with pytest.raises(IntegrityError, match="not all here"):
        place.verify("main..HEAD")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Commits that stand in every way, each at the end of a branch that says how it came to be.

    `main` has One, Two, Three and an empty commit after `first`; of these One was reviewed, and Two
    with Three.
    """
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    place = gate_alone(tmp_path_factory.mktemp("world"), clean_environ(home))
    git = place.git
    git("branch", "first")

    def branch(name: str, commit: str = "HEAD") -> None:
        git("branch", "-q", name, commit)

    commit_one = place.at("first", "One", one="1\n")
    commit_two = place.at(commit_one, "Two", two="2\n")
    commit_three = place.at(commit_two, "Three", three="3\n")
    git("commit", "-q", "--allow-empty", "-m", "Empty")
    git("branch", "-q", "-f", "main")
    place.review(commit_one)
    place.review(commit_one, commit_three)
    branch("side", place.at("first", "Side", side="s\n"))
    gate = "schema = 1\nrubrics = []\n[on]\ninconclusive = "
    for rule in ("warn", "block"):
        branch(rule, place.at("first", rule, **{".vibe-gate/gate.toml": f'{gate}"{rule}"\n'}))

    for name, record in {
        "bypassed": {"reason": "--no-verify, it said"},
        "bypassed-silently": {},
        "picked-by-git": {"during": "cherry-pick"},
        "bypassed-and-reviewed": {},
    }.items():
        branch(name, place.at("first", name, **{name: "x\n"}))
        place.record(name, kind="bypassed", **record)
    place.review("bypassed-and-reviewed")
    branch("rewritten", place.at("first", "Rewritten", rewritten="x\n"))
    place.record(
        "rewritten", kind="rewritten", stage="post-rewrite", old=git("rev-parse", "bypassed")
    )
    for name, base in {"in-range": "bypassed-silently", "picked-in-range": "picked-by-git"}.items():
        branch(name, place.at(base, "After it", after="x\n"))
        place.review("first", name)

    place.review("side")
    for name, files in {"clean-merge": {}, "own-merge": {"own": "x\n"}}.items():
        branch(name, place.merge(commit_one, "side", **files))
        place.review(name)

    for name, base, picks in [
        ("cherry", "side", [commit_one]),
        ("pair-elsewhere", "side", [commit_two, commit_three]),
        ("squashed", "first", [commit_two, commit_three]),
    ]:
        git("checkout", "-q", "--detach", base)
        git("cherry-pick", "--no-commit" if name == "squashed" else "--ff", *picks)
        if name == "squashed":
            place.commit("Squashed")
        branch(name)
    overlap = [place.at("first", "a", a="x\n")]
    overlap += [place.at(overlap[0], "b", b="x\n")]
    branch("overlap", place.at(overlap[1], "c", c="x\n"))
    place.review("first", overlap[1])
    place.review(overlap[0], "overlap")
    branch("amended", place.at("first", "Amended", amended="x\n"))
    place.record("amended", kind="rewritten", stage="post-rewrite", old=git("rev-parse", "side"))

    git("checkout", "-q", "--detach", "bypassed", "--")
    git("commit", "-q", "--allow-empty", "-m", "Empty")
    branch("empty-alone")
    for name, file, text in [
        ("unreadable", "receipt.json", "{}"),
        ("altered", "summary.json", '{"outcome": "fail"}'),
    ]:
        branch(name, place.at("first", name, **{name: "x\n"}))
        place.review(name)
        (run,) = place.path.glob(f".vibe-artifacts/{git('rev-parse', name)}/2*")
        (run / file).write_text(text)
    git("checkout", "-q", "main", "--")
    return place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("span", "titles"),
    [
        ("", ["Empty"]),  # HEAD: nothing is known of an upstream
        ("main~1", ["Three"]),
        ("first", ["Gate"]),
        ("main~2..main", ["Empty", "Three"]),
        ("main~1..", ["Empty"]),
        ("..side", ["Side"]),
        ("side..main", ["Empty", "Three", "Two", "One"]),
        ("side...main", ["Empty", "Three", "Two", "One"]),
        (f"{EMPTY_TREE}..main~2", ["Two", "One", "Gate"]),
        (f"{EMPTY_TREE}..", ["Empty", "Three", "Two", "One", "Gate"]),
        ("main..main", []),
    ],
)
def test_a_range_is_what_git_says_newest_first(world, span, titles):
    assert [subject.title for subject, _ in world.verified(span).commits] == titles


def test_without_a_range_it_is_what_the_upstream_does_not_have(world):
    world.git("config", "branch.main.remote", ".")
    world.git("config", "branch.main.merge", "refs/heads/side")
    titles = [
        [subject.title for subject, _ in world.verified(span).commits] for span in ("", "main~1")
    ]
    world.git("config", "--remove-section", "branch.main")
    assert titles == [["Empty", "Three", "Two", "One"], ["Three"]]


@pytest.mark.parametrize(
    ("span", "code", "statuses"),
    [
        # By itself, as part of a range of which all was reviewed, and what needs no review.
        ("first..main", 0, "empty reviewed:range+ reviewed:range+ reviewed:commit"),
        ("main~3..main", 0, "empty reviewed:range+ reviewed:range+"),
        # Of what was reviewed as a whole a part alone was not.
        ("main~2..main", 1, "empty missing"),
        ("first..main~2", 1, "missing reviewed:commit"),
        (f"{EMPTY_TREE}..main~3", 1, "reviewed:commit missing"),
        ("side..main", 0, "empty reviewed:range+ reviewed:range+ reviewed:commit"),
        ("side...main", 0, "empty reviewed:range+ reviewed:range+ reviewed:commit"),
        # The same change elsewhere: of one commit, of a whole range, of a range that became one
        # commit.
        ("side..cherry", 0, "reviewed:patch-id"),
        ("side..pair-elsewhere", 0, "reviewed:range+ reviewed:range+"),
        ("first..pair-elsewhere", 1, "missing missing reviewed:commit"),
        ("first..squashed", 0, "reviewed:range"),
        # A merge that git makes by itself needs one review, one with changes of its own a review
        # against each parent.
        ("main~3..clean-merge", 0, "reviewed:commit reviewed:commit"),
        ("main~3..own-merge", 1, "missing reviewed:commit"),
        # What hooks recorded.
        ("first..bypassed", 1, "bypassed"),
        ("first..bypassed-silently", 1, "bypassed"),
        ("first..picked-by-git", 1, "missing"),
        ("first..bypassed-and-reviewed", 0, "reviewed:commit"),
        ("first..rewritten", 1, "bypassed"),
        ("first..in-range", 0, "reviewed:range+ reviewed:range+"),
        ("main..main", 0, ""),
        # One revision is that commit against its first parent; three dots begin where the branches
        # part.
        ("main~3", 0, "reviewed:commit"),
        ("main~1", 1, "missing"),
        ("own-merge", 1, "missing"),
        ("bypassed..empty-alone", 0, "empty"),
        ("side...in-range", 0, "reviewed:range+ reviewed:range+"),
        ("side..in-range", 1, "missing bypassed"),
        # Reviews that overlap lead nowhere beyond the first; what an amend changed was not
        # reviewed.
        ("first..overlap", 1, "missing reviewed:range+ reviewed:range+"),
        ("first..amended", 1, "stale"),
        # A receipt that is none, or not that of its bundle.
        ("first..unreadable", 5, "forged:commit"),
        ("first..altered", 5, "forged:commit"),
    ],
)
def test_each_commit_stands_by_the_reviews_about_it(world, span, code, statuses):
    """`:match`, with `+` if the commit was reviewed as part of a segment."""
    verification = world.verified(span)

    def row(status: CommitStatus) -> str:
        match = f":{status.match.removesuffix(' patch-id')}" if status.match else ""
        return f"{status.status}{match}{'+' * bool(status.segment)}"

    assert ([row(status) for _, status in verification.commits], verification.exit_code) == (
        statuses.split(),
        code,
    )


@pytest.mark.parametrize(
    ("span", "reason", "review"),
    [
        ("first..bypassed", "committed without the hook on 2026-01-02 (--no-verify, it said)", "--commit {commit}"),
        ("first..bypassed-silently", "committed without the hook on 2026-01-02 (--no-verify, or the hook was off)",
            "--commit {commit}"),
        ("first..picked-by-git", "made by git during a cherry-pick, which runs no hook", "--commit {commit}"),
        ("first..rewritten", "committed without the hook on 2026-01-02 (--no-verify, it said)", "--commit {commit}"),
        ("first..main~2", "no receipt here is about this change", "--commit {commit} --base {first}"),
        ("main~3..own-merge", "a merge with changes of its own, reviewed against its first parent only",
            "{other}..{commit} --base {main}"),
    ],
)  # fmt: skip
def test_a_commit_without_a_verdict_says_why_and_what_to_do(world, span, reason, review):
    identity, status = world.verified(span).commits[0]
    names = {"commit": identity.commit, "other": "side", "first": "first", "main": "main~3"}
    ids = {name: world.git("rev-parse", revision)[:12] for name, revision in names.items()}
    assert (status.why, status.commands) == (reason, (f"vibe-gate review {review.format(**ids)}",))


@pytest.mark.parametrize(
    ("span", "notes"),
    [
        (
            "first..in-range",
            ["committed without the hook on 2026-01-02; the range was reviewed, not this commit"],
        ),
        ("first..picked-in-range", []),
        ("first..bypassed-and-reviewed", []),
    ],
)
def test_a_bypass_inside_of_a_reviewed_range_is_noted(world, span, notes):
    assert list(world.verified(span).commits[-1][1].notes) == notes


def test_a_segment_is_named_by_its_ends(world):
    base, head = (world.git("rev-parse", name)[:12] for name in ("main~3", "main~1"))
    assert world.verified("first..main").commits[1][1].segment == f"{base}..{head}"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([], 0),
        (["reviewed", "overridden", "empty"], 0),
        (["reviewed", "missing"], 1),
        (["stale"], 1),
        (["bypassed", "forged"], 5),
        (["reviewed", "forged"], 5),
    ],
)
def test_the_exit_code_is_5_for_a_forged_receipt_and_1_for_any_other_commit_that_is_not_as_required(
    statuses, code
):
    commits = tuple(
        (ChangeIdentity("c", "b", "a", ""), CommitStatus(status, "")) for status in statuses
    )
    assert Verification(commits, "", "", strict=False).exit_code == code


@pytest.mark.parametrize(("options", "environ", "strict"), [
    ({}, {}, False), ({"strict": True}, {}, True), ({}, {"CI": "true"}, True),
])  # fmt: skip
def test_in_ci_only_what_somebody_else_signed_counts(world, options, environ, strict):
    request = VerifyRequest("first..main~3", **options)
    verification = verify_commits(
        request,
        start=world.path,
        environment=read_environment(world.environ | environ),
        now=datetime.now(UTC),
    )
    assert verification.strict is strict
    assert [status.status for _, status in verification.commits] == [
        "unsigned" if strict else "reviewed"
    ]


@pytest.mark.parametrize(("rule", "blocks"), [("warn", False), ("block", True)])
def test_the_gate_says_whether_what_is_inconclusive_stops_a_commit(world, rule, blocks):
    assert world.verified("first", definitions=rule).blocks_inconclusive is blocks


@pytest.mark.parametrize("most", [2, 3])
def test_more_commits_than_are_wanted_are_refused(place, most):
    commit = "commit refs/heads/long\ncommitter A <a@x> 0 +0000\ndata 1\nx\n"
    place.git("fast-import", "--quiet", stdin=commit.encode() * 3)
    with pytest.raises(UsageError, match="more than 2 commits") if most == 2 else nullcontext():
        place.verified(f"{EMPTY_TREE}..long", max_commits=most)


def test_receipts_in_git_notes_count_where_they_are_asked_for(place):
    place.git("config", "vibe-gate.receipts", "notes")
    commit = place.at("main", "Noted", noted="x\n")
    place.review(commit)
    (receipt,) = place.path.glob(".vibe-artifacts/*/2*/receipt.json")
    with open_repository(place.path, read_environment(place.environ)) as repository:
        assert share_receipt(repository, commit, receipt.read_bytes()) == ""
    shutil.rmtree(place.path / ".vibe-artifacts")
    noted = [
        [status.status for _, status in place.verified("HEAD", notes=notes).commits]
        for notes in (False, True)
    ]
    assert noted == [["missing"], ["unsigned"]]
