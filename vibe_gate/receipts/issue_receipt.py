"""Issue the receipt of a review: made when the bundle is sealed, signed if a key is configured."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from io import BytesIO
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.domain import paths
from vibe_gate.domain.bundles import CHANGE_IDS
from vibe_gate.domain.cause import CannotAsk
from vibe_gate.domain.change import Change, FileDiff, FileVersion, Hunk
from vibe_gate.domain.receipt import (
    Receipt,
    RubricClaim,
    digests_of,
    envelope,
    pre_authentication_encoding,
    statement,
)
from vibe_gate.domain.waiver import Waiver
from vibe_gate.errors import INCONCLUSIVE
from vibe_gate.receipts import signatures
from vibe_gate.receipts.receipt_notes import share_receipt
from vibe_gate.version import __version__

if TYPE_CHECKING:
    from vibe_gate.context.world import RunContext
    from vibe_gate.domain.gate import Gate
    from vibe_gate.domain.summary import Summary
    from vibe_gate.domain.verdict import RubricResult
    from vibe_gate.git import Repository
    from vibe_gate.judging.answers import Answers

_OF_SUMMARY = ("run_id", "key", "outcome", "exit_code", "cost", "cache")
"""Fields of a receipt that are those of the summary."""


class ReceiptIssuer(Struct, frozen=True):
    """Make receipt.json of one run when it is sealed. `notes` then say why it is unsigned although
    a key is configured.

    `answers` say why no judge was asked, and what was answered; `policy` names the change of the
    gate itself; `waivers` took effect.
    """

    repository: Repository
    change: Change
    gate: Gate
    run: RunContext
    summary: Summary
    answers: Answers
    policy: str
    waivers: tuple[Waiver, ...]
    notes: list[str]

    def make(self, document: Mapping[str, Any], files: Mapping[str, str]) -> bytes:
        """The envelope; `document` is the summary as stored, without digests, `files` the bundle's
        other digests.
        """
        payload = statement(self._receipt(document, files))
        signature = self._signature(pre_authentication_encoding(payload))
        receipt = envelope(payload, signature)
        if self.change.head_commit and self.repository.config("vibe-gate.receipts"):
            self.notes.append(share_receipt(self.repository, self.change.head_commit, receipt))
        return receipt

    def _signature(self, encoded: bytes) -> bytes:
        """The signature, empty if no key is configured or it cannot be used."""
        if not self.repository.config("user.signingkey"):
            return b""
        signed = signatures.sign_receipt(encoded, signatures.signing_of(self.repository))
        self.notes.append(signed.note)
        return signed.signature

    def _receipt(self, document: Mapping[str, Any], files: Mapping[str, str]) -> Receipt:
        summary, change = self.summary, self.summary.change
        votes, findings, summary_digest = digests_of(document)
        return Receipt(
            **{name: getattr(change, name) for name in CHANGE_IDS},
            **{name: getattr(summary, name) for name in _OF_SUMMARY},
            created_at=self.run.clock().isoformat(timespec="seconds"),
            exact=digest_exactly(self.change, self.repository.read_all),
            trusted_revision=summary.trusted.revision,
            bootstrap=summary.trusted.bootstrap,
            definitions=dict(self.gate.digests),
            rubrics=tuple(map(_claim, summary.rubrics)),
            votes=votes,
            findings=findings,
            summary=summary_digest,
            files=dict(files),
            policy=self.policy,
            unasked=self._unasked(),
            questions=dict(self.answers.questions),
            agent_authored=summary.agent_authored.decision,
            waivers=tuple(self._redacted(waiver) for waiver in self.waivers),
            versions=self._versions(),
            signer=self.repository.config("user.email") or "",
        )

    def _versions(self) -> dict[str, str]:
        """Of what gave the verdict; of the SDK only if judges answered."""
        if not self.answers.questions:
            return {"vibe-gate": __version__}
        return {"vibe-gate": __version__, "claude-agent-sdk": sdk_version()}

    def _unasked(self) -> str:
        """Why no judge was asked although criteria want one; "" if one was, or none is wanted."""
        unasked = self.answers.unasked
        if unasked is None:
            return ""
        is_left_open = self.summary.exit_code == INCONCLUSIVE and isinstance(unasked, CannotAsk)
        if not self.answers.chosen and not is_left_open:
            return ""
        for rubric in self.summary.rubrics:
            if any(criterion.kind == "judge" for criterion in rubric.criteria):
                return unasked.sentence
        return ""

    def _redacted(self, waiver: Waiver) -> Waiver:
        """A receipt is kept and shared, so it holds no secret that a person typed into a reason."""
        redact = self.run.redactor.text
        return replace(waiver, reason=redact(waiver.reason), by=redact(waiver.by))


def _claim(rubric: RubricResult) -> RubricClaim:
    advised = tuple(result.id for result in rubric.criteria if result.would_block is True)
    return RubricClaim(
        id=rubric.id,
        digest=rubric.digest,
        outcome=rubric.outcome,
        score=rubric.score,
        advised=advised or UNSET,
    )


def digest_exactly(
    change: Change, read_all: Callable[[Iterable[FileVersion]], Iterator[bytes]]
) -> str:
    """sha-256 by which a change is known on another base: every line with its context and white
    space, modes, names.

    Changes with the same patch-id may differ in white space, which matters to Python. Line numbers
    do not count, unless the lines that a hunk replaces occur more than once in the file before the
    change: then the hunk could apply at another place and mean something else, and that file
    counts, too. Files without lines count by their blobs.
    `read_all` gives the contents of sides of files.
    """
    digest = hashlib.sha256()
    files = sorted(change.files, key=lambda file: (file.path, file.old_path or ""))
    old_versions = map(_version_with_places, files)
    contents = read_all([version for version in old_versions if version is not None])
    for file in files:
        _add(digest, _title(file))
        if not _has_lines(file):
            _add(digest, _blobs(file))
            continue
        old_version = _version_with_places(file)
        if old_version is not None and not _stand_once(file.hunks, next(contents)):
            starts = "".join(f" {hunk.old_start}" for hunk in file.hunks)
            _add(digest, f"{old_version.blob}{starts}".encode())
        for hunk in file.hunks:
            _add(digest, b"@@")
            for row in hunk.rows:
                _add(digest, row)
    return digest.hexdigest()


def _has_lines(file: FileDiff) -> bool:
    return bool(file.hunks) and not file.binary


def _version_with_places(file: FileDiff) -> FileVersion | None:
    """The file before the change, if a hunk could apply at several places of it."""
    if file.after is None or not _has_lines(file):
        return None
    return file.before


def _blobs(file: FileDiff) -> bytes:
    """The ids of the contents on both sides."""
    old_blob = file.before.blob if file.before else ""
    new_blob = file.after.blob if file.after else ""
    return f"{old_blob} {new_blob}".encode()


def _stand_once(hunks: Sequence[Hunk], before: bytes) -> bool:
    """Whether the lines that each hunk replaces, with their context, occur once in the file before
    the change.
    """
    single_lines = _single_lines(hunks, before)
    blocks_by_length: dict[int, set[bytes]] = {}
    for hunk in hunks:
        block = hunk.before
        if not block.endswith(b"\n"):  # at the end of the file, or of an empty one
            if not block and before:
                return False
            continue
        if not single_lines.isdisjoint(BytesIO(block)):
            continue
        blocks = blocks_by_length.setdefault(block.count(b"\n"), set())
        if block in blocks:
            return False
        blocks.add(block)
    return not any(
        _has_block_twice(before, length, blocks) for length, blocks in blocks_by_length.items()
    )


def _single_lines(hunks: Sequence[Hunk], before: bytes) -> set[bytes]:
    """Of the lines that hunks replace, with their context, those that the file before the change
    has once.
    """
    replaced_lines: set[bytes] = set()
    for hunk in hunks:
        replaced_lines.update(BytesIO(hunk.before))
    counts = Counter(line for line in BytesIO(before) if line in replaced_lines)
    return {line for line, count in counts.items() if count == 1}


def _has_block_twice(content: bytes, length: int, blocks: Set[bytes]) -> bool:
    """Whether the content has one of the blocks, of so many whole lines each, more than once.

    The content is searched for each block, or each of its lines looked at `length` times, whichever
    is less: it may have 40,000 blocks.
    """
    if len(blocks) <= length:
        lines = b"\n" + content
        return any(_count_places(lines, b"\n" + block) > 1 for block in blocks)
    starts = [0, *accumulate(map(len, BytesIO(content)))]
    found_blocks: set[bytes] = set()
    for start, end in zip(starts, starts[length:], strict=False):
        block = content[start:end]
        if block in found_blocks:
            return True
        if block in blocks:
            found_blocks.add(block)
    return False


def _count_places(content: bytes, text: bytes) -> int:
    """How often the content has the text, places that overlap included; 2 for more."""
    first_place = content.find(text)
    if first_place < 0:
        return 0
    return 1 if content.find(text, first_place + 1) < 0 else 2


def _title(file: FileDiff) -> bytes:
    """Its kind of change, modes and names, which are part of the digest."""
    parts = [
        file.change_type.encode(),
        _mode(file.before),
        _mode(file.after),
        paths.encode(file.old_name),
        paths.encode(file.path),
    ]
    return b"\0".join(parts)


def _mode(version: FileVersion | None) -> bytes:
    """As git writes it, in octal digits; "-" on the side where the file is not."""
    if version is None:
        return b"-"
    return b"%o" % version.mode


def _add(digest: Any, data: bytes) -> None:  # noqa: ANN401  hashlib's object has no public type
    digest.update(b"%d:" % len(data) + data)
