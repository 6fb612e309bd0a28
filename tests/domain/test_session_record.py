"""What a record says of the tests, by when commands ran and files were written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from vibe_gate.domain.session_record import (
    CapturedRecord,
    CommandRecord,
    LastWrite,
    judge_tests,
    make_session_record,
)

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def second(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


def command(
    line: str, began: float | None, end: float | None, status: int | None = 0
) -> CommandRecord:
    return CommandRecord(
        session="a",
        agent="Claude Code",
        turn=1,
        line=line,
        began_at=None if began is None else second(began),
        ended_at=None if end is None else second(end),
        exit_status=status,
    )


def write(moment: float | None, *, is_exact: bool = False, path: str = "a.py") -> LastWrite:
    at = None if moment is None else second(moment)
    return LastWrite(path=path, at=at, is_exact=is_exact)


def record(
    *commands: CommandRecord, writes: tuple[LastWrite, ...] = (write(10),)
) -> CapturedRecord:
    return make_session_record(["a"], writes, commands, 0)


@pytest.mark.parametrize(
    ("began", "end", "written", "order"),
    [
        (12, 14, write(10), "after"),
        (9, 14, write(10), "after"),  # an event's time is late
        (5, 14, write(10), "before"),  # a subagent wrote while it ran
        (5, 9, write(10), "before"),
        (12, 14, write(10, is_exact=True), "after"),
        (9, 14, write(10, is_exact=True), "unknown"),  # it, or another part of its line, wrote
        (5, 9, write(10, is_exact=True), "before"),
        (12, 14, write(None), "unknown"),
        (12, None, write(10), "unknown"),
        (None, 14, write(10), "after"),
        (None, 14, write(10, is_exact=True), "unknown"),
    ],
)
def test_a_command_is_after_a_write_before_it_or_that_is_unknown(began, end, written, order):
    (ordered,) = record(command("pytest", began, end), writes=(written,)).commands
    assert ordered.order == order


@pytest.mark.parametrize(
    ("commands", "state"),
    [
        ((), "none"),
        ((command("ls", 20, 21),), "none"),
        ((command("pytest", 20, 21),), "passed"),
        ((command("pytest", 20, 21, 1),), "failed"),
        ((command("pytest", 1, 2),), "before"),
        ((command("pytest", 1, 2, None),), "before"),
        ((command("pytest", 20, 21, None),), "unknown"),
        ((command("pytest", 20, 21), command("pytest", 30, 31, 1)), "failed"),
        ((command("pytest", 20, 21, 1), command("pytest", 30, 31)), "passed"),
        ((command("pytest", 20, 21), command("pytest | tail", 30, 31)), "passed"),
        ((command("pytest", 20, 21, 1), command("pytest | tail", 30, 31)), "unknown"),
        ((command("pytest", 1, 2), command("pytest | tail", 30, 31)), "unknown"),
        ((command("pytest", 20, None),), "unknown"),
    ],
)
def test_the_latest_run_that_decides_it_says_what_became_of_the_tests(commands, state):
    assert judge_tests(record(*commands)).state == state


def test_of_some_files_only_their_writes_count():
    writes = (write(10, path="a.py"), write(40, path="README.md"))
    session_record = record(command("pytest", 20, 21), writes=writes)
    assert judge_tests(session_record).state == "before"
    assert judge_tests(session_record.about_files({"a.py"})).state == "passed"


def test_a_line_that_was_cut_decides_nothing():
    command_record = CommandRecord(
        session="a",
        agent="Claude Code",
        turn=1,
        line="pytest",
        is_cut=True,
        began_at=second(20),
        ended_at=second(21),
        exit_status=0,
    )
    assert judge_tests(record(command_record)).state == "unknown"


def test_of_very_many_commands_the_latest_are_recorded():
    many = record(*(command(f"echo {number}", number, number) for number in range(2_005)))
    assert (len(many.commands), many.omitted) == (2_000, 5)
    assert many.commands[0].line == "echo 5"
