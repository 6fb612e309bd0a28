"""`vibe-gate bundles` as people use it: a real process in a real repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bundle_words import KEY, START, Ended, summary_of
from command import CommandResult, on_a_terminal, vibe_gate
from msgspec.structs import replace
from program import ROOT, git
from recorded import Kind, begun, record_run
from summaries import criterion, open_question

from vibe_gate.domain.cause import NoJudge
from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.report import run_list
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_result import read_bundle

pytestmark = pytest.mark.usefixtures("quick_agents")

STORE = ".vibe-artifacts"
HOUR = timedelta(hours=1)
ENTRY = "import sys; from vibe_gate.faces.cli import main; sys.exit(main())"


def runs(root: Path) -> list[Path]:
    """The folders of the runs in a store."""
    return list((root / STORE).glob("*/2*"))


def head(repo: Path, revision: str = "HEAD") -> str:
    return git(repo, "rev-parse", revision)


def record_review(repo: Path, at: datetime = START, revision: str = "HEAD", **ids: str) -> str:
    """A run about a commit, with the ids that a review of it would record."""
    patch = git(repo, "show", "--format=", "--no-ext-diff", revision)
    patch_id_result = subprocess.run(
        ["git", "patch-id", "--stable"],
        cwd=repo,
        input=patch + "\n",
        capture_output=True,
        text=True,
    )
    patch_id = patch_id_result.stdout.split()[0] if patch_id_result.stdout else ""
    default_ids = {
        "after": head(repo, revision + "^{tree}"),
        "patch_id": patch_id,
        "range_patch_id": patch_id,
    }
    return record_run(repo, at, Kind(key=head(repo, revision), ids={**default_ids, **ids}))


def commit_edit(repo: Path, text: str, message: str = "edit") -> None:
    (repo / "a.txt").write_text(text)
    git(repo, "commit", "-q", "-a", "-m", message)


# list


def test_before_the_first_run_it_says_so(bundles, repo):
    result = bundles(repo, "list")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{run_list.NO_RUNS}\n", "")
    assert not (repo / STORE).exists()
    assert bundles(repo, "list", "--json").json == {"schema": 1, "bundles": []}


def test_a_line_a_run_the_newest_first(bundles, repo):
    first = record_run(repo, START, Kind(agent=True, outcome="fail", rubrics=("quality", "safety")))
    second = record_run(repo, START + HOUR, Kind(files=("a", "b")))
    question = open_question("types", NoJudge(), "not_applicable")
    third = record_run(repo, START + 2 * HOUR, Kind(criteria=(criterion(), question)))
    fourth = record_run(repo, START + 3 * HOUR, Kind(criteria=(question,)))
    (repo / "sub").mkdir()
    result = bundles(repo / "sub", "list")
    assert (result.returncode, result.stderr) == (0, "")
    assert [" ".join(line.split()[1:]) for line in result.stdout.splitlines()] == [
        f"nothing human 1 file +2 -1 0 {fourth}",
        f"checks-only human 1 file +2 -1 0 {third}",
        f"pass human 2 files +4 -2 0 {second}",
        f"fail agent 1 file +2 -1 0 {first}",
    ]


def test_a_secret_in_a_commits_title_is_not_listed(bundles, repo):
    secret = "gh" + "p_" + 9 * "a1B2"
    commit_edit(repo, "more\n", f"Use {secret}")
    record_run(repo, START, Kind(key=head(repo)))
    listed = bundles(repo, "list").stdout
    assert ("Use [redacted" in listed, secret in listed) == (True, False)


@pytest.mark.slow
def test_a_tree_that_was_committed_has_its_commits_title(bundles, repo):
    for tree in (head(repo, "HEAD^{tree}"), "b" * 40):
        record_run(repo, START, Kind(key=f"tree-{tree}", ids={"after": tree}))
    commit_edit(repo, "later\n", "Later")
    listed = bundles(repo, "list").stdout.splitlines()
    title = git(repo, "log", "-1", "--format=%s", "HEAD~1")
    assert sorted(line.rpartition("  ")[2] for line in listed) == sorted([title, "(uncommitted)"])
    assert "(uncommitted)" not in bundles(repo, "show", "HEAD~1").stdout
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    record_run(repo, START, Kind(key=f"tree-{head(repo, 'ORIG_HEAD^{tree}')}"))
    assert "  Later" in bundles(repo, "list").stdout  # rewritten, as by a rebase


@pytest.mark.slow
def test_on_a_terminal_of_80_columns_a_run_is_one_line(repo, environ):
    begun(repo, START + HOUR).abandon("stopped")
    run_id = record_run(repo, START, Kind(files=tuple(map(str, range(12)))))
    _, coloured = on_a_terminal(repo, environ, "bundles", "list")
    assert "  \x1b[32mpass\x1b[0m" in coloured and "  \x1b[33mincomplete\x1b[0m" in coloured
    environ = {**environ, "NO_COLOR": "1"}
    code, text = on_a_terminal(repo, environ, "bundles", "list")
    table, _, legend = text.replace("\r", "").rpartition("\n\n")
    head, stopped, sealed = (line.split() for line in table.splitlines())
    assert " ".join(legend.split()) == (
        "by: who wrote the change · found: findings · run: names it as RUN · incomplete: ended before its verdict"
    )
    assert head == ["ago", "outcome", "by", "change", "found", "run", "title"]
    assert (code, sealed[1:]) == (
        0,
        ["pass", "human", "12", "files", "+24", "-12", "0", run_id[:15]],
    )
    assert re.fullmatch(r"[0-9]+d", sealed[0])
    assert stopped[1] == "incomplete"
    assert max(map(len, text.splitlines())) <= 80
    assert shown_title(repo, environ) == "start"


def shown_title(repo, environ) -> str:
    """What a list on a terminal says of the newest commit, after it was reviewed."""
    vibe_gate("review", "--commit", "HEAD", "--no-judge", cwd=repo, environ=environ)
    return (
        on_a_terminal(repo, environ, "bundles", "list", "--limit", "1")[1]
        .splitlines()[1]
        .rpartition("  ")[2]
    )


def test_an_unsealed_run_has_no_outcome(bundles, repo):
    running = begun(repo, START + HOUR)
    running.event("verdict.decided", outcome="pass", exit_code=0, rubrics={"q": "pass"})
    stopped = begun(repo, START)
    stopped.event("verdict.decided", outcome="pass", exit_code=0, rubrics={"q": "pass"})
    stopped.abandon("stopped")
    lines = bundles(repo, "list").stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["running", "incomplete"]
    assert "pass" not in "".join(lines)
    entries = bundles(repo, "list", "--json").json["bundles"]
    assert [(run["state"], run["outcome"], run["exit_code"]) for run in entries] == [
        ("running", None, None),
        ("incomplete", None, None),
    ]


def test_the_document_of_a_list(bundles, repo):
    run_id = record_run(
        repo, START, Kind(files=("a.py", '"caf\\351"'), binaries=("logo.png",), agent=True)
    )
    (run,) = bundles(repo, "list", "--json").json["bundles"]
    change = run.pop("change")
    assert change["head_commit"] == KEY
    assert run == {
        "run_id": run_id,
        "key": KEY,
        "created_at": "2026-01-02T03:04:05.678Z",
        "state": "sealed",
        "bundle": f"{STORE}/{KEY}/{run_id}",
        "outcome": "pass",
        "exit_code": 0,
        "author": "agent",
        "workflow": "review",
        "rubrics": [{"id": "quality", "outcome": "pass"}],
        "paths": ["a.py", '"caf\\351"', "logo.png"],
        "stats": {"files": 3, "added": 4, "deleted": 2},
        "findings": 0,
        "cost": {"usd": 0.0125, "basis": "known"},
        "duration_ms": 0,
    }


FILTERS = [
    ((), "cba"),
    (("--limit", "2"), "cb"),
    (("--outcome", "fail"), "b"),
    (("--outcome", "fail", "--author", "human"), "b"),
    (("--outcome", "incomplete"), ""),
    (("--rubric", "payments"), "b"),
    (("--author", "agent"), "a"),
    (("--author", "human"), "cb"),
    (("--path", "src/**", "--limit", "1"), "c"),
    (("--path", "*.md"), "a"),
    (("--since", "2026-01-02T04:00"), "cb"),
    (("--since", "2026-01-02T05:04:05.678+01:00"), "cb"),
    (("--since", "1w", "--outcome", "pass"), ""),
    (("--since", "9999d"), "cba"),
]


@pytest.mark.slow
def test_the_filters(bundles, repo):
    runs = {
        record_run(repo, START, Kind(files=("README.md",), agent=True)): "a",
        record_run(
            repo,
            START + HOUR,
            Kind(outcome="fail", files=("src/x.py",), rubrics=("quality", "payments")),
        ): "b",
        record_run(repo, START + 24 * HOUR, Kind(files=("src/y.py",))): "c",
    }
    for options, expected in FILTERS:
        entries = bundles(repo, "list", *options, "--json").json["bundles"]
        assert "".join(runs[run["run_id"]] for run in entries) == expected, options


WRONG = ("--limit=0", "--limit=x", "--limit=²", f"--limit={'9' * 5000}", "--since=soon", "--since=999999w", "--since=",
         "--outcome=great", "--author=me", "--outc=fail", "extra")  # fmt: skip


def test_what_cannot_be_understood_is_a_usage_error(bundles, repo):
    record_run(repo)
    for option in WRONG:
        result = bundles(repo, "list", *option.split(" "))
        assert (result.returncode, result.stdout) == (2, ""), option
        assert result.stderr.startswith("vibe-gate: ")


def plant_run(repo: Path, text: str) -> None:
    """A sealed run whose summary somebody changed: a list compares no digests."""
    run_id = record_run(repo, START, Kind(files=("planted",), workflow="planted", outcome="fail"))
    summary = next((repo / STORE).glob(f"*/{run_id}/summary.json"))
    summary.write_text(summary.read_text().replace('"planted"', json.dumps(text)))


def test_what_a_hostile_bundle_says_is_shown_with_escapes(bundles, repo):
    evil = "\x1b[2Jpass\u202e\u200b\n"
    plant_run(repo, evil)
    for _ in range(2):  # from the bundle, then from the index
        result = bundles(repo, "list")
        assert (
            result.stdout.count("fail"),
            result.stdout.count("\n"),
            result.stdout.isascii(),
        ) == (
            1,
            1,
            True,
        )
        assert "\x1b" not in result.stdout
        time.sleep(0.1)
    (run,) = bundles(repo, "list", "--json").json["bundles"]
    assert (run["paths"], run["workflow"]) == ([evil], evil)
    assert bundles(repo, "list", "--json").stdout.isascii()


def test_in_a_step_of_a_job_the_runner_obeys_nothing_that_the_list_prints(bundles, repo):
    plant_run(repo, "##[add-mask]x")
    plain = bundles(repo, "list", "--json").stdout
    in_a_job = bundles(repo, "list", "--json", GITHUB_ACTIONS="true").stdout
    assert "##[add-mask]x" in plain
    assert "[add-mask]x" in in_a_job
    assert "##[" not in in_a_job
    assert json.loads(in_a_job) == json.loads(plain)


@pytest.mark.slow
def test_a_list_of_known_runs_opens_no_bundle(bundles, repo, environ):
    for number in range(5):
        record_run(repo, START + number * HOUR)
    time.sleep(0.1)  # what was sealed just now is read again
    bundles(repo, "list")
    telling = "import sys; sys.addaudithook(lambda event, args: event == 'open' and print(args[0], file=sys.stderr)); "
    result = subprocess.run(
        [sys.executable, "-c", telling + ENTRY, "bundles", "list", "--outcome", "pass"],
        cwd=repo, env={**environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.count("\n") == 5
    assert "summary.json" not in result.stderr


def test_outside_a_repository_it_says_so(bundles, tmp_path):
    result = bundles(tmp_path, "list")
    assert (result.returncode, result.stdout) == (2, "")
    assert "No git repository" in result.stderr


def test_bundles_that_were_downloaded_are_listed_and_shown_without_a_repository(bundles, tmp_path):
    run_id = record_run(tmp_path)
    (tmp_path / "deep").mkdir()
    assert run_id in bundles(tmp_path / "deep", "list").stdout
    assert run_id in bundles(tmp_path, "show").stdout
    assert run_id in bundles(tmp_path, "show", KEY).stdout
    result = bundles(tmp_path, "show", "HEAD")
    assert (result.returncode, result.stdout) == (2, "")
    assert "No run found for HEAD; `vibe-gate bundles list` shows all runs." in result.stderr
    assert bundles(tmp_path, "clean").returncode == 0


def test_a_word_that_names_no_run_is_told_with_the_nearest_revision(bundles, repo):
    record_run(repo)
    git(repo, "branch", "maintenance")
    result = bundles(repo, "show", "maintenence")
    assert result.returncode == 2
    assert (
        "is not a revision either" in result.stderr
        and "Did you mean 'maintenance'?" in result.stderr
    )


def test_where_git_is_redirected_the_store_is_that_of_its_working_tree(bundles, repo, tmp_path):
    run_id = record_run(repo)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    variables = {"GIT_DIR": str(repo / ".git"), "GIT_WORK_TREE": str(repo)}
    assert run_id in bundles(elsewhere, "list", **variables).stdout


# show


def test_show_tells_the_newest_as_the_review_did(bundles, repo):
    record_run(repo, START)
    newest = record_run(repo, START + HOUR, Kind(outcome="fail"))
    result = bundles(repo, "show")
    assert (result.returncode, result.stderr) == (0, "")
    assert "FAIL" in result.stdout.upper().splitlines()[0]
    assert f"Run {newest} of 2026-01-02T04:04:05.678Z, matched by newest." in result.stdout


def test_the_document_of_a_run(bundles, repo):
    run_id = record_run(repo)
    document = bundles(repo, "show", run_id[:20], "--json").json
    summary = document.pop("summary")
    assert (summary["run_id"], summary["outcome"]) == (run_id, "pass")
    assert document == {
        "schema": 1,
        "run_id": run_id,
        "key": KEY,
        "created_at": "2026-01-02T03:04:05.678Z",
        "bundle": f"{STORE}/{KEY}/{run_id}",
        "state": "sealed",
        "matched": "run id prefix",
        "others": 0,
        "kept": False,
    }


def test_a_run_is_named_by_its_folder_in_another_working_tree_too(bundles, repo, tmp_path, environ):
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"))
    run_id = record_run(tmp_path / "linked")
    (repo / "deep").mkdir()
    for place, folder in (
        (repo, f"../linked/{STORE}/{KEY}/{run_id}"),
        (repo, f"{tmp_path}/linked/{STORE}/{KEY}/{run_id}/"),
        (repo / "deep", f"../linked/{STORE}/{KEY}/{run_id}"),
        (tmp_path / "linked", f"{STORE}/{KEY}/{run_id}"),
    ):
        assert match_of(bundles(place, "show", folder, "--json")) == (run_id, "folder")
    assert (
        f"Run {run_id} of 2026-01-02T03:04:05.678Z, matched by folder."
        in bundles(place, "show", folder).stdout
    )
    folder = f"../linked/{STORE}/{KEY}/{run_id}"
    assert (
        f"{run_id} (matched by folder)" in vibe_gate("viz", folder, cwd=repo, environ=environ).out
    )
    assert vibe_gate("report", folder, "-o", "page.html", cwd=repo, environ=environ).code == 0
    assert run_id in (repo / "page.html").read_text()


def test_a_folder_that_no_review_wrote_or_that_a_link_leads_to_is_not_shown(
    bundles, repo, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    green = record_run(tmp_path / "elsewhere")
    record_run(repo, START, Kind(key="f" * 40))
    (repo / STORE / KEY).symlink_to(tmp_path / "elsewhere" / STORE / KEY)
    shutil.copytree(tmp_path / "elsewhere", repo / "fixture")
    (repo / "bare" / STORE / KEY / green).mkdir(parents=True)
    for folder in (STORE, f"fixture/{STORE}", f"bare/{STORE}", f"../nowhere/{STORE}"):
        result = bundles(repo, "show", f"{folder}/{KEY}/{green}")
        assert (result.returncode, result.stdout) == (2, "")
        assert f"No run found for {folder}/{KEY}/{green}" in result.stderr
    (repo / STORE / KEY).unlink()
    foreign = track_run(repo)
    result = bundles(repo, "show", f"{STORE}/{head(repo)}/{foreign}")
    assert (result.returncode, result.stdout, "git tracks it" in result.stderr) == (5, "", True)


def match_of(result: CommandResult) -> tuple[str, str]:
    return result.json["run_id"], result.json["matched"]


def test_a_revision_is_resolved_by_commit_then_tree_then_patch_ids(bundles, repo):
    commit_edit(repo, "one\ntwo\n", "two")
    run_id = record_review(repo)
    assert match_of(bundles(repo, "show", "HEAD", "--json")) == (run_id, "commit")
    assert match_of(bundles(repo, "show", head(repo)[:10], "--json")) == (run_id, "commit")
    assert match_of(bundles(repo, "show", head(repo, "HEAD^{tree}"), "--json")) == (run_id, "tree")
    git(repo, "commit", "-q", "--amend", "-m", "another message")
    assert match_of(bundles(repo, "show", "HEAD", "--json")) == (run_id, "tree")
    git(repo, "checkout", "-q", "-b", "other", "HEAD~1")
    (repo / "b.txt").write_text("beside\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "beside")
    git(repo, "cherry-pick", "main")
    assert match_of(bundles(repo, "show", "HEAD", "--json")) == (run_id, "patch-id")
    assert bundles(repo, "show", "HEAD~1").returncode == 2


def test_a_squashed_range_is_found_by_its_range_patch_id_and_a_staged_tree_by_its_key(
    bundles, repo
):
    git(repo, "checkout", "-q", "-b", "topic")
    commit_edit(repo, "one\ntwo\n", "two")
    commit_edit(repo, "one\ntwo\nthree\n", "three")
    diff = git(repo, "diff", "main", "topic")
    patch_id_result = subprocess.run(
        ["git", "patch-id", "--stable"], cwd=repo, input=diff + "\n", capture_output=True, text=True
    )
    run_id = record_review(repo, range_patch_id=patch_id_result.stdout.split()[0], patch_id="")
    git(repo, "checkout", "-q", "main")
    (repo / "b.txt").write_text("main moved on\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "on")
    git(repo, "merge", "-q", "--squash", "topic")
    git(repo, "commit", "-q", "-m", "squashed")
    assert match_of(bundles(repo, "show", "HEAD", "--json")) == (run_id, "range patch-id")
    tree = head(repo, "HEAD^{tree}")
    staged = record_run(
        repo, START + HOUR, Kind(key=f"tree-{tree}", ids={"after": tree, "head_commit": ""})
    )
    assert match_of(bundles(repo, "show", f"tree-{tree}", "--json")) == (staged, "tree")


def test_of_several_runs_the_newest_with_a_verdict_is_shown_and_the_others_counted(bundles, repo):
    record_run(repo, START, Kind(key=head(repo)))
    second = record_run(repo, START + HOUR, Kind(key=head(repo)))
    begun(repo, START + 2 * HOUR, Kind(key=head(repo))).abandon("stopped")
    document = bundles(repo, "show", "HEAD", "--json").json
    assert (document["run_id"], document["others"]) == (second, 2)
    assert "2 other runs match too" in bundles(repo, "show", "HEAD").stdout


def test_what_names_no_run_is_a_usage_error_and_no_pattern(bundles, repo):
    record_run(repo)
    for reference in (
        "2026*",
        "[0-9]*",
        "",
        "no-such-thing",
        "HEAD~50",
        "../../etc",
        "\x1b[31m",
        "-",
    ):
        result = bundles(repo, "show", reference)
        assert (result.returncode, result.stdout) == (2, ""), reference
        assert "\x1b" not in result.stderr


def test_an_ambiguous_beginning_names_the_candidates(bundles, repo):
    runs = [record_run(repo, START + number * HOUR) for number in range(2)]
    result = bundles(repo, "show", "2026")
    assert result.returncode == 2
    assert "is ambiguous: 2 runs match" in result.stderr
    assert all(run in result.stderr for run in runs)


def test_show_log_prints_what_agents_and_judges_said(bundles, repo):
    run = begun(repo)
    run.event("node.added", "fix", kind="stage")
    turn = run.turn("fix")
    turn.event({"type": "message", "role": "assistant", "content": "I\x1b[31m mend it."})
    turn.hook(
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t", "cwd": "/work"}
    )
    turn.seal(Ended())
    run.seal(summary_of(run))
    result = bundles(repo, "show", "--log")
    assert (result.code, result.out.splitlines()[0]) == (0, "==== nodes/fix/turn-001")
    assert "I⟦U+001B⟧[31m mend it." in result.out
    assert bundles(repo, "show", "--log", "fix").out == result.out
    wrong = bundles(repo, "show", "--log", "fx")
    assert (wrong.code, "there are: fix" in wrong.err) == (2, True)
    (call,) = read_bundle(run.directory).tools.all()
    assert (call.cwd, read_bundle(run.directory).files.changed_count) == ("/work", 0)


def test_an_unfinished_run_is_shown_without_a_verdict(bundles, repo):
    run = begun(repo)
    run.event("node.added", "judge-quality", kind="judge")
    run.event("node.status", "judge-quality", status="RUNNING")
    assert "is still running" in bundles(repo, "show").stdout
    run.abandon("stopped")
    result = bundles(repo, "show")
    assert result.returncode == 0
    assert "is incomplete" in result.stdout
    assert "judge-quality" in result.stdout
    document = bundles(repo, "show", "--json").json
    assert (document["state"], document["summary"]) == ("incomplete", None)


def test_an_altered_bundle_shows_no_outcome(bundles, repo):
    run_id = record_run(repo)
    bundles(repo, "list")
    (repo / STORE / KEY / run_id / "run.json").write_text("{}")
    result = bundles(repo, "show")
    assert (result.returncode, result.stdout) == (5, "")
    assert "was changed after sealing" in result.stderr


# Foreign runs


def track_run(repo: Path, at: datetime = START) -> str:
    """A green run about HEAD that came with the repository."""
    run_id = record_run(repo, at, Kind(key=head(repo)))
    git(repo, "add", "-f", STORE)
    return run_id


def test_a_run_that_git_tracks_is_foreign_and_has_no_outcome(bundles, repo):
    foreign = track_run(repo)
    own_run = record_run(repo, START - HOUR, Kind(outcome="fail"))
    for _ in range(2):
        lines = [line.split() for line in bundles(repo, "list").stdout.splitlines()]
        assert [line[1] for line in lines] == ["foreign", "fail"]
        assert lines[0][2:] == [foreign]  # no title: the run's key is whatever its writer chose
        time.sleep(0.1)
    assert bundles(repo, "list", "--outcome", "pass").stdout == f"{run_list.NO_MATCHES}\n"
    assert foreign in bundles(repo, "list", "--outcome", "foreign").stdout
    assert match_of(bundles(repo, "show", "--json")) == (own_run, "newest")
    assert bundles(repo, "show", "HEAD").returncode == 2
    result = bundles(repo, "show", foreign)
    assert (result.returncode, result.stdout) == (5, "")
    assert "git tracks it" in result.stderr


def test_a_pass_that_needs_approval_and_agents_without_rubrics_are_no_pass_in_the_list(
    bundles, repo
):
    run = begun(repo)
    run.seal(summary_of(run, "pass", 4))
    run = begun(repo)
    run.seal(replace(summary_of(run, "pass", 0), workflow="fix", rubrics=()))
    for _ in range(2):
        assert {line.split()[1] for line in bundles(repo, "list").stdout.splitlines()} == {
            "done",
            "approval",
        }


def test_a_review_a_cleaning_and_a_repair_leave_a_clone_with_bundles_as_it_was(
    bundles, repo, environ
):
    run = repo / STORE / head(repo) / "20200101T000000000Z-aaaaaaaa"
    for path in (run / "notes.txt", repo / STORE / "trash/README"):
        path.parent.mkdir(parents=True)
        path.write_text("ours\n")
    git(repo, "add", "-A", "-f")
    git(repo, "commit", "-q", "-m", "artifacts")
    clone = repo.parent / "clone"
    git(repo, "clone", "-q", str(repo), str(clone))
    review = vibe_gate("review", "--commit", "HEAD", "--no-judge", cwd=clone, environ=environ)
    assert (
        "git tracks 2 files in .vibe-artifacts, so nothing is written there."
        in review.stdout + review.stderr
    )
    for argv in (["clean"], ["repair"]):
        result = bundles(clone, *argv)
        assert (result.returncode, result.stdout) == (3, "")
        assert "Run `git rm -r --cached .vibe-artifacts`" in result.stderr
    assert git(clone, "status", "--short", "--ignored", STORE) == ""


# keep, clean, du


def test_keep_and_clean(bundles, repo):
    kept_run, deleted_run = (
        record_run(repo, START, Kind(key=head(repo))),
        record_run(repo, START + HOUR),
    )
    assert bundles(repo, "keep", "HEAD").stdout == f"{kept_run} is kept (matched by commit).\n"
    assert "Kept: cleaning does not delete it." in bundles(repo, "show", kept_run).stdout
    result = bundles(repo, "clean")
    assert result.stdout.splitlines()[0] == f"{deleted_run} deleted"
    assert result.stdout.splitlines()[1].startswith("1 run deleted, 0.0")
    assert bundles(repo, "keep", kept_run, "--off").returncode == 0
    document = bundles(repo, "clean", "--json").json
    assert (document["schema"], document["dry_run"], document["deleted"], document["errors"]) == (
        1,
        False,
        [kept_run],
        [],
    )
    assert document["freed_mb"] > 0
    assert bundles(repo, "list").stdout == f"{run_list.NO_RUNS}\n"


def test_a_dry_run_deletes_nothing(bundles, repo):
    run_id = record_run(repo)
    output = bundles(repo, "clean", "--dry-run").stdout
    assert output.startswith(f"{run_id} would be deleted\n1 run would be deleted,")
    assert output.endswith(" MB would be freed.\n")
    assert run_id in bundles(repo, "list").stdout
    assert bundles(repo, "keep").returncode == 2  # it needs a run


def test_a_cleaning_takes_old_workspaces_of_dead_runs(bundles, repo, environ):
    with open_repository(repo, read_environment(environ)) as repository:
        workspace = repository.workspace(
            repository.workspaces / "20260102-030405", repository.snapshot()
        )
        workspace.close()
    assert bundles(repo, "clean").stdout.startswith("0 runs deleted")
    old = time.time() - 8 * 86_400
    for path in (workspace.folder, workspace.folder / "kept.git/index"):
        os.utime(path, (old, old))
    assert bundles(repo, "clean", "--dry-run").stdout.startswith(
        f"workspace {workspace.folder.name} would be deleted"
    )
    assert bundles(repo, "clean", "--json").json["workspaces"] == [workspace.folder.name]
    assert not workspace.folder.exists()


def test_a_cleaning_takes_old_patches_and_what_is_noted_of_runs_that_it_deletes(
    bundles, repo, environ
):
    run_id = record_run(repo, datetime.now(UTC) - timedelta(days=40))
    with open_repository(repo, read_environment(environ)) as repository:
        old = repository.keep_patch("old", b"diff")
        repository.keep_patch("new", b"diff")
        begun_runs = open_state(repository.common_dir).begun
    begun_runs.note_run(run_id)
    begun_runs.note_run("other")
    os.utime(old, (time.time() - 31 * 86_400,) * 2)
    assert "made-old.patch would be deleted" in bundles(repo, "clean", "--dry-run").stdout
    assert (old.exists(), [*begun_runs.runs()]) == (True, [run_id, "other"])
    assert bundles(repo, "clean", "--json").json["patches"] == ["made-old.patch"]
    assert (old.exists(), [*begun_runs.runs()]) == (False, ["other"])


def gate(repo: Path, days: int) -> None:
    (repo / ".vibe-gate").mkdir(exist_ok=True)
    (repo / ".vibe-gate/gate.toml").write_text(
        f"schema = 1\n[retention]\nmax_age_days = {days}\nmin_free_disk_mb = 0\n"
    )


def test_retention_is_read_at_the_trusted_revision(bundles, repo):
    record_run(repo, datetime.now(UTC) - timedelta(days=40))
    gate(repo, 50)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "gate")
    gate(repo, 0)  # an uncommitted change cannot empty the store
    assert bundles(repo, "clean", "--json").json["deleted"] == []
    git(repo, "commit", "-q", "-a", "-m", "softer")
    git(repo, "config", "vibe-gate.trust", "HEAD~1")
    assert bundles(repo, "clean", "--json").json["deleted"] == []
    git(repo, "config", "--unset", "vibe-gate.trust")
    assert len(bundles(repo, "clean", "--json").json["deleted"]) == 1


def test_before_the_first_commit_the_defaults_hold(bundles, tmp_path):
    git(tmp_path, "init", "-q", "fresh")
    record_run(tmp_path / "fresh", datetime.now(UTC) - timedelta(days=29))
    record_run(tmp_path / "fresh", datetime.now(UTC) - timedelta(days=31))
    assert len(bundles(tmp_path / "fresh", "clean", "--json").json["deleted"]) == 1


def test_what_could_not_be_deleted_is_said_with_exit_code_3(bundles, repo):
    record_run(repo)
    (repo / STORE / "trash").write_text("in the way")
    result = bundles(repo, "clean", "--json")
    assert result.returncode == 3
    assert "Not a directory" in json.loads(result.stdout)["errors"][0]


@pytest.mark.slow
def test_du_by_key_and_in_all(bundles, repo):
    content = os.urandom(3_000_000)
    record_run(repo, START, Kind(contents=(content,)))
    record_run(repo, START, Kind(key="tree-" + KEY, contents=(content,)))
    usage = bundles(repo, "du", "--json").json
    assert {key["key"]: key["runs"] for key in usage["keys"]} == {KEY: 1, "tree-" + KEY: 1}
    assert usage["total"] > 6_000_000
    text = bundles(repo, "du").stdout
    assert KEY in text
    assert " MB in total" in text


def test_a_store_that_is_a_link_is_refused(bundles, repo, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    record_run(tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere" / STORE, tmp_path / "copy")
    (repo / STORE).symlink_to(tmp_path / "elsewhere" / STORE)
    for argv in (("list",), ("show",), ("clean",), ("du",)):
        assert bundles(repo, *argv).returncode == 3
    assert len(runs(tmp_path / "elsewhere")) == 1
