"""A run as GitLab's Code Quality report. Pure; the same run gives the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import PASS
from vibe_gate.report import finding_places, sentences
from vibe_gate.report.annotations import forge_path
from vibe_gate.report.finding_places import QuotedPlace
from vibe_gate.report.reported_finding import finding_identity

_SEVERITIES = {"failure": "critical", "warning": "minor", "notice": "info"}


_ROOT = "."
"""The path of what is about the change as a whole; GitLab wants one."""


def render_code_quality(summary: Summary) -> str:
    """The report as indented JSON with a final newline.

    A run that did not pass has an entry of its own: without one, a run that could not
    be carried out would look like one that found nothing. GitLab drops entries of one fingerprint
    but one: such a finding gets a number into its own.
    """
    entries = []
    if summary.exit_code != PASS:
        entries.append(_verdict_entry(summary))
    entries += map(_finding_entry, summary.findings)
    counts: Counter[str] = Counter()
    for entry in entries:
        name = entry["fingerprint"]
        counts[name] += 1
        if counts[name] > 1:
            entry["fingerprint"] = _digest(f"{name}\0{counts[name]}")
    return json.dumps(entries, indent=1) + "\n"


def _verdict_entry(summary: Summary) -> dict[str, Any]:
    fingerprint = _digest(f"verdict\0{summary.exit_code}")
    text = safe(sentences.verdict_headline(summary))
    return _entry(text, "verdict", fingerprint, "blocker", _WHOLE_CHANGE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _finding_entry(finding: Finding) -> dict[str, Any]:
    first, *other_locations = map(_location, finding_places.quoted_places(finding))
    entry = _entry(
        sentences.located_message(finding),
        safe(finding.criterion),
        finding_identity(finding),
        _SEVERITIES[finding.level],
        first,
    )
    if other_locations:
        # Of Code Climate's form; GitLab shows the description, which names them.
        entry["other_locations"] = other_locations
    return entry


def _location(place: QuotedPlace) -> dict[str, Any]:
    path = (forge_path(place.path) or safe(place.path)).lstrip("/") or _ROOT
    first, last = place.lines_after
    return {"path": path, "lines": {"begin": first, "end": last}}


_WHOLE_CHANGE = {"path": _ROOT, "lines": {"begin": 1, "end": 1}}


def _entry(
    text: str,
    name: str,
    fingerprint: str,
    severity: str,
    location: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "description": text,
        "check_name": name,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": location,
    }
