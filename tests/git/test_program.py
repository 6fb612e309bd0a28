"""A call of git that is given up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from vibe_gate.context.deadline import Deadline, DeadlineReached
from vibe_gate.git.program import Program, finish


def test_git_is_ended_by_a_deadline_that_comes_while_it_runs(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    git = Program(tmp_path, os.environ)
    process = git.start("hash-object", "pipe")
    deadline = Deadline(began=time.monotonic(), seconds=0.05)
    with pytest.raises(DeadlineReached), deadline.interrupting(grace_s=0):
        finish(process)
    assert process.returncode is not None
    assert process.stdout.closed and process.stderr.closed
