"""Which changes are changes of the gate, told by the exit code of a review."""

from __future__ import annotations

import json

import pytest
from command import vibe_gate
from repos import GATE, Repo

CHECKED = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "no-secrets"\nkind = "check"\ncheck = "no-secrets"\n'
WORKFLOW, HOOKS = ".github/workflows/ci.yml", ".pre-commit-config.yaml"
LISTED = GATE + '[policy]\nblock = [".github/workflows/**"]\n'


def reviewed(repo: Repo, *argv: str) -> tuple[int, list[str]]:
    """The exit code of a review of the last commit, and the levels of its findings."""
    done = vibe_gate("review", "HEAD~1", "--json", *argv, cwd=repo.path, environ=repo.environ)
    document = json.loads(done.stdout)
    return document["exit_code"], [finding["level"] for finding in document["findings"]]


@pytest.mark.parametrize(
    ("gate", "path", "before", "after", "expected"),
    [
        (GATE, WORKFLOW, "jobs: {}\n", "jobs: {a: b}\n", (0, [])),
        (GATE, WORKFLOW, "jobs: {}\n", "uses: x/vibe-gate@v1\n", (4, [])),
        (GATE, WORKFLOW, "uses: x/vibe-gate@v1\n", "jobs: {}\n", (4, [])),
        (GATE, HOOKS, "repos: []\n", "repos: [{}]\n", (0, [])),
        (GATE, HOOKS, "repos: []\n", "id: vibe-gate\n", (4, [])),
        (GATE, ".vibe-gate/gate.toml", GATE, GATE + "[budget]\nmax_turns = 3\n", (4, [])),
        (GATE, "CLAUDE.md", "Be brief.\n", "Be long.\n", (0, ["warning"])),
        (LISTED, WORKFLOW, "jobs: {}\n", "jobs: {a: b}\n", (4, [])),
        ("", WORKFLOW, "jobs: {}\n", "uses: x/vibe-gate@v1\n", (0, [])),
        ("", "CLAUDE.md", "Be brief.\n", "Be long.\n", (0, [])),
    ],
)
def test_only_what_concerns_the_gate_needs_approval(tmp_path, environ, gate, path, before, after, expected):
    repo = Repo(tmp_path / "r", environ)
    if gate:
        repo.write(".vibe-gate/gate.toml", gate)
        repo.write(".vibe-gate/rubrics/quality.toml", CHECKED)
    repo.write(path, before)
    repo.commit("before")
    repo.write(path, after)
    repo.commit("after")
    assert reviewed(repo) == expected


def test_the_first_definitions_are_adopted_with_their_workflow_and_without_a_warning(tmp_path, environ):
    origin = Repo(tmp_path / "origin", environ)
    origin.write(WORKFLOW, "uses: x/vibe-gate@v1\n")
    origin.commit("before")
    origin.commit("more", a="a\n")
    repo = Repo(tmp_path / "r", environ)
    repo.git("remote", "add", "origin", str(origin.path))
    repo.git("pull", "-q", "origin", "main")
    repo.write(".vibe-gate/gate.toml", GATE)
    repo.write(".vibe-gate/rubrics/quality.toml", CHECKED)
    repo.write(HOOKS, "id: vibe-gate\n")
    assert reviewed(repo, "--definitions", "worktree") == (0, [])
    repo.commit("adopt")
    assert reviewed(repo) == (0, [])
    line = "  gate    this branch's .vibe-gate/ (not on origin/main yet; merge it to make it binding)"
    shown = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ | {"CI": "1"})
    assert (shown.returncode, line in shown.stdout.splitlines()) == (4, True)
    repo.write(WORKFLOW, "jobs: {}\n")  # this one called vibe-gate before: no adoption
    assert reviewed(repo)[0] == 4
