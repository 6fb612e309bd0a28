"""Captured sessions as `vibe-gate sessions` shows them: heads, turns, calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_captured_prompts import SESSION, capture, prompt_event, wrote

from vibe_gate.store.captured_heads import (
    delete_captured_session,
    first_prompt_line,
    list_captured_heads,
    match_captured_heads,
)
from vibe_gate.store.captured_turns import captured_turns_of
from vibe_gate.store.clone_state import open_state

BASH = {
    "hook_event_name": "PostToolUseFailure",
    "tool_name": "Bash",
    "tool_input": {"command": "x"},
}


def store_of(root: Path) -> Path:
    return root / ".vibe-artifacts" / "captures"


def test_a_session_is_told_turn_by_turn_over_all_working_trees(tmp_path: Path) -> None:
    first_tree, second_tree = tmp_path / "one", tmp_path / "two"
    began = BASH | {"hook_event_name": "PreToolUse"}
    refused = began | {"refused": "vibe-gate: not so."}
    capture(
        tmp_path,
        first_tree,
        wrote("0"),
        prompt_event("first\nmore"),
        wrote("x"),
        BASH,
        began,
        refused,
    )
    capture(tmp_path, second_tree, prompt_event("second"), wrote("y"), at=100)
    before, first, second = captured_turns_of([first_tree, second_tree], SESSION)
    assert [(turn.turn, turn.prompt, len(turn.calls)) for turn in (before, first, second)] == [
        (0, "", 1), (1, "first\nmore", 3), (2, "second", 1),
    ]  # fmt: skip
    assert [(call.tool, call.paths, call.failed, call.refused) for call in first.calls] == [
        ("Write", ("/r/a",), False, ""), ("Bash", (), True, ""), ("Bash", (), False, "vibe-gate: not so."),
    ]  # fmt: skip
    assert captured_turns_of([first_tree], "unknown") == ()


def test_a_list_reads_only_sessions_that_changed_and_leaves_out_damaged_ones(
    tmp_path: Path,
) -> None:
    root, index = tmp_path / "root", open_state(tmp_path).run_index(store_of(tmp_path / "root"))
    capture(tmp_path, root, prompt_event("  \n rename f "), wrote("x"), wrote("y"))
    capture(tmp_path, root, {"hook_event_name": "SessionStart"}, session="another", at=9)
    newest, head = list_captured_heads(root, index)
    assert (head.title, head.session, head.turns, head.files, head.asked) == (
        "Claude Code",
        SESSION,
        1,
        1,
        "rename f",
    )
    assert (newest.turns, newest.files, newest.asked) == (0, 0, "")
    (store_of(root) / head.id / "events.jsonl").write_text("")
    assert list_captured_heads(root, index) == [newest, head]
    (store_of(root) / head.id / "meta.json").write_text("{")
    assert list_captured_heads(root, index) == [newest]
    assert list_captured_heads(tmp_path / "nowhere") == []


def test_of_a_prompt_the_first_line_that_says_something_is_shown_and_not_much_of_it() -> None:
    assert first_prompt_line("\n \n  rename f\nmore") == "rename f"
    assert first_prompt_line("x" * 5_000_000) == "x" * 199 + "…"
    assert first_prompt_line(" \n") == ""


def test_a_session_is_found_by_its_name_its_id_or_a_beginning_and_deleted_everywhere(
    tmp_path: Path,
) -> None:
    first_tree, second_tree = tmp_path / "one", tmp_path / "two"
    for root in (first_tree, second_tree):
        capture(tmp_path, root, prompt_event(f"in {root.name}"))
    capture(tmp_path, first_tree, prompt_event("another"), session="0f3c0000")
    every = list_captured_heads(first_tree)
    head = next(captured_head for captured_head in every if captured_head.session == SESSION)
    for text in (
        SESSION,
        SESSION[:6],
        head.id,
        head.id[:-2] + head.id[-2:],
        head.id.partition("_")[2],
    ):
        assert match_captured_heads(every, text) == [head], text
    assert len(match_captured_heads(every, "0f3c")) == 2
    assert match_captured_heads(every, "zz") == []
    delete_captured_session([first_tree, second_tree], SESSION)
    assert [captured_head.session for captured_head in list_captured_heads(first_tree)] == [
        "0f3c0000"
    ]
    assert list_captured_heads(second_tree) == []


DAMAGED = ('{"ts": 1, "type": "PostToolUse", "data": []}', "[" * 9, '{"type": "UserPromptSubmit"')


@pytest.mark.parametrize("line", DAMAGED)
def test_damaged_events_cost_no_other(tmp_path: Path, line: str) -> None:
    capture(tmp_path, tmp_path / "root", prompt_event("first"), wrote("x"))
    (folder,) = store_of(tmp_path / "root").iterdir()
    text = f"{line}\n" + (folder / "events.jsonl").read_text()
    (folder / "events.jsonl").write_text(text)
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"bytes": len(text)}))
    (turn,) = captured_turns_of([tmp_path / "root"], SESSION)
    assert (turn.prompt, len(turn.calls)) == ("first", 1)
