"""Ways around the gate. For each: what stops it, or which line of `verify` names it. None is
silent.

The hooks are those of `vibe-gate install git`; what goes past them is named afterwards.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import signing
from standing import CODE, TIDY, Gated

from vibe_gate.domain.gate import Override
from vibe_gate.store.clone_state import open_state

pytestmark = pytest.mark.slow

BAD = CODE + "# TODO: check who pays\n"
GOOD = CODE.replace("> 0", ">= 0")
SIGNERS = ".vibe-gate/allowed_signers"


@pytest.fixture
def gated(tmp_path: Path, environ: dict[str, str]) -> Gated:
    """A repository whose hooks stop what fails."""
    repository = Gated(tmp_path / "repo", environ)
    installation = repository.run("install", "git")
    assert installation.code == 0, installation.err
    return repository


def git(gated: Gated, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run git, whatever its exit code."""
    return subprocess.run(
        ["git", *argv],
        cwd=gated.path,
        env={**gated.environ, **environ},
        capture_output=True,
        text=True,
    )


def stage(gated: Gated, **files: str) -> None:
    for name, text in files.items():
        gated.write(name, text)
    gated.git("add", "-A")


def verify_statuses(gated: Gated, *argv: str, since: str = "") -> tuple[int, list[str]]:
    """The exit code of `verify`, and each commit's status, newest first."""
    code, rows = gated.verify(f"{since or gated.first}..HEAD", *argv)
    for row in rows:
        assert row["status"] in ("reviewed", "empty") or row["why"], row
    return code, [row["status"] for row in rows]


def test_1b_no_verify_after_the_hook_said_no_shows_the_verdict(gated):
    stage(gated, **{"src/pay.py": BAD})
    assert git(gated, "commit", "-m", "Bad").returncode != 0
    assert git(gated, "commit", "--no-verify", "-m", "Bad all the same").returncode == 0
    assert verify_statuses(gated) == (1, ["failed"])


def test_6_what_a_rebase_changes_on_the_way_is_stale(gated):
    gated.git("checkout", "-q", "-b", "topic")
    stage(gated, **{"src/pay.py": GOOD})
    git(gated, "commit", "-m", "Good")
    slip = "printf 'x = 1\\n' >> src/log.py && git commit -q -a --amend --no-edit --no-verify"
    assert git(gated, "rebase", "--force-rebase", "--exec", slip, "main").returncode == 0
    code, [status] = verify_statuses(gated)
    assert code == 1
    assert status in ("bypassed", "stale")


PAST_HOOKS = {
    "an option": "git -c core.hooksPath=/nowhere commit -qm x",
    "the configuration": "git config core.hooksPath /nowhere; git commit -qm x",
    "a hook that cannot be executed": "chmod 644 .git/hooks/*; git commit -qm x",
    "plumbing": "git update-ref refs/heads/main $(git commit-tree $(git write-tree) -p HEAD -m x)",
    "a cherry-pick": "git checkout -qb aside; git -c core.hooksPath=/nowhere commit -qm x; git checkout -q main; "
    "git cherry-pick -x aside",
}


@pytest.mark.parametrize("bypass", PAST_HOOKS)
def test_2_to_10_what_no_hook_has_seen_is_missing(gated, bypass):
    stage(gated, **{"src/pay.py": BAD})
    subprocess.run(PAST_HOOKS[bypass], shell=True, check=True, cwd=gated.path, env=gated.environ)
    assert verify_statuses(gated) == (1, ["missing"])


def test_11_a_softened_rubric_needs_approval_and_what_it_lets_through_is_stale(gated):
    stage(gated, **{".vibe-gate/rubrics/tidy.toml": TIDY.replace("TODO", "FIXME")})
    git(gated, "commit", "-m", "Soften")
    stage(gated, **{"src/pay.py": BAD})
    git(gated, "commit", "-m", "Use it")
    assert verify_statuses(gated) == (1, ["stale", "approval"])


def test_11b_softened_and_used_in_one_commit_is_judged_by_the_old_rubric(gated):
    stage(
        gated, **{".vibe-gate/rubrics/tidy.toml": TIDY.replace("TODO", "FIXME"), "src/pay.py": BAD}
    )
    assert git(gated, "commit", "-m", "Both").returncode != 0


def test_12_definitions_that_are_renamed_away_need_approval_and_bind_all_the_same(gated):
    gated.git("mv", ".vibe-gate", "vibe-gate-of-old")
    git(gated, "commit", "-m", "Rename away")
    stage(gated, **{"src/pay.py": BAD})
    git(gated, "commit", "--no-verify", "-m", "Bad")
    code, [bad, renamed] = verify_statuses(gated)
    assert (code, renamed) == (1, "approval")
    assert bad in ("bypassed", "stale", "incomplete")


def test_13_deleted_definitions_need_approval_and_deleted_bundles_leave_the_commit_missing(gated):
    gated.git("rm", "-rq", ".vibe-gate")
    git(gated, "commit", "-m", "Delete the gate")
    assert verify_statuses(gated) == (1, ["approval"])
    subprocess.run(["rm", "-rf", ".vibe-artifacts"], cwd=gated.path, check=True)
    assert verify_statuses(gated) == (1, ["missing"])


def commit_and_review(gated: Gated, text: str = BAD) -> Path:
    """Commit past the hooks, and review the commit; its bundle."""
    stage(gated, **{"src/pay.py": text})
    gated.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "Change")
    gated.review("--commit", "HEAD")
    return gated.bundles()[-1]


def reason_of_forgery(gated: Gated) -> str:
    """The reason for which `verify` calls the newest commit's verdict forged."""
    code, rows = gated.verify(f"{gated.first}..HEAD")
    assert (code, rows[0]["status"]) == (5, "forged")
    return rows[0]["why"]


def rewrite(file: Path, change: Any) -> None:
    document = json.loads(file.read_bytes())
    change(document)
    file.write_text(json.dumps(document))


def test_15_a_summary_that_was_made_green_is_forged(gated):
    bundle = commit_and_review(gated)
    rewrite(
        bundle / "summary.json",
        lambda document: document.update(outcome="pass", exit_code=0, findings=[]),
    )
    subprocess.run(["rm", "-rf", ".vibe-artifacts/index"], cwd=gated.path, check=True)
    assert reason_of_forgery(gated) == "the receipt belongs to another run"


def test_15c_a_bundle_without_its_receipt_is_no_review(gated):
    bundle = commit_and_review(gated, GOOD)
    (bundle / "receipt.json").unlink()
    rewrite(bundle / "summary.json", lambda document: document["digests"].pop("receipt.json"))
    code, rows = gated.verify(f"{gated.first}..HEAD")
    reason = rows[0]["why"].partition(":")[0]
    assert code == 1
    assert rows[0]["status"] == "missing"
    assert reason == "no receipt here is about this change"


def test_15d_a_bundle_that_came_with_the_repository_is_forged(gated):
    commit_and_review(gated, GOOD)
    gated.git("add", "-A", "-f", ".vibe-artifacts")
    assert "git tracks it" in reason_of_forgery(gated)


def test_15e_a_bundle_dated_in_the_future_is_forged(gated):
    bundle = commit_and_review(gated, GOOD)
    bundle.rename(bundle.with_name("2099" + bundle.name[4:]))
    subprocess.run(["rm", "-rf", ".vibe-artifacts/index"], cwd=gated.path, check=True)
    assert reason_of_forgery(gated)


def forge(bundle: Path, change: Any) -> None:
    """Replace the receipt of a bundle, and let its summary vouch for the new one."""
    envelope = json.loads((bundle / "receipt.json").read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    envelope["payload"] = base64.b64encode(payload).decode()
    (bundle / "receipt.json").write_text(json.dumps(envelope))
    digest = hashlib.sha256((bundle / "receipt.json").read_bytes()).hexdigest()
    rewrite(
        bundle / "summary.json",
        lambda document: document["digests"].update({"receipt.json": digest}),
    )


@pytest.fixture
def signed(tmp_path: Path, environ: dict[str, str]) -> Gated:
    """A repository whose gate lists Bob; Bob's key signs."""
    key = signing.key(tmp_path / "keys", "bob")
    repository = Gated(
        tmp_path / "repo", environ, **{SIGNERS: f"bob@example.org {signing.public(key)}\n"}
    )
    signing.sign_with(repository.repo, key)
    return repository


def test_16_a_signed_receipt_that_was_altered_is_forged(signed):
    bundle = commit_and_review(signed)
    forge(bundle, lambda statement: statement["predicate"].update(outcome="pass", exit_code=0))
    rewrite(bundle / "summary.json", lambda document: document.update(outcome="pass", exit_code=0))
    assert reason_of_forgery(signed)


def test_16b_a_receipt_of_another_commit_is_forged_where_it_is_put(signed):
    good = commit_and_review(signed, GOOD)
    bad = commit_and_review(signed)
    (bad / "receipt.json").write_bytes((good / "receipt.json").read_bytes())
    forge(bad, lambda statement: None)
    assert reason_of_forgery(signed)


def test_16c_a_receipt_that_is_none_is_forged_and_no_crash(signed):
    bundle = commit_and_review(signed, GOOD)
    for raw in (b"", b"{}", b"[" * 100_000, b'{"payloadType": 1}', b"\xff\xfe"):
        (bundle / "receipt.json").write_bytes(raw)
        digests = {"receipt.json": hashlib.sha256(raw).hexdigest()}
        rewrite(
            bundle / "summary.json",
            lambda document, digests=digests: document["digests"].update(digests),
        )
        assert reason_of_forgery(signed)


def test_18_an_agent_that_writes_its_own_override_is_not_believed(gated):
    stage(gated, **{"src/pay.py": BAD})
    [finding] = gated.review("--staged")["findings"]
    override = Override(
        ts="2026-01-01", finding=finding["fingerprint"], reason="fine", by="Claude <noreply@anthropic.com>",
        email="noreply@anthropic.com", expires=date(2099, 1, 1),
    )  # fmt: skip
    open_state(gated.path / ".git").overrides.append(override)
    assert gated.review("--staged")["exit_code"] == 1


def test_19_no_tag_and_no_branch_stands_in_the_place_of_the_one_that_is_meant(gated):
    gated.git("update-ref", "refs/remotes/origin/main", gated.first)
    gated.git("remote", "add", "origin", "nowhere")
    gated.git("config", "vibe-gate.trust", "origin/main")
    gated.git("checkout", "-q", "-b", "weak")
    stage(gated, **{".vibe-gate/rubrics/tidy.toml": TIDY.replace("TODO", "FIXME")})
    git(gated, "commit", "--no-verify", "-m", "Soften")
    gated.git("checkout", "-q", "main")
    stage(gated, **{"src/pay.py": BAD})
    for kind in ("tag", "branch"):
        gated.git(kind, "origin/main", "weak")
        assert git(gated, "commit", "-m", "Bad").returncode == 1
        verification = gated.run("verify", "origin/main..HEAD")
        assert (verification.code, "origin/main is ambiguous" in verification.err) == (2, True)
        gated.git(kind, "-d" if kind == "tag" else "-D", "origin/main")
    gated.git("branch", "origin/main", "weak")
    gated.git("update-ref", "-d", "refs/remotes/origin/main")
    commit_attempt = git(gated, "commit", "-m", "Bad")
    assert (
        commit_attempt.returncode,
        "refs/remotes/origin/main names no revision" in commit_attempt.stderr,
    ) == (
        1,
        True,
    )


def test_19b_a_tag_of_the_branchs_name_hides_no_commit(gated):
    gated.git("checkout", "-q", "-b", "topic")
    stage(gated, **{"src/pay.py": BAD})
    git(gated, "commit", "--no-verify", "-m", "Bad")
    gated.git("tag", "main", "HEAD")
    gated.git("config", "core.warnAmbiguousRefs", "false")
    verification = gated.run("verify", "main..HEAD")
    assert verification.code == 2
    assert "main is ambiguous, it names refs/heads/main and refs/tags/main" in verification.err
    assert gated.verify("heads/main..HEAD")[0] == 1


def test_20_a_list_of_where_history_ends_hides_no_commit(gated):
    stage(gated, **{"src/pay.py": BAD})
    git(gated, "commit", "--no-verify", "-m", "Bad")
    stage(gated, **{"src/pay.py": GOOD})
    git(gated, "commit", "-m", "Good")
    (gated.path / ".git" / "shallow").write_text(gated.git("rev-parse", "HEAD") + "\n")
    code, statuses = verify_statuses(gated)
    assert (code, len(statuses)) == (1, 2)
    assert (
        verify_statuses(gated, since="4b825dc642cb6eb9a060e54bf8d69288fbee4904")[1][:2] == statuses
    )


def test_21_a_remote_whose_branch_is_not_known_here_any_more_is_told_at_every_commit(gated):
    gated.git("remote", "add", "origin", "nowhere")
    stage(gated, **{"src/pay.py": GOOD})
    assert (
        "is known here" not in git(gated, "commit", "-m", "Good").stderr
    )  # nothing was ever fetched or pushed
    gated.git("update-ref", "refs/remotes/origin/main", gated.first)
    gated.git("branch", "-q", "-u", "origin/main")
    gated.git("branch", "-q", "-r", "-D", "origin/main")
    stage(gated, **{"src/log.py": "log = print\n"})
    assert (
        "no default branch of the remote origin is known here"
        in git(gated, "commit", "-m", "Better").stderr
    )
    assert "no default branch of the remote origin is known here" in gated.run("verify", "HEAD").out
