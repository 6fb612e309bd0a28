"""What captured sessions ran that wrote a change, with how it ended."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_gate.domain.escape import counted
from vibe_gate.domain.session_record import CapturedRecord, CommandRecord, judge_tests
from vibe_gate.report import sentences
from vibe_gate.report.markup import Html, render_html_table, table_row, tag
from vibe_gate.store import captures

MAX_RECORDED = 500
"""Commands that a page shows, the latest; the bundle has the others."""

MAX_COMMAND = 500
"""Characters of a command that a page shows."""

_ORDERS = {"after": "after the last write", "before": "before it", "unknown": "unknown"}


def render_record_section(record: CapturedRecord) -> Iterator[Html]:
    """What became of the tests, and each command of the sessions."""
    yield tag("h2", "What the sessions ran")
    tests = judge_tests(record)
    words = sentences.describe_tests(tests, lambda command: f"`{command}`")
    yield tag("p", f"Tests: {words}.")
    commands = record.commands[-MAX_RECORDED:]
    omitted = record.omitted + len(record.commands) - len(commands)
    if omitted:
        yield tag("p", f"{counted(omitted, 'earlier command')} not shown.", class_="none")
    if record.unrecorded:
        events = counted(record.unrecorded, "event")
        yield tag("p", f"{events} of the sessions could not be recorded.", class_="none")
    if not commands:
        yield tag("p", "They ran no command.", class_="none")
        return
    heads = ("Session", "Turn", "Ended", "Exit status", "Order", "Command")
    yield render_html_table(heads, map(_command_row, commands), class_="record")


def _command_row(command: CommandRecord) -> Html:
    end_time = "not seen"
    if command.ended_at:
        end_time = f"{command.ended_at:%Y-%m-%d %H:%M:%S}"
    status = "unknown"
    if command.exit_status is not None:
        status = str(command.exit_status)
    line = command.line[:MAX_COMMAND]
    if command.is_cut or len(command.line) > MAX_COMMAND:
        line += "…"
    cells = (
        captures.session_title(command.session),
        str(command.turn),
        end_time,
        status,
        _ORDERS[command.order],
        tag("code", line),
    )
    return table_row(cells)
