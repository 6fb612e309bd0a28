"""Arguments of what is loaded only when it is wanted: `--each`, `report --all`, `bundles export
--otlp`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:  # a list of runs loads nothing of reviews
    from vibe_gate.faces.cli.shared_options import WorkerOptions


class EachArguments(Struct, frozen=True):
    """How each commit of a range is reviewed by itself."""

    workers: WorkerOptions
    """Who reviews them, and which."""
    merges: bool
    """Whether merges are reviewed, against their first parent."""
    store: bool
    """Whether runs of the shared store count; they are fetched."""
    table: bool
    """Print what is recorded, and review nothing."""


class SiteArguments(Struct, frozen=True):
    """The arguments of `vibe-gate report --all`."""

    store: bool
    """Whether the runs of the shared store are meant."""
    output: str | None
    """A folder, or None: below .vibe-artifacts/reports."""
    prompts: bool
    """Whether pages have what was asked in captured sessions."""
    open: bool
    """Show the index in the browser."""
    since: datetime | None
    """Only runs since then."""
    path: str | None
    """Only runs whose change touches a path that this pattern matches."""
    commits: str | None
    """The range of commits to verify; None: the newest ones."""
    pages: int
    """How many missing pages are written at most."""


class TraceTarget(Struct, frozen=True):
    """Where OpenTelemetry traces go, and with what."""

    place: str
    """A new file, or the URL of an endpoint."""
    contents: bool
    """Whether they have prompts, answers, arguments and results."""
