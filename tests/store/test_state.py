"""The shared state: one file, whole whoever writes, and whatever happens to it nobody is kept
waiting or stopped.
"""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from vibe_gate.domain.gate import Override
from vibe_gate.domain.label import Label
from vibe_gate.domain.provenance import Record
from vibe_gate.errors import StorageError
from vibe_gate.store.clone_state import CloneState, open_state

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
KEY, OTHER = "ab" * 32, "cd" * 32
TREE, COMMIT = "7" * 40, "c" * 40
SEEN = Record(ts="2026-01-02T03:04:05.000+00:00", kind="reviewed", stage="pre-commit", tree=TREE)
ALLOWED = Override(
    ts="2026", finding="0" * 16, reason="why", by="A <a@b>", email="a@b", expires=date(2026, 4, 1)
)
SAID = Label(
    ts=NOW,
    finding="0" * 16,
    rubric="quality",
    criterion="kept",
    right=False,
    by="A <a@b>",
    digest=KEY,
    source="cli",
)


@pytest.fixture
def state(tmp_path: Path) -> CloneState:
    return open_state(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vibe-gate").mkdir()
    return tmp_path / "vibe-gate"


def use(state: CloneState) -> None:
    """Read and write what a commit reads and writes there."""
    state.overrides.all()
    state.answers.get(KEY, NOW)
    state.answers.claim([KEY])
    state.answers.put(KEY, {"outcome": "fail"}, NOW)
    state.answers.release([KEY])
    state.answers.prune(NOW)
    state.spending.add(0.5, "run", NOW)
    state.spending.spent(NOW)
    state.run_index("/r").update({"k": (1, "data")}, [])
    state.hook_records.find_records(TREE)


def run(program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    code = (
        "import sys\nfrom datetime import *\nfrom time import sleep\nfrom vibe_gate.store.clone_state import open_state\n"
        + program
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def test_what_is_written_is_read_by_the_next_process(tmp_path):
    with open_state(tmp_path) as state:
        state.hook_records.append(SEEN)
        state.hook_records.append(replace(SEEN, commit=COMMIT))
        state.overrides.append(ALLOWED)
        use(state)
    with open_state(tmp_path) as state:
        assert [record.commit for record in state.hook_records.all()] == ["", COMMIT]
        assert len(state.hook_records.find_records(TREE)) == 2
        assert len(state.hook_records.find_records(COMMIT)) == 1
        assert (
            state.hook_records.find_records("u" * 40) == state.hook_records.find_records("") == []
        )
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


def test_the_newest_label_of_a_finding_counts_and_the_forges_are_begun_anew(tmp_path, state):
    assert state.labels.all() == ()
    state.spending.add(1.0, "run", NOW)
    assert state.labels.all() == ()
    earlier = replace(SAID, ts=NOW - timedelta(days=1), right=True, by="@bob", source="command")
    thumb = replace(earlier, finding="1" * 16, source="reaction")
    old = replace(SAID, finding="2" * 16, ts=NOW + timedelta(days=1), digest=OTHER, model="m")
    state.labels.append(SAID, old)
    state.labels.put_from_forge([earlier, thumb])
    assert open_state(tmp_path).labels.all() == (thumb, SAID, old)
    assert state.labels.from_forge() == (earlier, thumb)
    state.labels.put_from_forge([])
    state.labels.remove(old.finding)
    assert state.labels.all() == (SAID,)
    assert state.problem == ""


# Answers and money


def test_a_copy_is_the_whole_file_as_it_is_and_without_one_nothing(tmp_path, state):
    assert state.file.copied() == b""
    assert not (tmp_path / "vibe-gate").exists()
    state.answers.put(KEY, {"outcome": "pass"}, NOW)
    other = tmp_path / "other"
    with open_state(other) as copy:
        copy.file.begin_with(state.file.copied())
        assert copy.answers.get(KEY, NOW) == {"outcome": "pass"}
        assert copy.answers.put(OTHER, {"outcome": "fail"}, NOW) == ""
    assert state.answers.get(OTHER, NOW) is None


def test_answers_of_who_was_shown_a_private_prompt_do_not_travel(tmp_path, state):
    state.answers.put(KEY, {"outcome": "pass"}, NOW, {"prompt": "private"})
    assert state.answers.pack("secret") == b""
    state.answers.put(OTHER, {"outcome": "fail"}, NOW, {"prompt": "shared"})
    with open_state(tmp_path / "other") as elsewhere:
        assert elsewhere.answers.unpack(state.answers.pack("secret"), "secret")
        answers = [elsewhere.answers.get(key, NOW) for key in (KEY, OTHER)]
    assert answers == [None, {"outcome": "fail"}]


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
    for usd, when in (
        (0.5, NOW),
        (0.25, NOW),
        (-0.25, NOW),
        (float("nan"), NOW),
        (8.0, NOW + timedelta(days=1)),
    ):
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
    writers = [run(WRITE, tmp_path, number) for number in range(3)]
    assert [writer.wait(60) for writer in writers] == [0] * 3
    assert {record.run for record in state.hook_records.all()} == {
        f"{w}-{n}" for w in range(3) for n in range(50)
    }
    assert state.spending.spent(NOW) == 37.5


def test_a_lock_that_is_never_let_go_is_waited_for_once_and_what_is_not_written_is_said(
    tmp_path, state
):
    state.hook_records.append(SEEN)
    holder = sqlite3.connect(tmp_path / "vibe-gate" / "state.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    waiting = open_state(tmp_path, patience_s=0.3)
    with pytest.raises(StorageError, match=r"The pre-commit hook was not recorded: .* is locked"):
        waiting.hook_records.append(SEEN)
    use(waiting)
    assert 0.3 <= time.monotonic() - began < 2
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


def filled(path: Path) -> None:
    """Make a `state.db` of many pages."""
    with open_state(path.parents[1]) as state:
        for number in range(200):
            state.hook_records.append(replace(SEEN, tree=f"{number:040x}", reason="why " * 50))


def another_page(path: Path) -> None:
    """A page in the middle is another one."""
    filled(path)
    data = bytearray(path.read_bytes())
    middle = len(data) // 8192 * 4096
    data[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(data)


def without_utf8(path: Path) -> None:
    filled(path)
    path.write_bytes(path.read_bytes().replace(b"why why", b"\xff\xff\xff why"))


@pytest.mark.parametrize("spoil", [garbage, half, another_page, without_utf8])
def test_a_damaged_file_is_put_aside_for_a_new_one_and_the_warning_says_what_to_do(
    folder, spoil, caplog
):
    path = folder / "state.db"
    spoil(path)
    damaged = path.read_bytes()
    with open_state(folder.parent) as state:
        state.hook_records.all()
        use(state)
        state.hook_records.append(SEEN)
        assert state.problem == ""
    (aside,) = folder.glob("state.db.damaged-????????T?????????Z")
    assert aside.read_bytes() == damaged
    (message,) = caplog.messages
    assert message.startswith(f"vibe-gate: {path} was damaged (")
    assert message.endswith(
        "), so a new one was begun: overrides, labels, records of git's hooks, cached answers, the day's spending and "
        "what captured sessions wrote are lost, recorded runs are not. "
        f"The old one is now {aside.name}: delete it when you need nothing from it."
    )
    with open_state(folder.parent) as state:
        assert (state.hook_records.all(), state.spending.spent(NOW), state.problem) == (
            [SEEN],
            0.5,
            "",
        )
    assert len(caplog.messages) == 1


def test_what_sqlite_keeps_beside_a_damaged_file_goes_aside_with_it(folder):
    path = folder / "state.db"
    garbage(path)
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").write_bytes(b"of the damaged one")
    with open_state(folder.parent) as state:
        state.hook_records.append(SEEN)
    (aside,) = folder.glob("state.db.damaged-*Z")
    assert {path.name for path in folder.glob("state.db.damaged-*")} == {
        aside.name + end for end in ("", "-wal", "-shm")
    }
    assert Path(f"{aside}-wal").read_bytes() == b"of the damaged one"


def test_an_empty_file_is_filled_in_place(folder):
    (folder / "state.db").touch()
    with open_state(folder.parent) as state:
        use(state)
        assert (state.spending.spent(NOW), state.problem) == (0.5, "")
    assert [path.name for path in folder.glob("state.db*")] == ["state.db"]


@pytest.mark.slow
def test_wherever_a_byte_is_wrong_nothing_is_stopped(tmp_path):
    (tmp_path / "whole" / "vibe-gate").mkdir(parents=True)
    filled(tmp_path / "whole" / "vibe-gate" / "state.db")
    content = (tmp_path / "whole" / "vibe-gate" / "state.db").read_bytes()
    for at in range(20, len(content), len(content) // 60):
        folder = tmp_path / str(at) / "vibe-gate"
        folder.mkdir(parents=True)
        (folder / "state.db").write_bytes(
            content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
        )
        with open_state(folder.parent) as state:
            state.hook_records.all()
            use(state)
            assert state.spending.spent(NOW) in (0.5, 0.0)


FIND = """
state = open_state(sys.argv[1])
print(flush=True)
sys.stdin.readline()
state.spending.add(0.25, "run", datetime(2026, 3, 4, tzinfo=UTC))
print(state.problem)
"""


@pytest.mark.slow
def test_of_processes_that_find_a_damaged_file_at_once_one_puts_it_aside(folder):
    for round in range(2):
        garbage(folder / "state.db")
        code = FIND.replace("sys.stdin.readline()", f"sys.stdin.readline(); sleep({round} / 1000)")
        processes = [
            run(code, folder.parent, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=250) for process in processes]
        assert [out for out, _ in outputs] == ["\n"] * 3
        assert sum("was damaged" in err for _, err in outputs) == 1
        assert len(list(folder.glob("state.db.damaged-*Z"))) == round + 1
        with open_state(folder.parent) as state:
            assert state.spending.spent(NOW) == 0.75


def test_a_file_that_another_process_has_begun_since_is_not_put_aside(folder):
    path = folder / "state.db"
    filled(path)
    late = open_state(folder.parent)
    assert (
        len(late.hook_records.find_records(f"{0:040x}")) == 1
    )  # it has the file open before it is damaged
    with path.open("r+b") as file:
        file.truncate(8192)
    with open_state(folder.parent) as first:
        first.hook_records.append(SEEN)
    late.hook_records.append(SEEN)
    late.hook_records.append(SEEN)
    assert late.problem == ""
    assert len(list(folder.glob("state.db.damaged-*Z"))) == 1
    with open_state(folder.parent) as state:
        assert state.hook_records.all() == [SEEN] * 3


def test_who_has_the_file_open_when_another_process_puts_it_aside_goes_on_in_the_new_one(folder):
    path = folder / "state.db"
    with open_state(folder.parent) as early:
        early.hook_records.append(SEEN)
        path.rename(folder / "state.db.damaged-20260304T050607000Z")
        open_state(folder.parent).spending.add(0.5, "run", NOW)
        early.hook_records.append(SEEN)
        assert (early.hook_records.all(), early.spending.spent(NOW)) == ([SEEN], 0.5)


WITHOUT_RIGHTS = """
import os
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
state = open_state(sys.argv[1])
print(state.spending.spent(datetime.now(UTC)), state.problem)
"""


def test_a_damaged_file_in_a_folder_that_cannot_be_written_is_named_and_blocks_nothing():
    # Everybody may enter a folder of /tmp, as one of TMPDIR may not be.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder, "vibe-gate", "state.db")
        path.parent.mkdir()
        garbage(path)
        for place, mode in ((path, 0o644), (path.parent, 0o555), (Path(folder), 0o755)):
            place.chmod(mode)
        out, _ = run(WITHOUT_RIGHTS, folder).communicate(timeout=250)
        path.parent.chmod(0o755)
        assert out == (
            f"0.0 {path} cannot be used (file is not a database; Permission denied when it was to be renamed: delete "
            f"{path}* to begin a new one); nothing of this run is kept there.\n"
        )
        assert [path.name for path in path.parent.iterdir()] == ["state.db"]


def test_a_file_that_lacks_a_table_gets_it_and_keeps_its_rows(folder, caplog):
    path = folder / "state.db"
    open_state(folder.parent).answers.put(KEY, {"outcome": "pass"}, NOW)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE labels")
    with open_state(folder.parent) as state:
        state.labels.append(SAID)
        assert (state.labels.all(), state.answers.get(KEY, NOW)) == ((SAID,), {"outcome": "pass"})
        assert (state.problem, caplog.messages) == ("", [])


def test_a_file_whose_table_has_other_columns_is_named_with_the_way_to_a_new_one(folder):
    path = folder / "state.db"
    open_state(folder.parent).hook_records.append(SEEN)
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE answers RENAME COLUMN answer TO other")
    with open_state(folder.parent) as state:
        use(state)
        assert state.problem.startswith(f"{path} cannot be used (")
        assert state.problem.endswith(f"It is damaged: delete {path}* to begin a new one.")
        with pytest.raises(StorageError, match="It is damaged"):
            state.hook_records.append(SEEN)


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
@pytest.mark.parametrize(
    "spoil", [of_another_version, link, Path.mkdir, os.mkfifo, no_folder, linked_folder]
)
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
        assert not theirs.exists() or not (
            theirs.read_bytes() if theirs.is_file() else list(theirs.iterdir())
        )


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


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT nothing FROM hook_records", ()),
        ("SELECT line FROM no_such_table", ()),
        ("SELEKT line FROM hook_records", ()),
        ("SELECT line FROM hook_records WHERE tree = ?", ()),
        ("SELECT line FROM hook_records WHERE tree = ?", ("a", "b")),
    ],
)
def test_a_wrong_query_of_a_whole_file_raises_and_is_no_empty_answer(state, sql, values):
    state.hook_records.append(SEEN)
    with pytest.raises(sqlite3.Error):
        state.file.read(sql, *values)
    assert state.hook_records.all() == [SEEN]
