"""`vibe-gate verify` with real git: which verdict is about a rewritten commit, and which is not."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import signing
from command import vibe_gate
from repos import swallowing
from standing import CODE, TIDY, Gated, predicate, statement

pytestmark = pytest.mark.slow


CHANGED = CODE.replace("> 0", ">= 0")


@pytest.fixture
def gated(tmp_path, environ) -> Gated:
    return Gated(tmp_path / "repo", environ)


def change(gated: Gated, text: str = CHANGED) -> None:
    gated.write("src/pay.py", text)


def test_a_commit_is_missing_until_it_is_reviewed_keeps_that_with_another_message_and_loses_it_with_another_file(
    gated,
):
    gated.commit("Change", **{"src/pay.py": CHANGED})
    assert gated.stand() == (1, "missing", None)
    gated.review("--commit", "HEAD")
    assert gated.stand() == (0, "reviewed", "commit")
    gated.git("commit", "-q", "--amend", "-m", "Better words")
    assert gated.stand() == (0, "reviewed", "tree")
    change(gated, CHANGED.replace("log", "lug"))
    gated.git("commit", "-q", "-a", "--amend", "-m", "More")
    _, [row] = gated.verify()
    assert (row["status"], row["match"], row["run_id"]) == ("stale", None, gated.bundles()[-1].name)
    assert row["next"] == [f"vibe-gate review --commit {row['commit'][:12]}"]


def test_a_review_whose_questions_were_not_asked_for_want_of_a_key_is_told_with_that_reason(
    tmp_path, environ
):
    repo = swallowing(tmp_path / "keyless", environ)
    assert vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ).code == 3
    result = vibe_gate("verify", "HEAD~1..HEAD", cwd=repo.path, environ=environ)
    reason = "the review reached no verdict (exit code 3; judge questions not asked: no API key)"
    assert reason in " ".join(result.out.split())


def test_a_rebased_commit_keeps_the_verdict_by_its_patch_id_until_the_patch_changes(gated):
    gated.git("checkout", "-q", "-b", "topic")
    gated.reviewed(**{"src/pay.py": CHANGED})
    gated.git("checkout", "-q", "main")
    gated.commit("Elsewhere", README="read\n")
    gated.git("rebase", "-q", "main", "topic")
    assert gated.stand() == (0, "reviewed", "patch-id")
    gated.git("checkout", "-q", "main")
    gated.commit("Near", **{"src/pay.py": CODE.replace("def pay(amount)", "def pay(sum)")})
    gated.git("-c", "merge.conflictStyle=merge", "rebase", "-q", "-X", "theirs", "main", "topic")
    assert gated.stand()[:2] == (1, "stale")


def test_a_squash_of_a_range_is_found_by_a_review_of_the_range_and_not_by_those_of_its_commits(
    gated,
):
    gated.git("checkout", "-q", "-b", "topic")
    gated.reviewed("One", **{"src/pay.py": CHANGED})
    gated.reviewed("Two", **{"src/log.py": "def log(amount):\n    print('paid', amount)\n"})
    gated.git("checkout", "-q", "main")
    gated.commit("Elsewhere", README="read\n")
    gated.git("merge", "-q", "--squash", "topic")
    gated.git("commit", "-q", "-m", "Both")
    assert gated.stand() == (1, "missing", None)
    gated.review(f"{gated.first}..topic")
    assert gated.stand() == (0, "reviewed", "range patch-id")


def test_every_commit_of_a_reviewed_range_is_covered_also_after_a_rebase_of_the_whole(gated):
    gated.git("checkout", "-q", "-b", "topic")
    gated.commit("One", **{"src/pay.py": CHANGED})
    gated.commit("Two", **{"src/log.py": "def log(amount):\n    print('paid', amount)\n"})
    gated.review("main..topic")
    code, rows = gated.verify("main..topic")
    assert (code, [row["match"] for row in rows]) == (0, ["range patch-id"] * 2)
    gated.git("checkout", "-q", "main")
    gated.commit("Elsewhere", README="read\n")
    gated.git("rebase", "-q", "main", "topic")
    code, rows = gated.verify("main..topic")
    assert (code, [row["match"] for row in rows]) == (0, ["range patch-id"] * 2)
    gated.commit("Three", **{"src/log.py": "log = print\n"})
    code, rows = gated.verify("main..topic")
    assert (code, [row["status"] for row in rows]) == (1, ["missing"] * 3)
    gated.review("main..topic~1")
    code, rows = gated.verify("main..topic")
    assert (code, [row["status"] for row in rows]) == (1, ["missing", "reviewed", "reviewed"])
    base, end = gated.git("rev-parse", "main", "topic~1").split()
    assert rows[1]["segment"] == f"{base[:12]}..{end[:12]}"


def test_a_range_that_begins_before_what_it_puts_back_says_nothing_about_the_commit(gated):
    gated.commit("Fix", **{"src/log.py": "def log(amount):\n    print(masked(amount))\n"})
    gated.commit(
        "Put back", **{"src/log.py": "def log(amount):\n    print(amount)\n", "src/pay.py": CHANGED}
    )
    gated.review(f"{gated.first}..HEAD")
    code, [row] = gated.verify("HEAD~1..HEAD")
    assert (code, row["status"]) == (1, "missing")
    code, rows = gated.verify(f"{gated.first}..HEAD")
    assert (code, [row["match"] for row in rows]) == (0, ["range patch-id"] * 2)


def test_a_root_commit_is_verified_against_nothing_and_an_empty_one_needs_no_review(gated):
    gated.git("commit", "-q", "--allow-empty", "-m", "Nothing")
    assert gated.stand() == (0, "empty", None)
    gated.review("--commit", gated.first)
    assert gated.stand(gated.first) == (0, "reviewed", "commit")


def test_the_default_range_is_what_the_upstream_does_not_have(gated, tmp_path):
    gated.git("clone", "-q", "--bare", ".", str(tmp_path / "there"))
    gated.git("remote", "add", "origin", str(tmp_path / "there"))
    gated.git("fetch", "-q")
    gated.git("branch", "-q", "-u", "origin/main")
    nothing = gated.run("verify").out
    assert nothing.startswith("Nothing to verify: the upstream has every commit of HEAD.\nName ")
    nothing = gated.run("verify", "main..HEAD").out
    assert nothing.startswith("Nothing to verify: no commit is in main..HEAD.\nName one commit (")
    gated.reviewed("One", **{"src/pay.py": CHANGED})
    gated.reviewed("Two " + "gh" + "p_" + 9 * "a1B2", **{"src/log.py": "log = print\n"})
    code, rows = gated.verify()
    assert (code, [row["title"].partition(":")[0] for row in rows]) == (0, ["Two [redacted", "One"])


def test_a_branch_that_follows_one_of_its_own_repository_is_told(gated):
    gated.git("branch", "-q", "other")
    gated.git("branch", "-q", "--set-upstream-to", "other")
    out = gated.run("verify").out
    assert ("Nothing to verify" in out, "HEAD's branch follows refs/heads/" in out) == (True, True)


def test_a_failed_review_fails_and_says_so_in_the_table(gated):
    gated.commit("Change\x1b[31m", **{"src/pay.py": CHANGED + "# TODO\n"})
    gated.review("--commit", "HEAD")
    result = gated.run("verify")
    assert result.code == 1
    assert "failed" in result.out
    assert "\x1b" not in result.out


def test_a_rubric_that_changed_since_makes_the_verdict_stale(gated):
    gated.reviewed(**{"src/pay.py": CHANGED})
    gated.write(".vibe-gate/rubrics/tidy.toml", TIDY.replace("TODO", "FIXME"))
    code, [row] = gated.verify("--definitions", "worktree")
    command = f"vibe-gate review --commit {row['commit'][:12]} --definitions worktree"
    reason = "rubric tidy has changed since the review"
    assert (code, row["status"], row["why"], row["next"]) == (1, "stale", reason, [command])


def run_next(gated: Gated, row: dict[str, Any]) -> None:
    """Run the commands that a row of `verify` names."""
    for command in row["next"]:
        words = shlex.split(command.removeprefix("vibe-gate "))
        gated.run(*words)


def test_the_command_in_a_stale_line_clears_it_where_the_range_began_with_another_gate(gated):
    gated.commit("Stricter", **{".vibe-gate/rubrics/tidy.toml": TIDY.replace("TODO", "FIXME")})
    gated.commit("Change", **{"src/pay.py": CHANGED})
    gated.review("--commit", "HEAD")
    _, [stale, _] = gated.verify("HEAD~2..HEAD")
    assert stale["status"] == "stale"
    run_next(gated, stale)
    _, [cleared, _] = gated.verify("HEAD~2..HEAD")
    assert cleared["status"] == "reviewed"


def test_the_commands_in_a_line_that_needs_approval_clear_it_though_another_such_change_is_newer(
    gated,
):
    for pattern in ("FIXME", "XXX"):
        rubric = TIDY.replace("TODO", pattern)
        gated.commit(pattern, **{".vibe-gate/rubrics/tidy.toml": rubric})
        gated.review("--commit", "HEAD")
    _, [row] = gated.verify("HEAD~1")
    assert (row["status"], len(row["next"])) == ("approval", 2)
    run_next(gated, row)
    assert gated.stand("HEAD~1") == (0, "overridden", "commit")


def test_a_review_against_fewer_rubrics_than_the_gate_demands_is_incomplete(tmp_path, environ):
    files = {
        ".vibe-gate/rubrics/more.toml": TIDY.replace('"tidy"', '"more"'),
        ".vibe-gate/gate.toml": 'schema = 1\nrubrics = ["tidy"]\n[[scope]]\npaths = ["**"]\nrubrics = ["more"]\n',
    }
    gated = Gated(tmp_path / "repo", environ, **files)
    gated.commit("Change", **{"src/pay.py": CHANGED})
    gated.review("--commit", "HEAD", "--rubric", "tidy")
    code, [row] = gated.verify()
    assert (code, row["status"], row["why"]) == (1, "incomplete", "not reviewed against more")
    run_next(gated, row)
    assert gated.stand() == (0, "reviewed", "commit")


def test_an_agents_commit_that_was_only_checked_is_incomplete_and_a_humans_is_not(
    tmp_path, environ
):
    asks = TIDY + '[[criterion]]\nid = "clear"\nkind = "judge"\nquestion = "Is it clear?"\n'
    gated = Gated(tmp_path / "repo", environ, **{".vibe-gate/rubrics/tidy.toml": asks})
    gated.commit("Change", **{"src/pay.py": CHANGED})
    gated.review("--commit", "HEAD", "--no-judge")
    assert gated.stand() == (0, "reviewed", "commit")
    gated.git(
        "commit", "-q", "--amend", "-m", "Change\n\nCo-authored-by: Claude <noreply@anthropic.com>"
    )
    assert gated.stand()[:2] == (1, "incomplete")


def test_the_receipt_is_an_in_toto_statement_about_tree_and_commit(gated):
    commit = gated.commit("Change", **{"src/pay.py": CHANGED})
    summary = gated.review("--commit", "HEAD")
    attestation = statement(gated.bundles()[-1])
    assert attestation["_type"] == "https://in-toto.io/Statement/v1"
    assert attestation["predicateType"] == "urn:vibe-gate:receipt:v1"
    assert [subject["digest"] for subject in attestation["subject"]] == [
        {"gitTree": summary["change"]["after"]},
        {"gitCommit": commit},
    ]
    receipt = predicate(gated.bundles()[-1])
    assert receipt["rubrics"][0]["digest"] == summary["rubrics"][0]["digest"]
    assert set(receipt["definitions"]) == {".vibe-gate/gate.toml", ".vibe-gate/rubrics/tidy.toml"}
    assert receipt["signer"] == "ada@example.org"


SIGNERS = ".vibe-gate/allowed_signers"


@pytest.fixture
def signed(tmp_path, environ) -> Gated:
    """A repository whose gate lists Bob, who reviews; Ada writes."""
    key = signing.key(tmp_path / "keys")
    gated = Gated(
        tmp_path / "repo", environ, **{SIGNERS: f"bob@example.org {signing.public(key)}\n"}
    )
    signing.sign_with(gated.repo, key)
    return gated


def test_in_ci_a_pass_counts_that_a_listed_signer_who_is_not_the_author_signed(signed):
    signed.reviewed(**{"src/pay.py": CHANGED})
    code, [row] = signed.verify(CI="true")
    assert (code, row["status"], row["why"]) == (0, "reviewed", "signed by bob@example.org")
    assert row["signature"]["principals"] == ["bob@example.org"]
    assert row["signature"]["key"].startswith("SHA256:")


def test_a_key_that_is_not_listed_is_forged_everywhere(signed, tmp_path):
    signing.sign_with(signed.repo, signing.key(tmp_path / "keys", "other"))
    signed.reviewed(**{"src/pay.py": CHANGED})
    code, [row] = signed.verify()
    key = row["signature"]["key"]
    assert (code, row["status"]) == (5, "forged")
    assert row["why"].startswith(f"signed by {key}, which is not in allowed_signers ({SIGNERS} at ")


def test_a_change_cannot_list_its_own_signer(signed, tmp_path):
    mine = signing.key(tmp_path / "keys", "mine")
    signing.sign_with(signed.repo, mine)
    signed.commit("List Eve", **{SIGNERS: f"eve@example.org {signing.public(mine)}\n"})
    signed.review("--commit", "HEAD")
    assert signed.stand()[:2] == (5, "forged")


def test_receipts_travel_by_notes_only_when_signed_by_a_listed_key(signed, tmp_path):
    signed.git("config", "vibe-gate.receipts", "notes")
    before = signed.git("status", "--porcelain=v2", "--branch")
    signed.commit("Change", **{"src/pay.py": CHANGED})
    signed.review("--commit", "HEAD")
    assert signed.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert (
        before.splitlines()[1] == signed.git("status", "--porcelain=v2", "--branch").splitlines()[1]
    )
    clone_path = tmp_path / "there"
    signed.git("clone", "-q", ".", str(clone_path))
    clone = signed.at(clone_path)
    assert clone.stand("HEAD")[:2] == (1, "missing")
    signed.git(
        "-C", str(clone_path), "fetch", "-q", "origin", "refs/notes/vibe-gate:refs/notes/vibe-gate"
    )
    assert clone.stand("HEAD")[:2] == (1, "missing")
    assert clone.stand("HEAD", "--from-notes", "--strict") == (0, "reviewed", "commit")


def test_verify_leaves_everything_as_it_is(gated):
    gated.reviewed(**{"src/pay.py": CHANGED})
    gated.write("new.txt", "new\n")

    def state() -> tuple[object, ...]:
        return (
            gated.git("status", "--porcelain=v2", "--branch"),
            gated.git("for-each-ref"),
            gated.bundles(),
        )

    before = state()
    gated.verify("HEAD~1..HEAD")
    assert state() == before


def test_a_range_that_names_nothing_is_a_usage_error(gated):
    assert gated.run("verify", "nowhere..HEAD").code == 2
    assert (
        json.loads(gated.run("verify", "--json", "--", "-x..HEAD").out)["error"]["exit_code"] == 2
    )


def test_a_file_in_the_place_of_the_bundles_leaves_the_table_standing(gated):
    gated.commit("Change", **{"src/pay.py": CHANGED})
    (gated.path / ".vibe-artifacts").write_text("in the way\n")
    result = gated.run("verify", "HEAD")
    assert (
        result.code,
        "missing" in result.out,
        "bundles ignored: .vibe-artifacts" in result.out,
    ) == (
        1,
        True,
        True,
    )
    assert gated.run("verify", "--json", "HEAD").json["remark"].startswith("bundles ignored")


def test_what_was_reviewed_in_another_working_tree_counts_here_and_in_a_clone_once_its_bundle_is_there(
    gated, tmp_path
):
    gated.git("worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    linked = gated.at(tmp_path / "linked")
    (linked.path / "src" / "pay.py").write_text(CHANGED)
    gated.git("-C", str(linked.path), "add", "-A")
    linked.review("--staged")
    gated.git("-C", str(linked.path), "commit", "-q", "-m", "Change")
    assert (linked.stand("topic"), gated.stand("topic")) == (
        (0, "reviewed", "tree"),
        (0, "reviewed", "tree"),
    )
    result = gated.run("verify", "topic")
    assert (result.code, "kept in worktree" in result.out) == (
        0,
        False,
    )  # both write the store of the main one
    gated.git("clone", "-q", str(gated.path), str(tmp_path / "clone"))
    clone, archive = gated.at(tmp_path / "clone"), str(tmp_path / "bundles.tar.xz")
    assert clone.stand("origin/topic")[:2] == (1, "missing")
    assert (
        linked.run("bundles", "export", "-o", archive).code,
        clone.run("bundles", "import", archive).code,
    ) == (0, 0)
    assert clone.stand("origin/topic") == (0, "reviewed", "tree")
