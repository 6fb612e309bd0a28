"""What a run was for a test: a line of its annotations, which no seal covers; the test ends after
the run is sealed.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import to_builtins

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.domain.bundles import STORE, RunEntry
from vibe_gate.domain.document import parse_object, read
from vibe_gate.store import bundle_names
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import Log, read_lines
from vibe_gate.store.store_folder import require_untracked, unreadable_store_error

if TYPE_CHECKING:
    from vibe_gate.store.worktree_bundles import Bundles

TEST_ANNOTATION = "test"
"""Of the annotation; its object of this name has the fields of a TestedRun."""


def read_tested_run(bundles: Bundles, entry: RunEntry) -> TestedRun | None:
    """What the run was for a test; None: it was no test's, or what says so cannot be read."""
    if not os.path.lexists(bundles.root / entry.bundle / bundle_names.ANNOTATIONS):
        return None  # most runs: ten thousand are asked at once
    try:
        bundle = Folder.at(bundles.root).folder(STORE).below(entry.place)
        annotation = None
        for line in read_lines(bundle, bundle_names.ANNOTATIONS):
            annotation = parse_object(line).get(TEST_ANNOTATION, annotation)
        if annotation is None:
            return None
        return read(TestedRun, annotation)
    except (OSError, ValueError):
        return None


def note_tested_run(bundles: Bundles, entry: RunEntry, run: TestedRun, at: datetime) -> None:
    """Append what the recorded run was for a test to its annotations; `run` is redacted.
    StorageError.
    """
    times = f", repetition {run.repetition}" if run.repetition > 1 else ""
    message = f"{run.test}{times}: {run.result}"
    record = {
        "ts": bundle_names.to_milliseconds(at),
        "type": TEST_ANNOTATION,
        "message": message,
        "turn": "",
        TEST_ANNOTATION: to_builtins(run),
    }
    require_untracked(bundles.provenance.tracked)
    try:
        bundle = Folder.at(bundles.root).folder(STORE).below(entry.place)
        log = Log(bundle, bundle_names.ANNOTATIONS, first=0)
        try:
            log.append(lambda seq: {"seq": seq} | record)
        finally:
            log.close()
    except OSError as error:
        raise unreadable_store_error(error) from error
