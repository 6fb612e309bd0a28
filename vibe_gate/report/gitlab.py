"""A run as a GitLab Code Quality report. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import PASS
from vibe_gate.report import sections, words
from vibe_gate.report.check_run import own_path
from vibe_gate.report.round import identity
from vibe_gate.report.text import safe

_SEVERITIES = {"failure": "critical", "warning": "minor", "notice": "info"}

_ROOT = "."
"""The path of what is about the change as a whole; GitLab wants one."""


def gitlab(summary: Summary) -> str:
    """The report as indented JSON with a final newline.

    A run that did not pass has an entry of its own: without one, a run that could not
    be carried out would look like one that found nothing.
    """
    made = [_entry(finding) for finding in summary.findings]
    if summary.exit_code != PASS:
        made.insert(0, _verdict(summary))
    unique = {entry["fingerprint"]: entry for entry in reversed(made)}
    return json.dumps(list(unique.values())[::-1], indent=1) + "\n"


def _verdict(summary: Summary) -> dict[str, Any]:
    said = safe(f"{words.verdict(summary)}: {words.why(summary)}".removesuffix(": "))
    name = hashlib.sha256(f"verdict\0{summary.exit_code}".encode()).hexdigest()[:16]
    return _described(said, "verdict", name, "blocker", _ROOT)


def _entry(finding: Finding) -> dict[str, Any]:
    path = own_path(finding.path) or safe(finding.path) or _ROOT
    removed = sections.is_removed(finding)
    place = f"(removed: {words.place(finding.path, finding.line, finding.end_line)}) " if removed else ""
    made = _described(
        safe(place + finding.message) or "(no message)",
        safe(finding.criterion),
        identity(finding),
        _SEVERITIES[finding.level],
        path,
    )
    line = 1 if removed else max(finding.line, 1)
    made["location"]["lines"] = {"begin": line, "end": line if removed else max(line, finding.end_line)}
    return made


def _described(text: str, name: str, fingerprint: str, severity: str, path: str) -> dict[str, Any]:
    return {
        "description": text,
        "check_name": name,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": 1, "end": 1}},
    }
