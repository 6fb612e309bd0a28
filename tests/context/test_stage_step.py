"""What people are told of a step of a stage."""

from __future__ import annotations

from vibe_gate.context.listeners import StageStep


def test_a_step_says_how_often_the_model_answered_and_what_the_tool_call_is_about():
    steps = [
        StageStep(node="fix", kind="ready"),
        StageStep(node="fix", kind="tool.started", tool="Read", target="src/a.py"),
        StageStep(node="fix", kind="usage", answers=1),
        StageStep(node="fix", kind="tool.ended", tool="TaskList", answers=2, ok=True),
    ]
    assert [str(step) for step in steps] == [
        "ready",
        "begun · Read src/a.py",
        "1 answer",
        "2 answers · TaskList",
    ]
