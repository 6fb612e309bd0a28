"""The last resort in a job: workflow commands, which make annotations out of lines of the log. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vibe_gate.domain import paths
from vibe_gate.report import sections, words
from vibe_gate.report.check_run import title
from vibe_gate.report.report import Report
from vibe_gate.report.text import safe

OF_EACH = 10
"""Annotations of each level that GitHub keeps of one step."""

_COMMANDS = {"failure": "error", "warning": "warning", "notice": "notice"}
_GRAVITY = {"failure": 0, "warning": 1, "notice": 2}


def commands(report: Report, token: str, downgrades: Sequence[str] = ()) -> str:
    """A command for the verdict and for each of the gravest findings, then all of them as plain lines.

    `token` is unguessable; between two lines with it the runner obeys nothing.
    """
    summary = report.summary
    level = "notice" if summary.exit_code == 0 else "error"
    lines = [_command(level, title(summary), {"title": "vibe-gate"})]
    left = Counter(dict.fromkeys(_COMMANDS.values(), OF_EACH))
    left[level] -= 1
    told = sorted(report.round.shown, key=lambda finding: _GRAVITY[finding.level])
    for finding in told:
        name = _COMMANDS[finding.level]
        if left[name] > 0 and finding.path:
            left[name] -= 1
            line, end = (0, 0) if sections.is_removed(finding) else (finding.line, finding.end_line)
            shown = {"file": _file(finding.path), "line": str(line or ""), "endLine": str(end or "")}
            shown["title"] = safe(finding.criterion)
            lines.append(_command(name, safe(finding.message), shown))
    plain = [
        f"{finding.level} {words.place(finding.path, finding.line, finding.end_line)} {finding.message}"
        for finding in told
    ]
    return "\n".join(lines) + "\n" + stopped("\n".join(safe(line) for line in [*downgrades, *plain]), token)


def stopped(text: str, token: str) -> str:
    """Text for the log, between lines that keep the runner from obeying any of it."""
    return f"::stop-commands::{token}\n{text.rstrip()}\n::{token}::\n" if text.strip() else ""


def _file(shown: str) -> str:
    return paths.unquote(shown) if paths.is_plain(paths.unquote(shown)) else safe(shown)


def _command(name: str, message: str, properties: dict[str, str]) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
