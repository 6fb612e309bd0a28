"""What is seen of a hook under pre-commit and prek: nothing of ours on a pass, and no warning
lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hooked import (
    BIN,
    Hooked,
    add_judged_gate,
    commit_on_terminal,
    install_gate,
    start_repository,
)
from repos import GATE

from vibe_gate.domain.environment import read_environment
from vibe_gate.faces.cli.program_note import program_note

pytestmark = pytest.mark.slow

WARNS = """\
schema = 1
id = "quality"
pass_threshold = 0.5
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "TODO" }
[[criterion]]
id = "no-secrets"
kind = "check"
check = "no-secrets"
"""


@pytest.fixture(params=["pre-commit", "prek"])
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if not (BIN / name).exists():
        pytest.skip(f"{name} is not installed here (the extra `test` brings it)")
    return name


@pytest.fixture
def repository(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    return start_repository(tmp_path / "repository", environ)


def test_a_passing_commit_prints_nothing_of_ours(repository, framework):
    install_gate(repository, framework)
    repository.write(a="x\n")
    output = repository.git("commit", "-q", "-a", "-m", "x")
    assert "hook id" not in output
    assert "vibe-gate:" not in output
    repository.write(a="y\n")
    screen = commit_on_terminal(repository, "-q", "-a", "-m", "y")
    assert "hook id" not in screen
    assert "vibe-gate:" not in screen
    assert repository.records()[-1]["tree"] == repository.tree()


@pytest.mark.parametrize("framework", ["prek"], indirect=True)
def test_an_agents_commit_that_passes_its_checks_prints_nothing_of_ours(repository, framework):
    install_gate(repository, framework)
    repository.write(a="x\n")
    output = repository.git("commit", "-q", "-a", "-m", "x", CLAUDECODE="1")
    assert "hook id" not in output
    assert "vibe-gate:" not in output


def test_a_warning_is_shown_on_a_persons_terminal(repository, framework):
    add_judged_gate(repository, WARNS)
    install_gate(repository, framework)
    repository.write(a="TODO\n")
    screen = commit_on_terminal(repository, "-q", "-a", "-m", "x")
    assert "vibe-gate: PASS with 1 warning" in screen
    assert "hook id" not in screen


def test_without_a_terminal_that_nothing_was_reviewed_is_said_after_the_commit(
    repository, framework
):
    add_judged_gate(repository)
    install_gate(repository, framework)
    repository.write(a="x\n")
    output = repository.git("commit", "-q", "-a", "-m", "x", CLAUDECODE="1")
    assert output.count("vibe-gate: NOT REVIEWED. The commit goes through; CI will block it.") == 1
    run = repository.records()[-1]["run"]
    assert f"`vibe-gate bundles show {run}` says why." in output
    assert repository.run("vibe-gate", "bundles", "show", run).code == 0


@pytest.mark.parametrize("framework", ["prek"], indirect=True)
def test_a_gate_that_passes_without_a_verdict_says_nothing(repository, framework):
    add_judged_gate(repository)
    (repository.path / ".vibe-gate" / "gate.toml").write_text(
        GATE + '[on]\ninconclusive = "pass"\n'
    )
    install_gate(repository, framework)
    repository.write(a="x\n")
    output = repository.git("commit", "-q", "-a", "-m", "x", CLAUDECODE="1")
    assert "NOT REVIEWED." not in output


def test_a_bypass_is_said_after_the_commit(repository, framework):
    install_gate(repository, framework)
    repository.write(a="x\n")
    output = repository.git("commit", "-q", "-a", "--no-verify", "-m", "x")
    assert "went past the hooks" in output


@pytest.mark.parametrize("framework", ["prek"], indirect=True)
def test_a_bypass_is_said_once_on_a_terminal(repository, framework):
    install_gate(repository, framework)
    repository.write(a="x\n")
    screen = commit_on_terminal(repository, "-q", "-a", "--no-verify", "-m", "x")
    assert screen.count("went past the hooks") == 1
    assert "Failed" not in screen


@pytest.mark.parametrize(
    ("text", "path", "is_noted"),
    [
        ("next  vibe-gate run --fix 2026", "/usr/bin", True),
        ("`vibe-gate bundles show` lists the findings", "", True),
        ("`vibe-gate bundles show` lists the findings", str(BIN), False),
        ("vibe-gate: NOT REVIEWED. The commit goes through", "/usr/bin", False),
        ("vibe-gate (record) failed", "/usr/bin", False),
    ],
)
def test_a_command_that_cannot_be_typed_comes_with_the_path_of_the_program(text, path, is_noted):
    note = program_note(read_environment({"PATH": path}), text)
    assert note == (
        f"vibe-gate: it is not on your PATH; type this in its place: {BIN / 'vibe-gate'}"
        if is_noted
        else ""
    )
