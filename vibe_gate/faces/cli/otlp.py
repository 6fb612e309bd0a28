"""`bundles export --otlp`: runs as traces of OpenTelemetry, to a file or an endpoint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.escape import counted
from vibe_gate.domain.span import Trace
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.lazy_arguments import TraceTarget
from vibe_gate.faces.cli.output import emit_result
from vibe_gate.faces.cli.runs import StoredRuns
from vibe_gate.faces.cli.team import TeamRuns
from vibe_gate.report.spans import trace_of
from vibe_gate.store.new_file import create_whole, require_new_file
from vibe_gate.store.run_result import read_bundle

_IS_ADDRESS = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//|(?:[^/@]*@)?[A-Za-z0-9.-]+:[0-9]{1,5}(?:/|\Z)"
).match
"""A URL, one without its scheme, or the host and port of one."""


def export_traces(
    target: TraceTarget, runs: StoredRuns, chosen: Sequence[RunEntry], *, as_json: bool
) -> int:
    """Write or send the traces of runs; the exit code.

    UsageError: the extra is not installed, a run is being written.
    """
    try:
        from vibe_gate import telemetry
    except ModuleNotFoundError as error:
        raise UsageError(
            "--otlp needs OpenTelemetry; install it: pip install 'vibe-gate[otlp]'"
        ) from error
    if not target.place:
        raise UsageError("--otlp needs a FILE or a URL.")
    is_file = not _IS_ADDRESS(target.place)
    url = "" if is_file else telemetry.traces_endpoint(target.place)
    for run in chosen:
        if run.state == "running":
            raise UsageError(f"Run {run.run_id} is still running; export it when it has ended.")
    if isinstance(runs, TeamRuns):
        runs.bundles.fetch(chosen)
    traces = _traces(runs, chosen, target.contents)
    if is_file:
        kind, shown_place = "file", paths.quote(target.place)
        file_path = Path(target.place)
        require_new_file(file_path)
        with create_whole(file_path) as file:
            run_count, span_count = telemetry.write_traces(traces, file)
    else:
        kind, shown_place = "url", telemetry.url_without_query(url)
        run_count, span_count = telemetry.send_traces(traces, url)
    document = {kind: shown_place, "runs": run_count, "spans": span_count}
    text = f"{shown_place}: {counted(run_count, 'run')}, {counted(span_count, 'span')}."
    return emit_result(document, [text], as_json=as_json)


def _traces(runs: StoredRuns, chosen: Sequence[RunEntry], contents: bool) -> Iterator[Trace]:
    for run in sorted(chosen, key=lambda run: (run.run_id, run.key)):
        yield asyncio.run(trace_of(read_bundle(runs.root / run.bundle), contents=contents))
