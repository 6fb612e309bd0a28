"""The end of a turn, where what fails is about what the session ran, and no file need change."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import vibe_gate
from program import git
from stopping import SECRET, HookedAgentSession, start_session

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
SAFE = """\
schema = 1
id = "safe"
[[criterion]]
id = "no-secrets"
kind = "check"
check = "no-secrets"
must = true
"""
PASSING = (
    "import unittest\n\n\nclass Ok(unittest.TestCase):\n    def test_ok(self):\n        pass\n"
)
RUN = "python3 -m unittest -q test_ok.py"


@pytest.fixture
def session(tmp_path: Path, environ: dict[str, str]) -> HookedAgentSession:
    """A session that wrote a file below a gate that wants the tests to have run."""
    session = start_session(tmp_path / "r", environ)
    commit_gate(session, '"tested"', TESTED)
    session.write("test_ok.py", PASSING)
    return session


def commit_gate(session: HookedAgentSession, rubrics: str, tested: str) -> None:
    """Commit, as a person does, a gate that names these rubrics."""
    gate = session.root / ".vibe-gate"
    (gate / "rubrics").mkdir(parents=True, exist_ok=True)
    (gate / "gate.toml").write_text(f"schema = 1\nrubrics = [{rubrics}]\n")
    (gate / "rubrics" / "tested.toml").write_text(tested)
    (gate / "rubrics" / "safe.toml").write_text(SAFE)
    git(session.root, "add", ".vibe-gate")
    git(session.root, "commit", "-q", "--no-verify", "-m", "gate")


def test_an_agent_that_runs_the_tests_afterwards_may_stop_with_the_same_files(session):
    stop = session.stop()
    assert "No test ran in the sessions that wrote the change" in stop.reason
    cure = "needs no change of files: run the tests, then end your turn. The gate looks again "
    assert f"{cure}though no file changes, up to round 3." in stop.reason
    assert "Repair" not in stop.reason
    assert "with unchanged files" not in stop.reason
    assert "`vibe-gate install claude --no-stop`" in stop.reason
    session.run(RUN)
    assert not session.stop(after_block=True).holds


def test_an_agent_that_runs_none_is_let_go_after_three_rounds_and_the_person_is_told(session):
    holds = [session.stop(after_block=number > 0).holds for number in range(3)]
    last = session.stop(after_block=True)
    assert holds == [True, True, True]
    assert not last.holds
    assert "after 3 rounds" in last.message
    assert "the change: failure: No test ran" in last.message


def test_tests_before_the_last_edit_do_not_count_and_a_pipe_is_said_to_hide_their_end(session):
    session.run(RUN)
    session.write("test_ok.py", f"{PASSING}\n")
    assert "No test ran after the last change; before it" in session.stop().reason
    session.run(f"{RUN} 2>&1 | tail -1")
    stop = session.stop(after_block=True)
    assert not stop.holds
    assert stop.message.startswith(
        "vibe-gate: not decided: tests-ran (Not known whether tests passed"
    )
    assert stop.message.endswith("Ask the agent to run the tests once more, without a pipe.")


def test_a_turn_whose_other_checks_pass_is_reviewed_though_the_tests_end_is_unknown(session):
    commit_gate(session, '"tested", "safe"', TESTED)
    session.run(f"{RUN} 2>&1 | tail -1")
    assert session.stop().message.startswith("vibe-gate: turn reviewed; not decided: tests-ran (")


def test_findings_in_files_and_about_the_session_are_each_told_how_they_are_cured(session):
    options = 'options = { commands = ["./check*", "make verify"] }\n'
    commit_gate(session, '"tested", "safe"', TESTED + options)
    session.write("b.py", SECRET)
    reason = session.stop().reason
    assert reason.count("Repair what is about files in the working tree") == 1
    assert reason.count("run the tests (`make verify`), then end your turn") == 1
    assert "may stop, and the user decides" in reason
    assert "after round 3 you may stop" in reason


def test_a_secret_is_redacted_before_the_command_that_has_it_is_cut(session):
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for length in (50, 3_970):  # of what is shown, of the record
        session.run(f"sh -c true pytest {'x' * length} {token}")
    session.stop()
    (record,) = session.root.glob(".vibe-artifacts/*/*/record.json")
    assert "[redacted:" in record.read_text()
    for file in record.parent.rglob("*"):
        assert not file.is_file() or token[:12].encode() not in file.read_bytes(), file


def test_run_fix_pays_no_fixer_for_what_no_file_repairs(session, environ):
    reviewed = vibe_gate("review", cwd=session.root, environ=environ)
    assert reviewed.code == 1
    assert "next    no change of files repairs it" in reviewed.out
    result = vibe_gate("run", "--fix", cwd=session.root, environ=environ)
    assert result.code == 1, result.err
    assert result.out.startswith("There is nothing to repair in files: run ")
    session.run(f"{RUN} 2>&1 | tail -1")
    undecided = vibe_gate("review", cwd=session.root, environ=environ)
    assert undecided.code == 3
    assert "next    ask the agent to run the tests once more, by themselves" in undecided.out
