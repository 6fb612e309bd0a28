"""What a start imports: every module costs every commit, so the quick answers load next to
nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import passes
from command import run_unforked
from program import ROOT, git, repository
from repos import SWALLOWS, gated
from wire import answering

HEAVY = {
    "claude_agent_sdk",
    "github3",
    "pydantic",
    "pygit2",
    "rich",
    "tomli_w",
    "asyncio",
    "requests",
    "httpx",
}
"""Third-party packages, and asyncio, that a quick answer must not load."""

LIGHT = {"argparse", "json", "dataclasses", "subprocess", "pathlib", "importlib.metadata"}
"""Parts of the standard library that each cost a tenth of a bare interpreter or more."""


def imported_modules(*argv: str, cwd: Path, environ: dict[str, str]) -> set[str]:
    """Names of the modules that `vibe-gate ARGV` imports, site's own start aside (-S)."""
    result = run_unforked(
        *argv,
        cwd=cwd,
        environ=environ | {"PYTHONPATH": str(ROOT)},
        python=("-S", "-X", "importtime"),
    )
    assert result.returncode == 0, result.stderr
    return {
        line.rpartition("|")[2].strip()
        for line in result.stderr.splitlines()
        if line.startswith("import time:")
    }


@pytest.mark.parametrize("argv", [("--version",), ("--help",), ()])
def test_version_and_help_import_nothing_of_weight(tmp_path, environ, argv):
    modules = imported_modules(*argv, cwd=tmp_path, environ=environ)
    assert not modules & (HEAVY | LIGHT)
    ours = {name for name in modules if name.startswith("vibe_gate")}
    assert ours == {
        "vibe_gate",
        "vibe_gate.faces",
        "vibe_gate.faces.cli",
        "vibe_gate.faces.cli.help",
        "vibe_gate.version",
    }


def full_path_modules(*argv: str, cwd: Path, environ: dict[str, str]) -> set[str]:
    """Names of the modules in memory at the end of a run with site-packages."""
    result = run_unforked(*argv, cwd=cwd, environ=environ, python=("-X", "importtime"))
    assert result.returncode == 0, result.stderr
    return {
        line.rpartition("|")[2].strip()
        for line in result.stderr.splitlines()
        if line.startswith("import time:")
    }


@pytest.mark.slow
def test_where_only_the_full_path_can_tell_neither_the_sdk_nor_the_forge_is_imported(
    tmp_path, environ
):
    root = repository(tmp_path / "r")
    git(root, "commit", "-q", "--allow-empty", "-m", "empty")
    modules = full_path_modules("review", "--commit", "HEAD", cwd=root, environ=environ)
    assert not modules & {"claude_agent_sdk", "github3"}


@pytest.mark.slow
def test_a_review_that_the_cache_answers_loads_nothing_that_only_a_session_needs(tmp_path, environ):
    repo = gated(tmp_path / "r", environ)
    repo.write("src/load.py", SWALLOWS)
    with answering(passes("errors-not-swallowed", "names-are-clear")) as model:
        judged_modules, cached_modules = (
            full_path_modules("review", cwd=repo.path, environ=environ | model.environ)
            for _ in "ab"
        )
    sessions = {"asyncio", "claude_agent_sdk", "http.server", "vibe_gate.judging.asking"}
    assert sessions <= judged_modules
    assert not cached_modules & {
        *sessions,
        "pydantic",
        "vibe_gate.gateway.server",
        "vibe_gate.agent.turn_runner",
    }


@pytest.mark.slow
@pytest.mark.parametrize("command", ["review", "doctor"])
def test_the_help_of_a_command_does_not_import_the_sdk(tmp_path, environ, command):
    assert not full_path_modules(command, "--help", cwd=tmp_path, environ=environ) & {
        "claude_agent_sdk",
        "github3",
    }
