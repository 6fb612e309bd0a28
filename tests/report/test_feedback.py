"""What `stats` tells of labels: found, right, wrong and open findings of each criterion."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from vibe_gate.domain.label import Label
from vibe_gate.report.feedback import count_feedback, render_feedback_table

NOW = datetime(2026, 3, 4, tzinfo=UTC)
LONG = "a" * 64


def label(
    finding: int, right: bool, criterion: str = "kept", minutes: int = 0, by: str = "@bob"
) -> Label:
    return Label(
        ts=NOW + timedelta(minutes=minutes), finding=f"{finding:016x}", rubric="quality", criterion=criterion,
        right=right, by=by, digest="", source="command",
    )  # fmt: skip


def test_the_newest_word_on_each_finding_is_counted_and_the_table_fits_80_columns():
    findings_by_criterion = {
        ("quality", "kept"): {f"{n:016x}" for n in range(6)},
        ("quality", LONG): {"f" * 16},
    }
    labels = [
        label(0, True), label(1, True), label(2, False), label(1, False, minutes=2, by="@ada"),
        label(1, True, minutes=1), label(77, True),
    ]  # fmt: skip
    long, feedback = count_feedback(findings_by_criterion, labels)
    assert (long.criterion, long.found, long.unanswered, long.precision) == (LONG, 1, 1, None)
    assert (feedback.found, feedback.right, feedback.wrong, feedback.unanswered) == (
        7,
        2,
        2,
        3,
    ), "of a run that is gone, too"
    assert feedback.precision is not None and (
        round(feedback.precision.low, 3),
        round(feedback.precision.high, 3),
    ) == (
        0.068,
        0.932,
    )
    table = [*render_feedback_table([long, feedback])]
    assert table[1:] == [
        "findings of                       found  right  wrong   open  right, 95 %",
        "quality",
        f"  {'a' * 29}…      1      0      0      1",
        "  kept                                7      2      2      3  50% (7% to 93%)",
    ]
    assert max(map(len, table)) <= 80
