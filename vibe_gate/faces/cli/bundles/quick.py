"""`bundles list` in little more than the time of a bare interpreter: nothing of weight is imported.

It only tells what the index is known to be right about; every other question, and
every doubt, is left to the full path, which looks for itself.
"""

from __future__ import annotations

import gc
import os
import time

from vibe_gate.faces.cli.bundles.place import REDIRECTIONS, columns, top
from vibe_gate.report.listing import documents, lines
from vibe_gate.store.index import Entry, newest
from vibe_gate.store.tracked import may_be_tracked

_DIGITS = 9


def listed(arguments: list[str]) -> str | None:
    """The text of `bundles list [--limit N] [--json]`; None for any other question or any doubt."""
    as_json = "--json" in arguments
    limit = _limit([argument for argument in arguments if argument != "--json"])
    if limit == 0 or any(name in os.environ for name in REDIRECTIONS):
        return None
    gc.disable()  # ten thousand entries and no cycle among them
    root = top(os.getcwd())  # noqa: PTH109  pathlib would cost its import
    found = None if root is None else newest(root, limit, time.time_ns())
    if root is None or not found or not all(entry.state for entry in found) or _may_be_foreign(root, found):
        return None
    try:
        return documents(found) if as_json else lines(found, columns())
    except ValueError:  # a line that no honest writer wrote
        return None


def _may_be_foreign(root: str, found: list[Entry]) -> bool:
    """Whether a run may have come with the repository, or is dated later than now: the full path looks closer."""
    if time.strftime("%Y%m%dT%H%M%S", time.gmtime(time.time() + 1)) < found[0].run_id[:15]:
        return True
    return may_be_tracked(root)


def _limit(arguments: list[str]) -> int | None:
    """The limit; None where there is none, 0 where something else is asked."""
    if not arguments:
        return None
    if len(arguments) == 2 and arguments[0] == "--limit" and arguments[1].isdecimal() and len(arguments[1]) < _DIGITS:
        return int(arguments[1])
    return 0
