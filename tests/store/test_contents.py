"""Contents: each stored once, verified before it is shared, and named by its hash."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bundle_words import KEY, SECRET, START, Clock, Hush, tree

from vibe_gate.store import RunRecorder, Store, open_store


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def objects(root: Path) -> dict[str, bytes]:
    return {Path(name).name: data for name, data in tree(root / ".vibe-artifacts/objects").items()}


def quarantined(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in (root / ".vibe-artifacts/quarantine").iterdir() if path.is_file()]


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
def test_a_content_is_named_by_its_hash_and_kind(store: Store, data: bytes | str, suffix: str) -> None:
    raw = data.encode() if isinstance(data, str) else data
    run = store.begin(KEY, START, {})
    assert run.content("after", raw) == sha256(raw)
    (place,) = (run.directory / "files/after").iterdir()
    assert place.name == sha256(raw) + suffix
    stored = place.read_bytes()
    assert (gzip.decompress(stored) if suffix.endswith(".gz") else stored) == raw


def test_the_hash_is_of_the_redacted_bytes(store: Store) -> None:
    assert store.begin(KEY, START, {}).content("after", f"pw={SECRET}".encode()) == sha256(b"pw=[redacted]")


def test_the_same_content_is_one_inode_in_every_bundle(store: Store, tmp_path: Path) -> None:
    for _ in range(3):
        run = store.begin(KEY, START, {})
        run.content("before", b"same\n")
        run.content("after", b"same\n")
        run.content("after", b"same\n")
        turn = run.turn("judge-quality")
        turn.content("after", b"same\n")
    places = list((tmp_path / ".vibe-artifacts").rglob(sha256(b"same\n") + ".txt"))
    assert len(places) == 1 + 3 * 3
    assert len({place.stat().st_ino for place in places}) == 1


def test_events_tell_of_stored_contents_in_the_order_in_which_they_came(store: Store) -> None:
    run = store.begin(KEY, START, {})
    contents = [bytes([65 + number]) * (20_000 if number % 3 else 10) for number in range(50)]
    expected = [run.content("after", data, f"{number}.txt") for number, data in enumerate(contents)]
    run.event("log.mark")
    lines = [json.loads(line) for line in (run.directory / "events.ndjson").read_bytes().splitlines()]
    written = [line["data"] for line in lines if line["type"] == "artifact.written"]
    assert [about["path"] for about in written] == [f"{number}.txt" for number in range(50)]
    assert [about["sha256"] for about in written] == expected == [sha256(data) for data in contents]
    assert lines[-1]["type"] == "log.mark"
    assert all((run.directory / about["artifact"]).is_file() for about in written)


def test_a_large_run_shares_a_content_with_a_small_one_however_each_packs_it(store: Store, tmp_path: Path) -> None:
    shared = b"shared by both\n" * 1000
    contents = [b"%d\n" % number * 6000 for number in range(140)]
    small = store.begin(KEY, START, {})
    small.content("after", shared)
    large = store.begin(KEY, START, {})
    for data in [*contents, shared]:
        large.content("after", data)
        large.content("before", data)
    large.event("log.mark")
    assert large.lost is None
    stored = objects(tmp_path)
    assert {name.partition(".")[0] for name in stored} == {sha256(data) for data in [*contents, shared]}
    assert {sha256(gzip.decompress(data)) for data in stored.values()} == {name[:64] for name in stored}
    assert {data[4:8] for data in stored.values()} == {b"\0\0\0\0"}  # no time, whatever packed them
    names = [f"{side}/{sha256(shared)}.txt.gz" for side in ("before", "after")]
    links = [large.directory / "files" / name for name in names]
    links.append(small.directory / "files" / names[1])
    assert len({link.stat().st_ino for link in links}) == 1


def test_compressed_contents_are_byte_stable(store: Store, tmp_path: Path) -> None:
    run = store.begin(KEY, START, {})
    run.content("after", b"x" * 20_000)
    run.event("log.mark")
    (data,) = objects(tmp_path).values()
    assert data[4:8] == b"\0\0\0\0"  # no time in the gzip header


@pytest.mark.parametrize("limit_passed", [0, 1])
def test_of_more_than_ten_million_bytes_only_hash_and_size_are_kept(store: Store, limit_passed: int) -> None:
    data = b"x" * (10_000_000 + limit_passed)
    run = store.begin(KEY, START, {})
    assert run.content("after", data, "big.txt") == sha256(data)
    run.event("log.mark")
    line = (run.directory / "events.ndjson").read_bytes().splitlines()[-2].decode()
    assert f'"size":{len(data)}' in line
    assert ('"artifact":""' in line) == bool(limit_passed)
    assert (run.directory / "files").exists() != bool(limit_passed)


@pytest.mark.parametrize("data", [b"small\n", b"large\n" * 5000])
@pytest.mark.parametrize("damage", [b"", b"something else", b"\x1f\x8b\x08\0broken"])
def test_a_corrupt_object_is_quarantined_and_written_anew(tmp_path: Path, data: bytes, damage: bytes) -> None:
    first = open_store(tmp_path, Hush(), Clock()).begin(KEY, START, {})
    first.content("after", data)
    first.event("log.mark")
    (place,) = (p for p in (tmp_path / ".vibe-artifacts/objects").rglob("*") if p.is_file())
    place.write_bytes(damage)
    second = open_store(tmp_path, Hush(), Clock()).begin(KEY, START, {})
    assert second.content("after", data) == sha256(data)
    second.event("log.mark")
    assert second.lost is None
    (kept,) = (second.directory / "files/after").iterdir()
    stored = kept.read_bytes()
    assert (gzip.decompress(stored) if kept.suffix == ".gz" else stored) == data
    assert place.stat().st_ino == kept.stat().st_ino
    assert quarantined(tmp_path) == [damage]


def test_an_object_that_unpacks_without_end_is_not_unpacked(tmp_path: Path) -> None:
    data = b"y" * 20_000
    shelf = tmp_path / ".vibe-artifacts/objects" / sha256(data)[:2]
    shelf.mkdir(parents=True)
    (shelf / (sha256(data) + ".txt.gz")).write_bytes(gzip.compress(data + b"\0" * 10_000_000))
    run = open_store(tmp_path, Hush(), Clock()).begin(KEY, START, {})
    run.content("after", data)
    assert run.lost is None
    assert len(quarantined(tmp_path)) == 1


def _link(place: Path, target: Path) -> None:
    place.symlink_to(target)


def _fifo(place: Path, _target: Path) -> None:
    os.mkfifo(place)


def _folder(place: Path, _target: Path) -> None:
    place.mkdir()


@pytest.mark.parametrize("plant", [_link, _fifo, _folder])
def test_what_lies_in_an_objects_place_is_moved_aside_and_never_followed(tmp_path: Path, plant) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"data\n")
    shelf = tmp_path / ".vibe-artifacts/objects" / sha256(b"data\n")[:2]
    shelf.mkdir(parents=True)
    plant(shelf / (sha256(b"data\n") + ".txt"), target)
    run = open_store(tmp_path, Hush(), Clock()).begin(KEY, START, {})
    run.content("after", b"data\n")
    assert run.lost is None
    (kept,) = (run.directory / "files/after").iterdir()
    assert kept.is_file()
    assert not kept.is_symlink()
    assert kept.stat().st_ino != target.stat().st_ino
    assert target.read_bytes() == b"data\n"


def test_an_object_that_was_deleted_meanwhile_is_written_again(store: Store, tmp_path: Path) -> None:
    run = store.begin(KEY, START, {})
    run.content("before", b"same\n")
    for place in (tmp_path / ".vibe-artifacts/objects").rglob("*.txt"):
        place.unlink()
    run.content("after", b"same\n")
    assert run.lost is None
    assert (run.directory / "files/after" / (sha256(b"same\n") + ".txt")).read_bytes() == b"same\n"


_WITHOUT_LINKS = """
import ctypes, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from bundle_words import KEY, START, Clock, Hush, record_a_review, summary_of
from vibe_gate.store import open_store, read_summary
store = open_store(Path(sys.argv[1]), Hush(), Clock())
# A file system boundary between objects and bundles, as where objects/ is a mount of its own.
libc = ctypes.CDLL(None, use_errno=True)
objects = Path(sys.argv[1]) / ".vibe-artifacts/objects"
objects.mkdir()
if libc.mount(b"none", bytes(objects), b"tmpfs", 0, None):
    sys.exit(77)
run = store.begin(KEY, START, {})
record_a_review(run)
run.seal(summary_of(run))
assert run.lost is None, run.lost
assert read_summary(run.directory).outcome == "pass"
assert all(path.stat().st_nlink == 1 for path in (run.directory / "files").rglob("*") if path.is_file())
print(len(list((run.directory / "files/after").iterdir())))
"""


def test_where_links_cannot_reach_contents_are_copied(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    command = ["unshare", "-Urm", sys.executable, "-c", _WITHOUT_LINKS, str(tmp_path), str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tests.parent)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def _directory(run: RunRecorder) -> list[str]:
    return sorted(path.name for path in run.directory.iterdir())


def test_no_temporary_file_stays_behind(store: Store, tmp_path: Path) -> None:
    run = store.begin(KEY, START, {})
    for number in range(20):
        run.content("after", b"%d\n" % number)
    run.patch(b"patch")
    assert not [name for name in tree(tmp_path) if ".tmp-" in name]
    assert _directory(run) == [".lock", "change.patch", "events.ndjson", "files", "run.json"]
