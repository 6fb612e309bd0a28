"""Sealed runs in a shared store: `runs/<run id>.<key>/<facts>/<sha-256>.<code>.tar.gz`.

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
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from vibe_gate import scratch
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import Provenance, RunEntry, is_run_id
from vibe_gate.domain.upkeep import Cleaned, Problem, ProblemState, Verified
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import bundle_names
from vibe_gate.store.object_codes import Codes
from vibe_gate.store.run_archive import export_runs, import_runs
from vibe_gate.store.run_list import check_conditions, meets_conditions
from vibe_gate.store.worktree_bundles import Bundles

if TYPE_CHECKING:
    from typing import Unpack

    from vibe_gate.domain.bundles import Wanted
    from vibe_gate.domain.gate import Retention
    from vibe_gate.store.object_storage import ObjectStorage, StoredObject

T = TypeVar("T")

RUNS = "runs"
ENDING = ".tar.gz"
MAX_BYTES = 1 << 30
"""Of an archive, which is written in one piece."""

MAX_NAME = 700
"""Of a name below the prefix; a bucket allows 1,024 bytes in all."""

_PART = 200
"""Of a folder's name; file systems allow 255 bytes."""

_FOREIGN = "it was not uploaded with this VIBE_GATE_STORE_KEY, or its name was altered"
_ANSWERS_AT_ONCE = 200
ANSWER_DAYS, CLAIM_DAYS = 90, 2


class StoreUnusable(StorageError):
    """The shared store at `url` cannot be used; `why` as a clause, `denied` as of
    `object_storage.StoreUnavailable`.
    """

    def __init__(self, url: str, error: StorageError) -> None:
        self.why, self.denied = str(error), bool(getattr(error, "denied", False))
        super().__init__(f"The shared store {url} cannot be used: {error}.")


class SharedRun(Struct, frozen=True):
    """A run as its object's name tells it; a foreign one has its id and key alone."""

    entry: RunEntry
    name: str
    size: int
    digest: str


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
        since = bundle_names.format_stamp(conditions["since"])[:-1] if "since" in conditions else ""
        return [
            run.entry for run in self.found(since=since) if meets_conditions(run.entry, conditions)
        ][:limit]

    def found(self, *, since: str = "") -> list[SharedRun]:
        """Every run there, newest first, each once, and foreign ones, unless the team has a run of
        this id: so nobody without the key makes a run ambiguous. `since`: a run id's beginning.
        """
        runs = self._found(since)
        genuine = {run.entry.run_id for run in runs if run.entry.state == "sealed"}
        return [
            run for run in runs if run.entry.state == "sealed" or run.entry.run_id not in genuine
        ]

    def _found(self, since: str = "") -> list[SharedRun]:
        objects = self._said(
            partial(self._objects.listed, RUNS, f"{RUNS}/{since}" if since else "")
        )
        seen = dict[RunEntry, SharedRun]()
        for run in filter(None, map(self._run, objects)):
            seen.setdefault(run.entry, run)
        return sorted(seen.values(), key=lambda run: run.entry, reverse=True)

    def _run(self, stored: StoredObject) -> SharedRun | None:
        """The run that an object's name tells of; None if it tells of none."""
        _, _, rest = stored.name.partition("/")
        place, _, about = rest.partition("/")
        run_id, _, key = place.partition(".")
        if not is_run_id(run_id) or not bundle_names.is_key(key):
            return None
        facts, _, ending = about.rpartition("/")
        digest, _, code = ending.removesuffix(ENDING).partition(".")
        foreign = SharedRun(RunEntry(run_id, key, "foreign"), stored.name, stored.size, "")
        if not hmac.compare_digest(
            code.encode(), _code(place, facts, digest, self._codes).encode()
        ):
            return foreign
        try:
            return SharedRun(_entry(run_id, key, facts), stored.name, stored.size, digest)
        except (ValueError, TypeError, zlib.error):  # of a later version
            return foreign

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
            return self._said(
                partial(self._objects.create, object_name(run, digest, self._codes), archive)
            )

    def fetch(self, entries: Iterable[RunEntry]) -> None:
        """Bring runs into the store below `root`. IntegrityError, when the others are there: some
        are not what was uploaded.
        """
        wanted = {entry.place: entry.run_id for entry in entries}
        wrong = list[str]()
        for run in self.found(since=min(wanted.values(), default="")) if wanted else ():
            try:
                if run.entry.place in wanted:
                    self._fetch(run, self.root)
            except IntegrityError as error:
                wrong.append(str(error))
        if wrong:
            raise IntegrityError(" ".join(wrong))

    def _fetch(self, run: SharedRun, root: Path) -> None:
        if why := self._brought(run, root):
            raise IntegrityError(
                f"Run {run.entry.run_id} in {self.url} is not used: {why} (object {paths.quote(run.name)})."
            )

    def _brought(self, run: SharedRun, root: Path) -> str:
        """Bring the run; a clause why it is not used, "" if it is what was uploaded."""
        if run.entry.state == "foreign":
            return _FOREIGN
        data = self._said(partial(self._objects.get, run.name, MAX_BYTES))
        if data is None:
            raise StorageError(f"Run {run.entry.run_id} in {self.url} was just deleted.")
        if hashlib.sha256(data).hexdigest() != run.digest:
            return "its bytes are not those that were uploaded"
        with scratch.private_folder("run") as folder:
            archive = folder / f"run{ENDING}"
            archive.write_bytes(data)
            try:
                done = import_runs(root, Provenance(self.provenance.now), archive)
            except IntegrityError as error:
                return str(error).rstrip(".")
        return (
            ""
            if {*done.runs, *done.already} == {run.entry.place}
            else "its object holds another run"
        )

    def export(self, runs: Collection[RunEntry], target: Path) -> int:
        """As `export_runs`, of runs that are fetched first."""
        self.fetch(runs)
        return export_runs(self.root, self.provenance, runs, target)

    def verify(self, runs: Collection[RunEntry] | None = None) -> Verified:
        """What is wrong with all that is there, or some runs: each is fetched, checked, and deleted
        here again.
        """
        wanted = None if runs is None else {run.place for run in runs}
        problems, checked, others = list[Problem](), 0, 0
        for run in self._found():
            if wanted is not None and run.entry.place not in wanted:
                continue
            checked += 1
            with scratch.private_folder("run") as folder:
                why = self._brought(run, folder)
            if why:
                state: ProblemState = "foreign" if run.entry.state == "foreign" else "corrupt"
                problems.append(Problem(state, "run", run.name, why, run.entry.place))
        answers = self._said(partial(self._objects.listed, "answers")) if wanted is None else ()
        for name, data in self._read([one.name for one in answers]):
            others += 1
            if self._codes.body(name, data) is None:
                why = "it was altered, or not written with this VIBE_GATE_STORE_KEY"
                problems.append(Problem("foreign", "entry", name, why))
        return Verified(checked, others, tuple(problems))

    def _read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(names), _ANSWERS_AT_ONCE):
            part = names[start : start + _ANSWERS_AT_ONCE]
            yield from sorted(self._said(partial(self._objects.get_all, part, 4 << 20)).items())

    def clean(self, rules: Retention, dry_run: bool = False) -> Cleaned:
        """Delete runs that are older than `rules` allow, by their ids; old answers and claims by
        the store's clock.

        What is foreign stays: it may be another team's, or no object of a store at all.
        """
        last = bundle_names.format_stamp(self.provenance.now - timedelta(days=rules.max_age_days))
        gone = [
            run
            for run in reversed(self.found())
            if run.entry.state == "sealed" and run.entry.run_id < last
        ]
        old = [("runs", run.entry.run_id, run.name, run.size) for run in gone]
        old += [("answers", "", *one) for one in self._old("answers", ANSWER_DAYS)]
        old += [("claims", "", *one) for one in self._old("claims", CLAIM_DAYS)]
        deleted, freed, errors = defaultdict[str, list[str]](list), 0, list[str]()
        for folder, run_id, name, size in old:
            try:
                if not dry_run:
                    self._objects.delete(name)
            except StorageError as error:  # what one is not allowed, none is
                errors.append(f"{name} in {self.url} was not deleted: {error}.")
                break
            deleted[folder].append(run_id)
            freed += size
        answers, claims = len(deleted["answers"]), len(deleted["claims"])
        return Cleaned(
            tuple(deleted["runs"]), freed / 1e6, tuple(errors), answers=answers, claims=claims
        )

    def _old(self, folder: str, days: int) -> list[tuple[str, int]]:
        """Names and sizes of what the team wrote there so long ago."""
        oldest = self.provenance.now - timedelta(days=days)
        listed = self._said(partial(self._objects.listed, folder))
        sizes = {one.name: one.size for one in listed if one.modified < oldest}
        genuine = (
            name for name, data in self._read([*sizes]) if self._codes.body(name, data) is not None
        )
        return [(name, sizes[name]) for name in genuine]

    def _said(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except StorageError as error:
            raise StoreUnusable(self.url, error) from error


def object_name(run: RunEntry, digest: str, codes: Codes) -> str:
    """The name of a run's archive with this sha-256."""
    place, facts = f"{run.run_id}.{run.key}", _facts(run)
    return f"{RUNS}/{place}/{facts}/{digest}.{_code(place, facts, digest, codes)}{ENDING}"


def _code(place: str, facts: str, digest: str, codes: Codes) -> str:
    return codes.code(f"run {place}", f"{facts} {digest}".encode())


def _facts(run: RunEntry) -> str:
    """What a list says of a run, but for the changed paths, as folders of a name."""
    kept = [
        value
        for name, value in zip(RunEntry.__struct_fields__, astuple(run), strict=True)
        if name in _FACTS
    ]
    packed = _packed(kept)
    if len(packed) > MAX_NAME:
        packed = _packed(
            [() if name == "rubrics" else value for name, value in zip(_FACTS, kept, strict=True)]
        )
    return "/".join(packed[start : start + _PART] for start in range(0, len(packed), _PART))


_FACTS = tuple(
    name for name in RunEntry.__struct_fields__ if name not in ("run_id", "key", "state", "paths")
)


def _packed(kept: list[object]) -> str:
    packed = zlib.compress(json.dumps(kept, separators=(",", ":")).encode(), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _entry(run_id: str, key: str, facts: str) -> RunEntry:
    """The entry that a genuine name tells of, without what later versions append. ValueError,
    TypeError, zlib.error.
    """
    packed = facts.replace("/", "")
    kept = json.loads(zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))))
    about = dict(zip(_FACTS, kept, strict=False))
    return RunEntry(
        run_id=run_id, key=key, **about | {"rubrics": tuple(map(tuple, about["rubrics"]))}
    )
