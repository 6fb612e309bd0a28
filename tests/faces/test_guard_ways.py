"""The guard in a real repository: ways around the gate by tools and command lines, and ordinary work beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from guard_lines import ALLOWED, REFUSED
from program import git, repository

from vibe_gate.domain.provenance import AGENT_VARIABLES
from vibe_gate.faces.claude_hook import git_settings, guard
from vibe_gate.faces.claude_hook.guarded import Project
from vibe_gate.faces.claude_hook.rules import refused_command
from vibe_gate.faces.claude_hook.verdict import edit, refusal
from vibe_gate.faces.cli.install_claude import hooks

PATCH = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A project with a gate and a linked worktree, and a repository of somebody else's."""
    outside = tmp_path_factory.mktemp("places")
    project = repository(outside / "project")
    for name, text in {
        ".vibe-gate/gate.toml": "schema = 1\n",
        ".vibe-artifacts/x/y/summary.json": "{}",
        ".pre-commit-config.yaml": "repos: [{repo: x/vibe-gate}]\n",
        ".husky/pre-commit": "vibe-gate hook pre-commit\n",
        ".claude/settings.json": json.dumps({"hooks": hooks()}),
        "tests/fixtures/.vibe-gate/gate.toml": "schema = 1\n",
        "src/a.py": "a\n",
        "gate.patch": PATCH.format(".vibe-gate/gate.toml"),
        "src.patch": PATCH.format("src/a.py"),
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    git(project, "add", ".vibe-gate")
    git(project, "commit", "-q", "-m", "a gate")
    git(project, "worktree", "add", "-q", "../linked")
    scratch = repository(outside / "scratch")
    (scratch / ".vibe-gate").mkdir()
    (scratch / ".vibe-gate" / "gate.toml").write_text("schema = 1\n")
    found = {name: str(outside / name) for name in ("project", "linked", "scratch")}
    return {**found, "outside": str(outside)}


def judged(line: str, places: dict[str, str]) -> str | None:
    project = places["project"]
    return refused_command(placed(line, places), project, Project(project, str(Path.home())))


def placed(line: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        line = line.replace("{" + name + "}", path)
    return line


@pytest.mark.parametrize("line", REFUSED)
def test_a_way_around_the_gate_is_refused_with_what_to_do_instead(places, line):
    said = judged(line, places)
    assert said is not None
    assert said.startswith("vibe-gate: ")
    assert said.endswith(".")
    assert ";" in said


@pytest.mark.parametrize("line", REFUSED)
def test_the_quick_look_stops_at_every_line_that_is_refused(places, line):
    given = {"tool_name": "Bash", "tool_input": {"command": placed(line, places)}}
    assert guard.worth_a_look(json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize("line", ALLOWED)
def test_ordinary_work_goes_through(places, line):
    assert judged(line, places) is None
