"""Whose each line is, against the record of who typed it."""

from __future__ import annotations

import pytest
from typing_history import History

A, B = "aaaaaaaa-session", "bbbbbbbb-session"


@pytest.fixture
def history(tmp_path, environ):
    made = History(tmp_path / "r", environ)
    made.event(A, hook_event_name="SessionStart")
    return made


def test_a_line_is_told_with_its_commit_session_turn_prompt_and_call(history):
    history.asked(A, "Write a loader.\nIn Python.")
    history.put("a.py", 0, "def load(path):", "    return open(path).read()", by=A)
    history.put("a.py", 0, "import os", "")
    first = history.commit()
    history.asked(A, "Close the file")
    history.put("a.py", 3, "    with open(path) as file:", "        return file.read()", by=A, instead=1)
    person, _, defined, opened, returned = history.origins("a.py", "")
    assert (person.by, person.commit, person.asked) == ("person", first, "")
    assert (defined.by, defined.agent, defined.session, defined.turn) == ("agent", "claude", A, 1)
    assert (defined.asked, defined.tool, defined.commit) == ("Write a loader.", "Write", first)
    assert (opened.commit, opened.turn, opened.asked, opened.tool) == ("", 2, "Close the file", "Edit")
    assert returned.tool_use_id == opened.tool_use_id != defined.tool_use_id
    assert history.told("a.py", "") == history.typed["a.py"]
