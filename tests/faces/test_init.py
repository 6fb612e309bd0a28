"""`vibe-gate init`: begins a gate, and never touches one that is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import vibe_gate
from program import ROOT, git

from vibe_gate.faces.cli.definitions import CHECKS_PATH, SCHEMAS, STARTERS

NOTHING = (
    "Nothing to write: this repository has definitions. Check them with `vibe-gate config check`.\n"
)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `.vibe-gate/`, with its time, so that a rewrite would show."""
    files = (path for path in (folder / ".vibe-gate").rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes() + str(path.stat().st_mtime_ns).encode()
        for path in files
    }


LINK = None
"""Something that would count, but is a symbolic link."""


@pytest.mark.parametrize(
    ("files", "tools"),
    [
        (
            {"ruff.toml": "", "mypy.ini": "", "tests/test_a.py": "", "Cargo.toml": ""},
            "ruff mypy pytest clippy cargo-fmt cargo-test",
        ),
        (
            {
                "pyproject.toml": "[tool.ruff.lint]\n[[tool.mypy.overrides]]\n[tool.pytest.ini_options]"
            },
            "ruff mypy pytest",
        ),
        ({"eslint.config.\n[[x]]\n": "", "go.mod": ""}, "eslint go-vet go-test"),
        (
            {
                "pyproject.toml": "[tool.ruffian]\n# [tool.mypy]\n\xff[[",
                "go.mod": LINK,
                "tests": LINK,
            },
            "",
        ),
    ],
)
def test_init_writes_starters_and_proposes_commands_as_comments(repo, environ, files, tools):
    (repo.parent / "test_b.py").touch()
    for name, text in files.items():
        (repo / name).parent.mkdir(exist_ok=True)
        if text is LINK:
            (repo / name).symlink_to(repo.parent if name == "tests" else repo.parent / "test_b.py")
        else:
            (repo / name).write_bytes(text.encode("latin-1"))
    result = vibe_gate("init", cwd=repo, environ=environ)
    assert (result.returncode, result.stdout) == (
        0,
        "".join(f"wrote  {path}\n" for path in [*STARTERS, *SCHEMAS]),
    )
    assert "vibe-gate config check" in result.stderr
    assert "No API key: with this gate a review ends as NOT REVIEWED, exit code 3" in result.stderr
    added = {path: (repo / path).read_text().removeprefix(text) for path, text in STARTERS.items()}
    assert re.findall('id = "(.*)"', added[CHECKS_PATH]) == [*tools.split(), "lint"]
    assert "".join(re.sub("^# .*", "", text, flags=re.M).strip() for text in added.values()) == ""
    assert vibe_gate("config", "check", cwd=repo, environ=environ).returncode == 0


def test_with_checks_only_no_judge_is_asked_and_no_key_is_missed(
    repo: Path, environ: dict[str, str]
) -> None:
    result = vibe_gate("init", "--checks-only", cwd=repo, environ=environ)
    assert '"asked"' not in result.stderr  # a rubric of judges
    wrote = [path for path in (*STARTERS, *SCHEMAS) if not path.endswith("/general.toml")]
    assert (result.returncode, result.stdout) == (0, "".join(f"wrote  {path}\n" for path in wrote))
    assert "API key" not in result.stderr
    assert vibe_gate("config", "check", cwd=repo, environ=environ).stdout.startswith(
        "ok: 1 rubric, 0 judge questions"
    )
    git(repo, "add", "-A")
    reviewed = vibe_gate(
        "review", "--staged", "--definitions", "worktree", cwd=repo, environ=environ
    )
    assert (reviewed.returncode, "not asked" in reviewed.stdout) == (0, False), reviewed.stdout
    assert vibe_gate("init", "--checks-only", cwd=repo, environ=environ).stderr == NOTHING
    later = vibe_gate("init", cwd=repo, environ=environ)
    assert "wrote  .vibe-gate/rubrics/general.toml\n" in later.stdout
    assert (
        "name it in .vibe-gate/gate.toml"
        in vibe_gate("config", "check", cwd=repo, environ=environ).stderr
    )


@pytest.mark.parametrize("mine", ["gate.toml", "rubrics/mine.toml"])
def test_a_gate_of_ones_own_is_left_as_it_is(
    repo: Path, environ: dict[str, str], mine: str
) -> None:
    place = repo / ".vibe-gate" / mine
    place.parent.mkdir(parents=True)
    place.write_text("schema = 1\n")
    before = contents(repo)
    result = vibe_gate("init", cwd=repo, environ=environ)
    assert (result.returncode, result.stdout) == (0, f"kept   .vibe-gate/{mine} (already there)\n")
    assert contents(repo) == before


@pytest.mark.parametrize("lost", STARTERS)
def test_init_completes_what_an_interrupted_one_began_from_any_folder(
    repo: Path, environ: dict[str, str], lost: str
) -> None:
    vibe_gate("init", cwd=repo, environ=environ)
    (repo / lost).unlink()
    (repo / "deep").mkdir()
    result = vibe_gate("init", cwd=repo / "deep", environ=environ)
    assert f"wrote  {lost}\n" in result.stdout
    assert (repo / lost).read_text().startswith(STARTERS[lost])
    before = contents(repo)
    result = vibe_gate("init", cwd=repo, environ=environ)
    assert (result.returncode, result.stderr) == (0, NOTHING)
    assert result.stdout.splitlines() == [
        f"kept   {path} (already there)" for path in [*STARTERS, *SCHEMAS]
    ]
    assert contents(repo) == before


@pytest.mark.parametrize("link", [".vibe-gate", ".vibe-gate/rubrics", ".vibe-gate/schema"])
def test_init_refuses_to_write_through_a_symbolic_link(
    repo: Path, environ: dict[str, str], link: str
) -> None:
    target = repo.parent / "elsewhere"
    target.mkdir()
    (repo / link).parent.mkdir(exist_ok=True)
    (repo / link).symlink_to(target)
    result = vibe_gate("init", cwd=repo, environ=environ)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{link}: a symbolic link or a file stands where a folder belongs" in result.stderr
    assert list(target.iterdir()) == []


def test_init_does_not_follow_a_dangling_link_in_a_starters_place(
    repo: Path, environ: dict[str, str]
) -> None:
    (repo / ".vibe-gate").mkdir()
    (repo / ".vibe-gate/gate.toml").symlink_to(repo.parent / "target")
    assert vibe_gate("init", cwd=repo, environ=environ).returncode == 0
    assert not (repo.parent / "target").exists()


@pytest.mark.slow
def test_half_a_starter_never_stays_behind(repo: Path, environ: dict[str, str]) -> None:
    result = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; exec "$0" -m vibe_gate init', sys.executable],
        cwd=repo,
        env={**environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 3
    assert ".vibe-gate/gate.toml could not be written: File too large." in result.stderr
    assert contents(repo) == {}


@pytest.mark.parametrize(
    ("agents_file", "offered"), [("", True), ("Run `vibe-gate review` first.\n", False)]
)
def test_init_offers_lines_for_agents_where_nothing_tells_them_of_the_gate(
    repo, environ, agents_file, offered
):
    (repo / "AGENTS.md").write_text(agents_file)
    result = vibe_gate("init", cwd=repo, environ=environ)
    assert ("Append these lines to AGENTS.md" in result.stderr) is offered


def test_init_waits_for_no_pipe_in_the_place_of_a_file_for_agents(repo, environ):
    os.mkfifo(repo / "AGENTS.md")
    result = vibe_gate("init", cwd=repo, environ=environ)
    assert "Append these lines to AGENTS.md" in result.stderr


def test_the_lines_for_agents_are_a_paragraph_of_their_own(repo, environ):
    result = vibe_gate("init", cwd=repo, environ=environ)
    paragraphs = result.stderr.split("\n\n")
    (lines,) = [text for text in paragraphs if text.startswith("## vibe-gate\n")]
    assert lines.splitlines()[-1].startswith("- Do not edit .vibe-gate/")


@pytest.mark.parametrize(("commits", "change"), [(0, ""), (1, " --commit HEAD"), (2, " HEAD~1")])
def test_the_review_that_init_proposes_works_in_a_history_of_any_length(
    tmp_path, environ, commits, change
):
    git(tmp_path, "init", "-q", "young")
    young = tmp_path / "young"
    git(young, "config", "user.name", "Ada")
    git(young, "config", "user.email", "ada@example.com")
    for number in range(commits):
        (young / "a.py").write_text(f"x = {number}\n")
        git(young, "add", "a.py")
        git(young, "commit", "-q", "-m", f"commit {number}")
    proposed = f"vibe-gate review{change} --definitions worktree\n"
    assert proposed in vibe_gate("init", "--checks-only", cwd=young, environ=environ).stderr
    review = vibe_gate(*proposed.split()[1:], cwd=young, environ=environ)
    assert review.returncode == 0, review.stderr
