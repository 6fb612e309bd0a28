"""Workflow commands: what GitHub's runner shows of a job's log at lines of the change. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import PASS
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.annotations import annotation_title, check_title
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import finding_identity

OF_EACH = 10
"""Annotations of each level that GitHub keeps of one step."""

_COMMANDS = {"failure": "error", "warning": "warning", "notice": "notice"}


def render_workflow_commands(
    report: Report, token: str, downgrades: Sequence[str] = (), at_lines: Collection[str] = ()
) -> str:
    """A command for the verdict and for the gravest findings that stand nowhere at their lines,
    then the downgrades.

    `at_lines`: identities of the others. `token` is unguessable; between two lines with it the
    runner obeys nothing.
    """
    summary = report.summary
    verdict_command = _verdict_command(report)
    commands = [_command(verdict_command, check_title(report), {"title": "vibe-gate"})]
    room = Counter(dict.fromkeys(_COMMANDS.values(), OF_EACH))
    room[verdict_command] -= 1
    for finding in queries.worst_first(report.round.reportable, summary):
        name = _COMMANDS[finding.level]
        if not room[name] or not finding.path or finding_identity(finding) in at_lines:
            continue
        room[name] -= 1
        message = safe(sentences.placed_sentence(finding))
        commands.append(_command(name, message, _finding_properties(finding, summary)))
    log_text = guard_log_text("\n".join(map(safe, downgrades)), token)
    return "\n".join(commands) + "\n" + log_text


def _verdict_command(report: Report) -> str:
    if report.summary.exit_code == PASS:
        return "notice"
    if report.blocks:
        return "error"
    return "warning"


def _finding_properties(finding: Finding, summary: Summary) -> dict[str, str]:
    """File, lines and title; a place that the change removed has no lines."""
    line, end_line = finding.line, finding.end_line
    if finding_places.is_removed(finding):
        line = end_line = 0
    return {
        "file": _file_property(finding.path),
        "line": str(line or ""),
        "endLine": str(end_line or ""),
        "title": annotation_title(finding, summary),
    }


def guard_log_text(text: str, token: str) -> str:
    """Text for the log, between lines that keep the runner from obeying any of it."""
    if not text.strip():
        return ""
    return f"::stop-commands::{token}\n{text.rstrip()}\n::{token}::\n"


def _file_property(path: str) -> str:
    """The path (as `paths.quote` shows it) as git has it, unless that is not plain text."""
    own_path = paths.unquote(path)
    if paths.is_plain(own_path):
        return own_path
    return safe(path)


def _command(name: str, message: str, properties: dict[str, str]) -> str:
    pairs = []
    for key, value in properties.items():
        if value:
            pairs.append(f"{key}={_property(value)}")
    return f"::{name} {','.join(pairs)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
