"""A run against its repeat as rows of a screen and as JSON."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from vibe_gate.domain.document import plain
from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.run_comparison import (
    FileComparison,
    RunComparison,
    RunUse,
    StageComparison,
)
from vibe_gate.report.replays import render_changed_findings
from vibe_gate.report.screen_rows import LABEL, crop_text

MESSAGE_LINES = 8
"""Lines of the difference between two messages that are shown: --json has both messages."""

COMPARED_LINES = 400
"""Of each of two messages: what lines have in common takes long to find in more."""

COLUMNS = 80
"""The widest line of a message."""


def render_comparison(comparison: RunComparison) -> Iterator[str]:
    """The rows, safe to print: what came out otherwise, or that nothing did; then what both
    cost.
    """
    yield from map(safe, _render_rows(comparison))


def _render_rows(comparison: RunComparison) -> Iterator[str]:
    yield f"repeat    {comparison.repeat}"
    yield f"of        {comparison.run_id} ({comparison.workflow})"
    if comparison.is_same:
        yield from _render_sameness(comparison)
    else:
        yield from _render_differences(comparison)
    yield from _render_use(comparison.use_before, comparison.use_after)
    yield f"show      vibe-gate bundles show {comparison.repeat}"


def _render_sameness(comparison: RunComparison) -> Iterator[str]:
    """One line: what is the same in both."""
    parts = [
        f"outcome {comparison.outcome_after}",
        counted(len(comparison.stages), "stage"),
        counted(len(comparison.files), "changed file"),
        "last messages",
        counted(comparison.call_count, "tool call"),
    ]
    yield f"the same  {', '.join(parts)}"


def _render_differences(comparison: RunComparison) -> Iterator[str]:
    outcome = comparison.outcome_after
    if comparison.outcome_before == outcome:
        yield f"outcome   {outcome} in both"
    else:
        yield f"outcome   {comparison.outcome_before} -> {outcome}"
    for stage in comparison.differing_stages:
        yield f"stage     {stage.node}: {_stage_words(stage)}"
        yield from _render_message(stage)
    for change in comparison.criteria:
        yield f"criterion {change.rubric}/{change.criterion}: {change.before} -> {change.after}"
        for text in render_changed_findings(change):
            yield f"{' ' * LABEL}{text}"
    for file in comparison.differing_files:
        yield f"file      {file.path}: {_file_words(file)}"
    calls = [f"{call.tool} {call.before} -> {call.after}" for call in comparison.calls]
    if calls:
        yield f"calls     {', '.join(calls)}"


def _stage_words(stage: StageComparison) -> str:
    """What of a stage is another, in a few words."""
    words = []
    if stage.has_other_outcome:
        words.append(f"{stage.before} -> {stage.after}")
    if stage.has_other_files:
        words.append("it began with other files")
    if stage.is_asked_otherwise:
        words.append("its agent or what it was asked differs")
    if stage.has_other_message:
        words.append("another last message")
    text = ", ".join(words)
    if stage.has_other_outcome and stage.reason:
        return f"{text} ({stage.reason})"
    return text


def _render_message(stage: StageComparison) -> Iterator[str]:
    """The lines in which two messages differ; none if their words stay in the clone."""
    before = stage.message_before.splitlines()[:COMPARED_LINES]
    after = stage.message_after.splitlines()[:COMPARED_LINES]
    differences = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    lines = [line for line in differences if line[:1] in "+-"]
    for line in lines[:MESSAGE_LINES]:
        row = f"{' ' * LABEL}{line[0]} {line[1:]}"
        yield crop_text(safe(row), COLUMNS)
    if len(lines) > MESSAGE_LINES:
        yield f"{' ' * LABEL}… --json has the rest"


def _file_words(file: FileComparison) -> str:
    """How a file differs, in a few words."""
    if file.changed_by != "both":
        return f"only the {file.changed_by} changed it ({counted(file.lines, 'line')})"
    if not file.lines:
        return "differs, though not in its lines"
    return counted(file.lines, "line differs", "lines differ")


def _render_use(before: RunUse, after: RunUse) -> Iterator[str]:
    """What both used, in three rows or less; these figures differ from run to run."""
    yield f"cost      {_usd_words(before)} -> {_usd_words(after)}"
    tokens = f"{before.tokens:,} -> {after.tokens:,} tokens"
    answers = f"{before.answers:,} -> {after.answers:,} answers"
    seconds = f"{before.duration_ms / 1000:.1f} -> {after.duration_ms / 1000:.1f} s"
    yield f"used      {tokens}, {answers}, {before.turns:,} -> {after.turns:,} turns, {seconds}"
    if before.models != after.models:
        yield f"model     {_list_models(before)} -> {_list_models(after)}"


def _list_models(use: RunUse) -> str:
    return ", ".join(use.models) or "none"


def _usd_words(use: RunUse) -> str:
    text = f"${use.usd:.4f}" if use.is_exact else f"at most ${use.usd:.4f}"
    if use.is_recorded:
        return f"{text} (recorded, not paid)"
    return text


def build_comparison_document(comparison: RunComparison) -> dict[str, Any]:
    """All of it as JSON."""
    document: dict[str, Any] = plain(comparison)
    return {"exit_code": comparison.exit_code, "same": comparison.is_same, **document}
