"""What is kept of each write: states as differences, without a text, read back under the same
key.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from bundle_words import OneSecretRedactor

from vibe_gate.store.event_writes import FileWrite
from vibe_gate.store.stored_writes import (
    LineDigests,
    WriteLog,
    WriteReader,
    apply_steps,
    compute_steps,
)

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
KEY = bytes(range(32))


def write(before, after, settled=None, path="/r/a.py"):
    return FileWrite(path, "Edit", "toolu_1", before, after, frozenset(["0" * 40]), settled)


def log_writes(*writes, key=KEY):
    log = WriteLog(LineDigests(KEY), OneSecretRedactor().value)
    return [log.line(file_write, AT) for file_write in writes]


def test_a_state_comes_back_from_the_steps_that_made_it():
    states = [(), (1, 2, 3), (1, 9, 2, 3, 4), (3, 3, 3), (1, 2, 3) * 50]
    for old in states:
        for new in states:
            assert apply_steps(old, compute_steps(old, new)) == new


@pytest.mark.slow
def test_a_large_file_edited_often_is_kept_once_and_its_text_never():
    text = [f"line {number} says tOp-sEcret-9" for number in range(2_000)]
    writes = []
    for number in range(40):
        before = "\n".join(text)
        text[number * 7] = f"edit {number}"
        writes.append(write(before, "\n".join(text)))
    lines = log_writes(*writes)
    assert sum(map(len, lines)) < 2_000 * 11 + 40 * 700
    assert b"says" not in b"".join(lines)
    reader, digests = WriteReader(LineDigests(KEY).id), LineDigests(KEY)
    read = [reader.write(line) for line in lines]
    assert [file_write.after for file_write in read] == [
        digests.of_text(file_write.after) for file_write in writes
    ]
    assert [file_write.before for file_write in read] == [
        digests.of_text(file_write.before) for file_write in writes
    ]


def test_under_another_key_and_after_damage_no_state_is_told_until_one_is_kept_whole():
    lines = log_writes(write("", "a\nb"), write("a\nb", "a\nc"), write("", "x", path="/r/b.py"))
    other = WriteReader(LineDigests(bytes(32)).id)
    assert [other.write(line).after for line in lines] == [None] * 3
    reader = WriteReader(LineDigests(KEY).id)
    assert reader.write(lines[0][:-9]) is None
    assert reader.write(lines[1]).after is None
    assert reader.write(lines[2]).after == LineDigests(KEY).of(["x"])


@pytest.mark.parametrize(
    "damage", [{"after": [[0, 99]]}, {"after": ["!"]}, {"after": ["AAA="]}, {"joined": "AA"}]
)
def test_steps_that_lead_nowhere_are_damage(damage):
    (line,) = log_writes(write("", "a\nb"))
    assert (
        WriteReader(LineDigests(KEY).id).write(json.dumps(json.loads(line) | damage).encode())
        is None
    )


def test_white_space_does_not_count_and_what_a_formatter_breaks_up_is_found():
    digests = LineDigests(KEY)
    assert digests.of(["  a = 1", "a=1\r"])[0] == digests.of(["a=1"])[0]
    line, lines = ["call('one', two)"], ["x", "call(", '    "one",', "    two,", ")"]
    assert digests.loose(line, [0]).keys() <= digests.loose(lines, range(1, 5)).keys()
    assert digests.loose(lines, [2])[next(iter(digests.loose(line, [0])))] == (1, 5)


def test_what_a_formatter_left_at_once_is_what_the_write_left():
    (line,) = log_writes(write("", "x=1\ny=2", b"y = 2\nx = 1\n"))
    read = WriteReader(LineDigests(KEY).id).write(line)
    assert read.final_lines == LineDigests(KEY).of(["y = 2", "x = 1"])
    assert read.after == LineDigests(KEY).of(["x=1", "y=2"])
