"""What people asked in captured sessions, and when the session last wrote what a change brings."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from vibe_gate.secrets import Redactor
from vibe_gate.store import captures
from vibe_gate.store.captured_turns import prompts_of
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.event_writes import blob_id
from vibe_gate.store.store import open_store

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
TS = int(NOW.timestamp() * 1000)
SESSION = "0f3c9a1e-1111-2222-3333-444455556666"
KEY = "sk-ant-api03-" + "Zq7" * 31 + "AA"


def prompt_event(text: str) -> dict[str, str]:
    return {"hook_event_name": "UserPromptSubmit", "prompt": text}


def wrote(content: str) -> dict[str, object]:
    tool = {
        "tool_name": "Write",
        "tool_input": {"file_path": "/r/a", "content": content},
        "tool_response": {},
    }
    return {"hook_event_name": "PostToolUse", **tool}


def capture(common: Path, root: Path, *events: object, at: int = 0, session: str = SESSION) -> None:
    """Leave events as hooks do, a millisecond apart, and fold them into the store of the working
    tree `root`.
    """
    root.mkdir(exist_ok=True)
    folder = common / "vibe-gate" / "captures" / session
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "events.ndjson").open("a") as file:
        file.writelines(
            json.dumps({"ts": TS + at + n, "event": event}) + "\n" for n, event in enumerate(events)
        )
    shelf = open_store(root, Redactor({}), lambda: NOW).captures()
    captures.fold_captures(open_state(common), shelf, Redactor({}), NOW)


def list_prompts(*roots: Path, session: str = SESSION) -> list[tuple[int, str]]:
    return [(prompt.turn, prompt.text) for prompt in prompts_of(roots, session)]


def test_prompts_of_all_working_trees_come_in_order_redacted(tmp_path: Path) -> None:
    common, first_tree, second_tree = tmp_path, tmp_path / "one", tmp_path / "two"
    capture(
        common,
        first_tree,
        {"hook_event_name": "SessionStart"},
        prompt_event("rename f"),
        wrote("x"),
        prompt_event(f"use {KEY}"),
    )
    capture(common, second_tree, prompt_event("and the tests"), at=100)
    capture(common, first_tree, prompt_event("thanks"), prompt_event(" "), at=200)
    capture(common, first_tree, prompt_event("another session's"), session="0f3c9a1e-0000")
    first, second, third, fourth = prompts_of([first_tree, second_tree], SESSION)
    assert (first.agent, first.session, first.turn, first.text) == (
        "claude",
        SESSION,
        1,
        "rename f",
    )
    assert first.at.timestamp() * 1000 == TS + 1
    assert second.text.startswith("use ")
    assert KEY not in second.text
    assert [third.text, fourth.text, fourth.turn] == ["and the tests", "thanks", 4]
    assert list_prompts(second_tree) == [(1, "and the tests")]
    assert list_prompts(first_tree, session="unknown") == list_prompts(tmp_path / "nowhere") == []


def test_damaged_events_cost_no_other_and_unfinished_ones_wait(tmp_path: Path) -> None:
    capture(tmp_path, tmp_path, prompt_event("one"), prompt_event("two"), prompt_event("three"))
    (folder,) = (tmp_path / ".vibe-artifacts/captures").iterdir()
    events = folder / "events.jsonl"
    first, second, third = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(
        first + second.replace(b'"prompt":"two"', b'"prompt":["tw]') + third + third[:-9]
    )
    assert list_prompts(tmp_path) == [(1, "one"), (2, "three")]
    for damage in (b"\xff", b'{"schema":1}', b""):
        (folder / "meta.json").write_bytes(damage)
        assert list_prompts(tmp_path) == []


def test_an_event_that_was_folded_twice_counts_once(tmp_path: Path) -> None:
    for root in (tmp_path / "one", tmp_path / "two"):
        capture(tmp_path, root, prompt_event("rename f"))
    assert list_prompts(tmp_path / "one", tmp_path / "two") == [(1, "rename f")]


def test_the_last_write_of_each_content_is_known(tmp_path: Path) -> None:
    blob = blob_id(b"x\n")
    capture(tmp_path, tmp_path, wrote("x\n"), wrote("y\n"), prompt_event("back"), wrote("x\n"))
    capture(tmp_path, tmp_path, wrote("x\n"), at=-500, session="earlier")
    state = open_state(tmp_path)
    assert state.captured_blobs.last_writes()[blob] == {SESSION: TS + 3, "earlier": TS - 500}
    assert state.captured_blobs.last_writes()[blob_id(b"y\n")] == {SESSION: TS + 1}
    state.close()
