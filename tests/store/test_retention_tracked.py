"""Cleaning never removes what git tracks, nor what has a name that this store does not give."""

from __future__ import annotations

import fcntl
import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import KEY, START
from recorded import recorded

from vibe_gate.domain.gate import Retention
from vibe_gate.store import Provenance
from vibe_gate.store.indexing import entries
from vibe_gate.store.retention import UNKNOWN, clean, clean_bundles, clean_if_due

STORE = ".vibe-artifacts"
NOW = START + timedelta(days=100)
ALL = Retention(max_age_days=0, min_free_disk_mb=0)
DIGEST = "ab" + 62 * "c"
OLD = (0, 0)


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("theirs")
    os.utime(path, OLD)
    return path


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


@pytest.mark.parametrize(
    "name",
    [
        f"{KEY}/20200101T000000000Z-aaaaaaaa/data.txt",
        "trash/20200101T000000000Z-aaaaaaaa.00000000/data.txt",
        f"objects/ab/{DIGEST}.txt",
        "objects/ab/.tmp-0123456789abcdef",
        "index/.tmp-0123456789abcdef",
        ".tmp-0123456789abcdef/objects/data.txt",
        ".tmp-0123456789abcdee",
    ],
)
def test_what_git_tracks_stays_and_the_same_untracked_goes(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / STORE / name)
    for folder in path.relative_to(tmp_path / STORE).parents[:-1]:
        os.utime(tmp_path / STORE / folder, OLD)
    for tracked in (name, name.upper(), name.rpartition("/")[0] or name):
        clean(tmp_path, ALL, NOW, provenance=Provenance(NOW, {f"{STORE}/{tracked}"}))
        assert path.read_text() == "theirs"
    clean(tmp_path, ALL, NOW, provenance=Provenance(NOW))
    assert not path.exists()


def test_a_submodule_in_the_place_of_the_store_stays_whole(tmp_path: Path) -> None:
    run_id = recorded(tmp_path, START)
    assert clean(tmp_path, ALL, NOW, provenance=Provenance(NOW, {STORE})).deleted == ()
    assert clean(tmp_path, ALL, NOW, provenance=Provenance(NOW)).deleted == (run_id,)


@pytest.mark.parametrize(
    "name",
    [
        "objects/notes/README",
        "objects/README",
        "objects/ab/README",
        f"objects/cd/{DIGEST}.txt",
        "trash/notes/README",
        ".tmp-notes/README",
        "index/.tmp-notes",
    ],
)
def test_what_this_store_never_named_stays(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / STORE / name)
    clean(tmp_path, ALL, NOW)
    assert path.exists()


def test_of_a_tracked_run_beside_an_own_one_only_the_own_goes(tmp_path: Path) -> None:
    theirs, own = recorded(tmp_path, START), recorded(tmp_path, START + timedelta(days=1))
    known = Provenance(NOW, {f"{STORE}/{KEY}/{theirs}/run.json"})
    assert clean(tmp_path, ALL, NOW, True, known).deleted == (own,)
    assert clean(tmp_path, ALL, NOW, provenance=known).deleted == (own,)
    assert [entry.run_id for entry in entries(tmp_path)] == [theirs]


@pytest.mark.parametrize("version", ["2", "4"])
def test_scripts_delete_nothing_unasked_where_git_may_track_the_store(tmp_path: Path, version: str) -> None:
    run_id = recorded(tmp_path, START)
    git(tmp_path, "init", "-q")
    git(tmp_path, "update-index", "--index-version", version)
    git(tmp_path, "add", "-Af")
    done = clean_bundles(tmp_path, now=NOW)
    assert (done.deleted, done.errors) == ((), (UNKNOWN,))
    assert clean_bundles(tmp_path, now=NOW, provenance=Provenance(NOW)).deleted == (run_id,)


def test_what_git_tracks_is_asked_only_when_a_cleaning_is_due(tmp_path: Path) -> None:
    recorded(tmp_path, START)
    asked: list[int] = []

    def tracked() -> tuple[str, ...]:
        asked.append(1)
        return ()

    assert clean_if_due(tmp_path, ALL, NOW, tracked) is not None
    assert clean_if_due(tmp_path, ALL, NOW, tracked) is None
    assert len(asked) == 1


def test_a_tracked_note_of_the_last_cleaning_is_not_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / STORE / "index/cleaned")
    assert clean_if_due(tmp_path, ALL, NOW, lambda: {f"{STORE}/index/cleaned"}) is None
    assert path.read_text() == "theirs"


def test_the_folder_of_a_killed_import_goes_after_a_day_unless_it_is_locked(tmp_path: Path) -> None:
    stage = tmp_path / STORE / ".tmp-0123456789abcdef"
    lock = write(stage / ".lock")
    young = write(tmp_path / STORE / ".tmp-0123456789abcdee/.lock")
    os.utime(young.parent, (NOW.timestamp(), NOW.timestamp()))
    os.utime(stage, OLD)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clean(tmp_path, ALL, NOW)
        assert stage.exists()
    clean(tmp_path, ALL, NOW)
    assert not stage.exists()
    assert young.exists()
