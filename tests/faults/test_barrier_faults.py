"""Faults in the barrier before the seal of a large run, and where an archive gets its name."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest
from bundle_words import list_runs
from faults import test_store_faults
from faults.test_bundle_faults import assert_heals, assert_sound
from faults.test_store_faults import FILE_BY_FILE, traced

from vibe_gate.store.folder import Folder, make_durable

strace = test_store_faults.strace
"""The fixture."""

_SEALED_AT_ONCE = """
import os, sys
from pathlib import Path
from bundle_words import KEY, START, Clock, Hush, summary_of
from vibe_gate.store import open_store
root = Path(sys.argv[1])
os.mkdir(root / "begins")
run = open_store(root, Hush(), Clock()).begin(KEY, START, {})
for number in range(201):
    run.content("after", b"%d" % number, "a")
run.seal(summary_of(run))
print(run.lost)
"""


@pytest.mark.parametrize(("what", "code"), [("error=EIO", 0), ("signal=KILL", -signal.SIGKILL)])
def test_a_file_system_that_cannot_be_brought_to_the_disk_leaves_the_run_without_a_seal(
    tmp_path: Path, strace: str, what: str, code: int
) -> None:
    root = tmp_path / "root"
    done, seen = traced(strace, root, "syncfs", "-e", f"inject=syncfs:{what}:when=1", script=_SEALED_AT_ONCE)
    if not any("syncfs(" in line for line in seen):
        pytest.skip("this file system is made durable file by file")
    assert done == code
    (run,) = list_runs(root)
    assert run.state == "incomplete"
    assert not (run.directory / "summary.json").exists()
    assert_sound(root)
    assert_heals(root)


def test_a_file_system_without_one_call_for_all_is_made_durable_file_by_file(tmp_path: Path, strace: str) -> None:
    root = tmp_path / "root"
    done, seen = traced(strace, root, "fsync", *FILE_BY_FILE, script=_SEALED_AT_ONCE)
    assert done == 0
    assert sum("fsync(" in line for line in seen) > 201
    assert [run.state for run in list_runs(root)] == ["sealed"]


@pytest.mark.parametrize("little_kb", [0, 1 << 40])
def test_a_bundle_may_have_more_folders_than_a_process_may_open(tmp_path: Path, little_kb: int) -> None:
    for number in range(60):
        (tmp_path / f"nodes/n{number}/turn-001").mkdir(parents=True)
        (tmp_path / f"nodes/n{number}/turn-001/turn.log").touch()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(path.name) for path in Path("/dev/fd").iterdir()}
    free = [number for number in range(len(taken) + 30) if number not in taken]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[20], hard))
    try:
        make_durable(Folder.at(tmp_path), little_kb)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
