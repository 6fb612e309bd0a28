"""What the commands that judge or move bundles know about where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.faces.cli.bundles.naming import named
from vibe_gate.faces.cli.bundles.naming import provenance as provenance

RUNS_HELP = "run ids, unambiguous beginnings of them, or revisions"


def views(root: Path, references: Sequence[str], environ: Mapping[str, str]) -> list[RunEntry] | None:
    """The runs that were named, each once; None where none was. UsageError."""
    if not references:
        return None
    return list(dict.fromkeys(named(root, reference, environ).entry for reference in references))
