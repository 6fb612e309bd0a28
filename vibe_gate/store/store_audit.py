"""Everything that is wrong with a store, in one go. Reads only; what runs or is unfinished is not
wrong.

A file of a sealed run is right if its digest is, and what it names must be there. Of an unfinished
run the names of the files, the contents and the torn ends of logs are looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from vibe_gate.domain import receipt
from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.change import LARGEST_CONTENT, SIDES
from vibe_gate.domain.document import read
from vibe_gate.domain.upkeep import Problem, ProblemKind, ProblemState, Verified
from vibe_gate.errors import StorageError
from vibe_gate.store import bundle_names
from vibe_gate.store.bundle_listing import bare_entries
from vibe_gate.store.bundle_location import (
    parse_events,
    read_bundle_state,
    read_object,
    refusal_reason,
)
from vibe_gate.store.bundle_names import Entry, part_of, walk_bundle
from vibe_gate.store.bundle_seal import (
    digest_file,
    find_receipt_fault,
    find_seal_fault,
    read_summary,
)
from vibe_gate.store.contents import find_content_fault
from vibe_gate.store.folder import TEMPORARY, Folder
from vibe_gate.store.ndjson_log import read_lines
from vibe_gate.store.store_folder import open_store_folder
from vibe_gate.store.turn_summary import TurnSummary

MAX_PROBLEMS = 20_000
"""Of one run; a small archive can name half a million contents that are not in it."""

_UNFINISHED = "unfinished file of a writer that ended"
_NO_VERDICT = "it ended before its verdict"
_NO_SUMMARY = (
    f"{bundle_names.SUMMARY} is missing: it was deleted, or the run ended right after its receipt"
)


def verify_store(
    root: Path, provenance: Provenance, runs: Collection[RunEntry] | None = None
) -> Verified:
    """Check the store below `root`: all of it, or some of its runs only. StorageError if it cannot
    be read.
    """
    store = open_store_folder(root)
    if store is None:
        return Verified(0, 0, ())
    problems: list[Problem] = []
    run_count = content_count = 0
    try:
        if runs is None:
            problems += _unfinished_files(store)
        for entry in bare_entries(store) if runs is None else runs:
            audit = _audit_run(store, entry, provenance)
            if audit is not None:
                run_count += 1
                content_count += audit.contents
                problems += audit.problems
    except OSError as error:
        raise StorageError(
            f"{error.filename or STORE} cannot be read: {error.strerror}."
        ) from error
    problems.sort(key=lambda problem: (problem.place, problem.what))
    return Verified(run_count, content_count, tuple(problems))


def _unfinished_files(store: Folder) -> list[Problem]:
    """The temporary files at the top of the store. OSError."""
    temporary_names = [entry.name for entry in store.entries() if entry.name.startswith(TEMPORARY)]
    return [Problem("untidy", "temporary", name, _UNFINISHED) for name in temporary_names]


def _audit_run(store: Folder, entry: RunEntry, provenance: Provenance) -> Audit | None:
    """None: the run was removed meanwhile."""
    audit = Audit(entry.key, entry.run_id)
    try:
        key = store.folder(entry.key)
        audit.check(key.folder(entry.run_id))
        key.status(entry.run_id)
    except FileNotFoundError:
        return None
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
        audit.problems = [Problem("corrupt", "unreadable", entry.place, fault, entry.place)]
    foreign_reason = provenance.foreign(entry.key, entry.run_id)
    is_running = bool(audit.problems) and audit.problems[0].state == "running"
    if foreign_reason and (provenance.tracked or not is_running):
        audit.problems.append(Problem("foreign", "run", entry.place, foreign_reason, entry.place))
    return audit


class Audit:
    """Everything that is wrong with one run: its files, its contents; of a sealed one its seal,
    receipt and references.
    """

    def __init__(self, key: str, run_id: str) -> None:
        self.problems: list[Problem] = []
        """In the order of the files, contents after others."""
        self.contents = 0
        """How many contents were hashed."""
        self._key = key
        self._run_id = run_id
        self._run = f"{key}/{run_id}"
        self._is_sealed = False
        self._sealed_digests: dict[str, str] | None = None
        """None until the seal was read."""
        self._present_names: set[str] = set()
        self._content_faults: dict[str, str] = {}
        """Contents that are not what their names say, and why."""
        self._referenced_contents: set[str] = set()
        """Contents, without suffixes, that the run's events name."""
        self._places_by_sha256: dict[str, list[str]] = {}
        """Of contents that turns' summaries name, where they may be, without suffixes."""

    def check(self, bundle: Folder) -> None:
        """Look at the run in `bundle`; a running one is left alone. OSError."""
        state = read_bundle_state(bundle)
        if state == "running":
            self._note_problem("running", "run", "", "it is still running")
            return
        self._is_sealed = state == "sealed"
        if not self._is_sealed:
            fault = _NO_VERDICT
            if bundle.has(bundle_names.RECEIPT):
                fault = _NO_SUMMARY
            self._note_problem("incomplete", "run", "", fault)
        elif bundle_names.SUMMARY in bundle.files():
            with self._noting_unreadable(bundle_names.SUMMARY):
                self._check_seal(bundle)
        self._check_files(bundle)
        self._note_content_faults()
        if self._is_sealed:
            self._check_references()

    def _check_files(self, bundle: Folder) -> None:
        """Check every file by itself, and compare it with the seal."""
        missing_names = set(self._sealed_digests or ())
        with self._noting_unreadable(""):
            for entry in walk_bundle(bundle):
                self._present_names.add(entry.name)
                kind: ProblemKind = "log" if entry.part == "log" else "document"
                with self._noting_unreadable(entry.name, kind):
                    self._check_entry(entry)
                if self._sealed_digests is not None and entry.is_vouched:
                    missing_names.discard(entry.sealed_name)
                    with self._noting_unreadable(entry.name):
                        sealed_digest = self._sealed_digests.get(entry.sealed_name)
                        fault = find_seal_fault(entry, sealed_digest)
                        if fault:
                            self._note_problem("corrupt", "digest", entry.name, fault)
        for name in sorted(missing_names):
            self._note_problem("corrupt", "digest", name, "it is missing")

    def _note_content_faults(self) -> None:
        """A content that nothing names is only untidy in a run that did not end."""
        for name, fault in self._content_faults.items():
            if self._is_sealed or _unsuffixed(name) in self._referenced_contents:
                self._note_problem("corrupt", "content", name, fault)
            else:
                self._note_problem("untidy", "temporary", name, _UNFINISHED)

    @contextlib.contextmanager
    def _noting_unreadable(self, name: str, kind: ProblemKind = "document") -> Iterator[None]:
        """What cannot be read is a problem like others, and the rest is still checked."""
        try:
            yield
        except OSError as error:
            self._note_problem("corrupt", "unreadable", name, f"cannot be read: {error.strerror}")
        except ValueError as error:
            self._note_problem("corrupt", kind, name, refusal_reason(error))

    def _note_problem(self, state: ProblemState, kind: ProblemKind, name: str, fault: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            place = f"{self._run}/{name}" if name else self._run
            self.problems.append(Problem(state, kind, place, fault, self._run))

    def _check_seal(self, bundle: Folder) -> None:
        document = read_object(bundle, bundle_names.SUMMARY)
        digests = document.pop("digests", None)
        if not isinstance(digests, dict):
            raise ValueError("it vouches for no files")
        self._sealed_digests = {name: str(sha256) for name, sha256 in digests.items()}
        receipted_files = dict(self._sealed_digests)
        receipted_files.pop(bundle_names.RECEIPT, None)
        summary = read_summary(document)
        if (summary.run_id, summary.key) != (self._run_id, self._key):
            raise ValueError("it belongs to another run")
        if bundle_names.RECEIPT in bundle.files():
            raw = bundle.read(bundle_names.RECEIPT, receipt.MAX_BYTES)
            fault = find_receipt_fault(raw, document, receipted_files)
            if fault:
                self._note_problem("corrupt", "document", bundle_names.RECEIPT, fault)

    def _check_entry(self, entry: Entry) -> None:
        is_sealed_name = entry.name in (self._sealed_digests or ())
        if entry.is_temporary:
            self._note_problem("untidy", "temporary", entry.name, _UNFINISHED)
        elif not entry.is_file or (entry.part is None and not is_sealed_name):
            self._note_problem("corrupt", "entry", entry.name, "no bundle has such a file")
        elif entry.part == "content":
            self.contents += 1
            fault = find_content_fault(entry.folder, entry.base)
            if fault:
                self._content_faults[entry.name] = fault
        elif entry.part == "attached":
            if digest_file(entry.folder, entry.base) != entry.base:
                fault = "its bytes do not match the hash in its name"
                self._note_problem("corrupt", "entry", entry.name, fault)
        else:
            self._note_references(entry)

    def _note_references(self, entry: Entry) -> None:
        """The contents that the run's events or a turn's summary name. OSError, ValueError: neither
        can be read.
        """
        if entry.name == bundle_names.EVENTS:
            self._note_references_of_events(entry)
        elif entry.part == "document" and entry.name.endswith(f"/{bundle_names.SUMMARY}"):
            self._note_references_of_turn(entry)

    def _note_references_of_events(self, entry: Entry) -> None:
        for event in parse_events(read_lines(entry.folder, entry.base)):
            if event.type != "artifact.written":
                continue
            name = event.data.get("artifact")
            if isinstance(name, str) and part_of(name) == "content":
                self._referenced_contents.add(_unsuffixed(name))

    def _note_references_of_turn(self, entry: Entry) -> None:
        turn = entry.name.removesuffix(f"/{bundle_names.SUMMARY}")
        summary = read(TurnSummary, read_object(entry.folder, entry.base))
        for file in summary.files:
            for side, content in (("before", file.before), ("after", file.after)):
                if content is not None and content.size <= LARGEST_CONTENT:
                    name = f"{bundle_names.FILES}/{side}/{content.sha256}"
                    places = self._places_by_sha256.setdefault(content.sha256, [])
                    for either_side in SIDES:
                        places.append(f"{bundle_names.FILES}/{either_side}/{content.sha256}")
                    places.append(f"{turn}/{name}")  # of earlier versions

    def _check_references(self) -> None:
        """What the logs and the turns say was kept must be there."""
        contents: set[str] = set()
        turns: set[str] = set()
        for name in self._present_names:
            if part_of(name) == "content":
                contents.add(_unsuffixed(name))
            folder = name.rpartition("/")[0]
            if bundle_names.is_turn(folder):
                turns.add(folder)
        for name in sorted(self._referenced_contents - contents):
            self._note_problem("corrupt", "missing", name, "it was kept, and is missing")
        for _, places in sorted(self._places_by_sha256.items()):
            if self._referenced_contents.isdisjoint(places) and contents.isdisjoint(places):
                self._note_problem("corrupt", "missing", places[0], "it was kept, and is missing")
        for turn in sorted(turns):
            if f"{turn}/{bundle_names.SUMMARY}" not in self._present_names:
                self._note_problem(
                    "incomplete", "turn", turn, "the turn has no summary: its session did not end"
                )


def _unsuffixed(content: str) -> str:
    """The place of a content by its hash alone, as turns' summaries have it; a node's id may have
    dots.
    """
    return content[: content.rindex("/") + 65]
