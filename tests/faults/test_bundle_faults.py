"""Faults while a bundle is written: no corrupt object, no false seal, and the review goes on.

The matrices let a system call fail, or kill the process, at every step of a recorded review.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import itertools
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    Clock,
    Ended,
    OneSecretRedactor,
    list_runs,
    read_summary,
    summary_of,
    verify_bundles,
)
from faults.system_calls import AtCall, each_call_fails, each_call_kills

from vibe_gate.domain.bundles import Provenance
from vibe_gate.errors import StorageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store import open_store

TESTS = Path(__file__).parents[1]


def review(root: Path) -> RunRecorder:
    """One recorded review, as the walk does it."""
    run = open_store(root, OneSecretRedactor(), Clock()).begin(KEY, START, {"prompt": "p"})
    record(run)
    return run


def record(run: RunRecorder) -> None:
    """A small review, but with every kind of file."""
    run.keep_patch(b"--- a\n+++ b\n")
    run.keep_content("before", b"old\n", "a")
    run.keep_content("after", b"new\n" * 4000, "a")
    run.event("node.added", "judge", kind="judge")
    turn = run.turn("judge")
    turn.event({"type": "message", "role": "user", "content": "?"})
    turn.hook({"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_use_id": "t"})
    turn.seal(Ended())
    run.seal(summary_of(run))


def assert_sound(root: Path, *, killed: bool = False) -> None:
    """Whatever has its final name is whole, and no run is sealed that does not verify.

    A process that was killed may leave a content torn, which no event names, in a run without a
    seal.
    """
    for place in (root / ".vibe-artifacts").rglob("*"):
        digest, _, suffix = place.name.partition(".")
        if len(digest) == 64 and place.is_file():
            run = place.parents[2]
            if (
                killed
                and not (run / "summary.json").exists()
                and digest not in (run / "events.ndjson").read_text()
            ):
                continue
            data = place.read_bytes()
            data = gzip.decompress(data) if suffix.endswith("gz") else data
            assert hashlib.sha256(data).hexdigest() == digest, place
    for run in list_runs(root):
        if run.state == "sealed":
            assert run.summary.outcome == "pass"
            assert [event.seq for event in run.events()] == list(
                range(1, 1 + len(list(run.events())))
            )
        else:
            with pytest.raises(StorageError):
                _ = run.summary


def assert_heals(root: Path) -> None:
    second_review = review(root)
    assert second_review.lost is None
    assert read_summary(second_review.directory).outcome == "pass"
    assert_sound(root, killed=True)


def empty(folder: Path, number: int) -> Path:
    (folder / str(number)).mkdir()
    return folder / str(number)


def test_whichever_call_fails_the_review_goes_on_and_the_store_stays_sound(tmp_path: Path) -> None:
    runs: list[RunRecorder] = []

    def look(root: Path) -> None:
        assert runs[-1].lost is not None or any(view.state == "sealed" for view in list_runs(root))
        assert_sound(root)
        assert_heals(root)

    calls = each_call_fails(
        lambda root: runs.append(review(root)),
        lambda number: empty(tmp_path, number),
        look,
        11,
        errno.ENOSPC,
    )
    assert calls > 100


def test_whenever_the_process_is_killed_no_unfinished_run_is_sealed(tmp_path: Path) -> None:
    def look(root: Path) -> None:
        assert not any(view.state == "running" for view in list_runs(root))
        assert_sound(root, killed=True)
        assert verify_bundles(root, Provenance(START)).is_sound
        assert_heals(root)

    assert each_call_kills(review, lambda number: empty(tmp_path, number), look, step=13) > 100


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", ["c_call", "c_return"])
def test_whenever_it_is_interrupted_the_run_is_sealed_and_right_or_marked_incomplete(
    tmp_path: Path, moment: str
) -> None:
    for number in itertools.count(1, 13):
        root = tmp_path / str(number)
        root.mkdir()
        run = open_store(root, OneSecretRedactor(), Clock()).begin(KEY, START, {"prompt": "p"})
        fault = AtCall(
            number, _interrupt, moment, but="close_descriptor"
        )  # inside __del__ Python only prints it
        try:
            sys.setprofile(fault)
            record(run)
        except KeyboardInterrupt:
            run.abandon("interrupted")
        finally:
            sys.setprofile(None)
        if not fault.where:
            break
        assert run.lost is None, fault.where
        (view,) = list_runs(root)
        assert view.state == (
            "sealed" if (run.directory / "summary.json").exists() else "incomplete"
        ), fault.where
        assert list(view.events())[-1].type == "run.completed"
        assert_sound(root)
    assert number > 100


@pytest.mark.parametrize("size", [0, 300])
def test_a_file_that_may_not_grow_ends_the_recording_with_whole_lines(
    tmp_path: Path, size: int
) -> None:
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        lost = review(tmp_path).lost
        os._exit(7 if lost is not None and "File too large" in lost else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    for log in (tmp_path / ".vibe-artifacts").rglob("*.ndjson"):
        assert log.read_bytes()[-1:] in {b"\n", b""}
    assert_sound(tmp_path)
    assert_heals(tmp_path)


_ON_A_MOUNT = """
import ctypes, os, sys
from pathlib import Path
from test_bundle_faults import assert_heals, assert_sound, review
root = Path(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def mount(flags, data):
    if libc.mount(b"none", bytes(root), b"tmpfs", flags, data):
        sys.exit(77)
MS_RDONLY, MS_REMOUNT = 1, 32
"""

_FULL = """
mount(0, b"size=1m")
ballast = root / "ballast"
for kept in range(600, 1024, 4):
    try:
        ballast.write_bytes(bytes(kept * 1024))
    except OSError:
        break
    run = review(root)
    if run.lost:
        assert "No space left" in run.lost, run.lost
        ballast.write_bytes(b"")
        assert_sound(root)
        assert_heals(root)
        print("healed")
        break
"""

_READ_ONLY = """
mount(0, b"")
review(root)
mount(MS_REMOUNT | MS_RDONLY, b"")
run = review(root)
assert "Read-only file system" in run.lost, run.lost
assert run.relative == "" and run.turn("judge").relative == ""
assert_sound(root)
print("unrecorded")
"""


@pytest.mark.parametrize(("script", "output"), [(_FULL, "healed\n"), (_READ_ONLY, "unrecorded\n")])
def test_a_full_or_read_only_disk_leaves_the_review_unrecorded(
    tmp_path: Path, script: str, output: str
) -> None:
    path = os.pathsep.join(map(str, (TESTS, TESTS / "faults", TESTS.parent)))
    command = ["unshare", "-Urm", sys.executable, "-c", _ON_A_MOUNT + script, str(tmp_path)]
    result = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    if result.returncode == 77 or result.stderr.startswith("unshare:"):
        pytest.skip("no user namespaces here")
    assert (result.returncode, result.stdout, result.stderr) == (0, output, "")


def test_a_root_whose_path_is_too_long_or_missing_is_unrecorded(tmp_path: Path) -> None:
    assert "File name too long" in str(review(tmp_path / ("x" * 300)).lost)
    assert "No such file" in str(review(tmp_path / "missing").lost)


def test_a_bundle_that_is_deleted_while_it_is_written_is_lost_not_sealed(tmp_path: Path) -> None:
    run = open_store(tmp_path, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    subprocess.run(["rm", "-rf", str(tmp_path / ".vibe-artifacts")], check=True)
    run.event("log.mark")
    run.keep_content("after", b"new\n")
    run.seal(summary_of(run))
    assert run.lost is not None
    assert_heals(tmp_path)
