"""`vibe-gate viz` as people use it: a real process, on a terminal and in a pipe."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_words import summary_of
from command import CommandResult, on_a_terminal, run_unforked, vibe_gate
from msgspec.structs import replace
from program import ROOT
from recorded import begun
from summaries import criterion, rubric

from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle

ENTRY = [sys.executable, "-m", "vibe_gate", "viz", "--watch"]


def start_stage(run: RunRecorder) -> RunRecorder:
    run.event("node.added", "fix", kind="stage", agent="fixer", digest="d")
    run.event("node.status", "fix", status="RUNNING")
    return run


@pytest.fixture
def viz(repo: Path, environ: dict[str, str]) -> Callable[..., CommandResult]:
    return lambda *argv: vibe_gate("viz", *argv, cwd=repo, environ=environ)


@pytest.fixture
def sealed(repo: Path) -> RunRecorder:
    run = start_stage(begun(repo))
    run.event("node.status", "fix", status="DONE", outcome="pass")
    run.event("node.added", "checks", kind="checks")
    run.event("node.status", "checks", status="DONE")  # which says nothing of what they answered
    run.seal(
        replace(
            summary_of(run),
            workflow="repair",
            rubrics=(rubric(criterion(outcome="fail"), outcome="fail"),),
        )
    )
    return run


@pytest.mark.slow
def test_in_a_pipe_it_has_no_colour_and_is_ascii_if_the_encoding_is(sealed, viz, repo, environ):
    result = viz()
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].endswith("  pass")
    assert "│ fix       │" in result.out and "│ DONE fail │" in result.out
    assert "\x1b" not in result.out
    plain = run_unforked("viz", cwd=repo, environ=environ | {"PYTHONIOENCODING": "ascii"}).out
    assert "+-----------+  +-----------+\n| checks    |  | fix       |" in plain
    assert viz(sealed.run_id[:20], "--layout", "list").out.splitlines()[2:] == [
        "DONE fail  checks",
        "DONE pass  fix     stage  fixer",
    ]


@pytest.mark.slow
def test_on_a_terminal_it_has_lines_and_colour(sealed, repo, environ):
    code, text = on_a_terminal(repo, {**environ, "PYTHONIOENCODING": "utf-8"}, "viz")
    assert code == 0
    assert "│ fix       │" in text
    assert "\x1b[32mDONE pass\x1b[0m" in text and "\x1b[1;31mDONE fail\x1b[0m" in text
    _, plain = on_a_terminal(repo, {**environ, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}, "viz")
    assert "\x1b[3" not in plain
    _, plain = on_a_terminal(repo, {**environ, "PYTHONIOENCODING": "ascii"}, "viz")
    assert "| fix" in plain


def test_a_run_in_which_nothing_was_reviewed_is_no_pass(repo, viz):
    run = begun(repo)
    run.seal(summary_of(run))
    assert viz().out.splitlines()[0].endswith("  nothing")


def test_json_is_one_document_with_the_fold(sealed, viz):
    document = json.loads(viz("--json").out)
    assert (document["state"], document["outcome"]) == ("sealed", "pass")
    assert document["graph"] == json.loads(read_bundle(sealed.directory).graph().to_json())


def test_a_run_that_died_is_incomplete_and_has_no_outcome(repo, viz):
    start_stage(begun(repo)).close()
    result = viz()
    assert result.code == 0
    assert result.out.splitlines()[0].endswith("  incomplete")
    assert "│ incomplete │" in result.out and "RUNNING" not in result.out
    assert json.loads(viz("--json").out)["outcome"] is None


@pytest.mark.slow
def test_watch_goes_on_until_the_run_ends(repo, environ):
    run = start_stage(begun(repo))
    watching = subprocess.Popen(
        ENTRY, cwd=repo, env={**environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout
    assert watching.stdout.readline() == "fix: RUNNING\n"
    run.event("node.status", "fix", status="DONE", outcome="pass")
    assert watching.stdout.readline() == "fix: DONE\n"
    run.seal(replace(summary_of(run), rubrics=(rubric(criterion()),)))
    assert watching.stdout.readline().endswith("  pass\n")
    assert "DONE pass" in watching.stdout.read()
    assert watching.wait(30) == 0


@pytest.mark.slow
def test_ctrl_c_ends_watching_with_130(repo, environ):
    run = start_stage(begun(repo))
    watching = subprocess.Popen(
        ENTRY, cwd=repo, env={**environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout
    assert watching.stdout.readline() == "fix: RUNNING\n"
    time.sleep(0.1)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(30) == 130
    watching.stdout.close()
    run.close()
