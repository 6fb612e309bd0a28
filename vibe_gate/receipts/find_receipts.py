"""Find receipts in bundles and git notes, read them and check their signatures. Changes nothing.

What a receipt says of a commit is decided in `receipts.commit_status`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE, Provenance, RunEntry
from vibe_gate.domain.change import Change
from vibe_gate.domain.receipt import Receipt, contradiction, parse
from vibe_gate.domain.summary import Cost
from vibe_gate.errors import GateError, IntegrityError, StorageError
from vibe_gate.gate.trusted import WORKTREE, trusted_revision
from vibe_gate.git import Repository
from vibe_gate.receipts import signatures
from vibe_gate.receipts.commit_status import FoundReceipt, ids_of
from vibe_gate.receipts.receipt_notes import NOTES
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.worktree_bundles import Bundles

T = TypeVar("T")

SIGNERS = ".vibe-gate/allowed_signers"
"""Who may sign receipts, in ssh-keygen's format; read at the trusted revision."""

RECEIPTS_PER_NOTE = 100
"""Receipts of one note that are read."""


class AllowedSigners(Struct, frozen=True):
    """Who may sign receipts."""

    content: bytes | None
    """A list in ssh-keygen's format; None if there is no list."""
    source: str
    """Where it was read, or ""."""


def read_allowed_signers(
    repository: Repository, change: Change, *, base: str | None, definitions: str | None
) -> AllowedSigners:
    """Read the list at the trusted revision, else the one that git's configuration names; never the
    change's own.
    """
    revision = trusted_revision(repository, change.base_commit, base=base, definitions=definitions)
    if revision:
        treeish = repository.snapshot() if revision == WORKTREE else revision
        content = repository.tree(treeish).read(SIGNERS)
        if content is not None:
            return AllowedSigners(content, f"{SIGNERS} at {revision[:12]}")
    configured = signatures.read_configured_signers(signatures.signing_of(repository))
    return AllowedSigners(configured, "" if configured is None else "gpg.ssh.allowedSignersFile")


class _WorktreeRuns(Struct, frozen=True):
    """The runs of one store."""

    worktree: str
    """The working tree that has the store; "" of the store that this working tree uses."""
    bundles: Bundles
    entries: list[RunEntry]
    """Newest first."""


class ReceiptFinder:
    """The receipts of one repository, in the store that this working tree uses and in git notes.

    With `other_worktrees` also those in stores that other working trees of the repository keep,
    which are read and never written. `remark` says which store cannot be read, and why, or "".
    """

    def __init__(
        self,
        repository: Repository,
        now: datetime,
        allowed: AllowedSigners,
        *,
        other_worktrees: bool = False,
    ) -> None:
        self._repository = repository
        self._allowed = allowed
        self._signing = signatures.signing_of(repository)
        self._shared = _SharedValues()
        self._stores: list[_WorktreeRuns] = []
        remarks = []
        try:
            self._stores.append(_runs_of(repository, repository.store_root, "", now))
        except StorageError as error:  # a file in the folder's place, say
            remarks.append(f"bundles ignored: {error}")
        for root in _other_stores(repository) if other_worktrees else ():
            worktree = os.path.relpath(root, repository.root)
            try:
                with repository.open_worktree(root) as other:
                    self._stores.append(_runs_of(other, other.root, worktree, now))
            except GateError as error:
                remarks.append(f"bundles of worktree {paths.quote(worktree)} ignored: {error}")
        self.remark = " ".join(remarks)

    @property
    def entries(self) -> list[RunEntry]:
        """The runs, those of this working tree first, the newest of each first."""
        entries: list[RunEntry] = []
        for store in self._stores:
            entries += store.entries
        return entries

    def bundled(self, ids: Container[str]) -> list[FoundReceipt]:
        """The receipts of sealed runs about any of these (`object_ids`)."""
        receipts: list[FoundReceipt] = []
        for store in self._stores:
            for entry in store.entries:
                if entry.state in ("running", "incomplete"):
                    continue
                if not any(name in ids for name in (*ids_of(entry), entry.key)):
                    continue
                receipt = self._bundled(entry, store)
                if receipt is not None:
                    receipts.append(receipt)
        return receipts

    def noted(
        self, ids: Container[str], keep: Callable[[Receipt], bool] = lambda _: True
    ) -> list[FoundReceipt]:
        """The receipts in git notes about any of these: by their content, or by the object that has
        the note.
        """
        receipts: list[FoundReceipt] = []
        for target, text in self._repository.notes(NOTES):
            target_ids = (target, f"tree-{target}")
            is_attached = any(name in ids for name in target_ids)

            def is_wanted(receipt: Receipt, is_attached: bool = is_attached) -> bool:
                is_about_ids = is_attached or any(name in ids for name in ids_of(receipt))
                return is_about_ids and keep(receipt)

            for line in text.split(b"\n")[:RECEIPTS_PER_NOTE]:
                if not line.strip():
                    continue
                receipt = self._read(line, "", f"refs/notes/{NOTES} on {target[:12]}", is_wanted)
                if receipt is not None and (is_attached or receipt.receipt is not None):
                    content = receipt.receipt and self._shared.without_copies(receipt.receipt)
                    attached_to = () if receipt.ids else target_ids
                    receipts.append(
                        replace(receipt, receipt=content, bundled=False, attached_to=attached_to)
                    )
        return receipts

    def _bundled(self, entry: RunEntry, store: _WorktreeRuns) -> FoundReceipt | None:
        """The receipt in a bundle, compared with the whole bundle; None if the run issued none."""
        place = f"{store.worktree}/{entry.bundle}" if store.worktree else entry.bundle
        ids = (*ids_of(entry), entry.key)
        unread = FoundReceipt(entry.run_id, place, None, attached_to=ids, worktree=store.worktree)
        foreign = store.bundles.provenance.foreign(entry.key, entry.run_id)
        if foreign:
            return replace(unread, problem=foreign)
        try:
            documents = store.bundles.documents(entry)
        except IntegrityError as error:
            return replace(unread, problem=str(error))
        except StorageError as error:
            return replace(unread, problem=f"cannot read the bundle: {error}")
        if documents.receipt is None:
            return None
        receipt = self._read(documents.receipt, entry.run_id, place)
        assert receipt is not None  # nothing was rejected
        problem = receipt.problem
        if receipt.receipt is not None:
            problem = contradiction(receipt.receipt, documents.document, documents.digests)
        if problem:
            return replace(receipt, problem=problem, attached_to=ids, worktree=store.worktree)
        return replace(receipt, worktree=store.worktree)

    def _read(
        self, raw: bytes, run_id: str, place: str, keep: Callable[[Receipt], bool] = lambda _: True
    ) -> FoundReceipt | None:
        """The receipt in `raw`, or None if `keep` rejects it: checking a signature starts
        processes.
        """
        try:
            signed = parse(raw)
        except ValueError as error:
            return FoundReceipt(run_id, place, None, problem=f"cannot read the receipt: {error}")
        if not keep(signed.receipt):
            return None
        data, signature = signed.signed_bytes, signed.signature
        checked = signatures.check_signature(data, signature, self._allowed.content, self._signing)
        if checked.state == "unlisted":
            checked = replace(checked, why=f"{checked.why} ({self._allowed.source})")
        return FoundReceipt(signed.receipt.run_id, place, signed.receipt, checked)


class _SharedValues:
    """Values that many receipts have alike, in memory once."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._mappings: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def without_copies(self, receipt: Receipt) -> Receipt:
        """The receipt of a note as far as it is looked at: its bundle's files are not here, nor the
        parts of the summary that it vouches for.
        """
        return replace(
            receipt,
            before=sys.intern(receipt.before),
            after=sys.intern(receipt.after),
            base_commit=sys.intern(receipt.base_commit),
            head_commit=sys.intern(receipt.head_commit),
            patch_id=sys.intern(receipt.patch_id),
            range_patch_id=sys.intern(receipt.range_patch_id),
            trusted_revision=sys.intern(receipt.trusted_revision),
            definitions=self._share_mapping(receipt.definitions),
            rubrics=self._share(receipt.rubrics),
            questions=self._share_mapping(receipt.questions),
            versions=self._share_mapping(receipt.versions),
            unasked=self._share(receipt.unasked),
            cache=self._share(receipt.cache),
            signer=self._share(receipt.signer),
            key="",
            votes="",
            findings="",
            summary="",
            files={},
            cost=Cost(),
        )

    def _share(self, value: T) -> T:
        shared: T = self._values.setdefault(value, value)
        return shared

    def _share_mapping(self, texts: dict[str, str]) -> dict[str, str]:
        return self._mappings.setdefault(tuple(texts.items()), texts)


def _runs_of(repository: Repository, root: Path, worktree: str, now: datetime) -> _WorktreeRuns:
    """The runs of the store in `root`, in a working tree of the repository. StorageError if they
    cannot be read.
    """
    index = open_state(repository.common_dir).run_index(root / STORE)
    tracked = (
        repository.tracked(STORE) if root == repository.root else repository.tracked_in_store()
    )
    bundles = Bundles(root, Provenance(now, tracked), index)
    return _WorktreeRuns(worktree, bundles, bundles.find())


def _other_stores(repository: Repository) -> list[Path]:
    """The working trees with a store that this one does not use, and that belongs to the user, or
    to whom this working tree belongs.
    """
    owners = {os.geteuid(), repository.root.stat().st_uid}
    roots = []
    for root in (repository.root, *repository.other_worktrees()):
        if root == repository.store_root:
            continue
        with suppress(OSError):  # it is gone, or may not be looked into
            if (root / STORE).lstat().st_uid in owners:
                roots.append(root)
    return roots
