"""The list of runs as a person or a pipe reads it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.report.listing import lines, table

_IS_COMMIT = re.compile(r"[0-9a-f]{40}").fullmatch
_LOG = ("git", "--no-optional-locks", "-c", "log.showSignature=false", "log", "--no-walk=unsorted", "--ignore-missing",
        "--format=%H %s", "--stdin")  # fmt: skip


def shown(runs: Sequence[RunEntry]) -> str:
    """The list for whoever reads stdout: a table on a terminal, a line of everything in a pipe."""
    width = columns()
    return lines(runs) if width is None else table(runs, width, datetime.now(UTC), _titles(runs))


def _titles(runs: Sequence[RunEntry]) -> dict[str, str]:
    """The titles of the runs' commits, as far as they are here; git is asked once."""
    keys = {run.key for run in runs if _IS_COMMIT(run.key)}
    if not keys:
        return {}
    asked = "".join(f"{key}\n" for key in keys)
    done = subprocess.run(_LOG, input=asked, capture_output=True, text=True, errors="replace", check=False)
    return {line[:40]: line[41:] for line in done.stdout.splitlines()}


def columns() -> int | None:
    """The width of the terminal on stdout; None if it is not a terminal, or does not say."""
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None
