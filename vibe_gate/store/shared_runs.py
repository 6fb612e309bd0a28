"""Sealed runs in a shared store: `runs/<run id>.<key>/<facts>/<sha-256>.<code>.tar.xz`.

The name has all that a list shows, the digest of the archive, and a code of the two: so a list
opens no object, and what is fetched is what was uploaded, or is named. The archive is that of
`bundles export`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from vibe_gate import scratch
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance, RunEntry, is_run_id
from vibe_gate.domain.upkeep import Cleaned, Problem, ProblemState, Verified
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_listing import check_conditions, meets_conditions
from vibe_gate.store.object_codes import Codes
from vibe_gate.store.run_archive import export_runs, import_runs
from vibe_gate.store.worktree_bundles import Bundles

if TYPE_CHECKING:
    from typing import Unpack

    from vibe_gate.domain.bundles import Wanted
    from vibe_gate.domain.gate import Retention
    from vibe_gate.store.object_storage import ObjectStorage, StoredObject

T = TypeVar("T")

RUNS = "runs"
ENDING = ".tar.xz"
MAX_BYTES = 1 << 30
"""Of an archive, which is written in one piece."""

MAX_NAME = 700
"""Of a name below the prefix; a bucket allows 1,024 bytes in all."""

_PART = 200
"""Of a folder's name; file systems allow 255 bytes."""

_FOREIGN = "it was not uploaded with this VIBE_GATE_STORE_KEY, or its name was altered"
_ALTERED = "it was altered, or not written with this VIBE_GATE_STORE_KEY"
_ANSWERS_AT_ONCE = 200
_MAX_ANSWER_BYTES = 4 << 20

ANSWER_DAYS = 90
"""After which an answer is deleted."""

CLAIM_DAYS = 2
"""After which a claim is deleted."""


class StoreUnusable(StorageError):
    """The shared store at `url` cannot be used."""

    def __init__(self, url: str, error: StorageError) -> None:
        self.reason = str(error)
        """As a clause."""
        self.denied = bool(getattr(error, "denied", False))
        """As of `object_storage.StoreUnavailable`."""
        super().__init__(f"The shared store {url} cannot be used: {error}.")


class SharedRun(Struct, frozen=True):
    """A run as its object's name tells it."""

    entry: RunEntry
    """Of a foreign run its id and key alone."""
    name: str
    """Of the object."""
    size: int
    """Bytes of the object."""
    digest: str
    """sha-256 of the archive, "" of a foreign run."""


class _OldObject(Struct, frozen=True):
    """What is to be deleted."""

    folder: str
    name: str
    size: int
    """Bytes."""
    run_id: str = ""
    """Of a run."""


class SharedRuns(Bundles):
    """The runs of a shared store; `root` has those that are uploaded, or takes those that are
    fetched.

    Methods raise StorageError with a sentence.
    """

    def __init__(
        self,
        root: Path,
        provenance: Provenance,
        url: str,
        codes: Codes,
        objects: ObjectStorage,
    ) -> None:
        """`url` for people; `objects` are those there."""
        super().__init__(root, provenance)
        self.url = url
        self._codes = codes
        self._objects = objects

    def find(
        self, limit: int | None = None, *, replays: bool = False, **conditions: Unpack[Wanted]
    ) -> list[RunEntry]:
        """As of `Bundles`, by the names of objects alone. No replay is uploaded. UsageError: a path
        is wanted, which no name has.
        """
        check_conditions(conditions)
        if "path" in conditions:
            raise UsageError(
                "--path looks into runs, and a list of the shared store opens none; omit one of the two."
            )
        since = ""
        if "since" in conditions:
            since = bundle_names.format_stamp(conditions["since"])[:-1]
        entries = [run.entry for run in self.list_runs(since=since)]
        return [entry for entry in entries if meets_conditions(entry, conditions)][:limit]

    def list_runs(self, *, since: str = "") -> list[SharedRun]:
        """Every run there, newest first, each once, and foreign ones, unless the team has a run of
        this id: so nobody without the key makes a run ambiguous. `since`: a run id's beginning.
        """
        runs = self._list_all_runs(since)
        sealed_ids = {run.entry.run_id for run in runs if run.entry.state == "sealed"}
        return [
            run for run in runs if run.entry.state == "sealed" or run.entry.run_id not in sealed_ids
        ]

    def _list_all_runs(self, since: str = "") -> list[SharedRun]:
        after = f"{RUNS}/{since}" if since else ""
        objects = self._attempt(lambda: self._objects.list_objects(RUNS, after))
        run_by_entry = dict[RunEntry, SharedRun]()
        for stored in objects:
            run = self._parse_name(stored)
            if run is not None:
                run_by_entry.setdefault(run.entry, run)
        return sorted(run_by_entry.values(), key=lambda run: run.entry, reverse=True)

    def _parse_name(self, stored: StoredObject) -> SharedRun | None:
        """The run that an object's name tells of; None if it tells of none."""
        _, _, name_in_folder = stored.name.partition("/")
        place, _, facts_and_file = name_in_folder.partition("/")
        run_id, _, key = place.partition(".")
        if not is_run_id(run_id) or not bundle_names.is_key(key):
            return None
        facts, _, file = facts_and_file.rpartition("/")
        digest, _, code = file.removesuffix(ENDING).partition(".")
        expected_code = _name_code(place, facts, digest, self._codes)
        foreign_run = SharedRun(RunEntry(run_id, key, "foreign"), stored.name, stored.size, "")
        if not hmac.compare_digest(code.encode(), expected_code.encode()):
            return foreign_run
        try:
            entry = _unpack_entry(run_id, key, facts)
        except (ValueError, TypeError, zlib.error):  # of a later version
            return foreign_run
        return SharedRun(entry, stored.name, stored.size, digest)

    def is_kept(self, entry: RunEntry) -> bool:
        """False: what is to stay is exported."""
        return False

    def upload(self, run: RunEntry) -> bool:
        """Upload a sealed run of the store below `root`; False if it is there. IntegrityError: it
        is not sound.
        """
        with scratch.private_folder("run") as folder:
            archive = folder / f"run{ENDING}"
            size = export_runs(self.root, self.provenance, [run], archive)
            if size > MAX_BYTES:
                raise StorageError(
                    f"{run.run_id} has {size:,} bytes; at most {MAX_BYTES:,} are uploaded."
                )
            with archive.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            name = object_name(run, digest, self._codes)
            return self._attempt(lambda: self._objects.create(name, archive))

    def fetch(self, entries: Iterable[RunEntry]) -> None:
        """Bring runs into the store below `root`. IntegrityError, when the others are there: some
        are not what was uploaded.
        """
        run_id_by_place = {entry.place: entry.run_id for entry in entries}
        if not run_id_by_place:
            return
        problems = list[str]()
        for run in self.list_runs(since=min(run_id_by_place.values())):
            if run.entry.place not in run_id_by_place:
                continue
            fault = self._fetch(run, self.root)
            if fault:
                problems.append(
                    f"Run {run.entry.run_id} in {self.url} is not used: {fault} "
                    f"(object {paths.quote(run.name)})."
                )
        if problems:
            raise IntegrityError(" ".join(problems))

    def _fetch(self, run: SharedRun, root: Path) -> str:
        """Bring the run into the store below `root`; a clause why it is not used, "" if it is what
        was uploaded.
        """
        if run.entry.state == "foreign":
            return _FOREIGN
        data = self._attempt(lambda: self._objects.get(run.name, MAX_BYTES))
        if data is None:
            raise StorageError(f"Run {run.entry.run_id} in {self.url} was just deleted.")
        if hashlib.sha256(data).hexdigest() != run.digest:
            return "its bytes are not those that were uploaded"
        with scratch.private_folder("run") as folder:
            archive = folder / f"run{ENDING}"
            archive.write_bytes(data)
            try:
                imported = import_runs(root, Provenance(self.provenance.now), archive)
            except IntegrityError as error:
                return str(error).rstrip(".")
        if {*imported.runs, *imported.already} != {run.entry.place}:
            return "its object holds another run"
        return ""

    def export(self, runs: Collection[RunEntry], target: Path) -> int:
        """As `export_runs`, of runs that are fetched first."""
        self.fetch(runs)
        return export_runs(self.root, self.provenance, runs, target)

    def verify(self, runs: Collection[RunEntry] | None = None) -> Verified:
        """What is wrong with all that is there, or some runs: each is fetched, checked, and deleted
        here again.
        """
        run_count, problems = self._verify_runs(runs)
        if runs is not None:
            return Verified(run_count, 0, tuple(problems))
        answer_count = 0
        answers = self._attempt(lambda: self._objects.list_objects("answers"))
        for name, data in self._read_objects([answer.name for answer in answers]):
            answer_count += 1
            if self._codes.body(name, data) is None:
                problems.append(Problem("foreign", "entry", name, _ALTERED))
        return Verified(run_count, answer_count, tuple(problems))

    def _verify_runs(self, runs: Collection[RunEntry] | None) -> tuple[int, list[Problem]]:
        """How many runs were checked, and what is wrong with them."""
        places = None if runs is None else {run.place for run in runs}
        problems = list[Problem]()
        run_count = 0
        for run in self._list_all_runs():
            if places is not None and run.entry.place not in places:
                continue
            run_count += 1
            with scratch.private_folder("run") as folder:
                fault = self._fetch(run, folder)
            if fault:
                state: ProblemState = "foreign" if run.entry.state == "foreign" else "corrupt"
                problems.append(Problem(state, "run", run.name, fault, run.entry.place))
        return run_count, problems

    def _read_objects(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(names), _ANSWERS_AT_ONCE):
            some_names = names[start : start + _ANSWERS_AT_ONCE]
            read = partial(self._objects.get_all, some_names, _MAX_ANSWER_BYTES)
            yield from sorted(self._attempt(read).items())

    def clean(self, rules: Retention, dry_run: bool = False) -> Cleaned:
        """Delete runs that are older than `rules` allow, by their ids; old answers and claims by
        the store's clock.

        What is foreign stays: it may be another team's, or no object of a store at all.
        """
        old_objects = self._list_old_runs(rules.max_age_days)
        old_objects += self._list_old_objects("answers", ANSWER_DAYS)
        old_objects += self._list_old_objects("claims", CLAIM_DAYS)
        deleted_runs = list[str]()
        deleted_counts = Counter[str]()
        freed_bytes = 0
        errors = list[str]()
        for old in old_objects:
            try:
                if not dry_run:
                    self._objects.delete(old.name)
            except StorageError as error:  # what one is not allowed, none is
                errors.append(f"{old.name} in {self.url} was not deleted: {error}.")
                break
            if old.run_id:
                deleted_runs.append(old.run_id)
            deleted_counts[old.folder] += 1
            freed_bytes += old.size
        return Cleaned(
            tuple(deleted_runs),
            freed_bytes / 1e6,
            tuple(errors),
            answers=deleted_counts["answers"],
            claims=deleted_counts["claims"],
        )

    def _list_old_runs(self, max_age_days: float) -> list[_OldObject]:
        """The team's runs that began so long ago, oldest first."""
        oldest = self.provenance.now - timedelta(days=max_age_days)
        first_id = bundle_names.format_stamp(oldest)
        old_runs = []
        for run in reversed(self.list_runs()):
            if run.entry.state == "sealed" and run.entry.run_id < first_id:
                old_runs.append(_OldObject(RUNS, run.name, run.size, run.entry.run_id))
        return old_runs

    def _list_old_objects(self, folder: str, days: int) -> list[_OldObject]:
        """What the team wrote there so long ago."""
        oldest = self.provenance.now - timedelta(days=days)
        objects = self._attempt(lambda: self._objects.list_objects(folder))
        size_by_name = {stored.name: stored.size for stored in objects if stored.modified < oldest}
        old_objects = []
        for name, data in self._read_objects([*size_by_name]):
            if self._codes.body(name, data) is not None:
                old_objects.append(_OldObject(folder, name, size_by_name[name]))
        return old_objects

    def _attempt(self, action: Callable[[], T]) -> T:
        """What `action` gives. StoreUnusable."""
        try:
            return action()
        except StorageError as error:
            raise StoreUnusable(self.url, error) from error


def object_name(run: RunEntry, digest: str, codes: Codes) -> str:
    """The name of a run's archive with this sha-256."""
    place = f"{run.run_id}.{run.key}"
    facts = _pack_facts(run)
    code = _name_code(place, facts, digest, codes)
    return f"{RUNS}/{place}/{facts}/{digest}.{code}{ENDING}"


def _name_code(place: str, facts: str, digest: str, codes: Codes) -> str:
    return codes.code(f"run {place}", f"{facts} {digest}".encode())


_NOT_IN_FACTS = ("run_id", "key", "state", "paths")
_FACTS = tuple(name for name in RunEntry.__struct_fields__ if name not in _NOT_IN_FACTS)


def _pack_facts(run: RunEntry) -> str:
    """What a list says of a run, but for the changed paths, as folders of a name."""
    values = [getattr(run, name) for name in _FACTS]
    packed = _pack_values(values)
    if len(packed) > MAX_NAME:
        values[_FACTS.index("rubrics")] = ()
        packed = _pack_values(values)
    return "/".join(packed[start : start + _PART] for start in range(0, len(packed), _PART))


def _pack_values(values: list[object]) -> str:
    text = json.dumps(values, separators=(",", ":"))
    packed = zlib.compress(text.encode(), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _unpack_entry(run_id: str, key: str, facts: str) -> RunEntry:
    """The entry that a genuine name tells of, without what later versions append. ValueError,
    TypeError, zlib.error.
    """
    packed = facts.replace("/", "")
    padding = "=" * (-len(packed) % 4)
    text = zlib.decompress(base64.urlsafe_b64decode(packed + padding))
    fields = dict(zip(_FACTS, json.loads(text), strict=False))
    fields["rubrics"] = tuple(tuple(pair) for pair in fields["rubrics"])
    return RunEntry(run_id=run_id, key=key, **fields)
