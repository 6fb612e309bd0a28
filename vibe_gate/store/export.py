"""Runs into one archive: each content once, unpacked, with its versions side by side, so that zstd sees them."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import manifest, names
from vibe_gate.store.archive import Distinct, Packer, twice
from vibe_gate.store.flaws import WRONG, Flaw
from vibe_gate.store.folder import CANNOT_LINK, Folder
from vibe_gate.store.layout import part_of, walk
from vibe_gate.store.log import lines
from vibe_gate.store.manifest import Manifest, RunInArchive
from vibe_gate.store.objects import LARGEST_CONTENT, decode
from vibe_gate.store.provenance import Provenance
from vibe_gate.store.reading import RunView
from vibe_gate.store.strict import parse_object, require_few
from vibe_gate.store.verify import open_store_folder, verify_bundles

CONTENTS = "contents"
"""The archive's folder of contents: each unpacked: zstd sees what they share, and import packs them."""

_CHUNK = 1 << 17


@dataclass(frozen=True, slots=True)
class Exported:
    """Counts, and the archive's size in bytes."""

    runs: int
    contents: int
    size: int


@dataclass(slots=True)
class _Content:
    """Where a content is shown first, and what it is sorted by: paths together, in the order of the runs."""

    place: str
    order: tuple[str, str]


def export_bundles(root: Path, runs: Sequence[RunView], target: Path, provenance: Provenance) -> Exported:
    """Write `runs` into the new file `target`, oldest first, each verified before.

    UsageError: a run is being written, or `target` exists. IntegrityError: a run is
    corrupt or foreign. StorageError.
    """
    chosen = sorted(dict.fromkeys(runs), key=lambda run: (run.run_id, run.key))
    if not chosen:
        raise UsageError("There is no run to export; `vibe-gate bundles list` shows those that there are.")
    if os.path.lexists(target):
        raise UsageError(f"{paths.quote(str(target))} exists already; name another file.")
    _require_sound(root, chosen, provenance)
    for run in chosen:
        if not run.has_begun:
            raise UsageError(f"{run.key}/{run.run_id} never began: there is nothing of it to export.")
    try:
        temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
        store = open_store_folder(root)
        if store is None:
            raise UsageError(f"No run is recorded in {names.STORE} yet.")
        try:
            exported = _Export(store, chosen).write(temporary)
            _name(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        raise UsageError(f"{paths.quote(str(target))} exists already; name another file.") from None
    except (OSError, ValueError) as error:
        what = _gone(chosen) or (error.strerror if isinstance(error, OSError) else str(error))
        raise StorageError(f"{paths.quote(str(target))} was not written: {what}.") from error
    return exported


def _name(temporary: Path, target: Path) -> None:
    """Give the finished file its name, never over a file that appeared meanwhile. OSError."""
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        target.touch(exist_ok=False)  # the name is ours; what it names until the next line is empty
        temporary.replace(target)


def _gone(runs: Sequence[RunView]) -> str:
    """Which of the runs is not there any more, "" if all are."""
    gone = next((run for run in runs if not run.directory.exists()), None)
    return f"the run {gone.run_id} was cleaned away meanwhile; export again" if gone else ""


def _require_sound(root: Path, runs: Sequence[RunView], provenance: Provenance) -> None:
    flaws = verify_bundles(root, provenance, runs).flaws
    require_readable(flaws)
    for flaw in flaws:
        if flaw.state in WRONG:
            raise IntegrityError(
                f"{paths.quote(flaw.place)}: {flaw.why}. It was not exported; `bundles verify` has more."
            )
        if flaw.state == "running":
            raise UsageError(f"{paths.quote(flaw.place)} is still running; export it when it has ended.")


def require_readable(flaws: Sequence[Flaw]) -> None:
    """StorageError where something could not be read: nothing is known of it then."""
    for flaw in flaws:
        if flaw.what == "unreadable":
            raise StorageError(f"{paths.quote(flaw.place)}: {flaw.why}. Nothing was done; try again.")


class _Export:
    def __init__(self, store: Folder, runs: Sequence[RunView]) -> None:
        self._store = store
        self._runs = runs
        self._contents: dict[str, _Content] = {}

    def write(self, target: Path) -> Exported:
        whole = Manifest(runs=tuple(self._run(run) for run in self._runs))
        with target.open("xb") as file:
            packer = Packer(file)
            manifest.require_takable(whole)
            head = json.dumps(whole.model_dump(mode="json", by_alias=True), separators=(",", ":")).encode()
            if len(head) > manifest.MAX_BYTES:
                raise ValueError("so many runs are more than an import takes; export fewer at once")
            require_few(head)
            packer.add(manifest.NAME, len(head), iter([head]))
            for _, content in sorted(self._contents.items(), key=lambda item: (item[1].order, item[0])):
                self._content(packer, content.place)
            for run in self._runs:
                self._files(packer, run)
            packer.close()
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        return Exported(len(self._runs), len(self._contents), size)

    def _run(self, run: RunView) -> RunInArchive:
        """Note the run's contents; IntegrityError where its names would be one on another disk."""
        distinct = Distinct()
        shown = []
        folder = self._store.below(f"{run.key}/{run.run_id}")
        path_of = _paths(folder)
        for entry in walk(folder):
            if entry.is_temporary or part_of(entry.name) is None:
                continue
            if not distinct.add(entry.name):
                raise IntegrityError(f"{run.run_id} cannot be exported: {twice(entry.name)}.")
            if part_of(entry.name) == "content":
                shown.append(entry.name)
                order = (path_of.get(entry.base[:64], ""), run.run_id)
                self._contents.setdefault(entry.base, _Content(f"{run.key}/{run.run_id}/{entry.name}", order))
        return RunInArchive(key=run.key, run_id=run.run_id, contents=tuple(shown))

    def _content(self, packer: Packer, place: str) -> None:
        parent, _, name = place.rpartition("/")
        raw = self._store.below(parent).read(name)
        data = decode(name, raw, LARGEST_CONTENT)
        if data is None:
            raise ValueError(f"{name} changed while it was read")
        packer.add(f"{CONTENTS}/{name.removesuffix('.gz')}", len(data), iter([data]))

    def _files(self, packer: Packer, run: RunView) -> None:
        place = f"{run.key}/{run.run_id}"
        for entry in walk(self._store.below(place)):
            if entry.is_temporary or part_of(entry.name) in {None, "content"} or entry.base == names.LOCK:
                continue
            with open(entry.folder.reading(entry.base), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                packer.add(f"{place}/{entry.name}", size, iter(lambda: file.read(_CHUNK), b""))


def _paths(bundle: Folder) -> dict[str, str]:
    """The path that each content of the run's change was, by hash."""
    found: dict[str, str] = {}
    for line in lines(bundle, names.EVENTS) if names.EVENTS in bundle.files() else ():
        data = parse_object(line).get("data") if b'"artifact.written"' in line else None
        if isinstance(data, dict) and isinstance(path := data.get("path"), str):
            found.setdefault(str(data.get("sha256")), path)
    return found
