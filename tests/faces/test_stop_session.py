"""The end of a turn, where what fails is about what the session ran, and no file need change."""

from __future__ import annotations

from pathlib import Path

import pytest
from stopping import HookedAgentSession, started

TESTED = """\
schema = 1
id = "tested"
[[criterion]]
id = "tests-ran"
kind = "check"
check = "tests-ran"
must = true
paths = ["*.py"]
"""
PASSING = (
    "import unittest\n\n\nclass Ok(unittest.TestCase):\n    def test_ok(self):\n        pass\n"
)
RUN = "python3 -m unittest -q test_ok.py"


@pytest.fixture
def session(tmp_path: Path, environ: dict[str, str]) -> HookedAgentSession:
    """A session that wrote a file below a gate that wants the tests to have run."""
    session = started(tmp_path / "r", environ)
    gate = session.root / ".vibe-gate"
    (gate / "rubrics").mkdir(parents=True)
    (gate / "gate.toml").write_text('schema = 1\nrubrics = ["tested"]\n')
    (gate / "rubrics" / "tested.toml").write_text(TESTED)
    session.write("test_ok.py", PASSING)
    return session


def test_an_agent_that_runs_the_tests_afterwards_may_stop_with_the_same_files(session):
    stop = session.stop()
    assert "No test ran in the sessions that wrote the change" in stop.reason
    assert "needs no change of files: run what is missing" in stop.reason
    session.run(RUN)
    assert not session.stop(again=True).holds


def test_an_agent_that_runs_none_is_let_go_after_three_rounds_and_the_person_is_told(session):
    holds = [session.stop(again=number > 0).holds for number in range(3)]
    last = session.stop(again=True)
    assert holds == [True, True, True]
    assert not last.holds
    assert "after 3 rounds" in last.message


def test_tests_before_the_last_edit_do_not_count_and_a_pipe_is_said_to_hide_their_end(session):
    session.run(RUN)
    session.write("test_ok.py", f"{PASSING}\n")
    assert "No test ran after the last change; before it" in session.stop().reason
    session.run(f"{RUN} 2>&1 | tail -1")
    stop = session.stop(again=True)
    assert not stop.holds
    assert "by themselves and without a pipe" in stop.message
