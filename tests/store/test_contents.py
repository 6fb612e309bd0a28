"""Contents: each stored once, verified before it is shared, and named by its hash."""

from __future__ import annotations

import gzip
import hashlib
import json

import pytest
from bundle_words import KEY, SECRET, START

from vibe_gate.store.store import Store


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("data", "suffix"),
    [
        (b"", ".txt"),
        (b"text\r\n", ".txt"),
        ("é" * 5120, ".txt"),  # 10,240 bytes: not above
        ("é" * 5121, ".txt.gz"),  # few characters, but 10,242 bytes
        (b"x" * 10_240, ".txt"),
        (b"x" * 10_241, ".txt.gz"),
        (b"caf\xe9", ".bin"),
        (b"a\0b", ".bin"),
        (b"\0" * 10_241, ".bin.gz"),
    ],
)
def test_a_content_is_named_by_its_hash_and_kind(
    store: Store, data: bytes | str, suffix: str
) -> None:
    raw = data.encode() if isinstance(data, str) else data
    run = store.begin(KEY, START, {})
    assert run.keep_content("after", raw) == sha256(raw)
    (place,) = (run.directory / "files/after").iterdir()
    assert place.name == sha256(raw) + suffix
    stored = place.read_bytes()
    assert (gzip.decompress(stored) if suffix.endswith(".gz") else stored) == raw
    assert not suffix.endswith(".gz") or stored[4:8] == b"\0\0\0\0"  # no time in the header


def test_the_hash_is_of_the_redacted_bytes(store: Store) -> None:
    assert store.begin(KEY, START, {}).keep_content("after", f"pw={SECRET}".encode()) == sha256(
        b"pw=[redacted]"
    )


def test_events_tell_of_stored_contents_in_the_order_in_which_they_came(store: Store) -> None:
    run = store.begin(KEY, START, {})
    contents = [bytes([65 + number]) * (20_000 if number % 3 else 10) for number in range(50)]
    expected = [
        run.keep_content("after", data, f"{number}.txt") for number, data in enumerate(contents)
    ]
    run.event("log.mark")
    lines = [
        json.loads(line) for line in (run.directory / "events.ndjson").read_bytes().splitlines()
    ]
    written = [line["data"] for line in lines if line["type"] == "artifact.written"]
    assert [about["path"] for about in written] == [f"{number}.txt" for number in range(50)]
    assert [about["sha256"] for about in written] == expected == [sha256(data) for data in contents]
    assert lines[-1]["type"] == "log.mark"
    assert all((run.directory / about["artifact"]).is_file() for about in written)


@pytest.mark.parametrize("limit_passed", [0, 1])
def test_of_more_than_ten_million_bytes_only_hash_and_size_are_kept(
    store: Store, limit_passed: int
) -> None:
    data = b"x" * (10_000_000 + limit_passed)
    run = store.begin(KEY, START, {})
    assert run.keep_content("after", data, "big.txt") == sha256(data)
    run.event("log.mark")
    line = (run.directory / "events.ndjson").read_bytes().splitlines()[-2].decode()
    assert f'"size":{len(data)}' in line
    assert ('"artifact":""' in line) == bool(limit_passed)
    assert (run.directory / "files").exists() != bool(limit_passed)
