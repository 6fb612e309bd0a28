"""The receipt of a run: an in-toto statement about the reviewed trees, in a DSSE envelope that can
be signed.

Pure. `receipts.issue` makes receipts, `receipts.signatures` signs and checks them,
`receipts.commit_status` judges them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from vibe_gate.domain.document import decode_document, first_mistake, holds_all, plain
from vibe_gate.domain.summary import CacheUse, Cost
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.domain.waiver import Waiver

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
"""in-toto attestation framework, Statement v1."""

PREDICATE_TYPE = "urn:vibe-gate:receipt:v1"
"""A name, not an address: there is nothing to download."""

PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""DSSE's media type for in-toto statements."""

NAMESPACE = "vibe-gate"
"""Namespace of the SSH signatures: one made for another purpose never counts."""

MAX_BYTES = 4 << 20
"""Size limit of a receipt: hundreds of times what a review of many rubrics needs."""


class RubricClaim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of one rubric; `digest` is that of its definition.

    `advised`: criteria that failed and would have blocked, had their judges earned to block; absent
    if there are none.
    """

    id: str
    digest: str
    outcome: RunOutcome
    score: float
    advised: tuple[str, ...] | UnsetType = UNSET

    @property
    def advice(self) -> list[tuple[str, str]]:
        """What only advised, by ids of rubric and criterion."""
        if self.advised is UNSET:
            return []
        return [(self.id, name) for name in self.advised]


class Receipt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The predicate: what was reviewed, against which definitions, and the outcome.

    `exact`: sha-256 of the change (see `receipts.issue.exact`); unlike a patch-id it counts white
    space. `votes`, `findings`, `summary`: sha-256 of that part of the stored summary as canonical
    JSON, `summary` of all of it; `files`: sha-256 of the bundle's other files. `policy`:
    fingerprint of changes of the gate that block. `unasked`: why no judge was asked although
    criteria want one. `waivers`: what was allowed to pass. `questions`: keys of the questions that
    judges answered in this run, by rubric id (of both trees: `judging.questions.question_key`).
    Where there is nothing to say, a text is "".
    """

    schema: Literal[1] = 1
    run_id: str
    key: str
    created_at: str
    before: str
    after: str
    base_commit: str
    head_commit: str
    patch_id: str
    range_patch_id: str
    exact: str
    trusted_revision: str
    bootstrap: bool
    definitions: dict[str, str]
    rubrics: tuple[RubricClaim, ...]
    votes: str
    findings: str
    summary: str
    files: dict[str, str]
    outcome: RunOutcome
    exit_code: int
    policy: str = ""
    unasked: str = ""
    questions: dict[str, str] = {}
    agent_authored: bool = False
    waivers: tuple[Waiver, ...] = ()
    cost: Cost = Cost()
    cache: CacheUse = CacheUse()
    versions: dict[str, str] = {}
    signer: str = ""
    """git's user.email at the review: a claim, unlike the key of the signature."""


class _ResourceDescriptor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    digest: dict[str, str]


class Statement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The in-toto statement that is signed: the receipt, and the tree that it is about."""

    type_: Literal["https://in-toto.io/Statement/v1"] = field(name="_type")
    subject: tuple[_ResourceDescriptor, ...]
    predicate_type: Literal["urn:vibe-gate:receipt:v1"] = field(name="predicateType")
    predicate: Receipt


class _Signature(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keyid: str = ""
    sig: str


class Envelope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """receipt.json: a DSSE envelope, whose payload is the statement in base64."""

    payload_type: Literal["application/vnd.in-toto+json"] = field(name="payloadType")
    payload: str
    signatures: Annotated[tuple[_Signature, ...], Meta(max_length=1)]


class SignedReceipt(Struct, frozen=True):
    """A parsed receipt with the statement's bytes and the signature over them (b"": unsigned)."""

    payload: bytes
    signature: bytes
    receipt: Receipt

    @property
    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return pre_authentication_encoding(self.payload)


def digests_of(document: Mapping[str, Any]) -> tuple[str, str, str]:
    """sha-256 of the votes, the findings and the whole of a summary as it is stored (without
    `digests`).
    """
    votes = []
    for rubric in document["rubrics"]:
        for criterion in rubric["criteria"]:
            votes.append([rubric["id"], criterion["id"], criterion["votes"]])
    return _sha256(votes), _sha256(document["findings"]), _sha256(document)


def contradiction(receipt: Receipt, document: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """How a receipt contradicts the bundle around it; "" if it does not.

    `document` is the summary as stored, without `digests` (not as a model would write it again: a
    later version has more fields); `files` are the digests of the bundle's other files.
    """
    change = document["change"]
    stored = (
        document["run_id"],
        document["key"],
        document["outcome"],
        document["exit_code"],
        change["after"],
    )
    if stored != (receipt.run_id, receipt.key, receipt.outcome, receipt.exit_code, receipt.after):
        return "the receipt belongs to another run"
    if digests_of(document) != (receipt.votes, receipt.findings, receipt.summary):
        return "the receipt is for another summary"
    if receipt.files == files:
        return ""
    return "the receipt is for other files"


def statement(receipt: Receipt) -> bytes:
    """The in-toto statement as canonical JSON."""
    return canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": _subject(receipt),
            "predicateType": PREDICATE_TYPE,
            "predicate": plain(receipt),
        }
    )


def _subject(receipt: Receipt) -> list[dict[str, Any]]:
    subject = [{"name": "tree after the change", "digest": {"gitTree": receipt.after}}]
    if receipt.head_commit:
        subject.append({"name": "head commit", "digest": {"gitCommit": receipt.head_commit}})
    return subject


def envelope(payload: bytes, signature: bytes = b"") -> bytes:
    """The DSSE envelope as one line of JSON; `signature` is an armoured SSH signature of the
    encoded payload.
    """
    signatures = [{"sig": base64.b64encode(signature).decode()}] if signature else []
    body = base64.b64encode(payload).decode()
    return (
        canonical({"payloadType": PAYLOAD_TYPE, "payload": body, "signatures": signatures}) + b"\n"
    )


def parse(raw: bytes) -> SignedReceipt:
    """Read a receipt from its bytes. ValueError, with the reason, for anything else."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES:,} bytes")
    try:
        read = decode_document(Envelope, raw)
        payload = base64.b64decode(read.payload, validate=True)
        signature = (
            base64.b64decode(read.signatures[0].sig, validate=True) if read.signatures else b""
        )
        stated = decode_document(Statement, payload)
        document = json.loads(payload)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except binascii.Error:
        raise ValueError("the payload is not base64") from None
    except ValueError as error:
        raise ValueError(first_mistake(error)) from None
    if read.signatures and not signature:
        raise ValueError("the signature is empty")
    if [plain(resource) for resource in stated.subject] != _subject(stated.predicate):
        raise ValueError("the subject contradicts the predicate")
    if not holds_all(
        stated, document
    ):  # the cost, which is also a summary's, leaves out what it does not know
        raise ValueError("it has a key that no receipt has")
    if payload != canonical(
        document
    ):  # a repeated name, say: two readers could understand two things
        raise ValueError("the statement is not canonical JSON")
    return SignedReceipt(payload, signature, stated.predicate)


def pre_authentication_encoding(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding, version 1."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def canonical(value: object) -> bytes:
    """JSON with sorted names, without white space, in ASCII: one text for each value."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def _sha256(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()
