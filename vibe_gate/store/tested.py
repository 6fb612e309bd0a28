"""What a run was for a test: a line of its annotations, which no seal covers; the test ends after the run is sealed."""

from __future__ import annotations

from datetime import datetime

from msgspec import to_builtins

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.domain.document import parse_object, read
from vibe_gate.store import names
from vibe_gate.store.folder import Folder
from vibe_gate.store.log import Log, lines

TYPE = "test"
"""Of the annotation; its object of this name has the fields of a TestedRun."""


def write(bundle: Folder, run: TestedRun, at: datetime) -> None:
    """Append the line; `run` is redacted. OSError."""
    times = f", repetition {run.repetition}" if run.repetition > 1 else ""
    message = f"{run.test}{times}: {run.result}"
    about = {"ts": names.milliseconds(at), "type": TYPE, "message": message, "turn": "", TYPE: to_builtins(run)}
    log = Log(bundle, names.ANNOTATIONS, first=0)
    try:
        log.append(lambda seq: {"seq": seq} | about)
    finally:
        log.close()


def find(bundle: Folder) -> TestedRun | None:
    """What the last such line says; None without one. OSError; ValueError if annotations are not what we write."""
    try:
        found = [record[TYPE] for record in map(parse_object, lines(bundle, names.ANNOTATIONS)) if TYPE in record]
    except FileNotFoundError:
        return None
    return read(TestedRun, found[-1]) if found else None
