"""Find receipts in bundles and git notes, read them and check their signatures. Changes nothing.

What a receipt says of a commit is decided in `receipts.status`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.change import Change
from vibe_gate.domain.receipt import Receipt, contradiction, parse
from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.gate.trusted import WORKTREE, trusted_revision
from vibe_gate.git import Repository
from vibe_gate.receipts import signatures
from vibe_gate.receipts.notes import NOTES
from vibe_gate.receipts.status import FoundReceipt, ids_of
from vibe_gate.store import Bundles, open_state

SIGNERS = ".vibe-gate/allowed_signers"
"""Who may sign receipts, in ssh-keygen's format; read at the trusted revision."""

RECEIPTS_PER_NOTE = 100
"""Receipts of one note that are read."""


class AllowedSigners(Struct, frozen=True):
    """A list in ssh-keygen's format, None if there is no list; `source` says where it was read, or ""."""

    content: bytes | None
    source: str


def allowed_signers(
    repository: Repository, change: Change, environ: Mapping[str, str], *, base: str | None, definitions: str | None
) -> AllowedSigners:
    """Read the list at the trusted revision, else the one that git's configuration names; never the change's own."""
    revision = trusted_revision(repository, change.base_commit, base=base, definitions=definitions)
    if revision:
        treeish = repository.snapshot() if revision == WORKTREE else revision
        own = repository.tree(treeish).read(SIGNERS)
        if own is not None:
            return AllowedSigners(own, f"{SIGNERS} at {revision[:12]}")
    configured = signatures.allowed_signers(signatures.signing_of(repository), environ)
    return AllowedSigners(configured, "" if configured is None else "gpg.ssh.allowedSignersFile")


class ReceiptFinder:
    """The receipts of one repository, in this working tree's store and in git notes.

    `entries` are the runs, the newest first; `remark` says why the store cannot be read, or "".
    """

    def __init__(
        self, repository: Repository, environ: Mapping[str, str], now: datetime, allowed: AllowedSigners
    ) -> None:
        self._repository = repository
        self._environ = environ
        self._allowed = allowed
        self._signing = signatures.signing_of(repository)
        self.entries: list[RunEntry] = []
        self.remark = ""
        try:
            index = open_state(repository.common_dir).run_index(repository.root / STORE)
            self._bundles = Bundles(repository.root, Provenance(now, repository.tracked(STORE)), index)
            self.entries = self._bundles.runs()
        except StorageError as error:  # a file in the folder's place, say
            self.remark = f"bundles ignored: {error}"

    def bundled(self, ids: Set[str]) -> list[FoundReceipt]:
        """The receipts of sealed runs about any of these (`object_ids`)."""
        found = (
            self._bundled(entry)
            for entry in self.entries
            if entry.state not in ("running", "incomplete") and not ids.isdisjoint((*ids_of(entry), entry.key))
        )
        return [one for one in found if one is not None]

    def noted(self, ids: Set[str], keep: Callable[[Receipt], bool] = lambda _: True) -> list[FoundReceipt]:
        """The receipts in git notes about any of these: by their content, or by the object that has the note."""
        found = []
        for target, text in self._repository.notes(NOTES).items():
            attached = (target, f"tree-{target}")
            here = not ids.isdisjoint(attached)

            def is_wanted(receipt: Receipt, here: bool = here) -> bool:
                return (here or not ids.isdisjoint(ids_of(receipt))) and keep(receipt)

            for line in filter(bytes.strip, text.split(b"\n")[:RECEIPTS_PER_NOTE]):
                one = self._read(line, "", f"refs/notes/{NOTES} on {target[:12]}", is_wanted)
                if one is not None and (here or one.receipt is not None):
                    found.append(replace(one, bundled=False, ids=one.ids or attached))
        return found

    def _bundled(self, entry: RunEntry) -> FoundReceipt | None:
        """The receipt in a bundle, compared with the whole bundle; None if the run issued none."""
        broken = FoundReceipt(entry.run_id, entry.bundle, None, ids=(*ids_of(entry), entry.key))
        if foreign := self._bundles.provenance.foreign(entry.key, entry.run_id):
            return replace(broken, problem=foreign)
        try:
            sealed = self._bundles.documents(entry)
        except IntegrityError as error:
            return replace(broken, problem=str(error))
        except StorageError as error:
            return replace(broken, problem=f"cannot read the bundle: {error}")
        if sealed.receipt is None:
            return None
        found = self._read(sealed.receipt, entry.run_id, entry.bundle)
        assert found is not None  # nothing was rejected
        problem = found.problem
        if found.receipt is not None:
            problem = contradiction(found.receipt, sealed.document, sealed.digests)
        return replace(found, problem=problem, ids=broken.ids) if problem else found

    def _read(
        self, raw: bytes, run_id: str, place: str, keep: Callable[[Receipt], bool] = lambda _: True
    ) -> FoundReceipt | None:
        """The receipt in `raw`, or None if `keep` rejects it: checking a signature starts processes."""
        try:
            signed = parse(raw)
        except ValueError as error:
            return FoundReceipt(run_id, place, None, problem=f"cannot read the receipt: {error}")
        if not keep(signed.receipt):
            return None
        data, signature = signed.signed_bytes, signed.signature
        checked = signatures.check(data, signature, self._allowed.content, self._signing, self._environ)
        if checked.state == "unlisted":
            checked = replace(checked, why=f"{checked.why} ({self._allowed.source})")
        return FoundReceipt(signed.receipt.run_id, place, signed.receipt, checked, ids=ids_of(signed.receipt))
