"""Capture and guard where nothing works: the agent is never the one to suffer."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

from vibe_gate.faces.agent_hook import capture, guard

SCRIPTS = [capture.__file__, guard.__file__]
EVENT = json.dumps(
    {"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": "git commit -m 'unclosed"}}
).encode()


def run(script, stdin, folder, **options):
    result = subprocess.run(
        [sys.executable, "-I", "-S", script],
        input=stdin,
        cwd=folder,
        capture_output=True,
        timeout=250,
        **options,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.fixture
def repository(tmp_path, environ):
    """A repository."""
    subprocess.run(["git", "init", "-q", "r"], cwd=tmp_path, check=True)
    return tmp_path / "r"


def gaps(repository):
    return (repository / ".git" / "vibe-gate" / "captures" / "gaps").read_text()


@pytest.mark.parametrize("script", SCRIPTS)
def test_outside_of_a_repository_nothing_happens(tmp_path, environ, script):
    run(script, EVENT, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("garbage", [b"", b"null", b"git garbage \xff\x00", b"{" + b"x" * 100])
def test_garbage_on_stdin_is_not_kept(repository, script, garbage):
    run(script, garbage, repository)
    assert not (repository / ".git" / "vibe-gate" / "captures" / "unknown").exists()
    if script == capture.__file__:
        assert "not a hook event" in gaps(repository)


def test_a_full_disk_leaves_no_half_line(repository):
    run(capture.__file__, EVENT, repository)
    spool = repository / ".git/vibe-gate/captures/s1/events.ndjson"
    before = spool.read_bytes()
    limit = len(before) + 100

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    run(capture.__file__, EVENT, repository, preexec_fn=full)
    assert spool.read_bytes() == before
    assert "no space" in gaps(repository)
    run(capture.__file__, EVENT, repository)
    assert spool.read_bytes().count(b"\n") == 2


def test_not_a_byte_of_space_is_a_gap_or_nothing(repository):
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for script in SCRIPTS:
        run(script, EVENT, repository, preexec_fn=full)


def test_a_line_that_was_torn_takes_no_other_with_it(repository):
    run(capture.__file__, EVENT, repository)
    spool = repository / ".git/vibe-gate/captures/s1/events.ndjson"
    with open(spool, "ab") as file:
        file.write(b'{"ts":1,"eve')
    run(capture.__file__, EVENT, repository)
    lines = spool.read_bytes().split(b"\n")
    assert [bool(line) and line.endswith(b"}}") for line in lines] == [True, False, True, False]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_folder_that_cannot_be_written_is_no_fault(repository, script):
    (repository / ".git").chmod(0o500)
    try:
        run(script, EVENT, repository)
    finally:
        (repository / ".git").chmod(0o700)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("lies", ["file", "link", "dangling", "fifo"])
def test_whatever_lies_in_the_place_of_the_spool_is_no_fault(repository, tmp_path, script, lies):
    state, outside = repository / ".git" / "vibe-gate", tmp_path / "outside"
    if lies == "file":
        state.write_text("in the way")
    else:
        spool = state / "captures" / "s1" / "events.ndjson"
        spool.parent.mkdir(parents=True)
        if lies == "fifo":
            os.mkfifo(spool)
        else:
            spool.symlink_to(outside)
        if lies == "link":
            outside.write_text("mine")
    run(script, EVENT, repository)
    if lies == "link":
        assert outside.read_text() == "mine"
    assert lies != "dangling" or not outside.exists()


def test_a_lock_that_is_never_released_holds_nobody_up(repository):
    run(capture.__file__, EVENT, repository)
    spool = repository / ".git/vibe-gate/captures/s1/events.ndjson"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl,sys;f=open(sys.argv[1]);fcntl.flock(f,2);print(1,flush=True);input()",
            spool,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        run(capture.__file__, EVENT, repository)
    finally:
        holder.communicate(b"\n")
    assert spool.read_bytes().count(b"\n") == 2


def test_a_closed_stdin_or_stdout_is_no_fault(repository):
    for script in SCRIPTS:
        result = subprocess.run(
            ["sh", "-c", f"{sys.executable} -I -S {script} <&- >&-"],
            cwd=repository,
            capture_output=True,
            timeout=250,
        )
        assert (result.returncode, result.stderr) == (0, b"")


def test_gaps_stay_small(repository):
    for _ in range(3):
        run(capture.__file__, b"garbage", repository)
    path = repository / ".git/vibe-gate/captures/gaps"
    assert path.read_text().count("not a hook event") == 3
    path.write_text("x" * (64 << 10))
    run(capture.__file__, b"garbage", repository)
    assert path.stat().st_size == 64 << 10
