"""The only writer of `.vibe-artifacts`: runs recorded as they go, sealed last, read back with their hashes.

    store     where runs begin                 recorder  one run        turn     one turn of a session
    objects   contents, each stored once       contents  files/ of a bundle
    log       NDJSON, whole lines only         folder    directories held open, links never followed
    fate      one failure ends the recording   digests   what a summary vouches for
    reading   runs read back

The format, file by file: docs/bundles.md.
"""

from vibe_gate.adapters.bundles.reading import RunView, find_run, list_runs, open_run, read_summary
from vibe_gate.adapters.bundles.recorder import RunRecorder
from vibe_gate.adapters.bundles.redactor import Redactor
from vibe_gate.adapters.bundles.store import Store, open_store
from vibe_gate.adapters.bundles.turn import TurnRecorder

__all__ = [
    "Redactor", "RunRecorder", "RunView", "Store", "TurnRecorder", "find_run", "list_runs", "open_run", "open_store",
    "read_summary",
]  # fmt: skip
