"""The file of records: whole lines whoever writes, and no line can stop a reader."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vibe_gate.domain.record import Record
from vibe_gate.errors import StorageError
from vibe_gate.store.records import PATIENCE_S, Records

SEEN = Record(ts="2026-01-02T03:04:05.000+00:00", kind="reviewed", stage="pre-commit", tree="t" * 40)


def test_what_is_appended_is_read_in_order(tmp_path):
    records = Records(tmp_path)
    for number in range(3):
        records.append(SEEN.model_copy(update={"run": str(number)}))
    assert [record.run for record in records.all()] == ["0", "1", "2"]
    assert [record.run for record in records.about("t" * 40)] == ["0", "1", "2"]
    assert records.about("u" * 40) == records.about("") == []


def test_no_file_is_no_record(tmp_path):
    assert Records(tmp_path).all() == []


def test_damaged_and_foreign_lines_are_skipped(tmp_path):
    records = Records(tmp_path)
    records.append(SEEN)
    with records.path.open("ab") as file:
        file.write(b'{"schema":1}\n\xff\xfe\n[]\n{"schema":1,"kind":"secret"}\n' + b"x" * 70_000 + b"\n" + b'{"torn":')
    records.append(SEEN)
    assert records.all() == [SEEN, SEEN]


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious\n")
    records = Records(tmp_path / "git")
    records.path.parent.mkdir(parents=True)
    records.path.symlink_to(target)
    with pytest.raises(StorageError):
        records.append(SEEN)
    assert records.all() == []
    assert target.read_text() == "precious\n"


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / "vibe-gate").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        Records(tmp_path / "git").append(SEEN)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_no_file_that_was_linked_into_the_place_of_the_records_is_written_to(tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious\n")
    records = Records(tmp_path / "git")
    records.path.parent.mkdir(parents=True)
    records.path.hardlink_to(target)
    with pytest.raises(StorageError, match="hard link"):
        records.append(SEEN)
    assert target.read_text() == "precious\n"


def test_a_pipe_in_the_place_of_the_file_keeps_nobody_waiting(tmp_path):
    records = Records(tmp_path)
    records.path.parent.mkdir(parents=True)
    os.mkfifo(records.path)
    with pytest.raises(StorageError):
        records.append(SEEN)
    assert records.all() == records.about("t" * 40) == []


WRITER = """
import sys
from pathlib import Path
from vibe_gate.store.records import Records
from vibe_gate.domain.record import Record
for n in range(100):
    Records(Path(sys.argv[1])).append(
        Record(ts="now", kind="reviewed", stage="pre-commit", run=f"{sys.argv[2]}-{n}", reason="x" * 5000)
    )
"""


def test_writers_at_the_same_time_tear_and_lose_nothing(tmp_path: Path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, str(n)]) for n in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert {record.run for record in Records(tmp_path).all()} == {f"{w}-{n}" for w in range(4) for n in range(100)}
    assert Records(tmp_path).path.read_bytes().count(b"\n") == 400


def test_a_lock_that_is_never_let_go_keeps_nobody_waiting_for_long_and_no_record_back(tmp_path):
    records = Records(tmp_path)
    records.append(SEEN)
    with records.path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        records.append(SEEN)
    assert time.monotonic() - began >= PATIENCE_S
    records.append(SEEN)
    assert len(records.all()) == 3
