"""The tables of state.db, each by itself: what is written is read, in which order, and what is
not.
"""

from __future__ import annotations

import math
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from vibe_gate.domain.agent_hint import VariableHint
from vibe_gate.domain.begun_run import BegunRun
from vibe_gate.domain.gate import Override
from vibe_gate.domain.label import ON_FORGE, Label
from vibe_gate.domain.provenance import Record
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.store.database.answer_table import AnswerTable

NOW = datetime(2026, 3, 4, 23, 59, tzinfo=UTC)
TREE, COMMIT, OLD = "7" * 40, "c" * 40, "d" * 40


@pytest.fixture
def state(tmp_path: Path) -> CloneState:
    return open_state(tmp_path)


def test_spending_is_counted_by_day_and_by_run(state: CloneState) -> None:
    for usd, run_id, now in (
        (0.5, "one", NOW),
        (0.25, "one", NOW),
        (1.0, "two", NOW),
        (4.0, "one", NOW + timedelta(1)),
    ):
        assert state.spending.add(usd, run_id, now) == ""
    assert state.spending.spent(NOW) == 1.75
    assert state.spending.spent(NOW + timedelta(1)) == 4.0
    assert state.spending.spent(NOW - timedelta(1)) == 0.0
    assert (
        state.spending.of_run("one"),
        state.spending.of_run("two"),
        state.spending.of_run("no"),
    ) == (4.75, 1.0, 0.0)


def test_a_correction_makes_what_was_spent_less_and_never_less_than_nothing(
    state: CloneState,
) -> None:
    state.spending.add(0.5, "one", NOW)
    state.spending.add(-0.25, "one", NOW)
    assert state.spending.spent(NOW) == 0.25
    state.spending.add(-1.0, "one", NOW)
    assert state.spending.spent(NOW) == 0.0


@pytest.mark.parametrize("usd", [0, math.nan, math.inf])
def test_what_is_no_amount_is_not_counted(state: CloneState, usd: float) -> None:
    assert state.spending.add(usd, "one", NOW) == ""
    assert state.spending.spent(NOW) == 0.0


def test_which_runs_and_sessions_began_here(state: CloneState) -> None:
    state.begun.note_run("run-1")
    state.begun.note_run("run-2", "linked", "{}")
    state.begun.note_run("run-1", "other")
    state.begun.note_session("abc")
    assert state.begun.runs() == {"run-1": BegunRun("other", ""), "run-2": BegunRun("linked", "{}")}
    assert state.begun.has_session("abc")
    state.begun.forget_runs(["run-1", "run-9"])
    state.begun.forget_runs([])
    assert [*state.begun.runs()] == ["run-2"]
    assert not state.begun.has_session("run-1")
    assert not state.begun.has_session("abcd")


def test_blobs_of_captured_sessions_have_the_time_of_their_last_write(state: CloneState) -> None:
    assert state.captured_blobs.note("one", {"a": 10, "b": 20}) == ""
    state.captured_blobs.note("two", {"a": 30})
    state.captured_blobs.note("one", {"a": 5})
    state.captured_blobs.note("one", {"b": 25})
    assert state.captured_blobs.sessions_by_blob() == {"a": "two", "b": "one"}
    assert state.captured_blobs.last_writes() == {"a": {"one": 10, "two": 30}, "b": {"one": 25}}
    state.captured_blobs.forget_all_but(["one", "three"])
    assert state.captured_blobs.last_writes() == {"a": {"one": 10}, "b": {"one": 25}}
    state.captured_blobs.forget_all_but(["one"])
    assert state.captured_blobs.sessions_by_blob() == {"a": "one", "b": "one"}
    state.captured_blobs.note("two", {"a": 1})
    assert state.captured_blobs.last_writes()["a"] == {"one": 10, "two": 1}, (
        "nothing of before is left"
    )


def test_tops_of_worktrees_are_noted_once(state: CloneState) -> None:
    state.worktree_tops.note(["/b", "/a", "/a"])
    state.worktree_tops.note(["/a"])
    assert state.worktree_tops.all() == {"/a", "/b"}


def test_the_key_of_lines_is_made_once_and_kept(state: CloneState, tmp_path: Path) -> None:
    assert state.line_key.read() == b""
    key = state.line_key.read_or_make()
    assert len(key) == 32
    assert (state.line_key.read_or_make(), open_state(tmp_path).line_key.read()) == (key, key)


def test_applied_lines_stay_in_order(state: CloneState) -> None:
    lines = [("claude", "s", b"2"), ("claude", "s", b"1"), ("codex", "t", b"2")]
    state.applied_lines.append(lines[:1])
    state.applied_lines.append([])
    state.applied_lines.append(lines[1:])
    assert state.applied_lines.all() == lines


def record(**values: str) -> Record:
    return Record(ts="2026-01-02T03:04:05.000+00:00", kind="reviewed", stage="pre-commit", **values)


def test_records_of_hooks_are_found_by_each_object_that_they_name(state: CloneState) -> None:
    records = [record(tree=TREE), record(commit=COMMIT), record(commit=COMMIT, old=OLD)]
    for entry in records:
        state.hook_records.append(entry)
    assert state.hook_records.all() == records
    assert state.hook_records.find_records(TREE) == records[:1]
    assert state.hook_records.find_records(COMMIT) == records[1:]
    assert state.hook_records.find_records(OLD) == records[2:]
    assert state.hook_records.find_records("") == []


def write_mark(state: CloneState, name: str, text: str, written_at: float) -> Path:
    folder = Path(state.folder) / "unrecorded"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    os.utime(path, (written_at, written_at))
    return path


def test_marks_of_hooks_in_sh_are_read_oldest_first_and_deleted_when_they_are_recorded(
    state: CloneState,
) -> None:
    assert state.hook_records.marks() == []
    late = write_mark(state, f"amend.{OLD}.{COMMIT}", "CLAUDECODE\n", 1_700_000_002)
    write_mark(state, f"rebase.{COMMIT}.{TREE}", "", 1_700_000_001)
    write_mark(state, "something else", "", 1_700_000_000)
    first, second = state.hook_records.marks()
    assert (first.command, first.old, first.new, first.ts) == (
        "rebase",
        COMMIT,
        TREE,
        "2023-11-14T22:13:21.000+00:00",
    )
    assert (second.command, second.hints, first.hints) == (
        "amend",
        (VariableHint(name="CLAUDECODE", agent="Claude Code"),),
        (),
    )
    state.hook_records.unmark([first])
    assert state.hook_records.marks() == [second]
    state.hook_records.unmark([first, second])
    assert not late.exists()


def test_a_mark_that_is_a_link_or_no_file_is_none(state: CloneState, tmp_path: Path) -> None:
    mark = write_mark(state, "elsewhere", "CLAUDECODE\n", 0)
    (mark.parent / f"amend.{OLD}.{COMMIT}").symlink_to(mark)
    (mark.parent / f"rebase.{OLD}.{COMMIT}").mkdir()
    assert state.hook_records.marks() == []
    folder = mark.parent.rename(tmp_path / "moved")
    mark.parent.symlink_to(folder)
    assert state.hook_records.marks() == []


def override(finding: str) -> Override:
    return Override(
        ts="2026",
        finding=finding,
        reason="why",
        by="A <a@b>",
        email="a@b",
        expires=date(2026, 4, 1),
    )


def test_overrides_are_taken_back_by_finding(state: CloneState) -> None:
    for finding in ("0" * 16, "1" * 16, "0" * 16):
        state.overrides.append(override(finding))
    assert state.overrides.all() == (override("0" * 16), override("1" * 16), override("0" * 16))
    state.overrides.remove("0" * 16)
    assert state.overrides.all() == (override("1" * 16),)


LABEL = Label(
    ts=NOW, finding="0" * 16, rubric="quality", criterion="works", right=False, by="A <a@b>", digest="ab" * 32,
    source="cli",
)  # fmt: skip
ON_A_FORGE = replace(LABEL, finding="1" * 16, source=sorted(ON_FORGE)[0])


def test_the_newest_label_counts_and_can_be_taken_back(state: CloneState) -> None:
    newer = replace(LABEL, right=True, ts=NOW + timedelta(1))
    state.labels.append(LABEL, replace(LABEL, finding="2" * 16))
    state.labels.append(newer)
    assert {label.finding: label.right for label in state.labels.all()} == {
        "0" * 16: True,
        "2" * 16: False,
    }
    state.labels.remove("0" * 16)
    assert [label.finding for label in state.labels.all()] == ["2" * 16]


def test_labels_of_the_forge_are_those_that_stand_there_now(state: CloneState) -> None:
    state.labels.append(LABEL)
    state.labels.put_from_forge([ON_A_FORGE])
    assert state.labels.from_forge() == (ON_A_FORGE,)
    other = replace(ON_A_FORGE, finding="3" * 16)
    state.labels.put_from_forge([other])
    assert state.labels.from_forge() == (other,)
    state.labels.put_from_forge([])
    assert (state.labels.from_forge(), state.labels.all()) == ((), (LABEL,))


@pytest.fixture
def answers(state: CloneState) -> AnswerTable:
    return AnswerTable(state.file)


ROWS = [("a", 10.0, '"first"'), ("b", 30.0, '"third"'), ("c", 20.0, '"second"')]


def test_an_answer_counts_as_long_as_it_is_not_too_old(answers: AnswerTable) -> None:
    assert answers.put(ROWS) == ""
    assert [answers.get("a", oldest) for oldest in (9.0, 10.0, 10.5)] == ['"first"', '"first"', ""]
    assert answers.get("d", 0) == ""
    answers.put([("a", 40.0, '"again"')])
    assert answers.get("a", 0) == '"again"'


def test_answers_are_listed_and_deleted_by_age_and_number(answers: AnswerTable) -> None:
    answers.put(ROWS)
    assert [key for key, _, _ in answers.newest_public(2)] == ["b", "c"]
    answers.delete_old(20.0, limit=9)
    assert [key for key, _, _ in answers.newest_public(9)] == ["b", "c"]
    answers.delete_old(0.0, limit=1)
    assert answers.newest_public(9) == [ROWS[1]]
    answers.replace_all(ROWS[:1])
    assert answers.newest_public(9) == [ROWS[0]]


def test_what_must_not_leave_is_no_public_answer_and_is_forgotten_with_it(
    answers: AnswerTable,
) -> None:
    assert answers.mark_private("b") == ""
    answers.put(ROWS)
    assert [key for key, _, _ in answers.newest_public(9)] == ["c", "a"]
    assert answers.get("b", 0) == '"third"'
    answers.delete_old(0.0, limit=0)
    answers.put(ROWS)
    assert [key for key, _, _ in answers.newest_public(9)] == ["b", "c", "a"]


def test_what_the_teams_store_lacks_is_known_until_it_has_it(answers: AnswerTable) -> None:
    answers.put(ROWS)
    for key in ("b", "a", "a", "not kept"):
        answers.mark_unshared(key)
    assert answers.unshared() == ROWS[:2]
    answers.mark_shared([])
    answers.mark_shared(["a"])
    assert answers.unshared() == [ROWS[1]]


def test_the_index_of_runs_is_of_one_store(state: CloneState) -> None:
    index, other = state.run_index("/r/.vibe-artifacts"), state.run_index("/other")
    index.update({"key": (1, "data"), "old": (2, "more")}, [])
    other.update({"key": (3, "theirs")}, [])
    index.update({"key": (4, "new data")}, ["old", "never"])
    assert (index.folders(), other.folders()) == ({"key": (4, "new data")}, {"key": (3, "theirs")})


def test_extracts_of_runs_are_of_one_form(state: CloneState) -> None:
    index = state.run_index(os.fsdecode(b"/r\xff"))
    index.put_extracts(1, {"place": (1, "text"), "old": (1, "text")}, [])
    index.put_extracts(2, {"place": (2, "newer form")}, ["old"])
    assert index.extracts(2) == {"place": (2, "newer form")}
    assert "old" not in index.extracts(1)
    assert state.run_index("/other").extracts(2) == {}


def test_all_tables_are_in_one_file(state: CloneState, tmp_path: Path) -> None:
    assert (state.problem, state.folder) == ("", str(tmp_path / "vibe-gate"))
    assert not (tmp_path / "vibe-gate").exists(), "nothing is opened before it is asked"
    with state:
        state.spending.add(1.0, "one", NOW)
    assert state.spending.spent(NOW) == 1.0, "the next use opens it again"
    assert (tmp_path / "vibe-gate/state.db").stat().st_mode & 0o777 == 0o600
