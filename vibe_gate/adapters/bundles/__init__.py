"""The only writer of `.vibe-artifacts`: runs recorded as they go, sealed last, read back with their hashes.

    store     where runs begin                 recorder  one run        turn     one turn of a session
    objects   contents, each stored once       contents  files/ of a bundle
    log       NDJSON, whole lines only         folder    directories held open, links never followed
    fate      one failure ends the recording   digests   what a summary vouches for
    reading   runs read back                   index     one line a run, for lists; indexing mends it
    finding   runs by what they are about      retention what stays and what goes

The format, file by file: docs/bundles.md.
"""

from __future__ import annotations

# Names are loaded on first use: `index` answers `bundles list` in the time of a bare interpreter.

_HOMES = {
    "Cleaned": "retention",
    "Entry": "index",
    "Redactor": "redactor",
    "RunRecorder": "recorder",
    "RunView": "reading",
    "Store": "store",
    "TurnRecorder": "turn",
    "clean": "retention",
    "clean_if_due": "retention",
    "find_bundles": "finding",
    "find_run": "reading",
    "list_runs": "reading",
    "open_run": "reading",
    "open_store": "store",
    "read_summary": "reading",
}

TYPE_CHECKING = False  # typing's own constant would cost the import of typing
if TYPE_CHECKING:
    from vibe_gate.adapters.bundles.finding import find_bundles
    from vibe_gate.adapters.bundles.index import Entry
    from vibe_gate.adapters.bundles.reading import RunView, find_run, list_runs, open_run, read_summary
    from vibe_gate.adapters.bundles.recorder import RunRecorder
    from vibe_gate.adapters.bundles.redactor import Redactor
    from vibe_gate.adapters.bundles.retention import Cleaned, clean, clean_if_due
    from vibe_gate.adapters.bundles.store import Store, open_store
    from vibe_gate.adapters.bundles.turn import TurnRecorder

__all__ = [
    "Cleaned", "Entry", "Redactor", "RunRecorder", "RunView", "Store", "TurnRecorder", "clean", "clean_if_due",
    "find_bundles", "find_run", "list_runs", "open_run", "open_store", "read_summary",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(__import__(f"{__name__}.{home}", fromlist=["_"]), name)
    globals()[name] = value
    return value
