"""Runs as lines of a list and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import counted, safe
from vibe_gate.errors import POLICY_CHANGED

NO_RUNS = "No runs yet; `vibe-gate review` records one.\n"
NO_MATCHES = "No runs match; `vibe-gate bundles list` shows all runs.\n"


def lines(entries: Iterable[RunEntry]) -> str:
    """One line a run, safe to print: when (UTC), outcome, author, size, findings, cost, run id, key, rubrics."""
    return "".join(f"{safe(line(entry))}\n" for entry in entries)


def table(entries: Iterable[RunEntry], width: int, now: datetime, titles: Mapping[str, str]) -> str:
    """For a terminal: how long ago, outcome, author, size, findings, the beginning of the run id, the commit's title.

    `titles` by commit id. A column is as wide as what stands in it; lines are cut to `width` columns.
    """
    runs = list(entries)
    cells = [("ago", "outcome", "by", "change", "found", "run", "title"), *(_cells(run, now, titles) for run in runs)]
    if len({run.run_id[:_SECOND] for run in runs}) == len(runs):
        cells = [(*row[:5], row[5][:_SECOND], row[6]) for row in cells]
    widest = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = []
    for row in cells:
        padded = [
            one.rjust(most) if at in _NUMBERS else one.ljust(most)
            for at, (one, most) in enumerate(zip(row, widest, strict=True))
        ]
        rows.append(safe("  ".join(padded).rstrip())[:width])
    return "\n".join(rows) + "\n"


def _cells(entry: RunEntry, now: datetime, titles: Mapping[str, str]) -> tuple[str, ...]:
    size = f"{counted(entry.files, 'file')} +{entry.added} -{entry.deleted}"
    facts = (entry.author, size, str(entry.findings)) if entry.outcome else ("", "", "")
    title = titles.get(entry.key, "(uncommitted)" if entry.key.startswith("tree-") else "")
    title = f"workflow {entry.workflow}" if entry.workflow not in ("", "review") else title
    return (_age(entry.run_id, now), outcome(entry), *facts, entry.run_id[:_RUN], title)


def _age(run: str, now: datetime) -> str:
    began = datetime.strptime(run[:15], "%Y%m%dT%H%M%S").replace(tzinfo=now.tzinfo)
    seconds = max(0, int((now - began).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def outcome(entry: RunEntry) -> str:
    """The word of the list: an outcome, "approval" of a pass that needs one, or the state of an unsealed run."""
    if entry.outcome == "pass" and entry.exit_code == POLICY_CHANGED:
        return "approval"  # which nobody has given
    return entry.outcome or entry.state


def line(entry: RunEntry) -> str:
    """One run. An unsealed one has its state where the outcome would be, and nothing else to tell."""
    run, key, author = entry.run_id, entry.key, entry.author
    head = f"{run[:4]}-{run[4:6]}-{run[6:8]} {run[9:11]}:{run[11:13]}:{run[13:15]}Z  {outcome(entry):<12}"
    if not entry.outcome:
        return f"{head}  {'':<51}  {run}  {key[:_KEY]}"
    size = f"{counted(entry.files, 'file')} +{entry.added} -{entry.deleted}"
    found = counted(entry.findings, "finding")
    rubrics = ",".join(name for name, _ in entry.rubrics)
    told = f"{author:<5}  {size:<22}  {found:<12} ${entry.cost_usd:.4f}"
    return f"{head}  {told}  {run}  {key[:_KEY]:<17}  {rubrics}"


_RUN, _SECOND = 18, 15  # of a run id: the time it began, to the millisecond or the second
_NUMBERS = (0, 4)  # columns whose text stands to the right
_KEY = 17  # "tree-" and twelve digits


def documents(entries: Iterable[RunEntry]) -> str:
    """All runs as one JSON document, a line each."""
    runs = ",\n".join(json.dumps(document(entry)) for entry in entries)
    return f'{{"schema": 1, "bundles": [\n{runs}\n]}}\n' if runs else '{"schema": 1, "bundles": []}\n'


def document(entry: RunEntry) -> dict[str, object]:
    """One run as JSON. What only a verdict tells is null where the run is not sealed."""
    own: dict[str, object] = {
        "run_id": entry.run_id,
        "key": entry.key,
        "created_at": entry.created_at,
        "state": entry.state,
        "bundle": entry.bundle,
    }
    if not entry.outcome:
        return own | dict.fromkeys(_OF_A_VERDICT)
    values = (
        entry.outcome,
        entry.exit_code,
        entry.author,
        entry.workflow,
        [{"id": name, "outcome": outcome} for name, outcome in entry.rubrics],
        {name: getattr(entry, name) for name in _IDS},
        list(entry.paths),
        {"files": entry.files, "added": entry.added, "deleted": entry.deleted},
        entry.findings,
        {"usd": entry.cost_usd, "basis": entry.cost_basis},
        entry.duration_ms,
    )
    return own | dict(zip(_OF_A_VERDICT, values, strict=True))


_IDS = ("before", "after", "base_commit", "head_commit", "patch_id", "range_patch_id")
_OF_A_VERDICT = (
    "outcome", "exit_code", "author", "workflow", "rubrics", "change", "paths", "stats", "findings", "cost",
    "duration_ms",
)  # fmt: skip
