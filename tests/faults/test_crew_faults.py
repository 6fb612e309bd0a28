"""Faults in the threads that store a large run's contents, and in the barrier before its seal."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_words import KEY, START, Clock, Hush, summary_of
from faults import test_store_faults
from faults.test_bundle_faults import AtCall, _fail_with, assert_heals, assert_sound
from faults.test_store_faults import FILE_BY_FILE, NOW, traced

from vibe_gate.adapters.bundles import RunRecorder, list_runs, open_store, verify_bundles

strace = test_store_faults.strace
"""The fixture."""

LARGE = bytes(range(256)) * 2100
"""Enough for one run to have threads."""

_SEALED_AT_ONCE = """
import os, sys
from pathlib import Path
from bundle_words import KEY, START, Clock, Hush, summary_of
from vibe_gate.adapters.bundles import open_store
root = Path(sys.argv[1])
os.mkdir(root / "begins")
run = open_store(root, Hush(), Clock()).begin(KEY, START, {})
for number in range(201):
    run.content("after", b"%d" % number, "a")
run.seal(summary_of(run))
print(run.lost)
"""

_FEW_THREADS = """
import resource, sys, threading
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
stack = 1 << 30
threading.stack_size(stack)
most = held + int(sys.argv[2]) * stack + stack // 2
resource.setrlimit(resource.RLIMIT_AS, (most, most))
begun = set()
threading.setprofile(lambda *_: begun.add(threading.get_ident()))
"""
"""A process whose memory has room for the stacks of so many threads."""


def large(root: Path) -> RunRecorder:
    """A run whose contents are stored by threads: a large one, a batch, and what is left."""
    run = open_store(root, Hush(), Clock()).begin(KEY, START, {"prompt": "p"})
    for number, data in enumerate([LARGE, *(b"%d\n" % number * 3000 for number in range(18)), LARGE]):
        run.content("after", data, f"{number}")
    run.seal(summary_of(run))
    return run


def in_threads(fault: AtCall, do: Callable[[], RunRecorder]) -> RunRecorder:
    """`do`, with the fault in the threads that it starts."""
    threading.setprofile(fault)
    try:
        return do()
    finally:
        threading.setprofile(None)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_whichever_call_of_a_thread_fails_the_run_is_lost_with_its_reason(tmp_path: Path, code: int) -> None:
    for number in itertools.count(1, 3):
        root = tmp_path / str(number)
        root.mkdir()
        fault = AtCall(number, _fail_with(code), but="let_go")
        run = in_threads(fault, lambda root=root: large(root))  # type: ignore[misc]
        if not fault.where:
            break
        sealed = any(view.state == "sealed" for view in list_runs(root))
        assert sealed or os.strerror(code) in str(run.lost), fault.where
        assert_sound(root)
        if number % 5 == 1:
            assert_heals(root)
    assert number > 100


def test_whenever_a_thread_is_killed_with_its_process_nothing_is_named_that_is_not_whole(tmp_path: Path) -> None:
    for number in itertools.count(1, 7):
        root = tmp_path / str(number)
        root.mkdir()
        child = os.fork()
        if child == 0:
            in_threads(AtCall(number, lambda: os.kill(os.getpid(), signal.SIGKILL)), lambda root=root: large(root))  # type: ignore[misc]
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert_sound(root)
        assert verify_bundles(root, NOW).is_sound
    assert number > 100


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_where_too_few_threads_can_be_started_the_run_is_stored_without(tmp_path: Path, allowed: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    script = _FEW_THREADS + _SEALED_AT_ONCE + "print(len(begun))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(root), str(allowed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.split() == ["None", str(allowed)]
    (run,) = list_runs(root)
    assert run.state == "sealed"
    assert len(list((run.directory / "files/after").iterdir())) == 201
    assert verify_bundles(root, NOW).is_sound
    assert_heals(root)


def test_without_threads_too_a_fault_loses_the_run_with_its_reason(tmp_path: Path) -> None:
    before = threading.stack_size(1 << 47)
    try:
        fault = AtCall(150, _fail_with(errno.ENOSPC), but="let_go")
        sys.setprofile(fault)
        run = large(tmp_path)
    finally:
        sys.setprofile(None)
        threading.stack_size(before)
    assert os.strerror(errno.ENOSPC) in str(run.lost), fault.where
    assert_sound(tmp_path)
    assert_heals(tmp_path)


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
