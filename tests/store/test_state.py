"""The shared state: one file, whole whoever writes, and whatever happens to it nobody is kept waiting or stopped."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from vibe_gate.domain.gate import Override
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import StorageError
from vibe_gate.store import State, open_state
from vibe_gate.store.state import PATIENCE_S

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
KEY, OTHER = "ab" * 32, "cd" * 32
TREE, COMMIT = "7" * 40, "c" * 40
SEEN = Record(ts="2026-01-02T03:04:05.000+00:00", kind="reviewed", stage="pre-commit", tree=TREE)
ALLOWED = Override(ts="2026", finding="0" * 16, reason="why", by="A <a@b>", email="a@b", expires=date(2026, 4, 1))


@pytest.fixture
def state(tmp_path: Path) -> State:
    return open_state(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vibe-gate").mkdir()
    return tmp_path / "vibe-gate"


def use(state: State) -> None:
    """What a commit does with it."""
    state.overrides.all()
    state.answers.get(KEY, NOW)
    state.answers.claim([KEY])
    state.answers.put(KEY, {"outcome": "fail"}, NOW)
    state.answers.release([KEY])
    state.answers.prune(NOW)
    state.spending.add(0.5, "run", NOW)
    state.spending.spent(NOW)
    state.run_index("/r").update({"k": (1, "data")}, [])
    state.hook_records.about(TREE)


def run(program: str, *arguments: object) -> subprocess.Popen[str]:
    code = (
        "import sys\nfrom datetime import *\nfrom time import sleep\nfrom vibe_gate.store.state import open_state\n"
        + program
    )
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def test_what_is_written_is_read_by_the_next_process(tmp_path):
    with open_state(tmp_path) as state:
        state.hook_records.append(SEEN)
        state.hook_records.append(SEEN._replace(commit=COMMIT))
        state.overrides.append(ALLOWED)
        use(state)
    with open_state(tmp_path) as state:
        assert [record.commit for record in state.hook_records.all()] == ["", COMMIT]
        assert len(state.hook_records.about(TREE)) == 2
        assert len(state.hook_records.about(COMMIT)) == 1
        assert state.hook_records.about("u" * 40) == state.hook_records.about("") == []
        assert state.overrides.all() == (ALLOWED,)
        assert state.answers.get(KEY, NOW) == {"outcome": "fail"}
        assert state.spending.spent(NOW) == 0.5
        assert state.run_index("/r").folders() == {"k": (1, "data")}
        assert state.run_index("/other").folders() == {}
        assert state.problem == ""


def test_only_the_user_may_read_it_and_looking_alone_makes_none(tmp_path, state):
    assert state.hook_records.all() == []
    assert state.spending.spent(NOW) == 0
    assert not list(tmp_path.iterdir())
    state.spending.add(1.0, "run", NOW)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "vibe-gate").iterdir()} == {0o600}


# Answers and money


def test_an_answer_is_found_until_it_is_too_old(state):
    state.answers.put(KEY, {"outcome": "pass"}, NOW)
    assert state.answers.get(KEY, NOW + timedelta(days=90)) == {"outcome": "pass"}
    assert state.answers.get(KEY, NOW + timedelta(days=90, seconds=1)) is None
    state.answers.prune(NOW + timedelta(days=91))
    assert state.answers.get(KEY, NOW) is None


def test_a_question_is_claimed_by_one_until_it_is_released(tmp_path, state):
    other = open_state(tmp_path)
    assert state.answers.claim([KEY, OTHER])
    assert not other.answers.claim(["aa" * 32, OTHER])
    assert other.answers.claim(["aa" * 32])
    other.answers.release([KEY, OTHER])
    assert not other.answers.claim([OTHER])
    state.answers.release([KEY, OTHER])
    assert other.answers.claim([OTHER])
    other.answers.release(["aa" * 32, OTHER])
    assert list((tmp_path / "vibe-gate" / "asking").iterdir()) == []


CLAIM = """
state = open_state(sys.argv[1])
print(state.answers.claim([sys.argv[2]]), flush=True)
"""


def test_the_claim_of_a_process_that_was_killed_is_taken_over(tmp_path, state):
    holder = run(CLAIM + "sleep(60)", tmp_path, KEY)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    assert not state.answers.claim([KEY])
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert state.answers.claim([KEY])


def test_spending_is_counted_by_day_with_corrections(state):
    for usd, when in ((0.5, NOW), (0.25, NOW), (-0.25, NOW), (float("nan"), NOW), (8.0, NOW + timedelta(days=1))):
        assert state.spending.add(usd, "run", when) == ""
    state.spending.add(1.0, "another", NOW)
    assert state.spending.spent(NOW) == 1.5
    assert state.spending.spent(NOW - timedelta(days=1)) == 0


# Several processes


WRITE = """
from vibe_gate.domain.provenance import Record
state = open_state(sys.argv[1])
for n in range(50):
    state.hook_records.append(Record(ts="now", kind="reviewed", stage="pre-commit", run=f"{sys.argv[2]}-{n}"))
    state.spending.add(0.25, sys.argv[2], datetime(2026, 3, 4, tzinfo=UTC))
"""


@pytest.mark.slow
def test_writers_at_the_same_time_lose_nothing_from_the_first_on(tmp_path, state):
    writers = [run(WRITE, tmp_path, number) for number in range(6)]
    assert [writer.wait(60) for writer in writers] == [0] * 6
    assert {record.run for record in state.hook_records.all()} == {f"{w}-{n}" for w in range(6) for n in range(50)}
    assert state.spending.spent(NOW) == 75


@pytest.mark.slow
def test_a_lock_that_is_never_let_go_is_waited_for_once_and_what_is_not_written_is_said(tmp_path, state):
    state.hook_records.append(SEEN)
    holder = sqlite3.connect(tmp_path / "vibe-gate" / "state.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    waiting = open_state(tmp_path)
    with pytest.raises(StorageError, match=r"The pre-commit hook was not recorded: .* is locked"):
        waiting.hook_records.append(SEEN)
    use(waiting)
    assert PATIENCE_S <= time.monotonic() - began < PATIENCE_S + 2
    assert "is locked" in waiting.problem
    assert waiting.hook_records.all() == [SEEN]
    with pytest.raises(StorageError, match="is locked"):
        waiting.overrides.append(ALLOWED)


# A file that is not as it should be


def garbage(path: Path) -> None:
    path.write_bytes(b"no database\n" * 1000)


def half(path: Path) -> None:
    open_state(path.parents[1]).hook_records.append(SEEN)
    os.truncate(path, path.stat().st_size // 2)


def without_a_table(path: Path) -> None:
    open_state(path.parents[1]).hook_records.append(SEEN)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE answers")


@pytest.mark.parametrize("spoil", [garbage, half, without_a_table])
def test_a_damaged_file_is_named_with_the_way_to_a_new_one(folder, spoil):
    path = folder / "state.db"
    spoil(path)
    with open_state(folder.parent) as state:
        use(state)
        assert state.problem.startswith(f"{path} cannot be used (")
        assert state.problem.endswith(f"It is damaged: delete {path}* to begin a new one.")
        with pytest.raises(StorageError, match="It is damaged"):
            state.hook_records.append(SEEN)
    for part in folder.glob("state.db*"):
        part.unlink()
    with open_state(folder.parent) as state:
        state.hook_records.append(SEEN)
    with open_state(folder.parent) as state:
        use(state)
        assert (state.hook_records.all(), state.problem) == ([SEEN], "")


def of_another_version(path: Path) -> None:
    open_state(path.parents[1]).hook_records.append(SEEN)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")


def link(path: Path) -> None:
    (path.parents[1] / "theirs").write_bytes(b"")
    path.symlink_to(path.parents[1] / "theirs")


def no_folder(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("a file\n")


def linked_folder(path: Path) -> None:
    path.parent.rmdir()
    (path.parents[1] / "elsewhere").mkdir()
    path.parent.symlink_to(path.parents[1] / "elsewhere")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("spoil", [of_another_version, link, Path.mkdir, os.mkfifo, no_folder, linked_folder])
def test_a_file_that_cannot_be_used_stays_as_it_is_and_blocks_nothing(folder, spoil):
    path = folder / "state.db"
    spoil(path)
    state = open_state(folder.parent)
    use(state)
    assert state.problem.startswith(f"{path} ")
    assert state.problem.endswith("; nothing of this run is kept there.")
    assert state.answers.put(KEY, {}, NOW) == state.spending.add(1.0, "run", NOW) == state.problem
    with pytest.raises(StorageError):
        state.hook_records.append(SEEN)
    for theirs in (folder.parent / "theirs", folder.parent / "elsewhere"):
        assert not theirs.exists() or not (theirs.read_bytes() if theirs.is_file() else list(theirs.iterdir()))


def test_a_full_disk_stops_nothing_and_loses_nothing_from_before(tmp_path, state):
    state.hook_records.append(SEEN)
    state.close()
    full = open_state(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        use(full)
        assert full.problem
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    use(state)
    assert (state.hook_records.all(), state.problem) == ([SEEN], "")
