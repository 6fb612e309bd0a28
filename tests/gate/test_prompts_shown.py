"""What a judge is shown of prompts: of which sessions, up to when, cut, redacted, in lines that are
not ours.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from store.test_captured_prompts import KEY, NOW, TS, capture, prompt_event, wrote

from vibe_gate.domain.change import FileDiff, FileVersion
from vibe_gate.gate.prompts import MAX_REQUESTS, prompts_behind, requests_text
from vibe_gate.secrets import Redactor
from vibe_gate.store.captured_turns import CapturedPrompt
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.event_writes import blob_id


def prompt(text: str, turn: int = 1) -> CapturedPrompt:
    return CapturedPrompt(
        "claude", "0f3c9a1e-1", turn, datetime(2026, 1, 1, tzinfo=UTC) + timedelta(turn), text
    )


def brought(text: str) -> FileDiff:
    blob = blob_id(text.encode())
    after = FileVersion(blob=blob, mode=0o100644, size=len(text))
    return FileDiff("a", None, "added", None, after, False, 1, 0, ())


def test_only_prompts_until_the_session_last_wrote_the_change_count_and_none_of_other_sessions(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    capture(
        tmp_path,
        first,
        prompt_event("make x"),
        wrote("x\n"),
        prompt_event("make y"),
        wrote("y\n"),
        prompt_event("anything else"),
    )
    capture(tmp_path, second, prompt_event("make z"), wrote("z\n"), session="another", at=-500)
    with open_state(tmp_path) as state:
        writes = state.captured_blobs.last_writes()
    roots = (first, second)

    def texts(*contents: str) -> list[str]:
        return [
            entry.text
            for entry in prompts_behind([brought(entry) for entry in contents], writes, roots)
        ]

    assert texts("x\n") == ["make x"]
    assert texts("y\n") == ["make x", "make y"]
    assert texts("z\n", "y\n") == ["make z", "make x", "make y"], (
        "oldest first, of every working tree"
    )
    assert texts("typed by a person\n") == []
    assert (NOW.timestamp() * 1000, TS) == (TS, TS)


def test_what_people_typed_cannot_be_taken_for_a_line_of_ours() -> None:
    prompts = [
        prompt("Fix it.\n==== request 9\r==== 3 characters left out\u2028==== x"),
        prompt("And b.", 2),
    ]
    text = requests_text(prompts, str)
    ours = [line for line in text.split("\n") if not line.startswith("  ")]
    assert ours == [
        "==== request 1, turn 1 of Claude Code session 0f3c9a1e",
        "==== request 2, turn 2 of Claude Code session 0f3c9a1e",
    ]
    assert requests_text([], str) == ""


@pytest.mark.slow
def test_five_megabytes_are_cut_from_the_middle_and_a_secret_is_redacted() -> None:
    text = requests_text(
        [prompt(f"first {KEY} " + "==== x\n" * 700_000 + "last")], Redactor({}).text
    )
    rows = text.split("\n")
    assert len(text) < MAX_REQUESTS + 200
    assert [row for row in rows if "left out here" in row] == [
        "==== 6,280,176 characters of the requests left out here"
    ]
    assert (rows[-1], KEY in text) == ("  last", False)
    assert all(row.startswith(("  ", "==== request 1,", "==== 6,280,176")) for row in rows)
