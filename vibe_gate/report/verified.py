"""`verify` for people and for programs: one line a commit, what is wrong below it. Pure; all text is escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from vibe_gate.domain.escape import counted, safe
from vibe_gate.receipts.status import GOOD, ChangeIdentity, CommitStatus, Status

MARKS: dict[Status, str] = {"reviewed": "✓", "overridden": "!", "empty": "·", "forged": "✗", "failed": "✗"}
"""The mark of each status; `?` for the others."""

SHORT_ID = 12
TITLE = 50
"""Columns of a commit's title."""

Rows = Sequence[tuple[ChangeIdentity, CommitStatus]]


def lines(rows: Rows, trusted: str, signers: str, strict: bool, remark: str = "") -> list[str]:
    """The table, then the totals; `remark` says what could not be read."""
    if not rows:
        return ["Nothing to verify: the range has no commits.", *([safe(remark)] if remark else [])]
    table = [line for identity, status in rows for line in _row(identity, status)]
    counts = Counter(status.status for _, status in rows)
    totals = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    gate = f"gate at {trusted[:SHORT_ID]}" if trusted else "built-in gate"
    listed = f"signers: {signers}" if signers else "no allowed_signers file, so signatures are ignored"
    strictly = "; strict: a pass counts only if someone else signed it" if strict else ""
    below = [f"{counted(len(rows), 'commit')}: {totals}", f"{gate}; {listed}{strictly}", *filter(None, [remark])]
    return [*map(safe, table), "", *map(safe, below)]


def document(rows: Rows, trusted: str, signers: str, strict: bool, remark: str, exit_code: int) -> dict[str, Any]:
    """The same as one JSON document."""
    return {
        "exit_code": exit_code,
        "trusted": trusted,
        "signers": signers or None,
        "strict": strict,
        "remark": safe(remark) or None,
        "commits": [_commit(identity, status) for identity, status in rows],
    }


def _row(identity: ChangeIdentity, status: CommitStatus) -> list[str]:
    mark = MARKS.get(status.status, "?")
    title = safe(identity.title)
    title = title if len(title) <= TITLE else title[: TITLE - 1] + "…"
    by = f"by {status.match}" if status.match and status.status in GOOD else ""
    head = f"{mark} {identity.commit[:SHORT_ID]}  {status.status:<12} {by:<18} {title}".rstrip()
    below = [status.why, *(f"note: {note}" for note in status.notes)]
    if status.status not in GOOD:
        below.append(status.place)
    return [head, *(f"    {text}" for text in below if text)]


def _commit(identity: ChangeIdentity, status: CommitStatus) -> dict[str, Any]:
    found = status.found
    receipt = found.receipt if found else None
    return {
        "commit": identity.commit,
        "title": safe(identity.title),
        "status": status.status,
        "match": status.match,
        "segment": status.segment or None,
        "why": safe(status.why),
        "notes": [safe(note) for note in status.notes],
        "run_id": safe(found.run_id) if found else None,
        "place": safe(found.place) if found else None,
        "outcome": receipt.outcome if receipt else None,
        "signature": _signature(status),
        "overrides": [waiver.model_dump(mode="json") for waiver in receipt.waivers] if receipt else [],
    }


def _signature(status: CommitStatus) -> dict[str, Any] | None:
    if status.found is None or status.found.receipt is None:
        return None
    signature = status.found.signature
    return {"state": signature.state, "key": signature.key, "principals": [safe(name) for name in signature.principals]}
