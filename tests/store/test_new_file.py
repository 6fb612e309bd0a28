"""Files that the user names: what is in the way is told with the system's reason, and none is left
half written.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store.new_file import create_whole, describe_obstacle, require_new_file

LONGEST = "a" * 255


@pytest.mark.parametrize(
    ("name", "obstacle"),
    [
        ("new.tar.xz", ""),
        ("file", ""),
        (LONGEST, ""),
        (LONGEST + "a", "File name too long"),
        ("none/x", "folder none does not exist; create it first"),
        ("file/x", "file is not a folder"),
        ("file/x/y", "folder file/x: Not a directory"),
        (f"{LONGEST}a/x", f"folder {LONGEST}a: File name too long"),
    ],
)
def test_what_is_in_the_way_of_a_file_is_a_clause(tmp_path, monkeypatch, name, obstacle):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert describe_obstacle(Path(name)) == obstacle


def test_a_new_file_takes_no_place_of_another(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="link exists already; name another file"):
        require_new_file(tmp_path / "link")
    with pytest.raises(UsageError, match=r"cannot be written: folder .*none does not exist"):
        require_new_file(tmp_path / "none" / "x")


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    with create_whole(tmp_path / LONGEST) as file:
        file.write(b"whole")
    assert (tmp_path / LONGEST).read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [tmp_path / LONGEST]


def test_a_file_that_was_not_finished_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="stop"), create_whole(tmp_path / "x") as file:
        file.write(b"half")
        raise ValueError("stop")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_vanishes_is_the_systems_reason(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with (
        pytest.raises(StorageError, match="was not written: No such file or directory"),
        create_whole(folder / "x"),
    ):
        shutil.rmtree(folder)
