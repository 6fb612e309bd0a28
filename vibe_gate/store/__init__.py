"""The only writer of `.vibe-artifacts`: runs recorded as they go, sealed last, read back with their hashes.

    store     where runs begin                 recorder  one run        turn     one turn of a session
    objects   contents, each stored once       contents  files/ of a bundle
    log       NDJSON, whole lines only         folder    directories held open, links never followed
    fate      one failure ends the recording   digests   what a summary vouches for
    reading   runs read back                   index     one line a run, for lists; indexing mends it
    finding   runs by what they are about      retention what stays and what goes; due asks when
    leftovers what nobody needs besides runs   tracked   whether git may track a store, told without git
    agreement summary, log and receipt alike   provenance runs that no review here wrote
    verify    everything that is wrong         repair    heals, or puts aside
    export    runs into one archive            importing runs out of one, trusting nothing
    result    what a run or turn did, lazily: messages, calls, changed (with stored, patches), remarks
    timeline  its logs as one stream of events by time, in blocks of lines      place  where all of these read

The format, file by file: docs/bundles.md.
"""

from __future__ import annotations

# Names are loaded on first use: `index` answers `bundles list` in the time of a bare interpreter.

_HOMES = {
    "Cleaned": "retention",
    "Entry": "index",
    "Exported": "export",
    "Imported": "importing",
    "Provenance": "provenance",
    "Redactor": "redactor",
    "Repaired": "repair",
    "RunRecorder": "recorder",
    "RunView": "reading",
    "Store": "store",
    "TurnRecorder": "turn",
    "Verified": "verify",
    "clean": "retention",
    "clean_if_due": "due",
    "export_bundles": "export",
    "find_bundles": "finding",
    "find_run": "reading",
    "import_bundles": "importing",
    "list_runs": "reading",
    "open_run": "reading",
    "open_store": "store",
    "read_summary": "reading",
    "repair_bundles": "repair",
    "verify_bundles": "verify",
}

TYPE_CHECKING = False  # typing's own constant would cost the import of typing
if TYPE_CHECKING:
    from vibe_gate.store.due import clean_if_due
    from vibe_gate.store.export import Exported, export_bundles
    from vibe_gate.store.finding import find_bundles
    from vibe_gate.store.importing import Imported, import_bundles
    from vibe_gate.store.index import Entry
    from vibe_gate.store.provenance import Provenance
    from vibe_gate.store.reading import RunView, find_run, list_runs, open_run, read_summary
    from vibe_gate.store.recorder import RunRecorder
    from vibe_gate.store.redactor import Redactor
    from vibe_gate.store.repair import Repaired, repair_bundles
    from vibe_gate.store.retention import Cleaned, clean
    from vibe_gate.store.store import Store, open_store
    from vibe_gate.store.turn import TurnRecorder
    from vibe_gate.store.verify import Verified, verify_bundles

__all__ = [
    "Cleaned", "Entry", "Exported", "Imported", "Provenance", "Redactor", "Repaired", "RunRecorder", "RunView", "Store",
    "TurnRecorder", "Verified", "clean", "clean_if_due", "export_bundles", "find_bundles", "find_run",
    "import_bundles", "list_runs", "open_run", "open_store", "read_summary", "repair_bundles", "verify_bundles",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(__import__(f"{__name__}.{home}", fromlist=["_"]), name)
    globals()[name] = value
    return value
