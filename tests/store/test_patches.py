"""Patches above 1 MiB are stored as gzips, and read, sealed and verified as the text they hold."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from bundle_words import KEY, START, find_run, summary_of, verify_bundles
from msgspec.structs import replace
from test_verify import NOW

from vibe_gate.domain.summary import ChangedFile
from vibe_gate.errors import IntegrityError
from vibe_gate.store.folder import Folder
from vibe_gate.store.patch_files import MAX_PACKED_TEXT, is_patch_packed, place_patch
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store

PATHS = ("a.txt", "b.txt")
LINES = 40_000


def section(path: str, line_count: int) -> bytes:
    """A new file's part of a patch."""
    lines = "".join(f"+line {number} of {path}\n" for number in range(line_count))
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{line_count} @@\n{lines}".encode()


PATCH = b"".join(section(path, LINES) for path in PATHS)


@pytest.fixture
def run(store: Store) -> RunRecorder:
    """A sealed run of a change with a larger patch."""
    run = store.begin(KEY, START, {})
    run.keep_patch(PATCH)
    facts = {
        "old_path": None,
        "change_type": "added",
        "added": LINES,
        "deleted": 0,
        "binary": False,
    }
    files = tuple(ChangedFile(path=path, **facts) for path in PATHS)
    summary = summary_of(run)
    run.seal(replace(summary, change=replace(summary.change, files=files)))
    assert run.lost is None
    return run


def test_a_larger_patch_is_a_gzip_that_git_applies(run: RunRecorder, tmp_path: Path) -> None:
    names = {path.name for path in run.directory.iterdir()}
    assert "change.patch.gz" in names and "change.patch" not in names
    command = f"gzip -dc {run.directory}/change.patch.gz | git apply"
    (tmp_path / "work").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "work", check=True)
    subprocess.run(["sh", "-c", command], cwd=tmp_path / "work", check=True)
    assert len((tmp_path / "work/b.txt").read_text().splitlines()) == LINES


def test_seal_and_log_name_the_patch_and_hash_its_text(run: RunRecorder, tmp_path: Path) -> None:
    digests = json.loads((run.directory / "summary.json").read_text())["digests"]
    artifacts = [event.data for event in find_run(tmp_path).events() if event.data.get("artifact")]
    text_hash = hashlib.sha256(PATCH).hexdigest()
    assert (digests["change.patch"], "change.patch.gz" in digests) == (text_hash, False)
    assert artifacts == [{"artifact": "change.patch", "sha256": text_hash, "size": len(PATCH)}]


def test_readers_get_the_text_and_each_file_of_it_in_any_order(run: RunRecorder) -> None:
    result = read_bundle(run.directory)
    files = result.files.changed()
    assert result.change_patch == PATCH
    for file in (files[1], files[0], files[1]):
        assert file.patch().encode() == section(file.path, LINES)


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"another\n", mtime=0),
        gzip.compress(PATCH, mtime=0)[:-9],
        # Empty gzips cost who reads them, and no byte of the text.
        gzip.compress(b"", mtime=0) + gzip.compress(PATCH, mtime=0),
        gzip.compress(PATCH, mtime=0) + gzip.compress(b"", mtime=0),
        gzip.compress(PATCH, mtime=0) + bytes(10),
        b"no gzip",
        b"",
    ],
)
def test_a_gzip_that_was_altered_is_named(run: RunRecorder, tmp_path: Path, data: bytes) -> None:
    (run.directory / "change.patch.gz").write_bytes(data)
    with pytest.raises(IntegrityError, match=r"change\.patch is corrupt"):
        read_bundle(run.directory).change_patch  # noqa: B018
    (problem,) = verify_bundles(tmp_path, NOW).problems
    assert (problem.state, problem.why) == ("corrupt", "it was changed after sealing")
    assert problem.place.endswith("/change.patch.gz")


@pytest.mark.slow
def test_a_gzip_whose_text_is_larger_than_any_that_is_packed_is_read_no_further(
    run: RunRecorder, tmp_path: Path
) -> None:
    line = b"+" + b"0" * 999_999 + b"\n"
    with gzip.open(run.directory / "change.patch.gz", "wb", 1) as packer:
        for _ in range(MAX_PACKED_TEXT // len(line) + 1):
            packer.write(line)
    file = read_bundle(run.directory).files.changed()[0]
    with pytest.raises(IntegrityError, match="its text is larger than 268,435,456 bytes"):
        file.patch()
    assert not verify_bundles(tmp_path, NOW).is_sound


@pytest.mark.parametrize(
    ("size", "is_packed"),
    [
        (1 << 20, False),
        ((1 << 20) + 1, True),
        (MAX_PACKED_TEXT, True),
        (MAX_PACKED_TEXT + 1, False),
    ],
)
def test_a_patch_is_packed_between_two_sizes(size: int, is_packed: bool) -> None:
    assert is_patch_packed(size) is is_packed


def test_a_second_form_of_the_patch_is_held_to_the_same_seal(
    run: RunRecorder, tmp_path: Path
) -> None:
    (run.directory / "change.patch").write_bytes(PATCH)
    assert verify_bundles(tmp_path, NOW).is_sound
    (run.directory / "change.patch").write_bytes(b"another\n")
    assert not verify_bundles(tmp_path, NOW).is_sound


def test_a_patch_that_shrinks_or_grows_leaves_one_file(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path)
    for text, name in (
        (PATCH, "change.patch.gz"),
        (b"small\n", "change.patch"),
        (PATCH, "change.patch.gz"),
    ):
        place_patch(folder, "change.patch", text)
        assert [path.name for path in tmp_path.iterdir()] == [name]
