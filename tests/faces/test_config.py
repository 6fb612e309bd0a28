"""`vibe-gate config show|check`: the gate as it is, or all that is wrong with it."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from command import vibe_gate
from program import ROOT, git

GATES = ROOT / "tests/gates"
RUBRIC = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "a"\nkind = "judge"\nquestion = "Is it?"\n'


def put(repo: Path, case: str) -> Path:
    """The definitions of a case, uncommitted."""
    shutil.copytree(GATES / case / ".vibe-gate", repo / ".vibe-gate")
    return repo


@pytest.mark.parametrize("case", ["names", "wrong-types", "misplaced", "hostile-text"])
def test_check_tells_every_mistake_at_once(repo: Path, environ: dict[str, str], case: str) -> None:
    done = vibe_gate("config", "check", cwd=put(repo, case), environ=environ)
    expected = (GATES / case / "mistakes.txt").read_text().splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"vibe-gate: {line}" for line in expected]
    assert all(char.isprintable() or char == "\n" for char in done.stderr)
    done = vibe_gate("config", "show", cwd=repo, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")


def test_check_counts_what_it_found_right(repo: Path, environ: dict[str, str]) -> None:
    done = vibe_gate("config", "check", cwd=put(repo, "right"), environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ok: 2 rubrics, 1 judge question, 1 check in the working tree.\n"


def test_check_reads_the_working_tree_unless_a_revision_is_named(repo: Path, environ: dict[str, str]) -> None:
    put(repo, "right")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "right")
    (repo / ".vibe-gate/gate.toml").write_text("schema = 1\nrubric = []\n")
    assert vibe_gate("config", "check", cwd=repo, environ=environ).returncode == 2
    done = vibe_gate("config", "check", "--definitions", "HEAD", cwd=repo, environ=environ)
    assert (done.returncode, done.stdout) == (
        0,
        f"ok: 2 rubrics, 1 judge question, 1 check at {git(repo, 'rev-parse', 'HEAD')[:12]}.\n",
    )
    done = vibe_gate("config", "check", "--definitions", "HEAD~1", cwd=repo, environ=environ)
    assert "ok: no definitions at " in done.stdout


def test_show_prints_the_effective_gate_as_toml(repo: Path, environ: dict[str, str]) -> None:
    done = vibe_gate("config", "show", cwd=put(repo, "right"), environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    gate = tomllib.loads(done.stdout)
    assert gate["rubrics"] == ["quality"]
    assert gate["budget"]["max_turns"] == 20
    assert set(gate["rubric"]) == {"payments.v2", "quality"}
    assert "# Read at: worktree\n" in done.stdout


def test_show_without_definitions_prints_the_built_in_gate(repo: Path, environ: dict[str, str]) -> None:
    done = vibe_gate("config", "show", cwd=repo, environ=environ)
    assert done.returncode == 0
    assert done.stdout.startswith("# Definitions built in")
    assert "no-secrets" in tomllib.loads(done.stdout)["rubric"]["safety"]["criterion"][0]["id"]
    assert "vibe-gate init" in done.stderr


def test_a_rubric_that_nothing_names_is_noted(repo: Path, environ: dict[str, str]) -> None:
    put(repo, "right")
    (repo / ".vibe-gate/gate.toml").write_text('schema = 1\nrubrics = ["quality"]\n')
    done = vibe_gate("config", "check", cwd=repo, environ=environ)
    assert done.returncode == 0
    assert done.stderr == (
        "note: no change is reviewed against rubric 'payments.v2' yet; name it in .vibe-gate/gate.toml.\n"
    )


def test_a_rubric_behind_a_symbolic_link_is_refused(repo: Path, environ: dict[str, str]) -> None:
    (repo / ".vibe-gate/rubrics").mkdir(parents=True)
    (repo / ".vibe-gate/gate.toml").write_text('schema = 1\nrubrics = ["quality"]\n')
    (repo / "elsewhere.toml").write_text(RUBRIC)
    (repo / ".vibe-gate/rubrics/quality.toml").symlink_to("../../elsewhere.toml")
    done = vibe_gate("config", "check", cwd=repo, environ=environ)
    assert done.returncode == 2
    assert 'no rubric "quality"' in done.stderr
    assert "symbolic links are not followed" in done.stderr


@pytest.mark.parametrize("how", ["link", "ignored"])
def test_a_gate_file_that_git_would_not_record_is_no_silent_default(
    repo: Path, environ: dict[str, str], how: str
) -> None:
    (repo / ".vibe-gate/rubrics").mkdir(parents=True)
    (repo / ".vibe-gate/rubrics/quality.toml").write_text(RUBRIC)
    if how == "link":
        (repo / "elsewhere.toml").write_text("schema = 1\n")
        (repo / ".vibe-gate/gate.toml").symlink_to("../elsewhere.toml")
    else:
        (repo / ".vibe-gate/gate.toml").write_text("schema = 1\n")
        (repo / ".gitignore").write_text("gate.toml\n")
    done = vibe_gate("config", "check", cwd=repo, environ=environ)
    assert done.returncode == 2
    assert ".vibe-gate/gate.toml: git does not record it as a file" in done.stderr


@pytest.mark.parametrize("argv", [["check", "--definitions", "nowhere"], []])
def test_what_cannot_be_understood_is_one_sentence(repo: Path, environ: dict[str, str], argv: list[str]) -> None:
    done = vibe_gate("config", *argv, cwd=repo, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_check_names_what_this_version_does_not_do_yet(repo: Path, environ: dict[str, str]) -> None:
    put(repo, "right")
    criterion = '[[criterion]]\nid = "tools"\nkind = "check"\ncheck = "todos-completed"\n'
    (repo / ".vibe-gate/rubrics/conduct.toml").write_text(f'schema = 1\nid = "conduct"\n{criterion}')
    gate = repo / ".vibe-gate/gate.toml"
    gate.write_text(gate.read_text() + '\n[trust]\nuncalibrated = "advise"\n')
    done = vibe_gate("config", "check", cwd=repo, environ=environ)
    said = [line for line in done.stderr.splitlines() if line.startswith("not yet: ")]
    assert done.returncode == 0
    assert ["todos-completed" in said[0], "[trust] uncalibrated" in said[1]] == [True, True]
