"""Whose each line is, against the record of who typed it."""

from __future__ import annotations

import pytest
from command import vibe_gate
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


def test_the_command_groups_lines_and_every_mistake_is_a_sentence(history, environ):
    history.asked(A, "Write \x1b[31mred\u202e text, with more words than a terminal has columns, which must be cut")
    history.put("a.py", 0, "one()", "two()", by=A)
    history.put("a.py", 2, "three()")
    history.repo.write("b.bin", b"\0\1")
    history.repo.write("empty.txt", b"")
    history.repo.git("config", "user.name", "\x1b[2Jann")
    history.commit()

    def blame(*argv):
        return vibe_gate("blame", *argv, cwd=history.repo.path, environ=environ)

    done = blame("a.py", "HEAD")
    assert done.code == 0, done.err
    head, agents, asked, person = done.out.splitlines()
    assert head == "a.py at HEAD: 3 lines, 2 by agents, 1 by people"
    assert agents.split()[0] == "1-2" and "Claude Code session aaaaaaaa, turn 1, Write" in agents
    assert "\\x1b[31mred\\u202e text" in asked and "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert person.split()[2] == "person"
    document = blame("a.py:3", "--json").json
    assert document["schema"] == 1 and [one["by"] for one in document["lines"]] == ["person"]
    assert blame("empty.txt").out == "empty.txt: 0 lines\n"
    for argv, sentence in [
        (["gone.py"], "no file gone.py in the working tree"),
        (["gone.py", "HEAD"], "no file gone.py in HEAD"),
        (["b.bin"], "b.bin is binary"),
        (["."], "There is no file ."),
        (["/etc/passwd"], "is not in this repository"),
        (["a.py:9"], "a.py has no line 9: its last is 3"),
        (["a.py:3-2"], "lines are counted from 1"),
        (["a.py", "nothing"], "names no revision"),
    ]:
        done = blame(*argv)
        assert (done.code, done.out) == (2, "") and sentence in done.err, done.err
