"""Runs read back. An unfinished run is never shown with a verdict, and a sealed one only after its digests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from vibe_gate.domain import paths, receipt, tolerant_reading
from vibe_gate.domain.event import MAX_EVENTS, Event
from vibe_gate.domain.graph import Graph, fold
from vibe_gate.domain.summary import Summary
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import agreement, names
from vibe_gate.store.digests import digests
from vibe_gate.store.folder import Folder
from vibe_gate.store.layout import part_of, walk
from vibe_gate.store.log import Lock, lines
from vibe_gate.store.place import MAX_DOCUMENT_BYTES
from vibe_gate.store.provenance import Provenance
from vibe_gate.store.strict import parse_object

RunState = Literal["sealed", "running", "incomplete"]

_NAMED = 5  # candidates that an ambiguous prefix lists
_OF_A_VERDICT = (b"verdict.decided", b"run.completed")


@dataclass(frozen=True, slots=True)
class RunView:
    """One run on disk, read as it is asked. `directory` may be anywhere: bundles are portable."""

    run_id: str
    key: str
    directory: Path

    @property
    def state(self) -> RunState:
        """`sealed` has a summary, `running` a living writer, `incomplete` neither."""
        folder = _open(self.directory)
        if folder.has(names.SUMMARY):
            return "sealed"
        if Lock.is_held(folder):
            return "running"
        return "sealed" if folder.has(names.SUMMARY) else "incomplete"  # it may have been sealed between two looks

    @property
    def summary(self) -> Summary:
        """The verdict of a sealed run, as `read_summary` gives it. StorageError (incomplete), IntegrityError."""
        return read_summary(self.directory)

    @property
    def about(self) -> dict[str, Any]:
        """run.json."""
        return _document(_open(self.directory), names.RUN)

    @property
    def has_begun(self) -> bool:
        """Whether there is anything of it but its folder: a process may die before it writes. StorageError."""
        try:
            return is_begun(_open(self.directory))
        except OSError as error:
            raise StorageError(f"{_shown(self.directory)} cannot be read: {error.strerror}.") from error

    def events(self) -> Iterator[Event]:
        """The run's events in order, streamed; a torn last line is cut. IntegrityError for a line that is none."""
        return _events(_open(self.directory))

    def graph(self) -> Graph:
        """The graph, folded from the events. IntegrityError also where they give more than any run's."""
        try:
            return fold(self.events())
        except ValueError as error:
            raise _corrupt(self.directory / names.EVENTS, str(error)) from error


def find_run(root: Path, reference: str = "", provenance: Provenance | None = None) -> RunView:
    """The run that `reference` names: a run id, an unambiguous beginning of one, or "" for the newest.

    The newest is never a foreign one, as far as `provenance` can tell; a foreign run
    is found by its name only. Raises UsageError if it names none or several.
    """
    runs = list_runs(root)
    if reference == "":
        runs = [run for run in runs if not (provenance and provenance.foreign(run.key, run.run_id))]
    if not runs:
        raise UsageError(f"No run is recorded in {names.STORE} yet; `vibe-gate review` records one.")
    if reference == "":
        return runs[0]
    found = [run for run in runs if run.run_id == reference] or [
        run for run in runs if run.run_id.startswith(reference)
    ]
    if len(found) == 1:
        return found[0]
    shown = paths.quote(reference)
    if not found:
        raise UsageError(f"No run is called {shown}; `vibe-gate bundles list` shows all of them.")
    some = ", ".join(run.run_id for run in found[:_NAMED])
    raise UsageError(f"{shown} is the beginning of {len(found)} runs ({some}, ...); give more of the id.")


def list_runs(root: Path) -> list[RunView]:
    """All runs below `root`, newest first by the time in their ids; none is opened. StorageError."""
    try:
        store = Folder.at(root).folder(names.STORE)
        keys = [key for key in store.folders() if key not in names.OWN_FOLDERS and paths.is_plain(key)]
        found = [RunView(run, key, root / names.STORE / key / run) for key in keys for run in _runs(store.folder(key))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{names.STORE} cannot be read: {error.strerror}.") from error
    return sorted(found, key=lambda run: (run.run_id, run.key), reverse=True)


def _runs(key: Folder) -> list[str]:
    return [name for name in key.folders() if names.is_run_id(name)]


def is_begun(bundle: Folder) -> bool:
    """Whether a run ever began: it has its run.json, and a log whose first event says so. OSError."""
    try:
        return bundle.has(names.RUN) and begins(next(lines(bundle, names.EVENTS), b""))
    except (FileNotFoundError, ValueError):
        return False


def begins(log: bytes) -> bool:
    """Whether a run's log, or its beginning, has run.created as its first whole line."""
    first, end, _ = log.partition(b"\n")
    try:
        return bool(end) and tolerant_reading.read_event(parse_object(first)).type == "run.created"
    except ValueError:
        return False


def open_run(directory: Path) -> RunView:
    """The run in `directory`, wherever it lies. StorageError, IntegrityError."""
    about = _document(_open(directory), names.RUN)
    return RunView(_text(about, "run_id"), _text(about, "key"), directory)


def read_summary(directory: Path) -> Summary:
    """The sealed summary of the run in `directory`, where its log and its receipt say the same.

    StorageError: the run is incomplete, or cannot be read. IntegrityError: a file is not what the summary vouches for,
    or is no document of ours; the summary is not what the run's log and its receipt say, or no review ends so.
    """
    folder = _open(directory)
    document, files, summary = _sealed(folder, directory)
    verdict = (summary.outcome, summary.exit_code)
    if why := agreement.impossible(verdict) or agreement.misnamed(summary):
        raise _corrupt(directory / names.SUMMARY, why)
    if names.EVENTS not in files:
        raise _corrupt(directory / names.SUMMARY, f"it has a verdict, and there is no {names.EVENTS}")
    if why := agreement.contradiction(_events(folder, _OF_A_VERDICT), verdict):
        raise _corrupt(directory / names.EVENTS, why)
    if names.RECEIPT in files:
        del files[names.RECEIPT]
        if why := agreement.receipt_fault(_receipt(folder), document, files):
            raise _corrupt(directory / names.RECEIPT, why)
    return summary


def compare_seal(directory: Path) -> None:
    """Whether every file of a sealed run is what its summary vouches for. StorageError, IntegrityError."""
    _sealed(_open(directory), directory)


def _sealed(folder: Folder, directory: Path) -> tuple[dict[str, Any], dict[str, str], Summary]:
    """The summary as it is stored, without `digests`; these, after each was compared; and what the summary says."""
    if not folder.has(names.SUMMARY):
        state = "is still running" if Lock.is_held(folder) else "is incomplete: it ended before its verdict"
        raise StorageError(f"The run in {_shown(directory)} {state}; there is no outcome to show.")
    document = _document(folder, names.SUMMARY)
    files = document.pop("digests", None)
    _compare(files, folder, directory)
    try:
        summary = tolerant_reading.read(
            Summary, {name: value for name, value in document.items() if name != "redacted"}
        )
    except ValidationError as error:
        raise _corrupt(directory / names.SUMMARY, _first(error)) from error
    if _document(folder, names.RUN).get("run_id") != summary.run_id:
        raise _corrupt(directory / names.SUMMARY, "it belongs to another run")
    return document, files, summary


def _compare(expected: object, folder: Folder, directory: Path) -> None:
    if not isinstance(expected, dict):
        raise _corrupt(directory / names.SUMMARY, "it vouches for no files")
    try:
        present = digests(folder)
    except OSError as error:
        raise _corrupt(Path(error.filename or directory), error.strerror or "cannot be read") from error
    for name in sorted(expected.keys() | present.keys()):
        if name not in present:
            raise _corrupt(directory / str(name), "it is missing")
        if expected.get(name) != present[name]:
            changed = "it was changed after sealing" if name in expected else "it was added after sealing"
            raise _corrupt(directory / name, changed)
    _require_known(folder, expected)


def _require_known(folder: Folder, vouched: dict[str, Any]) -> None:
    """IntegrityError where something lies in the bundle that no bundle has."""
    try:
        for entry in walk(folder):
            is_known = entry.is_file and (part_of(entry.name) is not None or entry.name in vouched)
            if not is_known and not entry.is_temporary:
                raise _corrupt(folder.path / entry.name, "no bundle has a file of that name")
    except OSError as error:
        raise _corrupt(Path(error.filename or folder.path), error.strerror or "cannot be read") from error


def _events(folder: Folder, having: tuple[bytes, ...] = (b"",)) -> Iterator[Event]:
    """The events of the lines that have one of these words; the others, of which there may be many, are not parsed."""
    number = 0
    try:
        for number, line in enumerate(lines(folder, names.EVENTS), start=1):
            if not any(word in line for word in having):
                continue
            event = tolerant_reading.read_event(parse_object(line))
            if event.seq != number:
                raise _corrupt(folder.path / names.EVENTS, f"line {number} has seq {event.seq}")
            if number > MAX_EVENTS:
                raise _corrupt(folder.path / names.EVENTS, f"it has more than {MAX_EVENTS:,} events")
            yield event
    except OSError as error:
        raise StorageError(f"{_shown(folder.path / names.EVENTS)} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise _corrupt(folder.path / names.EVENTS, f"line {number} is no event") from error


def _receipt(folder: Folder) -> bytes:
    try:
        return folder.read(names.RECEIPT, receipt.MAX_BYTES)
    except OSError as error:
        raise StorageError(f"{_shown(folder.path / names.RECEIPT)} cannot be read: {error.strerror}.") from error


def _document(folder: Folder, name: str) -> dict[str, Any]:
    try:
        with open(folder.reading(name), "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_DOCUMENT_BYTES:
                raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
            return parse_object(file.read(MAX_DOCUMENT_BYTES))
    except OSError as error:
        raise StorageError(f"{_shown(folder.path / name)} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise _corrupt(folder.path / name, str(error)) from error


def _open(directory: Path) -> Folder:
    try:
        return Folder.at(directory.parent).folder(directory.name)
    except OSError as error:
        raise StorageError(f"{_shown(directory)} cannot be opened: {error.strerror}.") from error


def _corrupt(path: Path, why: str) -> IntegrityError:
    return IntegrityError(f"{_shown(path)} is corrupt: {why}. No outcome is shown from a bundle that was altered.")


def _shown(path: Path) -> str:
    return paths.quote(str(path))


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
