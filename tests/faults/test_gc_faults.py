"""Faults while the store is listed or cleaned: killed or refused at every step, lists stay right and bundles whole."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from bundle_words import START, read_summary
from recorded import Kind, recorded

from vibe_gate.domain.gate import Retention
from vibe_gate.errors import StorageError
from vibe_gate.store import find_bundles as entries
from vibe_gate.store.gc import clean

DAY = timedelta(days=1)
NOW = START + 100 * DAY
MONTH = Retention(max_age_days=30, min_free_disk_mb=0)
OTHER = "0123456789abcdef0123456789abcdef01234567"
SYSTEM = {
    "open",
    "stat",
    "fstat",
    "listdir",
    "mkdir",
    "rmdir",
    "rename",
    "unlink",
    "write",
    "scandir",
    "flock",
}


class Steps:
    """Does `what` at the `number`th call into the system that is made meanwhile."""

    def __init__(self, number: int, what: Callable[[], None]) -> None:
        self.left = number
        self._what = what

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__name__", "") in SYSTEM:
            self.left -= 1
            if self.left == 0:
                self._what()


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


BEYOND = 3
STRIDE = 3  # every third step: one after the other takes minutes


def in_a_child(work: Callable[[], object], number: int, what: Callable[[], None]) -> int:
    """Run `work` in a process of its own, with a fault at step `number`.

    BEYOND: there are fewer steps; -9: killed; 0: it ended all the same; 1: it said an error; 2: it broke.
    """
    child = os.fork()
    if child == 0:
        code, steps = 0, Steps(number, what)
        sys.setprofile(steps)
        try:
            work()
        except StorageError:
            code = 1
        except BaseException:
            sys.setprofile(None)
            traceback.print_exc()
            code = 2
        finally:
            sys.setprofile(None)
            os._exit(BEYOND if steps.left > 0 else code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str], set[str]]:
    """A store with an index, and two runs that have no line in it yet; the old and the young runs."""
    root = tmp_path_factory.mktemp("made")
    old = {recorded(root, NOW - (60 + n) * DAY, Kind(key=OTHER, contents=(b"old", b"shared"))) for n in range(2)}
    entries(root)
    young = {recorded(root, NOW - n * DAY, Kind(contents=(b"young", b"shared"))) for n in range(2)}
    return root, old, young


def copied(store: Path, root: Path) -> Path:
    subprocess.run(["cp", "-a", store, root], check=True)  # the links of a content count, so they stay links
    return root


def assert_right(root: Path, runs: set[str]) -> None:
    for _ in range(2):
        found = entries(root)
        assert {entry.run_id for entry in found} == runs
        assert {entry.state for entry in found} <= {"sealed"}
    for entry in found:
        assert read_summary(root / entry.bundle).outcome == "pass"
        for content in (root / entry.bundle / "files/after").iterdir():
            assert content.read_bytes() in {b"old", b"young", b"shared"}


@pytest.mark.parametrize("what", [kill, refuse])
def test_a_cleaning_that_is_killed_or_refused_at_any_step_leaves_whole_bundles_and_is_finished_later(
    made, tmp_path, what
):
    store, old, young = made
    for number in range(1, 1000, STRIDE):
        root = copied(store, tmp_path / str(number))
        code = in_a_child(lambda root=root: clean(root, MONTH, NOW), number, what)
        assert code in {-signal.SIGKILL, 0, 1, BEYOND}
        left = {entry.run_id for entry in entries(root)}
        assert young <= left <= young | old
        assert_right(root, left)
        clean(root, MONTH, NOW)
        assert_right(root, young)
        left_over = root / ".vibe-artifacts"
        assert not (left_over / "trash").exists() or list((left_over / "trash").iterdir()) == []
        if code == BEYOND:
            break
        shutil.rmtree(root)
    assert number > 50
