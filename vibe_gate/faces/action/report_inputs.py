"""What a report for a forge takes from a clone: the run's change, and which lines changed since an earlier round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from vibe_gate.domain.change import Selection
from vibe_gate.domain.verdict import Finding
from vibe_gate.errors import GateError
from vibe_gate.git import Credentials, open_repository
from vibe_gate.report.anchors import Anchors, anchors

MAX_PATCH = 16 << 20
"""Bytes of a change that comments quote: GitHub shows far less."""

PATCH = "change.patch"


def touched_since(
    start: Path, environ: Mapping[str, str], head: str, credentials: Credentials
) -> Callable[[str], Callable[[Finding], bool] | None]:
    """For an earlier head: which findings stand on lines that changed until `head`; None if one cannot be had."""

    def of(earlier: str) -> Callable[[Finding], bool] | None:
        try:
            with open_repository(start, environ) as repository:
                both = (earlier, head)  # the job that posts for a fork has checked out neither
                if repository.fetch(both, lambda: all(map(repository.has, both)), credentials):
                    return None
                change = repository.change(Selection("range", earlier, head))
                between = anchors(repository.patch(change))
                names = {file.shown_path for file in change.files}
        except GateError:
            return None
        return lambda finding: _touches(between, names, finding)

    return of


def _touches(between: Anchors, names: set[str], finding: Finding) -> bool:
    if not finding.path:
        return bool(names)
    if not finding.line or not between.names(finding.path):  # about a file as a whole, or one without lines
        return finding.path in names
    return between.touches(finding.path, finding.line, max(finding.line, finding.end_line))


def stored_patch(bundle: Path | None) -> str:
    """The change as a run keeps it, redacted; "" if there is none that comments could quote."""
    if bundle is None:
        return ""
    try:
        with (bundle / PATCH).open("rb") as file:
            raw = file.read(MAX_PATCH + 1)
    except OSError:
        return ""
    return raw.decode("utf-8", "surrogateescape") if len(raw) <= MAX_PATCH else ""
