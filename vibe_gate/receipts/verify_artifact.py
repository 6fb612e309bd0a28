"""Whether a verdict from a job that others control may count: only by a receipt that somebody listed signed.

Objects of the head are fetched and compared, never checked out, and nothing of it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from vibe_gate.domain.change import Change, Selection
from vibe_gate.domain.commit_status import Demands, Paper, judged, match, subject_of
from vibe_gate.domain.receipt import contradiction, parse
from vibe_gate.errors import GateError, RevisionError
from vibe_gate.gate import trust
from vibe_gate.git import Repository, open_repository
from vibe_gate.git.fetching import Access
from vibe_gate.receipts import signatures
from vibe_gate.receipts.find import definitions_of, signers


@dataclass(frozen=True, slots=True)
class Claimed:
    """A verdict as it came: the summary as it is stored, digests of the bundle's other files, the receipt's bytes."""

    document: Mapping[str, Any]
    files: Mapping[str, str]
    receipt: bytes | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """Whether the verdict counts, and why, as a clause."""

    holds: bool
    why: str


def accepted(
    claimed: Claimed, span: tuple[str, str], place: tuple[Path, Mapping[str, str], Access], now: datetime
) -> Accepted:
    """Hold a claim about `span` (base and head of a pull request) against the base's own gate and list of signers.

    `place`: a checkout of the base repository, its environment, and the way to what it lacks.
    """
    if claimed.receipt is None:
        return Accepted(False, "it brings no receipt")
    start, environ, access = place
    try:
        with open_repository(start, environ) as repository:
            return _look(repository, claimed, span, environ, access, now)
    except GateError as error:
        return Accepted(False, f"its receipt could not be held against the repository: {error}")


def _look(
    repository: Repository,
    claimed: Claimed,
    span: tuple[str, str],
    environ: Mapping[str, str],
    access: Access,
    now: datetime,
) -> Accepted:
    base, head = span
    stopped = repository.bring(span, lambda: bool(_parting(repository, base, head)), access)
    if stopped:
        return Accepted(False, f"the commits of the pull request are not here: {stopped}")
    change = repository.change(Selection("range", _parting(repository, base, head), head))
    allowed, _ = signers(repository, change, environ, base=base, definitions=None)
    if allowed is None:
        return Accepted(False, "the base has no list of signers (.vibe-gate/allowed_signers)")
    assert claimed.receipt is not None
    try:
        sealed = parse(claimed.receipt)
    except ValueError as error:
        return Accepted(False, f"its receipt cannot be read: {error}")
    flaw = contradiction(sealed.receipt, claimed.document, claimed.files)
    signature = signatures.check(
        sealed.signed_bytes, sealed.signature, allowed, signatures.signing_of(repository), environ
    )
    subject = subject_of(change, repository.commits(change))
    by = match(subject, sealed.receipt)
    if by not in ("commit", "tree"):
        return Accepted(False, "its receipt is about another change")
    paper = Paper(sealed.receipt.run_id, "the artifact", sealed.receipt, signature, flaw)
    found = judged(by, paper, subject, _demands(repository, change, base, now))
    return Accepted(found.status == "reviewed", found.why)


def _parting(repository: Repository, base: str, head: str) -> str:
    try:
        return repository.merge_base(base, head, f"{base}...{head}")
    except RevisionError:
        return ""


def _demands(repository: Repository, change: Change, base: str, now: datetime) -> Demands:
    gate = trust.gate_for(repository, change, base=base, definitions=None)
    rubrics = gate.for_change(change)
    return Demands(
        rubrics={rubric.id: rubric.digest for rubric in rubrics},
        definitions=definitions_of(gate),
        today=now.date(),
        judge="always" if any(rubric.judged for rubric in rubrics) else "never",
        strict=True,
    )
