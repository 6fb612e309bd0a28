"""Contents: each stored once, verified before it is shared, and named by its hash."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pytest
from bundle_words import KEY, SECRET, START, Ended, summary_of, verify_bundles

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.turn import TurnChange, TurnFile
from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.store.run_result import read_bundle
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
    (place,) = (run.directory / "files").glob("*/*")
    assert place.name == sha256(raw) + suffix
    stored = place.read_bytes()
    assert (gzip.decompress(stored) if suffix.endswith(".gz") else stored) == raw
    assert not suffix.endswith(".gz") or stored[4:8] == b"\0\0\0\0"  # no time in the header


def test_the_hash_is_of_the_redacted_bytes(store: Store) -> None:
    assert store.begin(KEY, START, {}).keep_content("after", f"pw={SECRET}".encode()) == sha256(
        b"pw=[redacted]"
    )


def test_a_run_keeps_each_content_once_whichever_side_and_turn_has_it(
    store: Store, tmp_path: Path
) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    texts = [b"file %d: %s\n" % (number, SECRET.encode()) for number in range(40)]
    files = []
    for number, data in enumerate(texts):
        run.keep_content("before", data, f"old-{number}")
        run.keep_content("after", data, f"new-{number}")
        before, after = turn.keep_content("before", data), turn.keep_content("after", data)
        assert before == after
        file = TurnFile(
            path=f"new-{number}",
            old_path=f"old-{number}",
            change_type="renamed",
            before=before,
            after=after,
        )
        files.append(file)
    turn.seal(Ended(change=TurnChange(files=tuple(files))))
    run.seal(summary_of(run))
    assert len(list(run.directory.rglob("*.txt"))) == 40
    by_itself = read_bundle(run.directory / turn.relative)
    read = [(file.before.text(), file.after.text()) for file in by_itself.files.changed()]
    assert read == [(f"file {number}: [redacted]\n",) * 2 for number in range(40)]
    assert verify_bundles(tmp_path, Provenance(START)).problems == ()
    (damaged, *_) = (run.directory / "files/before").iterdir()
    damaged.unlink()
    (problem,) = verify_bundles(tmp_path, Provenance(START)).problems
    assert (problem.state, problem.what) == ("corrupt", "missing")
    with pytest.raises(IntegrityError, match="it is missing"):
        for file in by_itself.files.changed():
            file.after.bytes()


def test_a_turn_that_was_copied_out_of_its_run_says_where_its_contents_are(
    store: Store, tmp_path: Path
) -> None:
    run = store.begin(KEY, START, {})
    turn = run.turn("fix")
    file = TurnFile(path="a", change_type="added", after=turn.keep_content("after", b"new\n"))
    turn.seal(Ended(change=TurnChange(patch=b"diff --git a/a b/a\n", files=(file,))))
    run.seal(summary_of(run))
    copy = shutil.copytree(run.directory / turn.relative, tmp_path / "copy")
    (change,) = read_bundle(copy).files.changed()
    assert (change.path, change.after.size) == ("a", 4)
    with pytest.raises(StorageError, match="copied out of its run"):
        change.after.text()


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
    assert [fields["path"] for fields in written] == [f"{number}.txt" for number in range(50)]
    assert (
        [fields["sha256"] for fields in written] == expected == [sha256(data) for data in contents]
    )
    assert lines[-1]["type"] == "log.mark"
    assert all((run.directory / fields["artifact"]).is_file() for fields in written)


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
