"""The record of captured sessions on pages, screens and in comments."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vibe_gate.domain.session_record import (
    CommandRecord,
    LastWrite,
    TestsRecord,
    make_session_record,
)
from vibe_gate.report.html import render_page
from vibe_gate.report.html.view import View
from vibe_gate.report.sentences import describe_tests

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOSTILE = "pytest '<script>alert(1)</script>' `x`"


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (TestsRecord(state="passed", command="tox", turn=6), "`tox` passed after the last edit"),
        (TestsRecord(state="failed", command="tox", turn=6), "`tox` failed after the last edit"),
        (TestsRecord(state="before", command="tox", turn=6), "`tox` ran before the last edit only"),
        (TestsRecord(state="unknown", command="tox", turn=6), "after the last edit is not known"),
        (TestsRecord(state="none"), "none ran in the sessions that wrote the change"),
    ],
)
def test_one_line_says_what_became_of_the_tests(tests, words):
    line = describe_tests(tests, lambda command: f"`{command}`")
    assert words in line


def test_the_page_lists_the_commands_as_text():
    command = CommandRecord(
        session="5e551011-2222",
        agent="Claude Code",
        turn=6,
        line=HOSTILE,
        began_at=NOON,
        ended_at=NOON,
        exit_status=None,
    )
    write = LastWrite(path="a.py", at=datetime(2026, 3, 4, 11, tzinfo=UTC))
    record = make_session_record(["5e551011-2222"], [write], [command], 2)
    page = render_page(View(None, record=record))
    assert "What the sessions ran" in page
    assert "<script>alert" not in page
    assert "pytest &#x27;&lt;script&gt;" in page or "pytest '&lt;script&gt;" in page
    assert "2 events of the sessions could not be recorded." in page
    assert "Claude Code session 5e551011" in page
