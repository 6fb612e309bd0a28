"""The receipt of a run: an in-toto statement about the reviewed trees, in a DSSE envelope that can be signed.

Pure: building, writing and parsing. Signing and checking signatures is
`receipts.signatures`; what a receipt is worth to whom, `reusable` says.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from pydantic import Field, ValidationError

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, FileChange, FileVersion, Hunk
from vibe_gate.domain.expressions import expression
from vibe_gate.domain.model import Model
from vibe_gate.domain.summary import CacheUse, Cost, Summary
from vibe_gate.domain.verdict import RunOutcome

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
"""in-toto attestation framework, Statement v1."""

PREDICATE_TYPE = "urn:vibe-gate:receipt:v1"
"""A name of ours, not an address: nothing is looked up under it."""

PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""DSSE's media type for in-toto statements."""

NAMESPACE = "vibe-gate"
"""Of the SSH signatures: a signature made for anything else never counts here."""

_POLICY = expression(r"policy-(?:[0-9a-f]{16})?")
"""What names the changes of the gate itself that a waiver speaks of."""

MAX_BYTES = 4 << 20
"""Of a receipt: hundreds of times what a review of many rubrics leaves."""


class Waiver(Model):
    """Something that failed and was let pass: an override (`local`: one person's word, here), or a suppression.

    Also a change of the gate itself that somebody approved at the forge: of its policy, and not local.
    """

    finding: str
    reason: str
    by: str
    expires: date | None
    local: bool = False

    @property
    def sentence(self) -> str:
        """Who let it pass, until when, and why."""
        approval = "approved" if _POLICY.fullmatch(self.finding) else "suppressed"
        how = "overridden" if self.local else approval
        until = f" until {self.expires}" if self.expires else ""
        return f"{how} by {self.by}{until}: {self.reason}"


class RubricClaim(Model):
    """How one rubric came out; `digest` is that of its demands."""

    id: str
    digest: str
    outcome: RunOutcome
    score: float


class Receipt(Model):
    """The predicate: what was reviewed, against what, and how it came out.

    `exact` is the sha-256 of the change itself (`exact`): unlike a patch-id it
    counts white space. `places` fixes where (`places`); "" in receipts of before it was
    recorded, by which no patch-id matches any more. `votes` and `findings` are sha-256 of canonical JSON as the
    summary has it, `summary` of the whole summary, `files` of the bundle's other
    files by name. `policy` is the fingerprint of blocking policy changes, "" without
    any. `unasked` says why no judge was asked although criteria want one. `waivers`
    took effect: without them the run would not have passed. `questions` are the keys of
    the questions that judges answered in this very run, by rubric id (`domain.question`).
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
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
    places: str = ""
    policy: str = ""
    unasked: str = ""
    questions: dict[str, str] = Field(default_factory=dict)
    agent_authored: bool = False
    waivers: tuple[Waiver, ...] = ()
    cost: Cost = Cost()
    cache: CacheUse = CacheUse()
    versions: dict[str, str] = Field(default_factory=dict)
    signer: str = ""
    """Who reviewed, by git's user.email: a claim. Who signed, the signature's key says."""


class _Resource(Model):
    name: str
    digest: dict[str, str]


class _Statement(Model):
    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[_Resource, ...]
    predicate_type: Literal["urn:vibe-gate:receipt:v1"] = Field(alias="predicateType")
    predicate: Receipt


class _Signature(Model):
    keyid: str = ""
    sig: str


class _Envelope(Model):
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    payload: str
    signatures: tuple[_Signature, ...] = Field(max_length=1)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A receipt as it was found: the statement's bytes, the signature over them ("" unsigned), and what they say."""

    payload: bytes
    signature: bytes
    receipt: Receipt

    @property
    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return to_sign(self.payload)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a receipt says besides the summary."""

    exact: str
    created_at: str
    definitions: Mapping[str, str]
    versions: Mapping[str, str]
    policy: str = ""
    unasked: str = ""
    waivers: tuple[Waiver, ...] = ()
    signer: str = ""
    questions: Mapping[str, str] = field(default_factory=dict)
    places: str = ""


def receipt_of(
    summary: Summary, document: Mapping[str, Any], files: Mapping[str, str], about: Circumstances
) -> Receipt:
    """The receipt of a run; `document` is the summary as it is stored, without digests, and `files` the digests."""
    change = summary.change
    votes, findings, whole = digests_of(document)
    return Receipt(
        run_id=summary.run_id,
        key=summary.key,
        created_at=about.created_at,
        before=change.before,
        after=change.after,
        base_commit=change.base_commit,
        head_commit=change.head_commit,
        patch_id=change.patch_id,
        range_patch_id=change.range_patch_id,
        exact=about.exact,
        trusted_revision=summary.trusted.revision,
        bootstrap=summary.trusted.bootstrap,
        definitions=dict(about.definitions),
        rubrics=tuple(
            RubricClaim(id=rubric.id, digest=rubric.digest, outcome=rubric.outcome, score=rubric.score)
            for rubric in summary.rubrics
        ),
        votes=votes,
        findings=findings,
        summary=whole,
        files=dict(files),
        outcome=summary.outcome,
        exit_code=summary.exit_code,
        places=about.places,
        policy=about.policy,
        unasked=about.unasked,
        questions=dict(about.questions),
        agent_authored=summary.agent_authored.decision,
        waivers=about.waivers,
        cost=summary.cost,
        cache=summary.cache,
        versions=dict(about.versions),
        signer=about.signer,
    )


def digests_of(document: Mapping[str, Any]) -> tuple[str, str, str]:
    """sha-256 of the votes, the findings and the whole of a summary as it is stored (without `digests`)."""
    votes = [
        [rubric["id"], criterion["id"], criterion["votes"]]
        for rubric in document["rubrics"]
        for criterion in rubric["criteria"]
    ]
    return _sha256(votes), _sha256(document["findings"]), _sha256(document)


def contradiction(receipt: Receipt, document: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """What a receipt and the bundle around it disagree about, as a sentence; "" where nothing.

    `document` is the summary as it is stored (never as a model writes it again: a
    later version's would have more fields), `files` the digests of the other files.
    """
    change = document["change"]
    said = (document["run_id"], document["key"], document["outcome"], document["exit_code"], change["after"])
    if said != (receipt.run_id, receipt.key, receipt.outcome, receipt.exit_code, receipt.after):
        return "its receipt is another run's"
    if digests_of(document) != (receipt.votes, receipt.findings, receipt.summary):
        return "its receipt vouches for another summary"
    return "" if receipt.files == files else "its receipt vouches for other files"


def statement(receipt: Receipt) -> bytes:
    """The in-toto statement as canonical JSON."""
    return canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": _subject(receipt),
            "predicateType": PREDICATE_TYPE,
            "predicate": receipt.model_dump(mode="json", by_alias=True),
        }
    )


def _subject(receipt: Receipt) -> list[dict[str, Any]]:
    subject = [{"name": "tree after the change", "digest": {"gitTree": receipt.after}}]
    if receipt.head_commit:
        subject.append({"name": "head commit", "digest": {"gitCommit": receipt.head_commit}})
    return subject


def envelope(payload: bytes, signature: bytes = b"", keyid: str = "") -> bytes:
    """The DSSE envelope as one line of JSON; `signature` is an armoured SSH signature over `to_sign(payload)`."""
    signatures = [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}] if signature else []
    body = base64.b64encode(payload).decode()
    return canonical({"payloadType": PAYLOAD_TYPE, "payload": body, "signatures": signatures}) + b"\n"


def parse(raw: bytes) -> Sealed:
    """A receipt from its bytes. ValueError, with the reason, for anything that is none."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        found = _Envelope.model_validate_json(raw)
        payload = base64.b64decode(found.payload, validate=True)
        signature = base64.b64decode(found.signatures[0].sig, validate=True) if found.signatures else b""
        said = _Statement.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
    except binascii.Error:
        raise ValueError("its payload is not base64") from None
    receipt = said.predicate
    if found.signatures and not signature:
        raise ValueError("its signature is empty")
    if [resource.model_dump() for resource in said.subject] != _subject(receipt):
        raise ValueError("its subject is not what its predicate speaks of")
    if payload != canonical(json.loads(payload)):  # a name twice, say: two readers could understand two things
        raise ValueError("its statement is not in the canonical form")
    return Sealed(payload, signature, receipt)


def to_sign(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding, version 1."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def canonical(value: object) -> bytes:
    """JSON with sorted names and no white space, ASCII only: one value, one text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def exact(change: Change) -> str:
    """sha-256 of the change itself: every line with its context, its white space, modes and names, but no line numbers.

    Two changes with the same patch-id may differ in white space, which a patch-id
    leaves out and a Python program does not. What has no lines counts by its blobs.
    """
    made = hashlib.sha256()
    for file in sorted(change.files, key=lambda file: (file.path, file.old_path or "")):
        _add(made, _title(file))
        if file.binary or not file.hunks:
            _add(made, b"%s %s" % tuple((side.blob if side else "").encode() for side in (file.before, file.after)))
            continue
        for hunk in file.hunks:
            _add(made, b"@@")
            for line in hunk.lines:
                _add(made, line.origin.encode() + line.content)
    return made.hexdigest()


def places(change: Change, read: Callable[[FileVersion], bytes]) -> str:
    """sha-256 of what fixes where the hunks stand: nothing, where the lines that each replaces stand once in its file.

    Otherwise the same hunk could be made at another place, in another sense: then line numbers count, and all that the
    file was before. `read` gives the content of a file's side.
    """
    made = hashlib.sha256()
    for file in sorted(change.files, key=lambda file: (file.path, file.old_path or "")):
        if file.binary or not file.hunks or file.before is None or file.after is None:
            continue  # `exact` has all of it
        content = b"\n" + read(file.before)
        if all(_stands_once(hunk, content) for hunk in file.hunks):
            continue
        _add(made, _title(file))
        _add(made, file.before.blob.encode())
        for hunk in file.hunks:
            _add(made, b"%d" % hunk.old_start)
    return made.hexdigest()


def _stands_once(hunk: Hunk, content: bytes) -> bool:
    """Whether the lines that the hunk replaces, with their context, are once in what the file was.

    `content` begins with a newline that is not the file's.
    """
    old = b"".join(line.content for line in hunk.lines if line.origin != "+")
    if not old.endswith(b"\n"):  # the end of the file, and there is but one; or nothing at all, and so was the file
        return bool(old) or content == b"\n"
    first = content.find(b"\n" + old)
    return content.find(b"\n" + old, first + 1) < 0


def _title(file: FileChange) -> bytes:
    modes = [f"{side.mode:o}" if side else "-" for side in (file.before, file.after)]
    names = paths.encode(file.old_path if file.old_path is not None else file.path), paths.encode(file.path)
    return b"\0".join((file.change_type.encode(), *(mode.encode() for mode in modes), *names))


def _add(digest: Any, data: bytes) -> None:  # noqa: ANN401  hashlib's object has no public type
    digest.update(b"%d:" % len(data) + data)


def _sha256(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


Reuse = Literal["verdict", "saves-a-run", "display", "nothing"]
"""What CI may do with a verdict that was reached elsewhere.

`verdict`: take it instead of asking again. `saves-a-run`: take the fail, for nobody
gains by forging one against themselves. `display`: show it, and ask all the same.
`nothing`: it is not even shown."""

SignatureState = Literal["unsigned", "bad", "unlisted", "listed", "valid", "unchecked"]
"""`valid`: right, but there is no list of signers to look the key up in; `unchecked`: it could not be looked at."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What was found out about a receipt's signature; `principals` are those of the list by whom it is accepted.

    `holders` are all whom the list names for the key, for other purposes and times, too.
    """

    state: SignatureState
    key: str = ""
    principals: tuple[str, ...] = ()
    why: str = ""
    holders: tuple[str, ...] = ()


def reusable(
    receipt: Receipt, signature: Signature, authors: Sequence[str], *, judge: bool = True
) -> tuple[Reuse, str]:
    """What CI may do with the receipt of a change written by `authors` (addresses), and why, as a sentence.

    A pass counts only if its signer is listed and none of the authors. A pass by an
    override counts for nobody else: it is one person's word, where that person was.
    `judge`: the gate demands a judge of this change.
    """
    if signature.state == "bad":
        return "nothing", f"its signature is bad: {signature.why}"
    if receipt.outcome == "fail":
        return "saves-a-run", "it failed"
    if receipt.exit_code != 0:
        return "nothing", "it reached no verdict that could be taken over"
    if signature.state != "listed":
        return "display", _WORTHLESS[signature.state]
    if own := own_signer(signature, authors):
        return "display", f"its signer, {', '.join(signature.principals)}, may be its author, {own}"
    if any(waiver.local for waiver in receipt.waivers):
        return "display", "it passed by an override"
    if judge and receipt.unasked:
        return "display", f"no judge was asked: {receipt.unasked}"
    if judge and receipt.cache.hits:
        return "display", "its judges' answers were known before, in part or all: by whom, it cannot say"
    return "verdict", f"signed by {', '.join(signature.principals)}"


_WORTHLESS: dict[SignatureState, str] = {
    "unsigned": "it is not signed",
    "unlisted": "its signer is not among the allowed signers",
    "valid": "there is no list of allowed signers",
    "unchecked": "its signature could not be checked",
}


def own_signer(signature: Signature, authors: Sequence[str]) -> str:
    """The author who may have signed: whose address a holder of the key (a pattern with `*` and `?`) can be; or ""."""
    flat = tuple(_flat(name) for name in (*signature.principals, *signature.holders))
    return next((author for author in authors if paths.matches(_flat(author), flat)), "")


def _flat(text: str) -> str:
    # Without case, and as one segment: `/` means nothing in an address, and `[bot]` is no set of letters.
    return text.strip().casefold().replace("/", "\\").replace("[", "(")
