"""`verify` for people and for programs: one line a commit, what is wrong below it. Pure; all text
is escaped.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, safe
from vibe_gate.receipts.commit_status import GOOD, ChangeIdentity, CommitStatus, Status
from vibe_gate.receipts.verify_range import Verification
from vibe_gate.report.sentences import SHORT_ID

RANGE_ADVICE = (
    "Name one commit (`vibe-gate verify HEAD`), or a range that begins before it "
    "(`vibe-gate verify HEAD~3..HEAD`)."
)

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


def render_commit_status(identity: ChangeIdentity, status: CommitStatus) -> list[str]:
    """The lines of the table about one commit."""
    return [safe(line) for line in _commit_lines(identity, status)]


def render_verify_totals(verification: Verification) -> list[str]:
    """What stands below the table: the totals, and what could not be read."""
    remarks = []
    if verification.remark:
        remarks = [verification.remark]
    if not verification.commits:
        reason = "the upstream has every commit of HEAD"
        if verification.range:
            reason = f"no commit is in {verification.range}"
        lines = [f"Nothing to verify: {reason}.", RANGE_ADVICE, *remarks]
        return [safe(line) for line in lines]
    lines = ["", _totals_line(verification), _rules_line(verification), *remarks]
    return [safe(line) for line in lines]


def _totals_line(verification: Verification) -> str:
    """How many commits have which status."""
    counts = Counter(status.status for _, status in verification.commits)
    totals = [f"{number} {status}" for status, number in counts.most_common()]
    return f"{counted(len(verification.commits), 'commit')}: {', '.join(totals)}"


def _rules_line(verification: Verification) -> str:
    """Which gate and which signers count, and whether a pass needs somebody else's signature."""
    gate = "built-in gate"
    if verification.trusted:
        gate = f"gate at {verification.trusted[:SHORT_ID]}"
    signers = "no allowed_signers file, so signatures are ignored"
    if verification.signers:
        signers = f"signers: {verification.signers}"
    line = f"{gate}; {signers}"
    if verification.strict:
        line += "; strict: a pass counts only if someone else signed it"
    return line


def build_verify_document(verification: Verification) -> dict[str, Any]:
    """The same as a JSON document, but for its `commits` (`build_commit_rows`)."""
    return {
        "exit_code": verification.exit_code,
        "trusted": verification.trusted,
        "signers": verification.signers or None,
        "strict": verification.strict,
        "remark": safe(verification.remark) or None,
    }


def build_commit_rows(verification: Verification) -> Iterator[dict[str, Any]]:
    """The document's `commits`, each made when it is wanted."""
    for identity, status in verification.commits:
        yield _commit(identity, status)


def _commit_lines(identity: ChangeIdentity, status: CommitStatus) -> list[str]:
    """A commit, and what is to be said of its status below it."""
    mark = MARKS.get(status.status, "?")
    title = safe(identity.title)
    if len(title) > TITLE:
        title = title[: TITLE - 1] + "…"
    match = ""
    if status.match and status.status in GOOD:
        match = f"by {status.match}"
    head = f"{mark} {identity.commit[:SHORT_ID]}  {status.status:<12} {match:<18} {title}"
    remarks = _reason_lines(status)
    if status.found and status.found.worktree:
        remarks.append(f"kept in worktree {status.found.worktree}")
    remarks += [f"note: {note}" for note in status.notes]
    if status.status not in GOOD:
        remarks.append(status.place)
    return [head.rstrip(), *(f"    {remark}" for remark in remarks if remark)]


def _reason_lines(status: CommitStatus) -> list[str]:
    """The reason, if the status is not all of it, and the commands that clear it: each in one line,
    to be copied.
    """
    steps = _command_lines(status.commands)
    if status.why == status.status:
        return steps
    if not steps:
        return [status.why]
    reason = f"{status.why}:"
    if len(steps) == 1 and len(f"{reason} {steps[0]}") <= COLUMNS:
        return [f"{reason} {steps[0]}"]
    lines = textwrap.wrap(reason, COLUMNS, break_long_words=False, break_on_hyphens=False)
    return [*lines, *steps]


def _command_lines(commands: Sequence[str]) -> list[str]:
    """The commands, the later ones as what follows."""
    lines: list[str] = []
    for command in commands:
        if lines:
            lines.append(f"then `{command}`")
        else:
            lines.append(f"run `{command}`")
    return lines


def _commit(identity: ChangeIdentity, status: CommitStatus) -> dict[str, Any]:
    document: dict[str, Any] = {
        "commit": identity.commit,
        "title": safe(identity.title),
        "status": status.status,
        "match": status.match,
        "segment": status.segment or None,
        "why": safe(status.why),
        "next": list(status.commands),
        "notes": [safe(note) for note in status.notes],
        "run_id": None,
        "place": None,
        "worktree": None,
        "outcome": None,
        "signature": _signature(status),
        "overrides": [],
    }
    review = status.found
    if review is None:
        return document
    document["run_id"] = safe(review.run_id)
    document["place"] = safe(review.place)
    document["worktree"] = safe(review.worktree) or None
    if review.receipt:
        document["outcome"] = review.receipt.outcome
        document["overrides"] = [plain(waiver) for waiver in review.receipt.waivers]
    return document


def _signature(status: CommitStatus) -> dict[str, Any] | None:
    if status.found is None or status.found.receipt is None:
        return None
    signature = status.found.signature
    return {
        "state": signature.state,
        "key": signature.key,
        "principals": [safe(name) for name in signature.principals],
    }
