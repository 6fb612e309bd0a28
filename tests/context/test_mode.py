"""What each way to carry out a review implies, as a table."""

from __future__ import annotations

import pickle

import pytest

from vibe_gate.context.mode import (
    Batch,
    CalibrationMode,
    DraftMode,
    HookMode,
    LiveMode,
    Mode,
    RecheckMode,
    RepeatMode,
    ReplayMode,
    ReplayTrial,
)
from vibe_gate.domain.cause import AsksNoModel, DraftWaits
from vibe_gate.domain.gate import Gate, GateFile, HookRule, Hooks

BATCH = Batch("b" * 64)
REPLAY = ReplayMode("run-1", ReplayTrial(BATCH, "claude-opus-4-8", runs_commands=False))


@pytest.mark.parametrize(
    ("mode", "unasked_if_new", "counts", "tries_judge", "runs_commands"),
    [
        (LiveMode(), None, True, False, True),
        (LiveMode(BATCH), None, True, False, True),
        (HookMode("pre-commit"), None, True, False, True),
        (RecheckMode(), AsksNoModel(), True, False, True),
        (DraftMode(), DraftWaits(), True, False, True),
        (REPLAY, None, False, False, False),
        (RepeatMode("run-1"), None, False, False, True),
        (CalibrationMode(), None, False, True, True),
    ],
)
def test_a_mode_says_what_it_asks_runs_and_leaves_behind(
    mode, unasked_if_new, counts, tries_judge, runs_commands
):
    assert (mode.unasked_if_new, mode.counts) == (unasked_if_new, counts)
    assert (mode.tries_judge, mode.runs_commands) == (tries_judge, runs_commands)


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        (LiveMode(), {}),
        (LiveMode(BATCH), {"batch": "b" * 64}),
        (REPLAY, {"batch": "b" * 64, "replay_of": "run-1"}),
        (RepeatMode("run-1"), {"replay_of": "run-1"}),
        (CalibrationMode(), {}),
    ],
)
def test_run_json_says_of_which_batch_and_replay_a_run_is(mode: Mode, fields: dict[str, str]):
    assert mode.run_fields == fields


@pytest.mark.parametrize("mode", [LiveMode(BATCH), REPLAY, CalibrationMode()])
def test_what_a_worker_is_handed_can_be_pickled(mode: Mode):
    assert pickle.loads(pickle.dumps(mode)) == mode


@pytest.mark.parametrize(
    ("judge", "by_agent", "is_wanted"),
    [
        ("always", False, True),
        ("agent-authored", True, True),
        ("agent-authored", False, False),
        ("never", True, False),
    ],
)
def test_a_hook_asks_a_judge_as_the_gate_says_and_no_other_mode_has_a_rule(
    judge, by_agent, is_wanted
):
    gate = Gate(
        GateFile(schema=1, hooks=Hooks(pre_commit=HookRule(judge=judge))), (), "trusted", ""
    )
    unasked_by_rule = HookMode("pre-commit").unasked_by_rule(gate, by_agent=by_agent)
    assert (unasked_by_rule is None) is is_wanted
    assert LiveMode().unasked_by_rule(gate, by_agent=by_agent) is None


def test_only_a_hook_is_about_a_commit_that_git_is_about_to_make():
    assert HookMode("commit-msg", "Fix it").pending_message == "Fix it"
    assert HookMode("pre-commit").pending_message == ""
    assert LiveMode().pending_message is None
