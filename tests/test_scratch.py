"""Folders in the temporary directory: those of killed processes go, and nothing else does."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from vibe_gate import scratch

LOCK = ".vibe-gate-lock"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def leave_folder(parent: Path, name: str, mode: int = 0o700, lock: int | None = 0o600) -> Path:
    """A folder as a killed process leaves it, with things in it that are hard to delete."""
    folder = parent / name
    (folder / "trees/closed").mkdir(parents=True)
    (folder / "trees/closed/file").write_text("x")
    (folder / "link").symlink_to(parent.parent)
    (folder / "trees/closed").chmod(0o500)
    if lock is not None:
        (folder / LOCK).touch(lock)
        (folder / LOCK).write_text(f"{folder.stat().st_dev}:{folder.stat().st_ino}\n")
    folder.chmod(mode)
    return folder


def test_what_a_killed_process_left_is_deleted_and_what_is_alive_or_not_ours_stays(
    temporary: Path,
) -> None:
    other = temporary.parent / "other"
    deleted = [
        leave_folder(temporary, "vibe-gate-run-abcdefgh"),
        leave_folder(temporary, "vibe-gate-abc_ef12"),
    ]
    remaining = [
        leave_folder(temporary, "vibe-gate-demo-abcdefgh"),
        leave_folder(temporary, "vibe-gate-run-open1234", mode=0o755),
        leave_folder(temporary, "vibe-gate-run-begun123", lock=None),
        leave_folder(temporary, "vibe-gate-run-lock1234", lock=0o644),
        leave_folder(temporary.parent, "other"),
    ]
    (temporary / "vibe-gate-run-link1234").symlink_to(other)
    checked_out = leave_folder(
        temporary, "vibe-gate-exploits"
    )  # a repository chooses its name and its files
    (checked_out / LOCK).write_text("x")
    remaining.append(checked_out)
    linked = leave_folder(temporary, "vibe-gate-run-linklock", lock=None)
    (linked / LOCK).symlink_to(other / LOCK)
    with scratch.private_folder("run") as alive:
        assert (alive.stat().st_mode & 0o777, [entry.name for entry in alive.iterdir()]) == (
            0o700,
            [LOCK],
        )
        scratch.remove_abandoned()
        assert alive.is_dir()
    assert not alive.exists()
    assert not any(map(os.path.lexists, deleted)) and all(
        map(os.path.lexists, [*remaining, linked])
    )
    assert (other / "trees/closed/file").read_text() == "x"


def test_a_temporary_directory_that_cannot_be_listed_is_no_failure(temporary: Path) -> None:
    temporary.rmdir()
    scratch.remove_abandoned()
