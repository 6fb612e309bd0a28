"""Receipts that are here, in bundles and in git notes, each with what its signature is worth. Reads only.

What a receipt says of a commit is decided in `domain.standing`; here it is found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from vibe_gate.domain.change import Change
from vibe_gate.domain.commit_status import Paper, Subject
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.receipt import Receipt, contradiction, parse
from vibe_gate.errors import GateError, IntegrityError, StorageError
from vibe_gate.gate import GATE_PATH, trust
from vibe_gate.git import Repository, open_repository
from vibe_gate.git.worktrees import environ_of, others
from vibe_gate.receipts import signatures
from vibe_gate.receipts.notes import NOTES
from vibe_gate.store.finding import is_about
from vibe_gate.store.index import Entry
from vibe_gate.store.indexing import entries
from vibe_gate.store.names import STORE
from vibe_gate.store.papers import read_papers
from vibe_gate.store.provenance import Provenance

SIGNERS = ".vibe-gate/allowed_signers"
"""Who may sign receipts, as ssh-keygen reads it; at the trusted revision."""

SUPPRESSIONS = ".vibe-gate/suppressions.toml"
BUILT_IN_GATE = "built-in/gate.toml"

RECEIPTS_PER_NOTE = 100
"""Receipts of one note that are read."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A paper that was found, and what it is about by its place: an entry of the index, or the object of a note."""

    paper: Paper
    entry: Entry | None = None
    noted: str = ""

    def is_about(self, subject: Subject) -> bool:
        """Whether a paper that cannot be read claims to be about the commit."""
        if self.entry is None:
            return self.noted in (subject.commit, subject.after)
        trees = (self.entry.before, self.entry.after)
        return (
            subject.commit in (self.entry.head_commit, self.entry.key)
            or trees == (subject.before, subject.after)
            or self.entry.key == f"tree-{subject.after}"
            or is_about(self.entry, "patch_id", subject.patch_id)
        )


def signers(
    repository: Repository, change: Change, environ: Mapping[str, str], *, base: str | None, definitions: str | None
) -> tuple[bytes | None, str]:
    """The allowed signers and where the list is ("": nowhere); never one that the change itself brings."""
    revision = trust.trusted_revision(repository, change, base=base, definitions=definitions)
    if revision:
        at = repository.snapshot() if revision == trust.WORKTREE else revision
        own = repository.tree(at).read(SIGNERS)
        if own is not None:
            return own, f"{SIGNERS} at {revision[:12]}"
    configured = signatures.allowed_signers(signatures.signing_of(repository), environ)
    return configured, "" if configured is None else "gpg.ssh.allowedSignersFile"


def definitions_of(gate: Gate) -> dict[str, str]:
    """The definitions that bear on every verdict, and their digests ("": not there); rubrics have their own."""
    digests = dict(gate.digests)
    watched = (BUILT_IN_GATE,) if gate.origin == "built-in" else (GATE_PATH, SUPPRESSIONS)
    return {path: digests.get(path, "") for path in watched}


@dataclass(frozen=True, slots=True)
class _Room:
    """The store of one working tree: its runs, newest first, and what is known of it."""

    root: Path
    entries: list[Entry]
    known: Provenance


class Shelf:
    """The receipts of one repository, in the stores of all its working trees.

    Signatures are looked at only where a receipt is wanted: each costs processes. `listed` is
    what `signers` found. `entries`
    are all runs, those of this working tree first, the newest first; `remark` says why
    there are none here that can be read, or "".
    """

    def __init__(
        self, repository: Repository, environ: Mapping[str, str], now: datetime, listed: tuple[bytes | None, str]
    ) -> None:
        self._repository = repository
        self._environ = environ
        self._allowed, self._list = listed
        self._signing = signatures.signing_of(repository)
        self.remark = ""
        try:
            own = entries(repository.root)
        except StorageError as error:  # a file in the folder's place, say: then there are no bundles, and that is said
            own, self.remark = [], f"no bundle counts: {error}"
        self._rooms = [_Room(repository.root, own, Provenance(now, repository.tracked(STORE)))]
        self._rooms += _elsewhere(repository, environ, now)
        self.entries = [entry for room in self._rooms for entry in room.entries]

    def bundled(self, wanted: Callable[[Entry], bool]) -> list[Claim]:
        """Those of sealed runs."""
        return [
            Claim(self._bundled(entry, room), entry)
            for room in self._rooms
            for entry in room.entries
            if entry.state not in ("running", "incomplete") and wanted(entry)
        ]

    def noted(self, wanted: Callable[[str, Receipt | None], bool]) -> list[Claim]:
        """Those in git notes; `wanted` is told what a note is on, and its receipt (None: one that cannot be read)."""
        found = []
        for about, text in self._repository.notes(NOTES).items():
            place = f"refs/notes/{NOTES} on {about[:12]}"
            for line in filter(bytes.strip, text.split(b"\n")[:RECEIPTS_PER_NOTE]):
                paper = self._paper("", place, line, partial(wanted, about))
                if paper is not None:
                    found.append(Claim(replace(paper, bundled=False), noted=about))
        return found

    def _bundled(self, entry: Entry, room: _Room) -> Paper:
        """The receipt in a bundle, after the whole bundle was held against it."""
        place = os.path.relpath(room.root / entry.bundle, self._repository.root)
        if foreign := room.known.foreign(entry.key, entry.run_id):
            return Paper(entry.run_id, place, None, flaw=foreign)
        try:
            papers = read_papers(room.root / entry.bundle)
        except IntegrityError as error:
            return Paper(entry.run_id, place, None, flaw=str(error))
        except StorageError as error:
            return Paper(entry.run_id, place, None, flaw=f"its bundle cannot be read: {error}")
        if papers.receipt is None:
            return Paper(entry.run_id, place, None, flaw="its bundle has no receipt")
        paper = self._paper(entry.run_id, place, papers.receipt)
        assert paper is not None  # every receipt of a bundle is wanted
        if paper.receipt is None:
            return paper
        return replace(paper, flaw=contradiction(paper.receipt, papers.document, papers.files))

    def _paper(
        self, run_id: str, place: str, raw: bytes, wanted: Callable[[Receipt | None], bool] = lambda _: True
    ) -> Paper | None:
        try:
            sealed = parse(raw)
        except ValueError as error:
            flaw = f"its receipt cannot be read: {error}"
            return Paper(run_id, place, None, flaw=flaw) if wanted(None) else None
        if not wanted(sealed.receipt):
            return None
        signature = signatures.check(sealed.signed_bytes, sealed.signature, self._allowed, self._signing, self._environ)
        if signature.state == "unlisted":
            signature = replace(signature, why=f"{signature.why} ({self._list})")
        return Paper(sealed.receipt.run_id, place, sealed.receipt, signature)


def _elsewhere(repository: Repository, environ: Mapping[str, str], now: datetime) -> list[_Room]:
    """The stores of the other working trees; each is asked what git tracks there, for that came with a checkout."""
    found = []
    for root in others(repository.common_dir, repository.root):
        if not (root / STORE).is_dir():
            continue
        with suppress(GateError), open_repository(root, environ_of(environ)) as other:
            if other.common_dir.resolve() == repository.common_dir.resolve():
                found.append(_Room(root, entries(root), Provenance(now, other.tracked(STORE))))
    return found
