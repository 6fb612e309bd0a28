"""Where a commit stands: matches, worth, and which of several papers decides. Tables."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace
from text_tree import text_tree

from vibe_gate.domain.agent_hint import RunAgentHint
from vibe_gate.domain.receipt import Receipt, RubricClaim
from vibe_gate.domain.summary import CacheUse
from vibe_gate.domain.waiver import Waiver
from vibe_gate.gate.loading import built_in_gate
from vibe_gate.receipts.commit_status import (
    ChangeIdentity,
    CommitStatus,
    FoundReceipt,
    Requirements,
    assess_receipt,
    decide_commit,
    match_of,
    object_ids,
)
from vibe_gate.receipts.signatures import SignatureCheck

COMMIT = ChangeIdentity("c" * 40, "a" * 40, "b" * 40, "d" * 40, "e" * 64, ("ada@example.org",))
RECEIPT = Receipt(
    run_id="20260102T030405678Z-00000000", key="c" * 40, created_at="2026-01-02T03:04:05+00:00", before="a" * 40,
    after="b" * 40, base_commit="f" * 40, head_commit="c" * 40, patch_id="d" * 40, range_patch_id="d" * 40,
    exact="e" * 64, trusted_revision="", bootstrap=False, definitions={"gate": "1"},
    rubrics=(RubricClaim(id="tidy", digest="2", outcome="pass", score=1),), votes="", findings="", summary="",
    files={}, outcome="pass", exit_code=0,
)  # fmt: skip
ADVISED = {"rubrics": (replace(RECEIPT.rubrics[0], advised=("clear",)),)}
REQUIRED = Requirements(rubrics={"tidy": "2"}, definitions={"gate": "1"}, today=date(2026, 3, 1))
BOB = SignatureCheck("listed", "SHA256:bob", ("bob@example.org",))
ADA = SignatureCheck("listed", "SHA256:ada", ("ada@example.org",))


def receipt(**changes: object) -> Receipt:
    return replace(RECEIPT, **changes)


ELSEWHERE = {"before": "1" * 40, "after": "2" * 40, "head_commit": "3" * 40}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({}, "commit"),
        ({"exact": "0" * 64}, "commit"),  # another version of git may cut the hunks in another way
        ({"head_commit": ""}, "tree"),
        ({"head_commit": "", "exact": "0" * 64}, "tree"),
        ({"head_commit": "9" * 40}, "tree"),
        (ELSEWHERE, "patch-id"),
        (ELSEWHERE | {"exact": "0" * 64}, None),
        (ELSEWHERE | {"patch_id": ""}, "range patch-id"),
        (ELSEWHERE | {"patch_id": "", "exact": "0" * 64}, None),
        (ELSEWHERE | {"patch_id": "0" * 40, "range_patch_id": "0" * 40}, None),
        ({"before": "1" * 40, "head_commit": "", "patch_id": "", "exact": "0" * 64}, None),
        ({"after": "2" * 40}, "commit"),
    ],
)
def test_a_receipt_is_about_a_commit_by_the_closest_match(changes, match):
    assert match_of(COMMIT, receipt(**changes)) == match


def test_an_empty_patch_id_matches_nothing_nor_does_one_without_the_exact_change():
    assert (
        match_of(replace(COMMIT, patch_id=""), receipt(**ELSEWHERE, patch_id="", range_patch_id=""))
        is None
    )
    assert match_of(replace(COMMIT, exact=""), receipt(**ELSEWHERE, exact="")) is None


def waiver(local: bool, expires: date | None = None) -> tuple[Waiver, ...]:
    return (Waiver(finding="f", reason="meant", by="Ada", expires=expires, local=local),)


@pytest.mark.parametrize(
    ("changes", "signature", "demands", "status"),
    [
        ({}, BOB, {}, "reviewed"),
        ({}, BOB, {"strict": True}, "reviewed"),
        ({}, SignatureCheck("unsigned"), {}, "reviewed"),
        ({}, SignatureCheck("unsigned"), {"strict": True}, "unsigned"),
        ({}, SignatureCheck("valid"), {"strict": True}, "unsigned"),
        ({}, SignatureCheck("unchecked"), {"strict": True}, "unsigned"),
        ({}, SignatureCheck("bad", why="bad"), {}, "forged"),
        ({}, SignatureCheck("unlisted", why="not listed"), {}, "forged"),
        ({}, ADA, {}, "reviewed"),
        ({}, ADA, {"strict": True}, "forged"),
        ({}, replace(BOB, principals=("*@example.org",)), {"strict": True}, "forged"),
        (
            {},
            replace(BOB, holders=("bob@example.org", "Ada@Example.ORG ")),
            {"strict": True},
            "forged",
        ),
        ({"cache": CacheUse(hits=1, misses=1)}, BOB, {"judge": "always"}, "reviewed"),
        (
            {"cache": CacheUse(hits=1, misses=1)},
            BOB,
            {"judge": "always", "strict": True},
            "unsigned",
        ),
        ({"cache": CacheUse(hits=1, misses=1)}, BOB, {"strict": True}, "reviewed"),
        ({"outcome": "fail", "exit_code": 1}, BOB, {}, "failed"),
        ({"outcome": "fail", "exit_code": 1}, ADA, {"strict": True}, "failed"),
        ({"outcome": "fail", "exit_code": 1}, SignatureCheck("bad", why="bad"), {}, "forged"),
        ({"outcome": "inconclusive", "exit_code": 3}, BOB, {}, "inconclusive"),
        ({"outcome": "error", "exit_code": 5}, BOB, {}, "inconclusive"),
        ({"exit_code": 4}, BOB, {}, "approval"),
        ({"after": "2" * 40}, BOB, {}, "forged"),
        ({"exact": "0" * 64}, BOB, {"strict": True}, "reviewed"),
        ({}, BOB, {"definitions": {"gate": "0"}}, "stale"),
        ({}, BOB, {"definitions": {"gate": ""}}, "stale"),
        ({}, BOB, {"definitions": {"other": ""}}, "reviewed"),
        ({}, BOB, {"rubrics": {"tidy": "0"}}, "stale"),
        ({}, BOB, {"rubrics": {"tidy": "2", "more": "3"}}, "incomplete"),
        ({}, BOB, {"rubrics": {}}, "reviewed"),
        ({"unasked": "--no-judge"}, BOB, {}, "reviewed"),
        ({"unasked": "--no-judge"}, BOB, {"strict": True}, "reviewed"),
        ({"unasked": "--no-judge"}, BOB, {"hints": (RunAgentHint(),)}, "incomplete"),
        ({"unasked": "--no-judge", "agent_authored": True}, BOB, {}, "incomplete"),
        ({"unasked": "--no-judge"}, BOB, {"judge": "always"}, "incomplete"),
        (
            {"unasked": "--no-judge"},
            BOB,
            {"judge": "never", "hints": (RunAgentHint(),)},
            "reviewed",
        ),
        ({"waivers": waiver(True)}, BOB, {}, "overridden"),
        ({"waivers": waiver(True)}, BOB, {"strict": True}, "unsigned"),
        ({"waivers": waiver(False)}, BOB, {"strict": True}, "reviewed"),
        ({"waivers": waiver(True, date(2026, 2, 28))}, BOB, {}, "failed"),
        ({"waivers": waiver(True, date(2026, 3, 1))}, BOB, {}, "overridden"),
        ({"waivers": waiver(False, date(2026, 2, 28))}, BOB, {"strict": True}, "failed"),
        # A judge's fail that only advised there: CI relies on it only if it advises here, too.
        (ADVISED, BOB, {}, "reviewed"),
        (ADVISED, BOB, {"strict": True}, "unsigned"),
        (ADVISED, BOB, {"strict": True, "advising": frozenset({("tidy", "clear")})}, "reviewed"),
    ],
)
def test_what_a_paper_says_of_a_commit(changes, signature, demands, status):
    paper = FoundReceipt("run", "place", receipt(**changes), signature)
    assessment = assess_receipt("commit", paper, COMMIT, replace(REQUIRED, **demands))
    assert (assessment.status, bool(assessment.why)) == (status, True)


def test_a_pass_with_a_fail_that_only_advised_is_told_as_that():
    paper = FoundReceipt("run", "place", receipt(**ADVISED), BOB)
    assert assess_receipt("commit", paper, COMMIT, REQUIRED).why.endswith(
        "(CI ignores it); would have blocked: clear"
    )


def standing(status: str, by: str = "commit", run: str = "2026") -> CommitStatus:
    return CommitStatus(status, "why", by, FoundReceipt(run, run, RECEIPT))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "signature", "demands", "reason"),
    [
        ({}, BOB, {"strict": True}, "signed by bob@example.org"),
        ({"unasked": "--no-judge"}, BOB, {"strict": True}, "signed by bob@example.org; no judge asked"),
        ({}, SignatureCheck("unsigned"), {}, "unsigned (CI ignores it)"),
        ({}, SignatureCheck("unsigned"), {"strict": True}, "unsigned"),
        ({}, SignatureCheck("valid"), {"strict": True}, "signed, but there is no allowed_signers file"),
        ({}, SignatureCheck("unchecked"), {"strict": True}, "its signature could not be checked"),
        ({"waivers": waiver(True)}, BOB, {"strict": True}, "passed by an override"),
        (ADVISED, BOB, {"strict": True}, "clear failed and only advised there; here it blocks"),
        ({"cache": CacheUse(hits=1)}, BOB, {"judge": "always", "strict": True},
         "judge answers came from a cache, not from this run"),
        ({"waivers": waiver(True, date(2026, 2, 28))}, BOB, {}, "what allowed it to pass expired on 2026-02-28: meant"),
        ({"outcome": "error", "exit_code": 5}, BOB, {}, "the review reached no verdict (exit code 5)"),
        ({"outcome": "inconclusive", "exit_code": 3, "unasked": "not asked: no API key"}, BOB, {},
         "the review reached no verdict (exit code 3; judge questions not asked: no API key)"),
    ],
)  # fmt: skip
def test_why_a_paper_counts_or_not_is_one_clause(changes, signature, demands, reason):
    paper = FoundReceipt("run", "place", receipt(**changes), signature)
    assert assess_receipt("commit", paper, COMMIT, replace(REQUIRED, **demands)).why == reason


REVIEW = "vibe-gate review --commit cccccccccccc --base 123"
APPROVE = "vibe-gate override policy-0123456789abcdef --reason TEXT"
POLICY_CHANGE = {"exit_code": 4, "policy": "0123456789abcdef"}


@pytest.mark.parametrize(
    ("match", "changes", "bundled", "commands"),
    [
        ("commit", {"definitions": {}}, True, (REVIEW,)),
        ("commit", {"rubrics": ()}, True, (REVIEW,)),
        ("commit", {"outcome": "inconclusive", "exit_code": 3}, True, (REVIEW,)),
        ("tree", POLICY_CHANGE, True, (APPROVE, REVIEW)),
        ("range patch-id", POLICY_CHANGE, True, (REVIEW,)),  # of the range, not of this commit
        ("commit", POLICY_CHANGE, False, (REVIEW,)),  # no run here that an override could name
        ("commit", POLICY_CHANGE | {"policy": ""}, True, (REVIEW,)),
        ("commit", {"outcome": "fail", "exit_code": 1}, True, ()),
        ("commit", {}, True, ()),
    ],
)
def test_what_another_review_clears_names_the_command(match, changes, bundled, commands):
    paper = FoundReceipt("run", "place", receipt(**changes), BOB, bundled=bundled)
    required = replace(REQUIRED, review_options=("--base", "123"))
    assert assess_receipt(match, paper, COMMIT, required).commands == commands


def test_a_merge_is_reviewed_against_its_other_parent_by_a_range():
    merge = replace(COMMIT, parent="f" * 40)
    assert merge.review_command() == "vibe-gate review ffffffffffff..cccccccccccc"


def test_where_no_paper_was_found_there_is_no_place():
    assert CommitStatus("missing", "why").place == ""
    assert standing("reviewed").place == "2026"


@pytest.mark.parametrize(
    ("standings", "notes"),
    [
        ([standing("failed", run="2025")], ["another review of the same trees failed: 2025"]),
        ([standing("failed", "tree", "2025")], ["another review of the same trees failed: 2025"]),
        ([standing("failed", "patch-id", "2025")], []),
        ([standing("inconclusive", run="2025")], []),
    ],
)
def test_a_failure_on_the_same_trees_is_told_beside_a_pass(standings, notes):
    commit_status = decide_commit([standing("reviewed", run="2026"), *standings])
    assert commit_status is not None
    assert (commit_status.status, list(commit_status.notes)) == ("reviewed", notes)


def test_a_paper_from_a_note_counts_only_with_a_listed_signature():
    paper = FoundReceipt("run", "a note", RECEIPT, SignatureCheck("unsigned"), bundled=False)
    assert assess_receipt("commit", paper, COMMIT, REQUIRED).status == "unsigned"
    assert (
        assess_receipt("commit", replace(paper, signature=BOB), COMMIT, REQUIRED).status
        == "reviewed"
    )


def test_a_flaw_outweighs_all_that_a_paper_says():
    paper = FoundReceipt("run", "place", RECEIPT, BOB, problem="git tracks it")
    assert assess_receipt("commit", paper, COMMIT, REQUIRED).status == "forged"


@pytest.mark.parametrize(
    ("standings", "decisive"),
    [
        ([standing("failed", run="2026"), standing("reviewed", run="2027")], "reviewed"),
        ([standing("reviewed", run="2026"), standing("failed", run="2027")], "failed"),
        ([standing("failed", "tree", "2026"), standing("reviewed", "patch-id", "2027")], "failed"),
        ([standing("reviewed", "patch-id", "2027"), standing("stale", "tree", "2028")], "reviewed"),
        ([standing("stale"), standing("incomplete", run="2027")], "incomplete"),
        ([standing("stale", run="2027"), standing("forged", "range patch-id", "2026")], "forged"),
        ([standing("unsigned", run="2027"), standing("failed", run="2026")], "failed"),
    ],
)
def test_the_closest_whole_verdict_decides_and_of_these_the_newest(standings, decisive):
    for order in (standings, standings[::-1]):
        assert decide_commit(order).status == decisive  # type: ignore[union-attr]


def test_a_forged_paper_beside_a_good_one_is_told():
    commit_status = decide_commit([standing("reviewed"), standing("forged", run="2027")])
    assert commit_status is not None
    assert commit_status.status == "reviewed"
    assert "2027" in commit_status.notes[0]


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("c", "a", "b", "p"), ("c", "tree-b", "a..b", "p")),
        (("c", "a", ""), ("c",)),  # what has no tree is found by its commit alone
        (("", "a", "b", "", "p", "p"), ("tree-b", "a..b", "p")),
    ],
)
def test_a_receipt_is_found_by_each_name_of_its_change_once(names, ids):
    assert object_ids(*names) == ids


def test_without_papers_nothing_decides():
    assert decide_commit([]) is None


def test_the_built_in_gate_requires_its_own_definitions_as_they_are_now() -> None:
    gate = built_in_gate(text_tree({}))
    required = Requirements.of(gate, gate.rubrics, date(2026, 3, 1), judge="never")
    assert required.definitions == {"built-in/gate.toml": dict(gate.digests)["built-in/gate.toml"]}
    of_repository = Requirements.of(
        replace(gate, origin="trusted"), gate.rubrics, date(2026, 3, 1), judge="never"
    )
    assert of_repository.definitions.keys() == {
        ".vibe-gate/gate.toml",
        ".vibe-gate/suppressions.toml",
    }
