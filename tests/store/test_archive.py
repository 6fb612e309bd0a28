"""Runs travel in a plain tar.xz of run directories, unpacked; what comes in is trusted with nothing."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import subprocess
import tarfile
import zlib
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    export_bundles,
    find_run,
    import_bundles,
    list_runs,
    summary_of,
    tree,
    verify_bundles,
)
from test_verify import NOW, left_off, place, seal_review

from vibe_gate.domain.bundles import Provenance
from vibe_gate.errors import IntegrityError, StorageError, UsageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store

Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def run(store: Store) -> RunRecorder:
    return seal_review(store)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another repository's root, without a store."""
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


def bundles(root: Path) -> dict[str, bytes]:
    """All files of the store but the marks of its writers."""
    files = tree(root / ".vibe-artifacts")
    return {name: data for name, data in files.items() if not name.endswith(".lock")}


def export_all(root: Path) -> Path:
    target = root / "all.tar.xz"
    export_bundles(root, list_runs(root), target, NOW)
    return target


def unpack(path: Path) -> Members:
    with tarfile.open(path) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar.getmembers()]  # type: ignore[union-attr]


def pack(path: Path, members: Members) -> Path:
    """An archive as another program would write it."""
    with tarfile.open(path, mode="w:xz", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(data))
    return path


def entry(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    return info, data


def assert_refused(root: Path, path: Path, sentence: str, provenance: Provenance = NOW) -> None:
    """The archive is refused with this sentence, and no file of it stays."""
    before = tree(root)
    with pytest.raises(IntegrityError, match=sentence) as caught:
        import_bundles(root, path, provenance)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("Nothing was imported.")
    after = tree(root)
    after.pop(".vibe-artifacts/.gitignore", None)
    before.pop(".vibe-artifacts/.gitignore", None)
    assert after == before
    assert not list((root / ".vibe-artifacts/trash").iterdir())


def test_runs_come_back_byte_for_byte(
    tmp_path: Path, store: Store, run: RunRecorder, other: Path
) -> None:
    seal_review(store, "q")
    imported = import_bundles(other, export_all(tmp_path), NOW)
    assert len(imported.runs) == 2
    assert bundles(other) == bundles(tmp_path)
    assert verify_bundles(other, NOW).is_sound


def test_whether_a_run_is_kept_is_not_part_of_an_archive(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    (run.directory / ".vibe-keep").touch()
    members = unpack(export_all(tmp_path))
    assert not [info for info, _ in members if info.name.endswith(".vibe-keep")]
    keep = entry(f"{KEY}/{run.run_id}/.vibe-keep")
    import_bundles(other, pack(tmp_path / "b.tar.xz", [*members, keep]), NOW)
    assert list_runs(other)
    assert not list(other.rglob(".vibe-keep"))


def test_tar_opens_it_and_what_tar_packed_comes_in(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    subprocess.run(["tar", "xf", export_all(tmp_path), "-C", aside], check=True)
    written = tree(aside / KEY / run.run_id)
    assert written == plain_files(run.directory)
    assert "files/after/" in "".join(written) and "change.patch" in written
    subprocess.run(["tar", "cJf", tmp_path / "own.tar.xz", "-C", aside, KEY], check=True)
    assert import_bundles(other, tmp_path / "own.tar.xz", NOW).runs == (place("", run),)
    assert bundles(other) == bundles(tmp_path)


def test_a_run_that_tar_took_out_of_an_archive_is_whole_as_it_lies_there(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    (other / ".vibe-artifacts").mkdir()
    (other / ".vibe-artifacts/.gitignore").write_text("*\n")
    subprocess.run(["tar", "xf", export_all(tmp_path), "-C", other / ".vibe-artifacts"], check=True)
    assert verify_bundles(other, NOW).is_sound
    bundle = other / ".vibe-artifacts" / KEY / run.run_id
    assert read_bundle(bundle).change_patch == read_bundle(run.directory).change_patch
    assert plain_files(bundle) == dict(unpacked_files(export_all(other), run))


def test_a_store_that_another_tar_packed_comes_in_with_its_gzips(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    store_folder = tmp_path / ".vibe-artifacts"
    archive = tmp_path / "own.tar.xz"
    subprocess.run(["tar", "cJf", archive, "--exclude=.lock", "-C", store_folder, KEY], check=True)
    assert import_bundles(other, archive, NOW).runs == (place("", run),)
    assert bundles(other) == bundles(tmp_path)


def plain_files(folder: Path) -> dict[str, bytes]:
    """The files of a run as an archive has them."""
    files = {}
    for name, data in tree(folder).items():
        if name.endswith(".gz"):
            files[name.removesuffix(".gz")] = gzip.decompress(data)
        elif name != ".lock":
            files[name] = data
    return files


def unpacked_files(archive: Path, run: RunRecorder) -> list[tuple[str, bytes]]:
    """The files of a run in an archive."""
    beginning = f"{KEY}/{run.run_id}/"
    return [(info.name.removeprefix(beginning), data) for info, data in unpack(archive)]


def test_the_same_runs_make_the_same_archive(tmp_path: Path, run: RunRecorder) -> None:
    first = export_all(tmp_path).read_bytes()
    (tmp_path / "all.tar.xz").unlink()
    assert export_all(tmp_path).read_bytes() == first


def test_long_names_of_nodes_travel(tmp_path: Path, store: Store, other: Path) -> None:
    run = store.begin(KEY, START, {})
    run.turn("n" * 128).keep_content("after", b"x\n")
    run.seal(summary_of(run))
    import_bundles(other, export_all(tmp_path), NOW)
    assert find_run(other).state == "sealed"


def test_importing_twice_says_so_and_changes_nothing(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    path = export_all(tmp_path)
    import_bundles(other, path, NOW)
    before = tree(other)
    second = import_bundles(other, path, NOW)
    assert (second.runs, second.already) == ((), (place("", run),))
    assert tree(other) == before


def test_a_run_that_is_here_with_other_content_is_never_overwritten(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    path = export_all(tmp_path)
    import_bundles(other, path, NOW)
    (other / ".vibe-artifacts" / KEY / run.run_id / "run.json").write_text("mine")
    assert_refused(other, path, "with other content")


def test_only_sound_runs_that_ended_are_exported(
    tmp_path: Path, store: Store, run: RunRecorder
) -> None:
    alive = store.begin(KEY, START + timedelta(seconds=1), {})
    with pytest.raises(UsageError, match="still running"):
        export_all(tmp_path)
    alive.close()
    (run.directory / "change.patch").write_text("another")
    with pytest.raises(IntegrityError, match="changed after sealing"):
        export_all(tmp_path)
    assert not list(tmp_path.glob("all*"))


def test_a_run_that_never_began_is_neither_exported_nor_imported(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    members = [
        member
        for member in unpack(export_all(tmp_path))
        if not member[0].name.endswith("/run.json")
    ]
    (tmp_path / "all.tar.xz").unlink()
    assert_refused(other, pack(tmp_path / "b.tar.xz", members), "has no run.json|it is missing")
    bare = tmp_path / ".vibe-artifacts" / KEY / "20260102T030405678Z-00000000"
    bare.mkdir()
    with pytest.raises(UsageError, match="never began"):
        export_all(tmp_path)


def test_a_run_that_did_not_end_is_neither_exported_nor_imported(
    tmp_path: Path, store: Store, run: RunRecorder, other: Path
) -> None:
    path = export_all(tmp_path)
    unsealed = [
        member
        for member in unpack(path)
        if not member[0].name.endswith(f"{run.run_id}/summary.json")
    ]
    assert_refused(
        other,
        pack(tmp_path / "b.tar.xz", unsealed),
        "did not end, and only runs that ended are imported",
    )
    path.unlink()
    left_off(store)
    with pytest.raises(UsageError, match="did not end, and only runs that ended are exported"):
        export_all(tmp_path)


def test_an_archive_is_never_written_over_a_file(tmp_path: Path, run: RunRecorder) -> None:
    (tmp_path / "all.tar.xz").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        export_all(tmp_path)
    assert (tmp_path / "all.tar.xz").read_text() == "mine"
    with pytest.raises(UsageError, match="missing does not exist"):
        export_bundles(tmp_path, list_runs(tmp_path), tmp_path / "missing" / "a.tar.xz", NOW)


RUN_ID = "20260102T030405678Z-00000000"


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        (entry("/etc/passwd"), "is not a file of a bundle"),
        (entry(f"{KEY}/{RUN_ID}/../../x"), "is not a file of a bundle"),
        (
            entry(f"{KEY}/{RUN_ID}/run.json", kind=tarfile.SYMTYPE, link="/etc/passwd"),
            "is not a regular file",
        ),
        (
            entry(f"{KEY}/{RUN_ID}/run.json", kind=tarfile.LNKTYPE, link="a"),
            "is not a regular file",
        ),
        (entry(f"{KEY}/{RUN_ID}/run.json", kind=tarfile.FIFOTYPE), "is not a regular file"),
        (entry(f"{KEY}/{RUN_ID}/.lock"), "is not a file of a bundle"),
        (
            entry(f"{KEY}/{RUN_ID}/files/after/{'0' * 64}.sh"),
            "is not a file of a bundle",
        ),
        (entry(f"TRASH/{RUN_ID}/run.json"), "is not a file of a bundle"),
        (entry(f"{KEY}/latest/run.json"), "is not a file of a bundle"),
        (entry("caf\udce9"), "is not a whole tar.xz"),
        (entry("x" * 9000), "more than 4,096 bytes"),
    ],
)
def test_whatever_is_not_a_plain_file_of_a_bundle_is_refused(
    tmp_path: Path,
    run: RunRecorder,
    other: Path,
    member: tuple[tarfile.TarInfo, bytes],
    sentence: str,
) -> None:
    members = unpack(export_all(tmp_path))
    assert_refused(other, pack(tmp_path / "b.tar.xz", [*members, member]), sentence)


def pack_changed(tmp_path: Path, name: str, data: bytes) -> Path:
    members = [
        (info, data if info.name.endswith(name) else old)
        for info, old in unpack(export_all(tmp_path))
    ]
    return pack(tmp_path / "b.tar.xz", members)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        (".bin", b"other bytes", "do not match the hash"),
        ("change.patch", b"another", "changed after sealing"),
        ("summary.json", b'{"a": 1, "a": 2}', "a name twice"),
        ("turn.log", b"", "changed after sealing"),
    ],
)
def test_a_run_that_verify_would_call_corrupt_is_refused(
    tmp_path: Path, run: RunRecorder, other: Path, name: str, data: bytes, sentence: str
) -> None:
    assert_refused(other, pack_changed(tmp_path, name, data), sentence)


@pytest.mark.parametrize(
    ("packed_content", "sentence"),
    [
        (gzip.compress(b"0" * 20_000_000, mtime=0), "cannot be unpacked"),
        (b"no gzip", "cannot be unpacked"),
        (gzip.compress(b"other bytes", mtime=0), "do not match the hash"),
    ],
)
def test_a_gzip_in_an_archive_is_refused_unless_it_holds_its_content(
    tmp_path: Path, run: RunRecorder, other: Path, packed_content: bytes, sentence: str
) -> None:
    content = next(run.directory.glob("files/*/*.gz"))
    path = f"{KEY}/{run.run_id}/{content.relative_to(run.directory)}"
    members = [m for m in unpack(export_all(tmp_path)) if m[0].name != path.removesuffix(".gz")]
    archive = pack(tmp_path / "b.tar.xz", [*members, entry(path, packed_content)])
    assert_refused(other, archive, sentence)


def test_a_content_and_its_gzip_are_one_name_twice(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    content = next(run.directory.glob("files/*/*.gz"))
    path = f"{KEY}/{run.run_id}/{content.relative_to(run.directory)}"
    members = [*unpack(export_all(tmp_path)), entry(path, content.read_bytes())]
    assert_refused(other, pack(tmp_path / "b.tar.xz", members), "in it twice")


def test_a_name_twice_or_in_other_case_is_refused(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    members = unpack(export_all(tmp_path))
    assert_refused(other, pack(tmp_path / "b.tar.xz", [*members, members[0]]), "in it twice")
    upper = entry(members[0][0].name.replace(KEY, KEY.upper()), members[0][1])
    assert_refused(other, pack(tmp_path / "c.tar.xz", [*members, upper]), "only in case")
    (other / ".vibe-artifacts" / KEY.upper()).mkdir(parents=True)
    assert_refused(other, tmp_path / "all.tar.xz", "in other case")


def test_an_archive_that_was_cut_or_goes_on_or_is_none_is_refused(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    packed_bytes = export_all(tmp_path).read_bytes()
    for number, data in enumerate(
        [
            b"",
            b"PK\3\4",
            gzip.compress(packed_bytes),
            lzma.compress(b"no tar" * 200),
            packed_bytes[: len(packed_bytes) // 2],
            packed_bytes[:-4],
            packed_bytes + b"more",
        ]
    ):
        path = tmp_path / f"{number}.tar.xz"
        path.write_bytes(data)
        assert_refused(other, path, "it (is not a whole tar.xz|is packed by gzip|goes on)")


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE, tarfile.DIRTYPE]
)
def test_a_bomb_ends_at_the_header_that_announces_it(
    tmp_path: Path, other: Path, kind: bytes
) -> None:
    """The archive ends in the middle: who reads on would say so."""
    info = tarfile.TarInfo(f"{KEY}/{RUN_ID}/events.ndjson")
    info.type, info.size = kind, 1 << 30
    header = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    bomb = lzma.compress(header + os.urandom(1 << 16))
    (tmp_path / "bomb.tar.xz").write_bytes(bomb[:-100])
    assert_refused(
        other,
        tmp_path / "bomb.tar.xz",
        "unpacks to more|more than 4,096 bytes|a folder with content",
    )


@pytest.mark.slow
def test_bytes_that_no_header_announces_are_counted(tmp_path: Path, other: Path) -> None:
    info = tarfile.TarInfo(f"{KEY}/{RUN_ID}/events.ndjson")
    data = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict") + bytes(65 << 20)
    (tmp_path / "bomb.tar.xz").write_bytes(lzma.compress(data, preset=0))
    assert_refused(other, tmp_path / "bomb.tar.xz", "unpacks to more")


@pytest.mark.parametrize("name", ["change.patch.gz", "nodes/n/turn-001/turn.patch.gz"])
def test_what_a_gzip_in_an_archive_unpacks_to_counts_for_its_size(
    tmp_path: Path, run: RunRecorder, other: Path, name: str
) -> None:
    small_gzip = gzip.compress(bytes(65 << 20), mtime=0)
    bomb = entry(f"{KEY}/{run.run_id}/{name}", small_gzip)
    archive = pack(tmp_path / "b.tar.xz", [bomb])
    assert archive.stat().st_size < 3_000
    assert_refused(other, archive, "unpacks to more than 67,108,864 bytes")


def test_an_archive_that_wants_gigabytes_of_memory_is_refused(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    path = export_all(tmp_path)
    data = bytearray(path.read_bytes())
    end = 12 + data[12] * 4  # of the header of the first block, but for its checksum
    assert data[14:16] == b"\x21\x01"  # LZMA2, and one byte that says the size of its window
    data[16] = 40  # 4 GiB
    data[end : end + 4] = zlib.crc32(data[12:end]).to_bytes(4, "little")
    path.write_bytes(data)
    assert_refused(other, path, "needs more than 134,217,728 bytes of memory")


def test_where_git_tracks_the_store_or_it_is_a_link_nothing_is_imported(
    tmp_path: Path, run: RunRecorder, other: Path
) -> None:
    path = export_all(tmp_path)
    (other / ".vibe-artifacts").mkdir()
    with pytest.raises(StorageError, match="git rm -r --cached"):
        import_bundles(other, path, Provenance(START + timedelta(days=1), [".vibe-artifacts/x"]))
    (other / ".vibe-artifacts").rmdir()
    (other / ".vibe-artifacts").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="symbolic link"):
        import_bundles(other, path, NOW)
