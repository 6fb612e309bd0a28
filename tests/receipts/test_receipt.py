"""Receipts: what they say, what is none, and what CI may do with one."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import random

import pytest
from growth import assert_linear
from msgspec.structs import replace

from vibe_gate.domain.change import Change, FileDiff, FileVersion, Hunk, HunkLine
from vibe_gate.domain.receipt import (
    PAYLOAD_TYPE,
    Receipt,
    canonical,
    envelope,
    parse,
    pre_authentication_encoding,
    statement,
)  # fmt: skip
from vibe_gate.receipts.commit_status import own_signer
from vibe_gate.receipts.issue_receipt import digest_exactly
from vibe_gate.receipts.signatures import SignatureCheck

RECEIPT = Receipt(
    run_id="20260102T030405678Z-00000000", key="c" * 40, created_at="2026-01-02T03:04:05+00:00", before="a" * 40,
    after="b" * 40, base_commit="", head_commit="c" * 40, patch_id="d" * 40, range_patch_id="d" * 40, exact="e" * 64,
    trusted_revision="", bootstrap=False, definitions={}, rubrics=(), votes="", findings="", summary="", files={},
    outcome="pass", exit_code=0,
)  # fmt: skip


def test_a_principal_with_a_slash_or_a_bracket_is_matched_as_it_stands():
    for address in ("a/b@example.org", "41+ci[bot]@users.noreply.github.com"):
        assert own_signer(SignatureCheck("listed", principals=(address,)), (address,))
    assert not own_signer(
        SignatureCheck("listed", principals=("b@example.org",)), ("a/b@example.org",)
    )


def test_what_was_sealed_is_read_back():
    sealed = parse(envelope(statement(RECEIPT), b"-----BEGIN SSH SIGNATURE-----"))
    assert (sealed.receipt, sealed.signature) == (RECEIPT, b"-----BEGIN SSH SIGNATURE-----")
    assert sealed.signed_bytes == pre_authentication_encoding(statement(RECEIPT))
    assert parse(envelope(statement(RECEIPT))).signature == b""


def test_the_signed_bytes_are_those_of_dsse():
    # The example of the DSSE specification, with our own type.
    assert pre_authentication_encoding(b"hello world") == b"DSSEv1 %d %s 11 hello world" % (
        len(PAYLOAD_TYPE),
        PAYLOAD_TYPE.encode(),
    )


def wrap_payload(payload: bytes) -> bytes:
    return canonical(
        {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [],
        }
    )


def edit_statement(**changes: object) -> bytes:
    return wrap_payload(canonical(json.loads(statement(RECEIPT)) | changes))


def within(*place: str, **changes: object) -> bytes:
    document = json.loads(statement(RECEIPT))
    part = document
    for name in place:
        part = part[name]
    part |= changes
    return wrap_payload(canonical(document))


DEEP = b"[" * 100_000 + b"]" * 100_000
"""Deeper than any Python's limit: 3.11 has one of 1,000 calls, later ones have larger ones for C
code.
"""


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "JSON"),
        (b"null", "expected `object`"),
        (wrap_payload(b"{}"), "_type"),
        (edit_statement(predicateType="https://slsa.dev/provenance/v1"), "predicateType"),
        (edit_statement(subject=[]), "the subject contradicts the predicate"),
        (edit_statement(extra=1), "extra"),
        (within("predicate", extra=1), "extra"),
        (within("predicate", "cost", extra=1), "a key that no receipt has"),
        (within("predicate", "cache", extra=1), "a key that no receipt has"),
        (
            wrap_payload(statement(RECEIPT).replace(b'"usd":', b'"new":' + DEEP + b',"usd":')),
            "deeply",
        ),
        (wrap_payload(statement(RECEIPT) + b" "), "not canonical JSON"),
        (
            wrap_payload(statement(RECEIPT).replace(b'"policy":""', b'"policy":"","policy":""')),
            "not canonical JSON",
        ),
        (wrap_payload(statement(RECEIPT)).replace(b"ey", b"!!"), "not base64"),
        (envelope(statement(RECEIPT), b"x").replace(b'"eA=="', b'""'), "the signature is empty"),
        (b"x" * 5_000_000, "larger than"),
    ],
)
def test_what_is_no_receipt_is_refused_with_a_reason(raw, reason):
    with pytest.raises(ValueError, match=reason):
        parse(raw)


def test_two_signatures_are_refused():
    two = json.loads(envelope(statement(RECEIPT), b"x"))
    two["signatures"] *= 2
    with pytest.raises(ValueError, match="signatures"):
        parse(json.dumps(two).encode())


def change_of_lines(
    *lines: tuple[str, bytes], mode: int = 0o100644, start: int = 1, path: str = "a.py"
) -> Change:
    hunk = Hunk.of(
        start, 1, start, 1, tuple(HunkLine(origin, content) for origin, content in lines)
    )
    sides = FileVersion("1" * 40, 0o100644, 1), FileVersion("2" * 40, mode, 1)
    file = FileDiff(path, None, "modified", *sides, binary=False, added=1, deleted=1, hunks=(hunk,))
    return Change("commit", "a" * 40, "b" * 40, "", "", "d" * 40, "d" * 40, (file,))


ONE = (("-", b"  x\n"), ("+", b"  y\n"))


def digest(change: Change, before: bytes = b"  x\n") -> str:
    """The exact digest of a change. `before`: the content of each of its files before it."""
    return digest_exactly(change, lambda versions: (before for _ in versions))


@pytest.mark.parametrize(
    "other",
    [
        change_of_lines(("-", b"  x\n"), ("+", b"    y\n")),
        change_of_lines(("-", b"  x\n"), ("+", b"  y\r\n")),
        change_of_lines(("-", b"  x\n"), ("+", b"  y")),
        change_of_lines(*ONE, mode=0o100755),
        change_of_lines(*ONE, path="b.py"),
        change_of_lines((" ", b"  x\n"), ("+", b"  y\n")),
        change_of_lines(*ONE, ("+", b"")),
    ],
)
def test_the_exact_digest_counts_what_a_patch_id_leaves_out(other):
    assert digest(other) != digest(change_of_lines(*ONE))


def test_the_exact_digest_holds_where_only_line_numbers_move():
    assert digest(change_of_lines(*ONE, start=40)) == digest(change_of_lines(*ONE))


BLOCK = b"#\ndebug = false\n#\n"


@pytest.mark.parametrize(
    ("was", "is_now", "is_same"),
    [
        (BLOCK, b"new\n" + BLOCK, True),  # stands once in both
        (BLOCK + BLOCK, BLOCK + BLOCK, True),  # the same file, the same lines
        (BLOCK + BLOCK, b"new\n" + BLOCK + BLOCK, False),
        (BLOCK, BLOCK + BLOCK, False),
        (BLOCK + BLOCK, BLOCK, False),
        (BLOCK, b"#" + BLOCK + BLOCK, True),  # "##" is another line
    ],
)
def test_a_hunk_whose_lines_stand_more_than_once_is_bound_to_its_file(was, is_now, is_same):
    hunk = ((" ", b"#\n"), ("-", b"debug = false\n"), ("+", b"debug = true\n"), (" ", b"#\n"))
    digests = []
    for content in (was, is_now):
        change = change_of_lines(*hunk, start=content.find(BLOCK) + 1)
        before = FileVersion(hashlib.sha1(content).hexdigest(), 0o100644, len(content))
        file = replace(change.files[0], before=before)
        digests.append(digest(replace(change, files=(file,)), content))
    assert (digests[0] == digests[1]) == is_same


def test_many_hunks_of_lines_that_all_stand_often_take_time_in_proportion():
    def many_hunks(size: int) -> tuple[Change, bytes]:
        draw = random.Random(size)
        lines = [b"%d\n" % draw.randrange(math.isqrt(size) // 2) for _ in range(size)]
        hunks = []
        for start in range(0, size - 7, 8):
            context = tuple(HunkLine(" ", line) for line in lines[start : start + 6])
            removed = HunkLine("-", lines[start + 6])
            hunks.append(Hunk.of(start + 1, 7, start + 1, 6, (*context, removed)))
        change = change_of_lines(*ONE)
        file = replace(change.files[0], hunks=tuple(hunks))
        return replace(change, files=(file,)), b"".join(lines)

    assert_linear(lambda arguments: digest(*arguments), many_hunks, 32_000)


def test_what_has_no_lines_counts_by_its_contents():
    file = replace(change_of_lines(*ONE).files[0], hunks=(), binary=True)
    other = replace(file, after=FileVersion("3" * 40, 0o100644, 1))
    assert digest(replace(change_of_lines(*ONE), files=(file,))) != digest(
        replace(change_of_lines(*ONE), files=(other,))
    )
