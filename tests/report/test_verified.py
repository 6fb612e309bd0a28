"""`verify` for people: what stands below a commit's line."""

from __future__ import annotations

import pytest

from vibe_gate.receipts.commit_status import ChangeIdentity, CommitStatus
from vibe_gate.receipts.verify_range import Verification
from vibe_gate.report.verified import build_commit_rows, render_commit_status

COMMIT = ChangeIdentity("c" * 40, "b" * 40, "a" * 40, "", title="Add")
REVIEW = "vibe-gate review --commit cccccccccccc"
RUN = f"run `{REVIEW}`"
APPROVE = "vibe-gate override policy-0123456789abcdef --reason TEXT"
APPROVAL = "it changes the gate, and nobody approved that"
STALE = "dddddddddddd was reviewed (run 20260102T030405678Z-fde914e0: pass), and an amend, rebase or cherry-pick changed it"
BYPASSED = "committed without the hook on 2026-01-02 (--no-verify, or the hook was off)"
MISSING = "no receipt here is about this change"


def verified(status: CommitStatus) -> Verification:
    return Verification(((COMMIT, status),), "", "", strict=True)


def test_unsigned_is_said_once():
    verification = verified(CommitStatus("unsigned", "unsigned"))
    assert [
        line
        for line in render_commit_status(*verification.commits[0])
        if line.strip() == "unsigned"
    ] == []
    assert render_commit_status(*verification.commits[0])[0].startswith("? cccccccccccc  unsigned ")
    [row] = build_commit_rows(verification)
    assert row["why"] == "unsigned"


@pytest.mark.parametrize(
    ("status", "reason", "commands", "below"),
    [
        (
            "stale",
            STALE,
            (REVIEW,),
            [STALE.removesuffix(" cherry-pick changed it"), "cherry-pick changed it:", RUN],
        ),
        ("bypassed", BYPASSED, (REVIEW,), [f"{BYPASSED}:", RUN]),
        ("missing", MISSING, (REVIEW,), [f"{MISSING}: {RUN}"]),
        (
            "approval",
            APPROVAL,
            (APPROVE, REVIEW),
            [f"{APPROVAL}:", f"run `{APPROVE}`", f"then `{REVIEW}`"],
        ),
        ("failed", "the review failed", (), ["the review failed"]),
    ],
)
def test_a_long_reason_has_several_lines_and_each_command_one(status, reason, commands, below):
    verification = verified(CommitStatus(status, reason, commands=commands))
    assert render_commit_status(*verification.commits[0])[1 : 1 + len(below)] == [
        f"    {line}" for line in below
    ]
    [document] = build_commit_rows(verification)
    assert (document["why"], document["next"]) == (reason, list(commands))
