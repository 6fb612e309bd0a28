"""Whether a verdict from a job that others control may count: only by a receipt that a listed signer signed.

Objects of the head are fetched and compared, never checked out, and nothing of it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from vibe_gate.domain.change import Selection
from vibe_gate.domain.receipt import contradiction
from vibe_gate.errors import GateError, RevisionError
from vibe_gate.gate import trust
from vibe_gate.git import Credentials, Repository, open_repository
from vibe_gate.receipts.find import ReceiptReader, allowed_signers
from vibe_gate.receipts.status import Requirements, assess_trees, identity_of


@dataclass(frozen=True, slots=True)
class ArtifactClaim:
    """A verdict as it came: the summary as stored, digests of the bundle's other files, the receipt's bytes."""

    document: Mapping[str, Any]
    files: Mapping[str, str]
    receipt: bytes | None


@dataclass(frozen=True, slots=True)
class ArtifactVerdict:
    """Whether the verdict counts, and why, as a clause."""

    holds: bool
    why: str


def verify_artifact(
    claim: ArtifactClaim,
    span: Selection,
    *,
    start: Path,
    environ: Mapping[str, str],
    credentials: Credentials,
    now: datetime,
) -> ArtifactVerdict:
    """Compare a claim about `span`, base and head of a pull request, with the base's own gate and list of signers.

    `start`: a checkout of the base repository; `credentials`: how to fetch what it lacks.
    """
    if claim.receipt is None:
        return ArtifactVerdict(False, "it brings no receipt")
    try:
        with open_repository(start, environ) as repository:
            if stopped := _fetch(repository, span, credentials):
                return ArtifactVerdict(False, f"cannot fetch the commits of the pull request: {stopped}")
            return _compare(repository, claim, span, environ, now)
    except GateError as error:
        return ArtifactVerdict(False, f"cannot compare its receipt with the repository: {error}")


def _fetch(repository: Repository, span: Selection, credentials: Credentials) -> str:
    return repository.fetch((span.left, span.right), lambda: bool(_merge_base(repository, span)), credentials)


def _compare(
    repository: Repository, claim: ArtifactClaim, span: Selection, environ: Mapping[str, str], now: datetime
) -> ArtifactVerdict:
    change = repository.change(Selection("range", _merge_base(repository, span), span.right))
    allowed = allowed_signers(repository, change, environ, base=span.left, definitions=None)
    if allowed.content is None:
        return ArtifactVerdict(False, "the base has no list of signers (.vibe-gate/allowed_signers)")
    found = ReceiptReader(repository, environ, allowed).read(claim.receipt or b"", "", "the artifact")
    assert found is not None  # nothing was rejected
    if found.receipt is not None:
        found = replace(found, problem=contradiction(found.receipt, claim.document, claim.files))
    gate = trust.gate_for(repository, change, base=span.left, definitions=None)
    required = Requirements.of(gate, gate.for_change(change), now.date(), strict=True)
    status = assess_trees(found, identity_of(change, repository.commits(change)), required)
    return ArtifactVerdict(status.status == "reviewed", status.why)


def _merge_base(repository: Repository, span: Selection) -> str:
    try:
        return repository.merge_base(span.left, span.right, f"{span.left}...{span.right}")
    except RevisionError:
        return ""
