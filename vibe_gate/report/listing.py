"""Runs as lines of a list and as JSON. Imports next to nothing: `bundles list` answers at once."""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own constant would cost the import of typing
if TYPE_CHECKING:
    from collections.abc import Iterable

    from vibe_gate.domain.bundles import RunEntry

NO_RUNS = "No runs yet; `vibe-gate review` records one.\n"
NO_MATCHES = "No runs match; `vibe-gate bundles list` shows all runs.\n"


def lines(entries: Iterable[RunEntry], width: int | None = None) -> str:
    """One line a run, safe to print: when (UTC), outcome, author, size, findings, cost, run id, key, rubrics.

    On a narrower terminal: the run id (which begins with the time), outcome, author, size, findings.
    """
    narrow = width is not None and width < _WIDE
    return "".join(f"{_safe(line(entry, narrow))}\n" for entry in entries)


def line(entry: RunEntry, narrow: bool = False) -> str:
    """One run. An unsealed one has its state where the outcome would be, and nothing else to tell."""
    run, key, outcome, author = entry.run_id, entry.key, entry.outcome, entry.author
    head = f"{run[:4]}-{run[4:6]}-{run[6:8]} {run[9:11]}:{run[11:13]}:{run[13:15]}Z"
    if not outcome and narrow:
        return f"{run}  {entry.state}"
    if not outcome:
        return f"{head}  {entry.state:<12}  {'':<51}  {run}  {key[:_KEY]}"
    if outcome == "pass" and entry.exit_code == _POLICY_CHANGED:
        outcome = "approval"  # which nobody has given
    size = f"{entry.files} file{'' if entry.files == 1 else 's'} +{entry.added} -{entry.deleted}"
    found = f"{entry.findings} finding{'' if entry.findings == 1 else 's'}"
    rubrics = ",".join(name for name, _ in entry.rubrics)
    if narrow:
        return f"{run}  {outcome:<12} {author:<5} {size:<17} {found}"
    told = f"{author:<5}  {size:<22}  {found:<12} ${entry.cost_usd:.4f}"
    return f"{head}  {outcome:<12}  {told}  {run}  {key[:_KEY]:<17}  {rubrics}"


_WIDE = 145  # columns of a line with a rubric
_KEY = 17  # "tree-" and twelve digits
_POLICY_CHANGED = 4  # the exit code; `errors` would cost its import


def _safe(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    from vibe_gate.domain.escape import safe

    return safe(text)


def documents(entries: Iterable[RunEntry]) -> str:
    """All runs as one JSON document, a line each."""
    import json  # which a list for people does not pay for

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
