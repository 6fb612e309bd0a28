"""`verify` for people and for programs: one line a commit, what is wrong below it. Pure; all text is made safe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from vibe_gate.checks.answer import counted
from vibe_gate.domain.commit_status import GOOD, Standing, Status, Subject
from vibe_gate.report.text import safe

MARKS: dict[Status, str] = {"reviewed": "✓", "overridden": "!", "empty": "·", "forged": "✗", "failed": "✗"}
"""Of each status; everything else is `?`."""

SHORT_ID = 12
TITLE = 50
"""Columns of a commit's title."""

Rows = Sequence[tuple[Subject, Standing]]


def lines(rows: Rows, trusted: str, listed: str, strict: bool, remark: str = "") -> list[str]:
    """The table, then what it comes to; `remark` says what could not be looked at."""
    if not rows:
        return ["Nothing to verify: the range has no commits.", *([safe(remark)] if remark else [])]
    told = [line for subject, standing in rows for line in _told(subject, standing)]
    counts = Counter(standing.status for _, standing in rows)
    whole = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    signers = f"signers: {listed}" if listed else "no list of signers here, so no signature counts"
    strictly = "; strict: only what somebody else signed counts" if strict else ""
    gate = f"gate at {trusted[:SHORT_ID]}" if trusted else "built-in gate"
    below = [f"{counted(len(rows), 'commit')}: {whole}", f"{gate}; {signers}{strictly}", *filter(None, [remark])]
    return [*map(safe, told), "", *map(safe, below)]


def document(rows: Rows, trusted: str, listed: str, strict: bool, remark: str, exit_code: int) -> dict[str, Any]:
    """The same as one JSON document."""
    return {
        "schema": 1,
        "exit_code": exit_code,
        "trusted": trusted,
        "signers": listed or None,
        "strict": strict,
        "remark": safe(remark) or None,
        "commits": [_commit(subject, standing) for subject, standing in rows],
    }


def _told(subject: Subject, standing: Standing) -> list[str]:
    mark = MARKS.get(standing.status, "?")
    title = safe(subject.title)
    title = title if len(title) <= TITLE else title[: TITLE - 1] + "…"
    by = f"by {standing.match}" if standing.match and standing.status in GOOD else ""
    head = f"{mark} {subject.commit[:SHORT_ID]}  {standing.status:<12} {by:<18} {title}".rstrip()
    below = [standing.why, *(f"note: {note}" for note in standing.notes)]
    if standing.paper is not None and standing.status not in GOOD:
        below.append(standing.paper.place)
    return [head, *(f"    {text}" for text in below if text)]


def _commit(subject: Subject, standing: Standing) -> dict[str, Any]:
    paper = standing.paper
    receipt = paper.receipt if paper else None
    return {
        "commit": subject.commit,
        "title": safe(subject.title),
        "status": standing.status,
        "match": standing.match,
        "why": safe(standing.why),
        "notes": [safe(note) for note in standing.notes],
        "run_id": safe(paper.run_id) if paper else None,
        "place": safe(paper.place) if paper else None,
        "outcome": receipt.outcome if receipt else None,
        "signature": _signature(standing),
        "overrides": [waiver.model_dump(mode="json") for waiver in receipt.waivers] if receipt else [],
    }


def _signature(standing: Standing) -> dict[str, Any] | None:
    if standing.paper is None or standing.paper.receipt is None:
        return None
    found = standing.paper.signature
    return {"state": found.state, "key": found.key, "principals": [safe(name) for name in found.principals]}
