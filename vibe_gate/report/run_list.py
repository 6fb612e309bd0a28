"""Runs as lines of a list and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import counted, safe
from vibe_gate.errors import POLICY_CHANGED
from vibe_gate.report.outcome_words import OUTCOME_WORDS

NO_RUNS = "No runs yet; `vibe-gate review` records one."
NO_MATCHES = "No runs match; `vibe-gate bundles list` shows all runs."


def render_run_table(
    entries: Iterable[RunEntry], now: datetime, titles: Mapping[str, str], *, is_screen: bool
) -> list[list[str]]:
    """How long ago, outcome, author, size, findings, run id, the commit's title; a row a run, each
    cell made visible.

    `titles` by commit id. A column is as wide as what stands in it. On a screen there are heads
    first, and run ids are cut to what tells them apart.
    """
    runs = list(entries)
    rows: list[list[str]] = []
    id_length = None
    if is_screen:
        rows.append(list(_HEADS))
        id_length = _telling_length(runs)
    for run in runs:
        cells = _cells(run, id_length, now, titles)
        rows.append(list(map(safe, cells)))
    return _align_columns(rows)


def _telling_length(runs: Sequence[RunEntry]) -> int:
    """Characters of a run id that tell these runs apart."""
    seconds = {run.run_id[:_SECOND] for run in runs}
    if len(seconds) == len(runs):
        return _SECOND
    return _RUN


def _align_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows, each cell as wide as the widest of its column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned_rows = []
    for row in rows:
        aligned_rows.append([cell.ljust(width) for cell, width in zip(row, widths, strict=True)])
    return aligned_rows


def drop_wide_columns(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """The table without the columns that leave no room for the run's id, which other commands take;
    with its title.

    `rows` begin with their heads. The size of the change goes first, then findings, then the
    author.
    """
    widths = dict(zip(_HEADS, map(len, rows[0]), strict=True))
    columns = list(_HEADS)
    for spare in ("change", "found", "by"):
        columns_to_run = columns[: columns.index("run") + 1]
        gaps = 2 * (len(columns_to_run) - 1)
        if sum(widths[name] for name in columns_to_run) + gaps > width:
            columns.remove(spare)
    indexes = [_HEADS.index(name) for name in columns]
    narrow_rows = []
    for row in rows:
        narrow_rows.append([row[index] for index in indexes])
    return narrow_rows


EXPLAINED_WORDS = (
    "approval",
    "checks-only",
    "nothing",
    "done",
    "inconclusive",
    "error",
    "running",
    "incomplete",
    "corrupt",
    "foreign",
)
"""The list's words that do not speak for themselves, in the order of its legend."""


def render_run_legend(entries: Iterable[RunEntry], width: int) -> list[str]:
    """What columns and words of the list mean, as far as they stand in it: lines of a terminal."""
    words = {run_word(entry) for entry in entries}
    parts = ["by: who wrote the change", "found: findings", "run: names it as RUN"]
    for word in EXPLAINED_WORDS:
        if word in words:
            parts.append(f"{word}: {OUTCOME_WORDS[word].meaning}")
    unbroken_parts = [part.replace(" ", _UNBROKEN) for part in parts]
    text = " · ".join(unbroken_parts)
    columns = max(width, MIN_WIDTH)
    lines = textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_UNBROKEN, " ") for line in lines]


MIN_WIDTH = 40
_UNBROKEN = "\xa0"


def _cells(
    entry: RunEntry, length: int | None, now: datetime, titles: Mapping[str, str]
) -> tuple[str, ...]:
    size = f"{counted(entry.files, 'file')} +{entry.added} -{entry.deleted}"
    if entry.outcome:
        facts = (entry.author, size, str(entry.findings))
    else:
        facts = ("", "", "")
    return (
        _age(entry.run_id, now),
        run_word(entry),
        *facts,
        entry.run_id[:length],
        run_title(entry, titles),
    )


def run_title(entry: RunEntry, titles: Mapping[str, str]) -> str:
    """The run's workflow, or its commit's title, of `titles` by key; "" if it is not known."""
    if entry.state == "foreign":
        return ""  # its key is whatever somebody wrote
    if entry.workflow not in ("", "review"):
        return f"workflow {entry.workflow}"
    if entry.key.startswith("tree-"):
        return titles.get(entry.key, "(uncommitted)")
    return titles.get(entry.key, "")


def _age(run: str, now: datetime) -> str:
    try:
        began = datetime.strptime(run[:15], "%Y%m%dT%H%M%S").replace(tzinfo=now.tzinfo)
    except ValueError:  # somebody's folder: no clock has the 30th of February
        return "?"
    seconds = max(0, int((now - began).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def run_word(entry: RunEntry) -> str:
    """The word of the list: an outcome, or the state of an unsealed run.

    Of a pass, as `sentences.verdict_words` tells them apart: "approval" if it needs one; "done" of
    agents whose run had no rubrics; "nothing" if nothing was reviewed, "checks-only" if no judge
    was asked what the gate asks.
    """
    if entry.outcome == "pass" and entry.exit_code == POLICY_CHANGED:
        return "approval"  # which nobody has given
    if entry.outcome == "pass" and entry.workflow != "review" and not entry.rubrics:
        return "done"
    return _EXTENTS.get(entry.extent, "") or entry.outcome or entry.state


_EXTENTS = {"nothing": "nothing", "checks": "checks-only"}
_RUN, _SECOND = 18, 15  # of a run id: the time it began, to the millisecond or the second
_HEADS = ("ago", "outcome", "by", "change", "found", "run", "title")


def build_run_document(entry: RunEntry) -> dict[str, object]:
    """One run as JSON. What only a verdict tells is null where the run is not sealed."""
    facts: dict[str, object] = {
        "run_id": entry.run_id,
        "key": entry.key,
        "created_at": entry.created_at,
        "state": entry.state,
        "bundle": entry.bundle,
    }
    rubrics = [{"id": name, "outcome": outcome} for name, outcome in entry.rubrics]
    verdict: dict[str, object] = {
        "outcome": entry.outcome,
        "exit_code": entry.exit_code,
        "author": entry.author,
        "workflow": entry.workflow,
        "rubrics": rubrics,
        "change": {name: getattr(entry, name) for name in _IDS},
        "paths": list(entry.paths),
        "stats": {"files": entry.files, "added": entry.added, "deleted": entry.deleted},
        "findings": entry.findings,
        "cost": {"usd": entry.cost_usd, "basis": entry.cost_basis},
        "duration_ms": entry.duration_ms,
    }
    if not entry.outcome:
        verdict = dict.fromkeys(verdict)
    return facts | verdict


_IDS = ("before", "after", "base_commit", "head_commit", "patch_id", "range_patch_id")
