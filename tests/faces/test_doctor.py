"""`doctor` says what is here, what is not, and never a secret."""

from __future__ import annotations

import json
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from command import vibe_gate
from gateway.test_model_probe import MESSAGE, answering, endpoint, error
from program import repository
from repos import GATE, RUBRIC

from vibe_gate.faces.cli.doctor import InstalledDistribution as Installed
from vibe_gate.faces.cli.doctor import installation_point
from vibe_gate.faces.git_hook.frameworks import REVIEWING
from vibe_gate.report.sentences import UNASKED_WITH_THIS_GATE

KEY = "sk-ant-api03-NOBODY-MAY-SEE-THIS"


def points(cwd: Path, environ: dict[str, str], **variables: str) -> dict[str, dict[str, str]]:
    result = vibe_gate("doctor", "--json", cwd=cwd, environ={**environ, **variables})
    document = json.loads(result.stdout)
    assert document["exit_code"] == result.returncode
    assert KEY not in result.stdout + result.stderr
    return {point["name"]: point for point in document["points"]}


def test_in_a_repository_without_a_key_a_review_can_run_and_the_key_is_a_warning(repo, environ):
    report = points(repo, environ)
    assert [name for name, point in report.items() if point["state"] == "broken"] == []
    names = "vibe-gate git libgit2 claude key repository definitions hooks store"
    assert list(report) == names.split()
    assert report["key"]["state"] == "warning"
    assert "ANTHROPIC_API_KEY" in report["key"]["advice"]
    assert report["git"]["what"].startswith("git version ")
    assert "built-in gate" in report["definitions"]["what"]


def test_the_lines_say_the_same_for_people_and_nothing_is_written(repo, environ):
    before = sorted(repo.rglob("*"))
    result = vibe_gate("doctor", cwd=repo, environ=environ)
    assert result.returncode == 0, result.stderr
    marks = {
        line.split()[1]: line[0] for line in result.stdout.splitlines() if not line.startswith(" ")
    }
    assert marks["git"] == "✓"
    assert marks["key"] == "!"
    assert marks["hooks"] == "·"
    assert sorted(repo.rglob("*")) == before


def test_hooks_that_this_version_would_write_otherwise_are_a_warning(repo, environ):
    assert (
        points(repo, environ)["hooks"]["what"]
        == "not installed (`vibe-gate install git` adds them)"
    )
    vibe_gate("install", "git", cwd=repo, environ=environ)
    assert points(repo, environ)["hooks"]["state"] == "ok"
    hook = repo / ".git" / "hooks" / "pre-push"
    hook.write_text(hook.read_text() + "# of an older version\n")
    point = points(repo, environ)["hooks"]
    assert (point["state"], point["what"].endswith(": pre-push")) == ("warning", True)
    assert "install git" in point["advice"]


def test_gits_hook_that_an_agents_installation_brought_is_no_outdated_one(repo, environ):
    vibe_gate("install", "git", cwd=repo, environ=environ)
    for name in REVIEWING:  # `install claude` writes none of them
        (repo / ".git" / "hooks" / name).unlink()
    point = points(repo, environ)["hooks"]
    assert (point["state"], point["what"], point["advice"]) == (
        "warning",
        "only reference-transaction, which refuses nothing until there is a gate at commits",
        "`vibe-gate install git` adds it.",
    )


def test_it_names_the_variable_that_holds_the_key_or_the_host_and_not_the_key(repo, environ):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        report = points(repo, environ, **{name: KEY})
        assert (report["key"]["state"], name in report["key"]["what"]) == ("ok", True)
    report = points(repo, environ, ANTHROPIC_BASE_URL=f"http://user:{KEY}@localhost:4000")
    assert report["key"]["state"] == "ok"
    assert "localhost" in report["key"]["what"]
    assert points(repo, environ, ANTHROPIC_BASE_URL="gopher://x")["key"]["state"] == "warning"


def test_where_the_gate_demands_answers_it_says_that_reviews_end_without_a_verdict(repo, environ):
    skipped = "Until then checks run, and judge questions are skipped."
    assert skipped in points(repo, environ)["key"]["advice"]
    assert vibe_gate("init", cwd=repo, environ=environ).returncode == 0
    for commands in ([], ["add", ".vibe-gate"], ["commit", "-q", "-m", "Add a gate"]):
        if commands:
            subprocess.run(["git", *commands], cwd=repo, env=environ, check=True)
        advice = points(repo, environ)["key"]["advice"]
        assert f"Until then {UNASKED_WITH_THIS_GATE}." in advice
        assert "checks run" not in advice


def test_without_a_gate_that_demands_answers_it_says_so_in_ci_alone(repo, environ):
    assert UNASKED_WITH_THIS_GATE in points(repo, environ, CI="true")["key"]["advice"]
    result = vibe_gate("init", "--checks-only", cwd=repo, environ=environ)
    assert result.returncode == 0
    assert "checks run" in points(repo, environ, CI="true")["key"]["advice"]


def test_outside_a_repository_it_exits_2_and_says_where_to_go(tmp_path, environ):
    report = points(tmp_path, environ)
    assert report["repository"]["state"] == "broken"
    assert "Run this in a git repository" in report["repository"]["advice"]


def test_mistakes_in_the_definitions_are_listed_and_exit_2(repo, environ):
    assert vibe_gate("init", cwd=repo, environ=environ).returncode == 0
    assert points(repo, environ)["definitions"]["state"] == "ok"
    (repo / ".vibe-gate/gate.toml").write_text("schema = 1\nrubric = []\n")
    report = points(repo, environ)
    assert report["definitions"]["state"] == "broken"
    assert "gate.toml" in report["definitions"]["advice"]


def test_a_store_that_is_a_link_elsewhere_is_broken(repo, environ, tmp_path):
    (repo / ".vibe-artifacts").symlink_to(tmp_path)
    assert points(repo, environ)["store"]["state"] == "broken"


def test_without_git_on_path_it_says_what_to_install(repo, environ, tmp_path):
    (tmp_path / "bin").mkdir()
    report = points(repo, environ, PATH=str(tmp_path / "bin"))
    assert report["git"]["state"] == "broken"
    assert "Install git" in report["git"]["advice"]


def test_a_hostile_name_of_the_folder_is_shown_escaped(tmp_path, environ):
    root = repository(tmp_path / "a\x1b[31mb")
    result = vibe_gate("doctor", cwd=root, environ=environ)
    assert "\x1b" not in result.stdout + result.stderr


def test_a_damaged_state_that_was_put_aside_is_safe_to_delete(repo, environ):
    assert "state.db" not in points(repo, environ)
    folder = repo / ".git/vibe-gate"
    folder.mkdir(exist_ok=True)
    for end in ("", "-wal"):
        (folder / f"state.db.damaged-20260304T050607000Z{end}").touch()
    point = points(repo, environ)["state.db"]
    assert point["state"] == "warning"
    assert point["what"].endswith(
        f"safe to delete: state.db.damaged-20260304T050607000Z* (in {folder})"
    )


def test_gaps_in_captured_sessions_are_a_warning_with_the_last_reason(repo, environ):
    assert "sessions" not in points(repo, environ)
    folder = repo / ".git/vibe-gate/captures"
    folder.mkdir(parents=True)
    assert points(repo, environ)["sessions"]["state"] == "ok"
    now = time.time_ns() // 1_000_000
    old = "1700000000000 OSError: long ago\n"
    (folder / "gaps").write_text(f"{old}torn {now} OSError: No space left on device\n" * 2)
    assert points(repo, environ)["sessions"]["state"] == "ok"
    (folder / "gaps").write_text(
        f"{old}{now - 1000} OSError: \x1b[2J\n{now} OSError: full\n{now} OSError: full\n"
    )
    point = points(repo, environ)["sessions"]
    assert point["state"] == "warning"
    assert point["what"].startswith("3 gaps in the capture, the last 20")
    assert point["what"].endswith("Z: OSError: full")
    assert str(folder / "gaps") in point["advice"]
    result = vibe_gate("doctor", cwd=repo, environ=environ)
    assert result.returncode == 0
    assert "\x1b" not in result.stdout


def test_hooks_of_agents_are_told_with_their_file_and_a_script_that_is_gone_with_the_remedy(
    repo, environ
):
    assert not {"claude hooks", "gemini hooks"} & points(repo, environ).keys()
    assert vibe_gate("install", "gemini", cwd=repo, environ=environ).code == 0
    assert points(repo, environ)["gemini hooks"]["what"] == f"in {repo}/.gemini/settings.json"
    settings = repo / ".gemini" / "settings.json"
    settings.write_text(settings.read_text().replace("/vibe_gate/faces", "-moved/vibe_gate/faces"))
    point = points(repo, environ)["gemini hooks"]
    assert (point["state"], "vibe-gate install gemini" in point["advice"]) == ("warning", True)
    settings.write_text("// a comment\n{}")
    assert "is no valid JSON" in points(repo, environ)["gemini hooks"]["what"]


def test_a_shared_store_that_is_not_named_where_it_binds_or_has_no_key_is_told_with_its_revision(
    repo, environ
):
    run = partial(vibe_gate, cwd=repo, environ=environ)
    git = partial(subprocess.run, cwd=repo, env=environ, check=True, capture_output=True, text=True)
    head = git(["git", "rev-parse", "HEAD"]).stdout[:12]
    lacking = f"vibe-gate: No shared store: .vibe-gate/gate.toml at HEAD ({head}) has no [store]. "
    assert run("bundles", "list", "--store").err == lacking + "Name one there: [store] url = ...\n"
    (repo / ".vibe-gate/rubrics").mkdir(parents=True)
    (repo / ".vibe-gate/rubrics/quality.toml").write_text(RUBRIC)
    (repo / ".vibe-gate/gate.toml").write_text(f'{GATE}[store]\nurl = "file:///srv/reviews"\n')
    assert (
        run("bundles", "list", "--store").err == lacking + "The working tree has one: commit it.\n"
    )
    git(["git", "add", "-A"])
    git(["git", "commit", "-qm", "Share"])
    git(["git", "update-ref", "refs/remotes/origin/main", head])
    assert (
        "\n! shared store The shared store file:///srv/reviews is not used:\n" in run("doctor").out
    )
    git(["git", "remote", "add", "origin", "/nowhere"])
    output = run("bundles", "list", "--store").err
    assert "gate.toml on origin/main" in output
    assert output.endswith(
        "The working tree has one: commit it, merge it into origin/main and push.\n"
    )


@pytest.mark.parametrize(
    ("status", "body", "state", "code"),
    [
        (200, MESSAGE, "ok", 0),
        (401, error(f"invalid key {KEY}"), "broken", 2),
        (404, error("model: claude-sonnet-5"), "broken", 2),
        (429, error("slow down"), "warning", 0),
    ],
)
def test_with_ask_it_says_what_the_model_answered(
    repo, environ, status: int, body: object, state: str, code: int
):
    with endpoint(answering(status, body)) as (address, requests):
        variables = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address}
        result = vibe_gate("doctor", "--ask", "--json", cwd=repo, environ={**environ, **variables})
    report = {point["name"]: point for point in json.loads(result.stdout)["points"]}
    assert (report["model"]["state"], result.returncode, report["key"]["state"]) == (
        state,
        code,
        "ok",
    )
    assert bool(report["model"]["advice"]) == (state != "ok")
    assert KEY not in result.stdout
    assert b'"claude-sonnet-5"' in requests[0]


def test_with_ask_and_without_a_key_nothing_is_asked(repo, environ):
    result = vibe_gate("doctor", "--ask", cwd=repo, environ=environ)
    assert (result.returncode, "! model        not asked: no API key" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    ("full_package", "core_package", "state", "words"),
    [
        (Installed("1.0", needs_core=False), None, "ok", " (vibe-gate), Python "),
        (None, Installed("1.0", needs_core=False), "ok", " (vibe-gate-core), Python "),
        (
            Installed("1.0", needs_core=True),
            Installed("1.0", needs_core=False),
            "ok",
            "(vibe-gate)",
        ),
        (None, None, "ok", " (not installed, run from its folder), Python "),
        (
            Installed("1.0", needs_core=False),
            Installed("1.0", needs_core=False),
            "warning",
            "both vibe-gate and vibe-gate-core have put its code here",
        ),
        (
            Installed("1.0", needs_core=True),
            Installed("1.1", needs_core=False),
            "warning",
            "vibe-gate 1.0 is made for the same version of vibe-gate-core",
        ),
    ],
)
def test_the_first_line_says_which_distribution_is_here(full_package, core_package, state, words):
    point = installation_point(full_package, core_package)
    assert (point.state, words in point.what, bool(point.advice)) == (
        state,
        True,
        state == "warning",
    )
