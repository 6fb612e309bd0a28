"""Which runs a list shows."""

from __future__ import annotations

from vibe_gate.domain.bundles import RunEntry, RunFilter


def passes_filter(run: RunEntry, run_filter: RunFilter) -> bool:
    """Whether the run meets every condition that the filter sets."""
    if run_filter.run_id and run.run_id != run_filter.run_id:
        return False
    if run_filter.since and run.started_at < run_filter.since:
        return False
    if run_filter.outcomes and run.outcome not in run_filter.outcomes:
        return False
    return not run_filter.prefix or run.run_id.startswith(run_filter.prefix)
