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
def where(tmp_path) -> Path:
    """A repository with a change that a check refuses."""
    made = repository(tmp_path / "r", **{"a.py": "x = 1\n"})
    (made / "a.py").write_text("x = 1\n" + MARKER)
    return made


@pytest.fixture
def clean(tmp_path) -> Path:
    made = repository(tmp_path / "c", **{"a.py": "x = 1\n"})
    (made / "a.py").write_text("x = 2\n")
    return made


def review(where, environ, *argv):
    return vibe_gate("review", "--no-judge", *argv, cwd=where, environ=environ)


ALL = (
    "--sarif=../o/gate.sarif",
    "--junit=../o/gate.xml",
    "--gitlab=../o/quality.json",
    "--markdown=../o/r.md",
)


def outputs(where) -> dict[str, str]:
    return {file.name: file.read_text() for file in (where.parent / "o").iterdir()}


def test_several_formats_are_written_at_once_and_the_screen_stays(where, environ):
    (where.parent / "o").mkdir()
    done = review(where, environ, *ALL)
    assert done.returncode == 1
    assert done.stdout.startswith("✗ FAIL")
    files = outputs(where)
    assert set(files) == {"gate.sarif", "gate.xml", "quality.json", "r.md"}
    assert (
        json.loads(files["gate.sarif"])["runs"][0]["results"][0]["ruleId"] == "no-conflict-markers"
    )
    assert etree.fromstring(files["gate.xml"].encode()).get("failures") == "2"
    assert json.loads(files["quality.json"])[1]["location"]["path"] == "a.py"
    assert files["r.md"].startswith("### vibe-gate: FAIL")


def test_the_document_shows_the_lines_of_a_finding_without_the_secret_in_them(where, environ):
    token = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW2xY4"
    (where / "a.py").write_text(f"token = '{token}'\nmark = '```'\n")
    done = review(where, environ, "--markdown", "-")
    assert "\n  ````diff\n  @@ " in done.stdout
    assert "\n  +token = '[redacted:github-token:" in done.stdout
    assert token not in done.stdout


def test_a_page_without_a_file_is_no_part_of_the_next_review_and_one_in_the_tree_is_told_once(
    clean, environ
):
    told = "git does not ignore page.html"
    kept = review(clean, environ, "--html", "--sarif", "../outside")
    page = Path(re.search(r"page: (.*)", kept.stderr)[1])
    assert page.parent == clean / ".vibe-artifacts/reports" and page.read_text().startswith(
        "<!doctype html>"
    )
    first, again = (review(clean, environ, "--html", "page.html") for _ in range(2))
    assert (told in kept.stderr, told in first.stderr, told in again.stderr) == (False, True, False)
    assert "1 file +1 −1" in first.out and "2 files" in again.out
    in_ci = review(clean, environ | {"CI": "1"}, "--sarif", "inside")
    assert "ignore" not in kept.stderr + in_ci.stderr
    assert (
        "that is a revision; write it before --html."
        in review(clean, environ, "--html", "HEAD~0").stderr
    )


def test_where_there_is_nothing_to_review_they_are_written_all_the_same(where, environ):
    (where.parent / "o").mkdir()
    git(where, "checkout", "-q", "--", "a.py")
    done = review(where, environ, *ALL)
    assert done.returncode == 0
    files = outputs(where)
    assert json.loads(files["gate.sarif"])["runs"][0]["results"] == []
    assert json.loads(files["quality.json"]) == []
    assert "Nothing to review in" in files["r.md"]


@pytest.mark.parametrize(
    ("name", "begins"),
    [("sarif", "{"), ("junit", "<?xml"), ("gitlab", "["), ("markdown", "### vibe-gate: FAIL")],
)
def test_on_stdout_a_format_stands_alone(where, environ, name, begins):
    done = review(where, environ, f"--{name}", "-")
    assert done.returncode == 1
    assert done.stdout.startswith(begins)
    assert "✗ FAIL" not in done.stdout


REFUSED = [
    (("--sarif", "no/such/x"), "folder no/such does not exist; create it first"),
    (("--junit", "a.py/x"), "folder a.py does not exist"),
    (("--gitlab", "."), "is a folder; name a file in it"),
    (("--sarif", ""), "needs the name of a file"),
    (("--sarif", "y" * 256), "File name too long"),
    (("--sarif", "-", "--markdown", "-"), "--sarif - and --markdown - would mix"),
    (("--sarif", "-", "--json"), "--sarif - and --json would mix"),
    (("--sarif", "x", "--junit", "./x"), "name the same file"),
]


def test_what_could_not_be_written_is_refused_before_anything_is_reviewed(where, environ):
    for argv, said in REFUSED:
        done = review(where, environ, *argv)
        assert (done.returncode, said in done.stderr + done.stdout) == (2, True), argv
    assert not (where / ".vibe-artifacts").exists()


def test_a_link_of_that_name_is_replaced_and_not_followed_also_beside_json(where, environ):
    victim = where.parent / "victim"
    victim.write_text("precious")
    (where / "gate.sarif").symlink_to(victim)
    assert review(where, environ, "--json", "--sarif", "gate.sarif").json["exit_code"] == 1
    assert victim.read_text() == "precious"
    assert json.loads((where / "gate.sarif").read_text())["version"] == "2.1.0"


def test_a_device_is_written_into(where, environ):
    done = review(where, environ, "--markdown", "/dev/stderr")
    assert "### vibe-gate: FAIL" in done.stderr
    assert Path("/dev/stderr").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [("where", 1), ("clean", 3)])
def test_a_file_that_cannot_be_written_after_all_is_said_and_leaves_nothing_behind(
    request, environ, kind, code
):
    made = request.getfixturevalue(kind)
    target = made.parent / "gate.sarif"
    target.write_text("the one before")
    # Every format but SARIF stays below the limit; the store is not written to because it is a
    # file.
    git(made, "commit", "-q", "-a", "-m", "Change")
    (made / ".vibe-artifacts").write_text("")
    done = subprocess.run(
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
        cwd=made,
        env={**environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert done.returncode == code, done.stderr
    assert f"cannot write {target}: File too large" in done.stderr + done.stdout
    assert target.read_text() == "the one before"
    assert not list(made.parent.glob(".*.part"))


def test_in_a_job_of_github_the_commit_and_its_lines_are_linked(where, environ):
    git(where, "commit", "-qam", "change")
    head = git(where, "rev-parse", "HEAD")
    job = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "o/r",
    }
    done = review(
        where,
        {**environ, **job, "GITHUB_RUN_ID": "7"},
        "--commit",
        "HEAD",
        "--sarif",
        "../s",
        "--markdown",
        "-",
    )
    assert f"(https://github.com/o/r/blob/{head}/a.py#L2)" in done.stdout
    assert "(https://github.com/o/r/actions/runs/7)" in done.stdout
    run = json.loads((where.parent / "s").read_text())["runs"][0]
    assert run["versionControlProvenance"][0]["revisionId"] == head
