"""What a comment says of the change: its files by risk, the gate's own, and what no judge saw.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from vibe_gate.domain.change import ChangeType
from vibe_gate.domain.escape import counted
from vibe_gate.domain.summary import PolicyChange, Summary, Unreviewed
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
    rows = []
    for file, reason in files[:MAX_CHANGED]:
        if file.binary:
            lines = "binary"
        else:
            lines = f"+{file.added:,} −{file.deleted:,}"
        rows.append((escape_code(file.path), lines, reason))
    table = render_markdown_table(("File", "Lines", "Look at"), rows)
    if len(files) > MAX_CHANGED:
        table += f"\n\nFurther files: {len(files) - MAX_CHANGED:,}."
    text = "\n\n".join(filter(None, [escape_prose(description), table]))
    title = f"What changed: {counted(len(files), 'file')}, by risk"
    return Block(render_fold(title, text), 1, "the list of changed files")


def policy_blocks(summary: Summary) -> Iterator[Block]:
    """Changes of the gate itself and of what steers agents, each with its diff."""
    for change in summary.policy_changes:
        title = (
            f"{escape_html_code(change.path)} ({_change_word(change.change_type)}): "
            f"{_policy_meaning(change, summary)}"
        )
        rank = 5
        if change.level == "block":
            rank = 3
        fold = render_fold(title, _policy_diff(change))
        yield Block(fold, rank, "policy change", "policy changes")


def _policy_meaning(change: PolicyChange, summary: Summary) -> str:
    approver = ""
    if change.level == "block":
        approver = queries.gate_approver(summary)
    if approver:
        return f"approved by {escape_html_code(approver)}"
    return sentences.policy_meaning(change, summary)


def _policy_diff(change: PolicyChange) -> str:
    """The change's diff, as much of it as there is room for."""
    text, omitted_lines = cut_lines(_without_names(change.diff), MAX_POLICY_DIFF)
    patch = "No text to show."
    if text.strip():
        patch = fence_code(text, "diff")
    if omitted_lines:
        patch += f"\n\n{counted(omitted_lines, 'more line')} of this diff."
    return patch


def _without_names(diff: str) -> str:
    """The diff without the lines that name its file: its fold does, and git writes octal for
    letters beyond ASCII.
    """
    if not diff.startswith("diff --git "):
        return diff
    header, hunk_start, hunks = diff.partition("\n@@ ")
    lines = []
    for line in header.split("\n"):
        if not line.startswith(_NAMING_LINES):
            lines.append(line)
    return "\n".join([*lines, hunk_start.removeprefix("\n") + hunks])


_NAMING_LINES = ("diff --git ", "index ", "--- ", "+++ ")
"""Beginnings of a diff's lines that name its file."""


def _change_word(change_type: str) -> str:
    """A change's type as a word; what is none of ours is shown as code."""
    if change_type in get_args(ChangeType):
        return change_type.replace("_", " ")
    return escape_html_code(change_type, 40)


def unreviewed_blocks(summary: Summary) -> Iterator[Block]:
    """What was not judged: how much and why in the fold's title, the places in it."""
    places = queries.missed_places(summary)
    if not places or queries.waiting_questions(summary).questions:
        return
    by_reason: dict[str, list[Unreviewed]] = {}
    for place in places:
        by_reason.setdefault(place.reason, []).append(place)
    groups = sorted(by_reason.values(), key=lambda group: -len(group))
    opening = ""
    if summary.exit_code == INCONCLUSIVE:
        opening = why_undecided(summary)
    lines = [_unreviewed_line(group, opening) for group in groups[:MAX_REASONS]]
    if len(groups) > MAX_REASONS:
        lines.append("- for other reasons: see summary.json.")
    title = f"Not judged: {counted(len(places), 'place')}"
    yield Block(render_fold(title, "\n".join(lines)), 1, "the list of what was not judged")


def _unreviewed_line(group: Sequence[Unreviewed], opening: str) -> str:
    """Places that were not judged for one reason; the reason, unless the comment's `opening` has
    it.
    """
    reason = ""
    if queries.place_reason(group[0]) != opening:
        reason = f"{escape_prose(queries.reason_in_words(group[0].reason), 280)}: "
    places = []
    for place in group:
        places.append(escape_code(sentences.place_words_of(place)))
    return f"- {reason}{join_first(places)}"
