"""Which changes are changes of the gate, told by the exit code of a review."""

from __future__ import annotations

import json

import pytest
from command import vibe_gate
from repos import GATE, Repo

from vibe_gate.domain.gate import STEERING
from vibe_gate.domain.paths import matches_any_glob

CHECKED = 'schema = 1\nid = "quality"\n[[criterion]]\nid = "no-secrets"\nkind = "check"\ncheck = "no-secrets"\n'
WORKFLOW, HOOKS = ".github/workflows/ci.yml", ".pre-commit-config.yaml"
LISTED = GATE + '[policy]\nblock = [".github/workflows/**"]\n'


def reviewed(repo: Repo, *argv: str) -> tuple[int, list[str]]:
    """The exit code of a review of the last commit, and the levels of its findings."""
    result = vibe_gate("review", "HEAD~1", "--json", *argv, cwd=repo.path, environ=repo.environ)
    document = json.loads(result.stdout)
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
        (GATE, "web/.Claude/Settings.json", "{}\n", "[]\n", (0, ["warning"])),
        (GATE, ".claude", "one\n", "what a link leads to\n", (0, ["warning"])),
        (LISTED, WORKFLOW, "jobs: {}\n", "jobs: {a: b}\n", (4, [])),
        ("", WORKFLOW, "jobs: {}\n", "uses: x/vibe-gate@v1\n", (0, [])),
        ("", "CLAUDE.md", "Be brief.\n", "Be long.\n", (0, [])),
    ],
)
def test_only_what_concerns_the_gate_needs_approval(
    tmp_path, environ, gate, path, before, after, expected
):
    repo = Repo(tmp_path / "r", environ)
    if gate:
        repo.write(".vibe-gate/gate.toml", gate)
        repo.write(".vibe-gate/rubrics/quality.toml", CHECKED)
    repo.write(path, before)
    repo.commit("before")
    repo.write(path, after)
    repo.commit("after")
    assert reviewed(repo) == expected


FLOW = 'schema = 1\nid = "flow"\n[[stage]]\nid = "fix"\nagent = "fixer"\nprompt_file = "prompts/fix.md"\n'
CLAUDE = "---\nname: {}\ndescription: One.\ntools: Read\n---\n"


@pytest.mark.slow
def test_what_a_workflow_names_is_part_of_the_gate_and_other_agents_are_not(tmp_path, environ):
    repo = Repo(tmp_path / "r", environ)
    repo.write(".vibe-gate/gate.toml", GATE)
    repo.write(".vibe-gate/rubrics/quality.toml", CHECKED)
    repo.write(".vibe-gate/workflows/flow.toml", FLOW)
    repo.write(".claude/agents/fixer.md", CLAUDE.format("fixer"))
    repo.write(".claude/agents/other.md", CLAUDE.format("other"))
    repo.write("prompts/fix.md", "Repair it.\n")
    repo.commit("before")
    repo.commit("stricter", **{".claude/agents/other.md": "---\nname: other\nhooks: many\n---\n"})
    assert reviewed(repo) == (0, ["warning"])
    checked = vibe_gate("config", "check", cwd=repo.path, environ=repo.environ)
    assert (checked.returncode, "other.md:3: hooks: vibe-gate cannot honour" in checked.stderr) == (
        2,
        True,
    )
    repo.commit(
        "wider", **{".claude/agents/fixer.md": CLAUDE.format("fixer").replace("Read", "Read, Bash")}
    )
    assert reviewed(repo) == (4, [])
    repo.commit("other words", **{"prompts/fix.md": "Repair all.\n"})
    assert reviewed(repo) == (4, [])
    repo.git("rm", "-q", "prompts/fix.md")
    repo.commit("no words")
    refused = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=repo.environ)
    assert (refused.returncode, 'no file "prompts/fix.md"' in refused.stderr) == (2, True)


SCRIPT = """\
from pathlib import Path
import vibe_gate
Path({marker!r}).touch()
@vibe_gate.workflow("flow")
async def steps(wf):
    pass
"""


@pytest.mark.parametrize("gate", [GATE, ""])
def test_a_commit_does_not_bring_a_workflow_that_runs_before_it_is_merged(tmp_path, environ, gate):
    repo, marker = Repo(tmp_path / "r", environ), tmp_path / "ran"
    repo.commit("before", a="a\n")
    if gate:
        repo.write(".vibe-gate/gate.toml", gate)
        repo.write(".vibe-gate/rubrics/quality.toml", CHECKED)
    repo.write(".vibe-gate/workflows/flow.py", SCRIPT.format(marker=str(marker)))
    repo.commit("after")
    result = vibe_gate("run", "flow", "HEAD~1..HEAD", cwd=repo.path, environ=repo.environ)
    assert (result.returncode, "There is no workflow 'flow'" in result.stderr, marker.exists()) == (
        2,
        True,
        False,
    )
    vibe_gate(
        "run", "flow", "HEAD~1..HEAD", "--definitions", "HEAD", cwd=repo.path, environ=repo.environ
    )
    assert marker.exists()


def test_the_first_definitions_are_adopted_with_their_workflow_and_without_a_warning(
    tmp_path, environ
):
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
    line = (
        "  gate    this branch's .vibe-gate/ (not on origin/main yet; merge it to make it binding)"
    )
    review = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ | {"CI": "1"})
    assert (review.returncode, line in review.stdout.splitlines()) == (4, True)
    repo.write(
        ".vibe-gate/gate.toml", GATE + "[budget]\nmax_turns = 3\n"
    )  # not binding yet: a part of the adoption
    repo.git("rm", "-q", ".vibe-gate/rubrics/quality.toml")
    repo.write(".vibe-gate/rubrics/other.toml", CHECKED.replace("quality", "other"))
    repo.write(".vibe-gate/gate.toml", GATE.replace("quality", "other"))
    assert reviewed(repo, "--definitions", "worktree") == (0, [])
    repo.commit("edit")
    assert reviewed(repo) == (0, [])
    review = vibe_gate("review", "HEAD~1", cwd=repo.path, environ=environ | {"CI": "1"})
    assert (review.returncode, line in review.stdout.splitlines()) == (4, True)
    repo.write(WORKFLOW, "jobs: {}\n")  # this one called vibe-gate before: no adoption
    assert reviewed(repo)[0] == 4


@pytest.mark.slow
@pytest.mark.parametrize("trusted_gate", [GATE, "broken = [\n"], ids=["sound", "broken"])
def test_a_change_of_definitions_that_bind_needs_approval_whatever_is_named(
    tmp_path, environ, trusted_gate
):
    origin = Repo(tmp_path / "origin", environ)
    old = origin.commit("before")
    origin.write(".vibe-gate/gate.toml", trusted_gate)
    origin.write(".vibe-gate/rubrics/quality.toml", CHECKED)
    origin.commit("gate")
    repo = Repo(tmp_path / "r", environ)
    repo.git("remote", "add", "origin", str(origin.path))
    repo.git("pull", "-q", "origin", "main")
    repo.git("fetch", "-q", "origin")
    repo.git("remote", "set-head", "origin", "main")
    repo.write(".vibe-gate/gate.toml", GATE + "[budget]\nmax_turns = 3\n")
    repo.commit("edit")
    for options in ((), ("--definitions", "worktree"), ("--definitions", old), ("--base", old)):
        assert reviewed(repo, *options)[0] == 4, options


@pytest.mark.parametrize(
    "path",
    ["CLAUDE.md", "web/.cursor/rules/a.mdc", ".github/actions/x/action.yml", "web/.vscode/tasks.json",
     ".devcontainer/devcontainer.json", ".husky/pre-commit", "web/.envrc", "web/.claude/settings.json"],
)  # fmt: skip
def test_of_files_that_steer_agents_or_run_by_themselves_nothing_is_suggested(path):
    assert matches_any_glob(path, STEERING)
