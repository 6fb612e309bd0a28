"""The check `tests-ran`, by a record of what captured sessions ran."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from check_runs import ask
from domain.changes import added

from vibe_gate.domain.session_record import (
    CapturedRecord,
    CommandRecord,
    LastWrite,
    make_session_record,
)

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
FILE = added("a.py", b"x = 1")
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def record(
    line: str, status: int | None = 0, *, at: int = 20, written: str = "a.py", unrecorded: int = 0
) -> CapturedRecord:
    """A command that ended so many seconds after noon, and a write at ten."""
    command = CommandRecord(
        session="5e551011",
        agent="Claude Code",
        turn=6,
        line=line,
        began_at=NOON + timedelta(seconds=at - 1),
        ended_at=NOON + timedelta(seconds=at),
        exit_status=status,
    )
    write = LastWrite(path=written, at=NOON + timedelta(seconds=10))
    return make_session_record(["5e551011"], [write], [command], unrecorded)


@pytest.mark.parametrize(
    ("session_record", "outcome", "reason"),
    [
        (None, "not_applicable", "No captured session wrote the change."),
        (record("pytest -q"), "pass", "`pytest -q`, turn 6, passed after the last change."),
        (record("pytest", 1), "fail", "Tests failed after the last change: `pytest`, turn 6."),
        (record("pytest", at=5), "fail", "No test ran after the last change; before it `pytest`"),
        (record("ls"), "fail", "No test ran in the sessions that wrote the change."),
        (record("echo pytest"), "fail", "No test ran"),
        (record("true # pytest"), "fail", "No test ran"),
        (record("pytest --version"), "fail", "No test ran"),
        (record("pytest", None), "abstain", "Not known whether tests passed after the last change"),
        (record("pytest || true"), "abstain", "by themselves and without a pipe."),
        (record("ls", unrecorded=2), "abstain", "but 2 events could not be recorded."),
        (record("pytest", at=5, unrecorded=1), "abstain", "but 1 event could not be recorded."),
    ],
)
def test_it_says_what_the_record_shows_and_nothing_that_it_cannot(session_record, outcome, reason):
    result = ask("tests-ran", FILE, record=session_record)
    assert result.outcome == outcome
    assert reason in result.reason


def test_words_of_one_s_own_name_what_runs_the_tests():
    site_record = record("make site")
    assert ask("tests-ran", FILE, record=site_record).outcome == "fail"
    assert ask("tests-ran", FILE, record=site_record, commands=["make site"]).outcome == "pass"
    assert ask("tests-ran", FILE, record=record("pytest"), commands=["make"]).outcome == "fail"


def test_with_paths_writes_to_other_files_do_not_count():
    late = record("pytest", at=5, written="README.md")
    answer = ask("tests-ran", FILE, added("README.md", b"x"), only=("*.py",), record=late)
    assert answer.outcome == "not_applicable"


def test_a_secret_in_a_command_is_not_repeated():
    result = ask(
        "tests-ran",
        FILE,
        record=record(f"pytest {KEY}", 1),
        redact=lambda text: text.replace(KEY, "…"),
    )
    assert KEY not in result.reason
    assert KEY not in result.findings[0].message
