"""What a comment says of the change: its files by risk, the gate's own, and what no judge saw.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import Summary, Unreviewed
from vibe_gate.errors import INCONCLUSIVE
from vibe_gate.report import queries, sentences
from vibe_gate.report.comment_markup import join_first
from vibe_gate.report.markdown import (
    Block,
    cut_lines,
    escape_code,
    escape_html_code,
    escape_prose,
    fence_code,
    render_fold,
    render_markdown_table,
)
from vibe_gate.report.next_step import why_undecided

MAX_CHANGED = 5
"""Changed files that are named."""

MAX_POLICY_DIFF = 6_000
"""Characters of one policy change's diff."""

MAX_REASONS = 10
"""Reasons why something was not judged."""


def changed_files_block(summary: Summary) -> Block:
    """What the change does, as a judge said it, and its files by risk."""
    files = queries.riskiest_first(summary)
    description = queries.change_description(summary)
    if len(files) < 2 and not description:
        return Block("")
    rows = [
        (
            escape_code(file.path),
            f"+{file.added:,} −{file.deleted:,}" if not file.binary else "binary",
            reason,
        )
        for file, reason in files[:MAX_CHANGED]
    ]
    omission = (
        f"\n\nFurther files: {len(files) - MAX_CHANGED:,}." if len(files) > MAX_CHANGED else ""
    )
    text = "\n\n".join(
        filter(
            None,
            [
                escape_prose(description),
                render_markdown_table(("File", "Lines", "Look at"), rows) + omission,
            ],
        )
    )
    return Block(render_fold(f"What changed: {counted(len(files), 'file')}, by risk", text), 4)


def policy_blocks(summary: Summary) -> Iterator[Block]:
    """Changes of the gate itself and of what steers agents, each with its diff."""
    for change in summary.policy_changes:
        approver = queries.gate_approver(summary) if change.level == "block" else ""
        meaning = sentences.policy_meaning(change, summary)
        if approver:
            meaning = f"approved by {escape_html_code(approver)}"
        text, omitted_lines = cut_lines(_without_names(change.diff), MAX_POLICY_DIFF)
        patch = fence_code(text, "diff") if text.strip() else "No text to show."
        omission = (
            f"\n\n{counted(omitted_lines, 'more line')} of this diff." if omitted_lines else ""
        )
        title = f"{escape_html_code(change.path)} ({_change_word(change.change_type)}): {meaning}"
        yield Block(
            render_fold(title, patch + omission),
            3 if change.level == "block" else 5,
            "policy changes",
        )


def _without_names(diff: str) -> str:
    """The diff without the lines that name its file: its fold does, and git writes octal for
    letters beyond ASCII.
    """
    if not diff.startswith("diff --git "):
        return diff
    head, hunks, rest = diff.partition("\n@@ ")
    lines = [
        line
        for line in head.split("\n")
        if not line.startswith(("diff --git ", "index ", "--- ", "+++ "))
    ]
    return "\n".join([*lines, hunks.removeprefix("\n") + rest])


def _change_word(change_type: str) -> str:
    """A change's type as a word; what is none of ours is shown as code."""
    return (
        change_type.replace("_", " ")
        if change_type in get_args(ChangeType)
        else escape_html_code(change_type, 40)
    )


def unreviewed_blocks(summary: Summary) -> Iterator[Block]:
    """What was not judged: how much and why in the fold's title, the places in it."""
    places = queries.missed_places(summary)
    if not places or queries.waiting_questions(summary).questions:
        return
    by_reason: dict[str, list[Unreviewed]] = {}
    for place in places:
        by_reason.setdefault(place.reason, []).append(place)
    groups = sorted(by_reason.values(), key=lambda group: -len(group))
    opening = why_undecided(summary) if summary.exit_code == INCONCLUSIVE else ""
    lines = []
    for group in groups[:MAX_REASONS]:
        is_told = queries.place_reason(group[0]) == opening
        reason = (
            "" if is_told else f"{escape_prose(queries.reason_in_words(group[0].reason), 280)}: "
        )
        lines.append(
            f"- {reason}{join_first([escape_code(sentences.place_words_of(place)) for place in group])}"
        )
    if len(groups) > MAX_REASONS:
        lines.append("- for other reasons: see summary.json.")
    yield Block(
        render_fold(f"Not judged: {counted(len(places), 'place')}", "\n".join(lines)), 1, "lists"
    )
