"""`verify` for people and for programs: one line a commit, what is wrong below it. Pure; all text
is escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from typing import Any

from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, safe
from vibe_gate.receipts.commit_status import GOOD, ChangeIdentity, CommitStatus, Status
from vibe_gate.receipts.verify_range import Verification
from vibe_gate.report.sentences import SHORT_ID

MARKS: dict[Status, str] = {
    "reviewed": "✓",
    "overridden": "!",
    "empty": "·",
    "forged": "✗",
    "failed": "✗",
}
"""The mark of each status; `?` for the others."""

TITLE = 50
"""Columns of a commit's title."""

COLUMNS = 100
"""Of a reason that names a command."""

_COMMAND = re.compile(r": (?P<run>run `[^`]+`)\Z")


def render_verify_lines(found: Verification) -> list[str]:
    """The table, then the totals and what could not be read."""
    remarks = [found.remark] if found.remark else []
    if not found.commits:
        return ["Nothing to verify: the range has no commits.", *map(safe, remarks)]
    table = [line for identity, status in found.commits for line in _row(identity, status)]
    counts = Counter(status.status for _, status in found.commits)
    totals = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    gate = f"gate at {found.trusted[:SHORT_ID]}" if found.trusted else "built-in gate"
    listed = (
        f"signers: {found.signers}"
        if found.signers
        else "no allowed_signers file, so signatures are ignored"
    )
    strictly = "; strict: a pass counts only if someone else signed it" if found.strict else ""
    below = [
        f"{counted(len(found.commits), 'commit')}: {totals}",
        f"{gate}; {listed}{strictly}",
        *remarks,
    ]
    return [*map(safe, table), "", *map(safe, below)]


def build_verify_document(found: Verification) -> dict[str, Any]:
    """The same as one JSON document."""
    return {
        "exit_code": found.exit_code,
        "trusted": found.trusted,
        "signers": found.signers or None,
        "strict": found.strict,
        "remark": safe(found.remark) or None,
        "commits": [_commit(identity, status) for identity, status in found.commits],
    }


def _row(identity: ChangeIdentity, status: CommitStatus) -> list[str]:
    mark = MARKS.get(status.status, "?")
    title = safe(identity.title)
    title = title if len(title) <= TITLE else title[: TITLE - 1] + "…"
    by = f"by {status.match}" if status.match and status.status in GOOD else ""
    head = f"{mark} {identity.commit[:SHORT_ID]}  {status.status:<12} {by:<18} {title}".rstrip()
    kept = (
        f"kept in worktree {status.found.worktree}"
        if status.found and status.found.worktree
        else ""
    )
    below = [*_why(status), kept, *(f"note: {note}" for note in status.notes)]
    if status.status not in GOOD:
        below.append(status.place)
    return [head, *(f"    {text}" for text in below if text)]


def _why(status: CommitStatus) -> list[str]:
    """The reason, if the status is not all of it; a long one in several lines, and its command in
    one, to be copied.
    """
    if status.why == status.status:
        return []
    if len(status.why) <= COLUMNS or not (command := _COMMAND.search(status.why)):
        return [status.why]
    reason = textwrap.wrap(
        status.why[: command.start() + 1], COLUMNS, break_long_words=False, break_on_hyphens=False
    )
    return [*reason, command["run"]]


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
        "worktree": safe(found.worktree) if found and found.worktree else None,
        "outcome": receipt.outcome if receipt else None,
        "signature": _signature(status),
        "overrides": [plain(waiver) for waiver in receipt.waivers] if receipt else [],
    }


def _signature(status: CommitStatus) -> dict[str, Any] | None:
    if status.found is None or status.found.receipt is None:
        return None
    signature = status.found.signature
    return {
        "state": signature.state,
        "key": signature.key,
        "principals": [safe(name) for name in signature.principals],
    }
