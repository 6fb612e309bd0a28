"""`review --sarif --junit --gitlab --markdown`: files whole or not at all, and never a verdict
changed in silence.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command import vibe_gate
from lxml import etree
from program import ROOT, git, repository

MARKER = "<<<<<<< HEAD\n"


@pytest.fixture
def refused(tmp_path) -> Path:
    """A repository with a change that a check refuses."""
    repo = repository(tmp_path / "r", **{"a.py": "x = 1\n"})
    (repo / "a.py").write_text("x = 1\n" + MARKER)
    return repo


@pytest.fixture
def clean(tmp_path) -> Path:
    repo = repository(tmp_path / "c", **{"a.py": "x = 1\n"})
    (repo / "a.py").write_text("x = 2\n")
    return repo


def review(repo, environ, *argv):
    return vibe_gate("review", "--no-judge", *argv, cwd=repo, environ=environ)


ALL = (
    "--sarif=../o/gate.sarif",
    "--junit=../o/gate.xml",
    "--gitlab=../o/quality.json",
    "--markdown=../o/r.md",
)


def outputs(repo) -> dict[str, str]:
    return {file.name: file.read_text() for file in (repo.parent / "o").iterdir()}


def test_several_formats_are_written_at_once_and_the_screen_stays(refused, environ):
    (refused.parent / "o").mkdir()
    result = review(refused, environ, *ALL)
    assert result.returncode == 1
    assert result.stdout.startswith("✗ FAIL")
    files = outputs(refused)
    assert set(files) == {"gate.sarif", "gate.xml", "quality.json", "r.md"}
    assert (
        json.loads(files["gate.sarif"])["runs"][0]["results"][0]["ruleId"] == "no-conflict-markers"
    )
    assert etree.fromstring(files["gate.xml"].encode()).get("failures") == "2"
    assert json.loads(files["quality.json"])[1]["location"]["path"] == "a.py"
    assert files["r.md"].startswith("### vibe-gate: FAIL")


def test_the_document_shows_the_lines_of_a_finding_without_the_secret_in_them(refused, environ):
    token = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW2xY4"
    (refused / "a.py").write_text(f"token = '{token}'\nmark = '```'\n")
    result = review(refused, environ, "--markdown", "-")
    assert "\n  ````diff\n  @@ " in result.stdout
    assert "\n  +token = '[redacted:github-token:" in result.stdout
    assert token not in result.stdout


@pytest.mark.slow
def test_a_page_without_a_file_is_no_part_of_the_next_review_and_one_in_the_tree_is_told_once(
    clean, environ
):
    warning = "git does not ignore page.html"
    without_file = review(clean, environ, "--html", "--sarif", "../outside")
    page = Path(re.search(r"page: (.*)", without_file.stderr)[1])
    assert page.parent == clean / ".vibe-artifacts/reports" and page.read_text().startswith(
        "<!doctype html>"
    )
    first, second = (review(clean, environ, "--html", "page.html") for _ in range(2))
    assert (warning in without_file.stderr, warning in first.stderr, warning in second.stderr) == (
        False,
        True,
        False,
    )
    assert "1 file +1 −1" in first.out and "2 files" in second.out
    in_ci = review(clean, environ | {"CI": "1"}, "--sarif", "inside")
    assert "ignore" not in without_file.stderr + in_ci.stderr
    assert (
        "that is a revision; write it before --html."
        in review(clean, environ, "--html", "HEAD~0").stderr
    )


def test_where_there_is_nothing_to_review_they_are_written_all_the_same(refused, environ):
    (refused.parent / "o").mkdir()
    git(refused, "checkout", "-q", "--", "a.py")
    result = review(refused, environ, *ALL)
    assert result.returncode == 0
    files = outputs(refused)
    assert json.loads(files["gate.sarif"])["runs"][0]["results"] == []
    assert json.loads(files["quality.json"]) == []
    assert "Nothing to review in" in files["r.md"]


@pytest.mark.parametrize(
    ("name", "begins"),
    [("sarif", "{"), ("junit", "<?xml"), ("gitlab", "["), ("markdown", "### vibe-gate: FAIL")],
)
def test_on_stdout_a_format_stands_alone(refused, environ, name, begins):
    result = review(refused, environ, f"--{name}", "-")
    assert result.returncode == 1
    assert result.stdout.startswith(begins)
    assert "✗ FAIL" not in result.stdout


REFUSED = [
    (("--sarif", "no/such/x"), "folder no/such does not exist; create it first"),
    (("--junit", "a.py/x"), "a.py is not a folder"),
    (("--gitlab", "."), "is a folder; name a file in it"),
    (("--sarif", ""), "needs the name of a file"),
    (("--sarif", "y" * 256), "File name too long"),
    (("--sarif", "-", "--markdown", "-"), "--sarif - and --markdown - would mix"),
    (("--sarif", "-", "--json"), "--sarif - and --json would mix"),
    (("--sarif", "x", "--junit", "./x"), "name the same file"),
]


def test_what_could_not_be_written_is_refused_before_anything_is_reviewed(refused, environ):
    for argv, sentence in REFUSED:
        result = review(refused, environ, *argv)
        assert (result.returncode, sentence in result.stderr + result.stdout) == (2, True), argv
    assert not (refused / ".vibe-artifacts").exists()


def test_a_link_of_that_name_is_replaced_and_not_followed_also_beside_json(refused, environ):
    victim = refused.parent / "victim"
    victim.write_text("precious")
    (refused / "gate.sarif").symlink_to(victim)
    assert review(refused, environ, "--json", "--sarif", "gate.sarif").json["exit_code"] == 1
    assert victim.read_text() == "precious"
    assert json.loads((refused / "gate.sarif").read_text())["version"] == "2.1.0"


def test_a_device_is_written_into(refused, environ):
    result = review(refused, environ, "--markdown", "/dev/stderr")
    assert "### vibe-gate: FAIL" in result.stderr
    assert Path("/dev/stderr").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [("refused", 1), ("clean", 3)])
def test_a_file_that_cannot_be_written_after_all_is_said_and_leaves_nothing_behind(
    request, environ, kind, code
):
    repo = request.getfixturevalue(kind)
    target = repo.parent / "gate.sarif"
    target.write_text("the one before")
    # Every format but SARIF stays below the limit; the store is not written to because it is a
    # file.
    git(repo, "commit", "-q", "-a", "-m", "Change")
    (repo / ".vibe-artifacts").write_text("")
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "vibe_gate",
            "review",
            "HEAD~1..HEAD",
            "--no-judge",
            "--sarif",
            str(target),
        ],
        cwd=repo,
        env={**environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert result.returncode == code, result.stderr
    assert f"cannot write {target}: File too large" in result.stderr + result.stdout
    assert target.read_text() == "the one before"
    assert not list(repo.parent.glob(".*.part"))


def test_in_a_job_of_github_the_commit_and_its_lines_are_linked(refused, environ):
    git(refused, "commit", "-qam", "change")
    head = git(refused, "rev-parse", "HEAD")
    job = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "o/r",
    }
    result = review(
        refused,
        {**environ, **job, "GITHUB_RUN_ID": "7"},
        "--commit",
        "HEAD",
        "--sarif",
        "../s",
        "--markdown",
        "-",
    )
    assert f"(https://github.com/o/r/blob/{head}/a.py#L2)" in result.stdout
    assert "(https://github.com/o/r/actions/runs/7)" in result.stdout
    run = json.loads((refused.parent / "s").read_text())["runs"][0]
    assert run["versionControlProvenance"][0]["revisionId"] == head
