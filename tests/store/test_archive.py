"""Runs travel in one archive: out and in byte for byte, and nothing hostile comes in."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bundle_words import KEY, START, record_a_review, summary_of, tree
from test_verify import NOW, TURN, break_link, content_of, damaged, left_off, place, sealed

from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store import (
    Provenance,
    RunRecorder,
    RunView,
    Store,
    archive,
    export_bundles,
    find_run,
    import_bundles,
    list_runs,
    verify_bundles,
)
from vibe_gate.store.archive import zstd

Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def run(store: Store) -> RunRecorder:
    return sealed(store)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another repository's root, without a store."""
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


def bundles(root: Path) -> dict[str, bytes]:
    """All files of the store but the marks of its writers."""
    found = tree(root / ".vibe-artifacts")
    return {name: data for name, data in found.items() if not name.endswith(".lock")}


def exported(root: Path) -> Path:
    target = root / "all.tar.zst"
    export_bundles(root, list_runs(root), target, NOW)
    return target


def unpacked(path: Path) -> Members:
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(path.read_bytes()))) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar.getmembers()]  # type: ignore[union-attr]


def packed(path: Path, members: Members) -> Path:
    """An archive as another program would write it."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(data))
    path.write_bytes(zstd.compress(raw.getvalue()))
    return path


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    return info, data


def refused(root: Path, path: Path, why: str, provenance: Provenance = NOW) -> None:
    """The archive is refused with one sentence, and nothing of it stays."""
    before = tree(root)
    with pytest.raises(IntegrityError, match=why) as caught:
        import_bundles(root, path, provenance)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("Nothing was imported.")
    after = tree(root)
    after.pop(".vibe-artifacts/.gitignore", None)
    before.pop(".vibe-artifacts/.gitignore", None)
    assert after == before
    assert not [place for place in (root / ".vibe-artifacts").iterdir() if place.name.startswith(".tmp-")]


def test_runs_come_back_byte_for_byte(tmp_path: Path, store: Store, run: RunRecorder, other: Path) -> None:
    sealed(store, "q")
    left_off(store)
    (run.directory / ".vibe-keep").touch()
    done = import_bundles(other, exported(tmp_path), NOW)
    assert len(done.runs) == 3
    assert bundles(other) == bundles(tmp_path)
    assert verify_bundles(other, NOW).is_sound
    assert find_run(other, run.run_id).summary.outcome == "pass"


def test_what_is_shown_often_is_in_it_once_and_on_disk_once(tmp_path: Path, store: Store, other: Path) -> None:
    for prompt in "pqrs":
        sealed(store, prompt)
    path = exported(tmp_path)
    contents = [info.name for info, _ in unpacked(path) if info.name.startswith("contents/")]
    assert len(contents) == len(set(contents)) == 4
    import_bundles(other, path, NOW)
    some = next((other / ".vibe-artifacts" / KEY).glob("*/files/after/*.bin"))
    assert some.stat().st_nlink == 5


def test_the_same_runs_make_the_same_archive(tmp_path: Path, run: RunRecorder) -> None:
    first = exported(tmp_path).read_bytes()
    (tmp_path / "all.tar.zst").unlink()
    assert exported(tmp_path).read_bytes() == first


def test_any_tar_can_unpack_it(tmp_path: Path, run: RunRecorder) -> None:
    members = {info.name: data for info, data in unpacked(exported(tmp_path))}
    assert members[place("summary.json", run)] == (run.directory / "summary.json").read_bytes()
    digest = content_of(run, ".txt.gz").name.partition(".")[0]
    assert hashlib.sha256(members[f"contents/{digest}.txt"]).hexdigest() == digest


def test_a_gzip_by_another_hand_makes_the_same_archive_and_the_same_store(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    first, before = exported(tmp_path).read_bytes(), bundles(tmp_path)
    path = content_of(run, ".txt.gz")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 1))
    (tmp_path / "all.tar.zst").unlink()
    assert exported(tmp_path).read_bytes() == first
    import_bundles(other, tmp_path / "all.tar.zst", NOW)
    assert bundles(other) == before


def test_importing_twice_says_so_and_changes_nothing(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    import_bundles(other, path, NOW)
    (other / ".vibe-artifacts" / place(".vibe-keep", run)).touch()
    before = tree(other)
    done = import_bundles(other, path, NOW)
    assert (done.runs, done.already) == ((), (place("", run),))
    assert tree(other) == before


def test_a_run_that_is_here_with_other_content_is_never_overwritten(
    tmp_path: Path, store: Store, run: RunRecorder, other: Path
) -> None:
    newer = sealed(store, "q")
    path = exported(tmp_path)
    import_bundles(other, path, NOW)
    shutil.rmtree(other / ".vibe-artifacts" / place("", newer))
    damaged(other / ".vibe-artifacts" / place("change.patch", run), lambda data: data + b" ")
    refused(other, path, f"another run is here as {place('', run)}")


def test_what_the_store_has_is_verified_before_it_is_shared(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    name = content_of(run, ".bin").name
    shelf = other / ".vibe-artifacts/objects" / name[:2]
    shelf.mkdir(parents=True)
    (shelf / name).write_bytes(b"planted")
    import_bundles(other, path, NOW)
    assert verify_bundles(other, NOW).flaws == ()
    assert (shelf / name).read_bytes() != b"planted"


def test_only_sound_runs_that_ended_are_exported(tmp_path: Path, store: Store, run: RunRecorder) -> None:
    running = store.begin(KEY, START, {"prompt": "at it"})
    target = tmp_path / "one.tar.zst"
    with pytest.raises(UsageError, match="is still running"):
        export_bundles(tmp_path, [find_run(tmp_path, running.run_id)], target, NOW)
    damaged(run.directory / "run.json", lambda data: data + b" ")
    with pytest.raises(IntegrityError, match=r"it was changed after sealing\. It was not exported"):
        export_bundles(tmp_path, [find_run(tmp_path, run.run_id)], target, NOW)
    assert not target.exists()
    running.close()


def test_an_archive_is_never_written_over_a_file(tmp_path: Path, run: RunRecorder) -> None:
    (tmp_path / "all.tar.zst").write_text("precious")
    with pytest.raises(UsageError, match="exists already"):
        exported(tmp_path)
    assert (tmp_path / "all.tar.zst").read_text() == "precious"
    with pytest.raises(StorageError, match="was not written: No such file"):
        export_bundles(tmp_path, list_runs(tmp_path), tmp_path / "nowhere/a.tar.zst", NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".vibe-artifacts", "all.tar.zst"]


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        import_bundles(tmp_path, tmp_path / "none.tar.zst", NOW)


HOSTILE: dict[str, tuple[Callable[[], tuple[tarfile.TarInfo, bytes]], str]] = {
    "traversal": (lambda: entry("../../evil"), "leads out of the archive"),
    "traversal inside": (lambda: entry(f"{KEY}/x/../../y"), "leads out"),
    "absolute": (lambda: entry("/etc/passwd"), "is an absolute name"),
    "symlink": (lambda: entry(f"{KEY}/link", kind=tarfile.SYMTYPE, link="/etc"), "is a link, and only files"),
    "hard link": (lambda: entry("contents/x", kind=tarfile.LNKTYPE, link="/etc/passwd"), "is a link, and only files"),
    "device": (lambda: entry("null", kind=tarfile.CHRTYPE), "is a device"),
    "block device": (lambda: entry("sda", kind=tarfile.BLKTYPE), "is a device"),
    "pipe": (lambda: entry("pipe", kind=tarfile.FIFOTYPE), "is a pipe"),
    "folder": (lambda: entry("folder", kind=tarfile.DIRTYPE), "is a folder"),
    "sparse file": (lambda: entry("sparse", kind=tarfile.GNUTYPE_SPARSE), "is no file"),
    "no run's": (lambda: entry("stranger/file", b"x"), "belongs to no run"),
    "no name": (lambda: entry("", b"x"), "belongs to no run"),
    "no content": (lambda: entry("contents/readme", b"x"), "is no name of a content"),
    "escape in a name": (lambda: entry("a\x1b[31m", b"x"), r"'a\\x1b\[31m' belongs to no run"),
    "endless name": (lambda: entry("a" * 600, b"x"), "a name that is too long"),
    "endless header": (lambda: entry("a" * 6000, b"x"), "a header that no export writes"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_whatever_is_no_plain_file_of_a_bundle_is_refused(
    tmp_path: Path, run: RunRecorder, other: Path, what: str
) -> None:
    make, why = HOSTILE[what]
    path = exported(tmp_path)
    refused(other, packed(path, [*unpacked(path), make()]), why)


IN_A_RUN = {
    "no file of a bundle": ("notes.txt", b"x", "is no file of a bundle"),
    "hidden": (".git/config", b"x", "is no file of a bundle"),
    "a lock": (".lock", b"", "is no file of a bundle"),
    "a content outside contents/": (f"files/after/{'0' * 64}.txt", b"x", "is no file of a bundle"),
    "twice": ("run.json", b"{}", "is in it twice"),
    "a twin in another case": ("nodes/JUDGE-quality/turn-001/turn.log", b"x", "if only in other case"),
    "a mark that is none": (".vibe-keep", b"x", "is larger than 0 bytes"),
    "an attachment of another name": (f"annotations/{'0' * 64}", b"x", "are not those that its name says"),
    "added": ("nodes/judge-quality/turn-001/turn.patch", b"x", "it was added after sealing"),
    "a torn log": ("annotations.ndjson", b'{"seq": 0', "its last line is torn"),
}


@pytest.mark.parametrize("what", IN_A_RUN)
def test_whatever_does_not_belong_in_a_run_is_refused(tmp_path: Path, run: RunRecorder, other: Path, what: str) -> None:
    name, data, why = IN_A_RUN[what]
    path = exported(tmp_path)
    refused(other, packed(path, [*unpacked(path), entry(place(name, run), data)]), why)


def rewritten(path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    return packed(path, [(info, change(data) if name in info.name else data) for info, data in unpacked(path)])


def test_what_a_summary_does_not_vouch_for_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = rewritten(exported(tmp_path), "change.patch", lambda data: data + b"+evil\n")
    refused(other, path, "change.patch: it was changed after sealing")


def test_a_content_that_is_not_what_its_name_says_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = rewritten(exported(tmp_path), ".bin", lambda data: data[::-1])
    refused(other, path, "are not those that its name says")


def test_a_content_under_another_suffix_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    members = unpacked(path)
    for info, _ in members:
        info.name = info.name.replace(".bin", ".txt")
    refused(other, packed(path, members), "should be called")


def test_a_content_that_is_missing_or_nobodys_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    members = unpacked(path)
    short = packed(tmp_path / "short.tar.zst", [pair for pair in members if ".bin" not in pair[0].name])
    refused(other, short, "the content .*bin is not in it")
    nobodys = entry(f"contents/{hashlib.sha256(b'x').hexdigest()}.txt", b"x")
    refused(other, packed(path, [*members, nobodys]), "is shown by no run")


def test_a_name_twice_in_a_document_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = rewritten(exported(tmp_path), "run.json", lambda data: data.replace(b"{", b'{"key": "", ', 1))
    refused(other, path, "run.json: it (has a name twice|was changed after sealing)")


def manifest_with(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        return json.dumps(document).encode()

    return changed


MANIFESTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "it is not JSON"),
    "not UTF-8": (lambda data: b'{"\xff": 1}', "it is not UTF-8"),
    "a key twice": (lambda data: data.replace(b"{", b'{"schema": 1, ', 1), "a name twice in one object"),
    "nested": (lambda data: b'{"a":' + b"[" * 100_000, "nested too deeply|not JSON"),
    "another schema": (manifest_with(lambda it: it.update(schema=2)), "not of a known schema"),
    "more keys": (manifest_with(lambda it: it.update(hook="sh")), "not of a known schema"),
    "no runs": (manifest_with(lambda it: it.update(runs=[])), "it holds no runs"),
    "a run twice": (manifest_with(lambda it: it["runs"].append(it["runs"][0])), "twice"),
    "a key that leads out": (manifest_with(lambda it: it["runs"][0].update(key="..")), "a run that none can be"),
    "a key of the store": (manifest_with(lambda it: it["runs"][0].update(key="objects")), "a run that none can be"),
    "a key of the store in other case": (
        manifest_with(lambda it: it["runs"][0].update(key="OBJECTS")), "a run that none can be",
    ),
    "a number of 5,000 digits": (lambda data: data.replace(b"1", b"1" * 5000, 1), "more digits than any of ours"),
    "a run id that leads out": (
        manifest_with(lambda it: it["runs"][0].update(run_id="../../x")), "a run that none can be",
    ),
    "another run": (
        manifest_with(lambda it: it["runs"][0].update(run_id="20260102T030405678Z-00000000")), "belongs to no run",
    ),
    "a content that leads out": (
        manifest_with(lambda it: it["runs"][0]["contents"].append("files/after/../../x")), "where no bundle has one",
    ),
    "a content twice": (
        manifest_with(lambda it: it["runs"][0]["contents"].append(it["runs"][0]["contents"][0])), "in it twice",
    ),
    "a content less": (manifest_with(lambda it: it["runs"][0]["contents"].pop()), "shown by no run|is missing"),
}  # fmt: skip


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_manifest_that_says_something_else_is_refused(
    tmp_path: Path, run: RunRecorder, other: Path, what: str
) -> None:
    change, why = MANIFESTS[what]
    refused(other, rewritten(exported(tmp_path), "vibe-gate-bundles.json", change), why)


def test_an_archive_of_something_else_is_refused(tmp_path: Path, other: Path) -> None:
    refused(other, packed(tmp_path / "x", [entry("a.txt", b"x")]), "no export of vibe-gate")
    refused(other, packed(tmp_path / "x", []), "no export of vibe-gate")
    for raw in (b"", b"PK\3\4", b"\x28\xb5\x2f\xfd", zstd.compress(b"text" * 200), bytes(1024)):
        (tmp_path / "x").write_bytes(raw)
        refused(other, tmp_path / "x", "no whole zstd archive|ends too soon|no export writes")


def test_an_archive_that_was_cut_or_goes_on_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    whole = path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        refused(other, path, "ends too soon|no whole zstd")
    for more in (b"x", whole, zstd.compress(b"x")):
        path.write_bytes(whole + more)
        refused(other, path, "goes on after its end")
    raw = zstd.decompress(whole)
    path.write_bytes(zstd.compress(raw + b"x" * 512))
    refused(other, path, "goes on after its end")
    path.write_bytes(zstd.compress(raw[:-600]))
    refused(other, path, "ends too soon")


def test_a_flipped_bit_is_refused_or_harmless(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            import_bundles(other, path, NOW)
        except IntegrityError:
            continue
        assert bundles(other) == bundles(tmp_path)
        shutil.rmtree(other / ".vibe-artifacts")


def test_names_that_are_not_utf8_are_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT, encoding="latin-1") as tar:
        tar.addfile(tarfile.TarInfo("caf\xe9"))
    whole = zstd.decompress(path.read_bytes())[:-1024]
    path.write_bytes(zstd.compress(whole + raw.getvalue()))
    refused(other, path, "a name that is not UTF-8")


def test_a_nul_in_a_long_name_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    info, _ = entry("x")
    info.pax_headers = {"path": place(f"{TURN}/turn.log\0x", run)}
    refused(
        other, packed(tmp_path / "x", [*unpacked(exported(tmp_path)), (info, b"")]), "a header that no export writes"
    )


def test_more_contents_than_files_are_taken_are_refused_as_soon_as_they_are_counted(
    tmp_path: Path, other: Path
) -> None:
    contents = [f"files/after/{number:064x}.txt" for number in range(archive.MAX_MEMBERS + 1)]
    run = {"key": "k", "run_id": "20260101T000000000Z-00000000", "contents": contents}
    manifest = json.dumps({"schema": 1, "runs": [run]}).encode()
    path = packed(tmp_path / "x", [entry("vibe-gate-bundles.json", manifest)])
    refused(other, path, "are more than 500,000")


def test_a_log_that_does_not_begin_as_any_is_refused_before_the_rest_is_unpacked(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    path = rewritten(exported(tmp_path), place("events.ndjson", run), lambda data: b"[4711]\n" + bytes(1 << 20))
    raw = zstd.decompress(path.read_bytes())
    cut = raw[: raw.index(b"[4711]\n") + (1 << 18)]
    path.write_bytes(zstd.compress(cut))  # whoever reads on is told that it ends too soon
    refused(other, path, "does not begin with run.created")


def test_a_run_that_is_cleaned_away_while_it_is_exported_is_named(tmp_path: Path, run: RunRecorder) -> None:
    class Cleaned(RunView):
        @property
        def has_begun(self) -> bool:
            shutil.rmtree(self.directory)
            return True

    view = Cleaned(run.run_id, KEY, run.directory)
    with pytest.raises(StorageError, match=f"the run {run.run_id} was cleaned away meanwhile"):
        export_bundles(tmp_path, [view], tmp_path / "x", NOW)
    assert not (tmp_path / "x").exists()


def test_a_key_that_is_here_in_other_case_is_refused(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    (other / ".vibe-artifacts" / KEY.upper()).mkdir(parents=True)
    (other / ".vibe-artifacts/.gitignore").write_text("*\n")
    refused(other, exported(tmp_path), "is here in other case")


@pytest.mark.parametrize("size", [b"77777777777\0", b"-0000000001\0", b"\x80" + b"\xff" * 11, b"0x000000001\0"])
def test_a_size_that_is_none_is_refused(tmp_path: Path, run: RunRecorder, other: Path, size: bytes) -> None:
    path = exported(tmp_path)
    raw = bytearray(zstd.decompress(path.read_bytes()))
    raw[124:136] = size
    raw[148:156] = b"%06o\0 " % (sum(raw[:148]) + 256 + sum(raw[156:512]))
    path.write_bytes(zstd.compress(bytes(raw)))
    refused(other, path, "a header that no export writes|larger than")


def test_a_bomb_ends_after_a_few_megabytes(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    head = zstd.decompress(path.read_bytes())[:-1024]
    info = tarfile.TarInfo(place("annotations.ndjson", run))
    info.size = 1 << 30
    compressor = zstd.ZstdCompressor(19)
    pieces = [compressor.compress(head + info.tobuf(tarfile.PAX_FORMAT))]
    pieces += [compressor.compress(bytes(1 << 24)) for _ in range(64)]
    path.write_bytes(b"".join(pieces) + compressor.flush())
    assert path.stat().st_size < 200_000
    refused(other, path, "it unpacks to more than 1000 times its size")


def test_a_content_larger_than_any_is_refused_before_it_is_read(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    path = exported(tmp_path)
    big = entry(f"contents/{'0' * 64}.bin", bytes(10_000_001))
    refused(other, packed(path, [*unpacked(path), big]), "is larger than 10,000,000 bytes")


def test_a_run_of_the_far_future_or_in_a_tracked_place_is_refused(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    path = exported(tmp_path)
    refused(other, path, "in the future", Provenance(START - timedelta(days=1)))
    refused(other, path, "git tracks it", Provenance(START, {f".vibe-artifacts/{place('run.json', run)}"}))


def test_where_the_store_is_a_link_nothing_is_imported(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (other / ".vibe-artifacts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a symbolic link"):
        import_bundles(other, exported(tmp_path), NOW)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_copies_where_links_were_impossible_travel_too(tmp_path: Path, run: RunRecorder, other: Path) -> None:
    break_link(content_of(run, ".bin"))
    import_bundles(other, exported(tmp_path), NOW)
    assert bundles(other) == bundles(tmp_path)
    assert verify_bundles(other, NOW).flaws == ()


def test_two_nodes_that_another_disk_takes_for_one_are_not_exported(tmp_path: Path, store: Store) -> None:
    run = store.begin(KEY, START, {})
    record_a_review(run)
    for node in ("Fix", "fix"):
        run.turn(node).fail("over")
    run.seal(summary_of(run))
    with pytest.raises(IntegrityError, match="twice, if only in other case"):
        exported(tmp_path)


def test_the_limits_are_what_the_document_says() -> None:
    text = (Path(__file__).parents[2] / "docs/bundles.md").read_text()
    for limit in (archive.MAX_RATIO, archive.MAX_MEMBERS, archive.MAX_BYTES >> 30, archive.FREE_BYTES >> 20):
        assert f"{limit:,}" in text
