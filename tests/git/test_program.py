"""A call of git that is given up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from vibe_gate.context.deadline import Deadline, DeadlineReached
from vibe_gate.git.program import CallTimeoutError, Program, ending, finish


def test_git_is_ended_by_a_deadline_that_comes_while_it_runs(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    git = Program(tmp_path, os.environ)
    process = git.start("hash-object", "pipe")
    deadline = Deadline(began=time.monotonic(), seconds=0.05)
    with pytest.raises(DeadlineReached), deadline.interrupting(grace_s=0):
        finish(process)
    assert process.returncode is not None
    assert process.stdout.closed and process.stderr.closed


def test_of_two_calls_side_by_side_none_goes_on_when_one_is_given_up(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    git = Program(tmp_path, os.environ)
    first, second = git.start("hash-object", "pipe"), git.start("hash-object", "pipe")
    with pytest.raises(CallTimeoutError), ending(first, second):
        finish(first, patience_s=0.05)
    assert None not in (first.returncode, second.returncode)
    assert first.stdout.closed and second.stdout.closed
