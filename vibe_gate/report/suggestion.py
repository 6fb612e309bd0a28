"""Suggestions: what a line should read instead, where our own code knows it for certain. No model has a part in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vibe_gate.domain import escape, invisible
from vibe_gate.domain.verdict import Finding
from vibe_gate.report.anchors import Anchors

MAX_LINE = 1000
"""Characters of a line that somebody can still compare by eye with the suggested one."""

_HOLDS = re.compile(r"The line ([1-9][0-9]{0,8}) of this file holds ")
"""How the check no-invisible-unicode begins its message (domain.checks.text)."""

_REDACTED = "[redacted:"
"""Begins a placeholder: it must never be suggested as code."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One line of the after side, as it is and as it should be; `path` as shown, no line endings."""

    path: str
    line: int
    before: str
    after: str


def suggest(finding: Finding, anchors: Anchors) -> Suggestion | None:
    """The finding's line without its invisible characters; None where nothing certain can be said."""
    said = _HOLDS.match(finding.message)
    if said is None or finding.line == 0 or finding.end_line != finding.line or int(said[1]) != finding.line:
        return None
    raw = anchors.added(finding.path, finding.line)
    if raw is None or len(raw) > 4 * MAX_LINE:
        return None
    try:
        before = raw.decode()
    except UnicodeDecodeError:
        return None
    hidden = {found.position for found in invisible.find(before, file_start=finding.line == 1)}
    after = "".join(char for position, char in enumerate(before) if position not in hidden)
    legible = not any(escape.is_hidden(char) for char in after)
    if after == before or not legible or len(after) > MAX_LINE or _REDACTED in after:
        return None
    return Suggestion(finding.path, finding.line, before, after)
