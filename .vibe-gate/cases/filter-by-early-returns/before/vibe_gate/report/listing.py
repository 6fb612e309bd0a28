"""Which runs a list shows."""

from __future__ import annotations

from vibe_gate.domain.bundles import RunEntry, RunFilter


def passes_filter(run: RunEntry, run_filter: RunFilter) -> bool:
    """Whether the run meets every condition that the filter sets."""
    return (
        (run.run_id == run_filter.run_id if run_filter.run_id else True)
        and (not run_filter.since or run.started_at >= run_filter.since)
        and (run.outcome in run_filter.outcomes if run_filter.outcomes else True)
        and (not run_filter.prefix or run.run_id.startswith(run_filter.prefix))
    )
