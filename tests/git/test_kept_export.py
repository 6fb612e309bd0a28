"""The export that a clone keeps: whatever was there, the tree stands there afterwards."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gitbench import Bench

from vibe_gate.errors import InfrastructureError
from vibe_gate.git import Export, Repository


def edit_and_put_time_back(after: Path) -> None:
    times = (after / "a.txt").stat()
    (after / "a.txt").write_text("two\n")
    os.utime(after / "a.txt", ns=(times.st_atime_ns, times.st_mtime_ns))


def swap_for_link(after: Path) -> None:
    shutil.move(after / "src", after.parent / "moved")
    (after / "src").symlink_to(after.parent / "moved")


def aim_link_elsewhere(after: Path) -> None:
    (after / "link").unlink()
    (after / "link").symlink_to("/etc/passwd")


def plant_git_folder(after: Path) -> None:
    (after / "src/.git").mkdir()
    (after / "src/.git/config").write_text("[core]\n")


def lose_half(after: Path) -> None:
    shutil.rmtree(after / "src")
    (after / "a.txt").write_text("")


def put_folder_in_place_of_file(after: Path) -> None:
    (after / "a.txt").unlink()
    (after / "a.txt/deep").mkdir(parents=True)


SPOILED: tuple[Callable[[Path], None], ...] = (
    edit_and_put_time_back,
    swap_for_link,
    aim_link_elsewhere,
    plant_git_folder,
    lose_half,
    put_folder_in_place_of_file,
    lambda after: (after / "src/new").mkdir(),
    lambda after: os.mkfifo(after / "pipe"),
    lambda after: (after / "a.txt").chmod(0o755),
    lambda after: shutil.rmtree(after),
)


def export_into(repository: Repository, tree: str, folder: Path) -> Export:
    """The tree in the kept folder, as a review puts it there."""
    return repository.export(tree, folder / "after", replace=True, record=folder / "tree")


def settle(record: Path) -> None:
    """Let the record be younger than what it is about; the disk's clock ticks every 4 ms or so."""
    time.sleep(0.02)
    record.write_bytes(record.read_bytes())


@pytest.mark.parametrize("spoil", SPOILED)
@pytest.mark.parametrize("during", [False, True])
def test_what_was_spoiled_is_noticed_and_repaired(
    seeded: Bench, tmp_path: Path, spoil: Callable[[Path], None], during: bool
) -> None:
    with seeded.open() as repository:
        first = export_into(repository, "HEAD", tmp_path)
        if not during:
            assert first.unchanged()
            settle(tmp_path / "tree")
        spoil(tmp_path / "after")
        assert not first.unchanged()
        assert export_into(repository, "HEAD", tmp_path).unchanged()


def test_only_what_differs_is_written(seeded: Bench, tmp_path: Path) -> None:
    first_tree = seeded.git("rev-parse", "HEAD^{tree}")
    with seeded.open() as repository:
        export_into(repository, first_tree, tmp_path).unchanged()
    settle(tmp_path / "tree")
    inode = (tmp_path / "after/a.txt").stat().st_ino
    seeded.commit(**{"src/app.py": "print('bye')\n"})
    with seeded.open() as repository:
        assert export_into(repository, "HEAD", tmp_path).unchanged()
    assert (tmp_path / "after/src/app.py").read_text() == "print('bye')\n"
    assert (tmp_path / "after/a.txt").stat().st_ino == inode


def turn_folder_into_file(bench: Bench) -> None:
    shutil.rmtree(bench.root / "src")
    bench.write("src", "file\n")


def turn_file_into_folder(bench: Bench) -> None:
    (bench.root / "a.txt").unlink()
    bench.write("a.txt/src", "file\n")


def turn_folder_into_link(bench: Bench) -> None:
    shutil.rmtree(bench.root / "src")
    bench.write("other/app.py", "print('hi')\n")
    (bench.root / "src").symlink_to("other")


def add_submodule(bench: Bench) -> None:
    commit = bench.git("rev-parse", "HEAD")
    bench.git("update-index", "--add", "--cacheinfo", f"160000,{commit},vendor/sub")


def let_link_lead_outside(bench: Bench) -> None:
    (bench.root / "link").unlink()
    (bench.root / "link").symlink_to("../../a.txt")


CHANGES: tuple[Callable[[Bench], None], ...] = (
    turn_folder_into_file,
    turn_file_into_folder,
    turn_folder_into_link,
    add_submodule,
    let_link_lead_outside,
    lambda bench: (bench.root / "tool.sh").chmod(0o644),
    lambda bench: shutil.rmtree(bench.root / "src/deep"),
)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_one_tree_follows_another_there_and_back(
    seeded: Bench, tmp_path: Path, change: Callable[[Bench], None], recorded: bool
) -> None:
    old_tree = seeded.git("rev-parse", "HEAD^{tree}")
    change(seeded)
    if change is not add_submodule:
        seeded.git("add", "-A")
    new_tree = seeded.git("write-tree")
    with seeded.open() as repository:
        for tree in (old_tree, new_tree, old_tree):
            export = export_into(repository, tree, tmp_path)
            assert export.unchanged()
            if recorded:
                settle(tmp_path / "tree")
            else:
                (tmp_path / "tree").unlink()


def test_an_update_that_was_cut_off_is_begun_again(seeded: Bench, tmp_path: Path) -> None:
    with seeded.open() as repository:
        export_into(repository, "HEAD", tmp_path).unchanged()
        seeded.git("commit", "-q", "--allow-empty", "-m", "odd")
        blob = seeded.git("rev-parse", "HEAD:a.txt")
        (seeded.root / ".git/objects" / blob[:2] / blob[2:]).rename(tmp_path / "object")
        shutil.rmtree(tmp_path / "after")
        with pytest.raises(InfrastructureError):
            export_into(repository, "HEAD", tmp_path)
        assert not (tmp_path / "tree").exists()
        (tmp_path / "object").rename(seeded.root / ".git/objects" / blob[:2] / blob[2:])
        assert export_into(repository, "HEAD", tmp_path).unchanged()


@pytest.mark.parametrize("record", ["", "HEAD 1", "\udcff", f"{'0' * 40} 0.0"])
def test_a_record_that_says_nothing_is_not_believed(
    seeded: Bench, tmp_path: Path, record: str
) -> None:
    with seeded.open() as repository:
        export_into(repository, "HEAD", tmp_path).unchanged()
        time.sleep(0.02)
        (tmp_path / "tree").write_bytes(os.fsencode(record))
        assert export_into(repository, "HEAD", tmp_path).unchanged()


def make_pipe(record: Path) -> None:
    os.mkfifo(record)


def make_large_file(record: Path) -> None:
    record.touch()
    os.truncate(record, 1 << 40)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("plant", [make_pipe, make_large_file])
def test_what_stands_in_the_place_of_the_record_is_neither_waited_for_nor_read(
    seeded: Bench, tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    with seeded.open() as repository:
        export_into(repository, "HEAD", tmp_path).unchanged()
        (tmp_path / "tree").unlink()
        plant(tmp_path / "tree")
        assert export_into(repository, "HEAD", tmp_path).unchanged()


def test_one_process_at_a_time_has_it(seeded: Bench) -> None:
    with seeded.open() as repository, seeded.open() as other:
        with repository.kept_export() as folder, other.kept_export() as nothing:
            assert folder is not None
            assert nothing is None
        with other.kept_export() as same_folder:
            assert same_folder == folder


@pytest.mark.parametrize("name", [".git", ".ignore", ".rgignore"])
def test_none_is_kept_where_a_search_would_leave_files_out(
    seeded: Bench, tmp_path: Path, name: str
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / name).touch()
    with (
        seeded.open(XDG_STATE_HOME=str(tmp_path / "state")) as repository,
        repository.kept_export() as folder,
    ):
        assert folder is None
