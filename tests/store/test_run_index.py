"""Lists with the run index: the same as without it, noticing what changed; and how runs are found
in a list.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import KEY, START
from recorded import Kind, begun, record_run

from vibe_gate.domain.bundles import RunEntry
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store.bundle_listing import find_bundles
from vibe_gate.store.clone_state import CloneState, open_state

STORE = ".vibe-artifacts"
OTHER = "0123456789abcdef0123456789abcdef01234567"
HOUR = timedelta(hours=1)


def settle() -> None:
    """Wait until the index believes the times of what was just written."""
    time.sleep(0.06)


@pytest.fixture
def state(tmp_path: Path) -> CloneState:
    return open_state(tmp_path / "git")


@pytest.fixture
def settled(tmp_path: Path, state: CloneState) -> Path:
    """A store with three runs of two keys whose index is believed."""
    root = tmp_path / "root"
    root.mkdir()
    for number in range(3):
        record_run(root, START + number * HOUR, Kind(key=OTHER if number == 1 else KEY))
    settle()
    listed(root, state)
    return root


def listed(root: Path, state: CloneState, limit: int | None = None) -> list[RunEntry]:
    """The list of runs read with the index, after a check that it is the list read without it."""
    entries = find_bundles(root, None, state.run_index(root / STORE), limit)
    assert entries == find_bundles(root)[:limit]
    return entries


def test_a_sealed_run_that_the_index_knows_is_not_read_again(settled, state):
    runs = listed(settled, state)
    assert len(runs) == 3
    for run in runs:
        (settled / run.bundle / "summary.json").write_text("{}")
    assert find_bundles(settled, None, state.run_index(settled / STORE)) == runs
    assert find_bundles(settled, None, state.run_index(settled / STORE), 2) == runs[:2]


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("key", [KEY, OTHER, "tree-" + KEY])
def test_a_run_that_begins_or_is_sealed_is_noticed(settled, state, key, limit):
    run = begun(settled, START + 9 * HOUR, Kind(key=key))
    newest = listed(settled, state, limit)[0]
    assert (newest.run_id, newest.state) == (run.run_id, "running")
    run.abandon("stopped")
    settle()
    assert listed(settled, state, limit)[0].state == "incomplete"
    run_id = record_run(settled, START + 10 * HOUR, Kind(key=key))
    newest = listed(settled, state, limit)[0]
    assert (newest.run_id, newest.state) == (run_id, "sealed")
    assert len(listed(settled, state)) == 5


def test_runs_beyond_the_limit_are_not_forgotten(tmp_path, state):
    ids = [record_run(tmp_path, START + number * HOUR) for number in range(4)]
    settle()
    assert [run.run_id for run in listed(tmp_path, state, 1)] == ids[3:]
    assert [run.run_id for run in listed(tmp_path, state, 2)] == ids[:1:-1]
    assert [run.run_id for run in listed(tmp_path, state)] == ids[::-1]


def test_runs_and_keys_that_were_removed_or_copied_in_by_hand_are_noticed(settled, state):
    removed, copied = listed(settled, state)[0], "20300102T030405678Z-00000000"
    key = settled / STORE / KEY
    status = key.stat()
    shutil.copytree(settled / removed.bundle, key / copied)
    shutil.rmtree(settled / removed.bundle)
    os.utime(
        key, ns=(status.st_atime_ns, status.st_mtime_ns)
    )  # as `cp -a` does; a ctime cannot be set
    assert [run.run_id for run in listed(settled, state, 1)] == [copied]
    shutil.rmtree(settled / STORE / OTHER)
    assert {run.key for run in listed(settled, state)} == {KEY}
    assert OTHER not in state.run_index(settled / STORE).folders()


@pytest.mark.slow
def test_a_change_right_after_a_look_is_never_hidden_by_the_same_time(tmp_path, state):
    for number in range(20):
        run_id = record_run(tmp_path, START + number * HOUR)
        assert listed(tmp_path, state)[0].run_id == run_id


@pytest.mark.parametrize("damage", ["", "{", "[1]", "null", "[[]]"])
def test_a_damaged_row_is_read_from_its_bundle(settled, state, damage):
    index = state.run_index(settled / STORE)
    index.update({key: (ctime, damage) for key, (ctime, _) in index.folders().items()}, [])
    assert listed(settled, state)[0].outcome == "pass"


def test_rows_of_an_earlier_version_are_read_from_their_bundles(settled, state):
    index = state.run_index(settled / STORE)
    for key, (ctime, data) in index.folders().items():
        index.update({key: (ctime, json.dumps([row[:-1] for row in json.loads(data)]))}, [])
    assert listed(settled, state)[0].rubrics == (("quality", "pass"),)


CORRUPT = {
    "empty": lambda _: "",
    "a list": lambda _: "[1]",
    "deep": lambda _: "[" * 100_000,
    "another run": lambda document: json.dumps(
        document | {"run_id": "20260102T030405678Z-00000000"}
    ),
    "an outcome of its own": lambda document: json.dumps(document | {"outcome": "\x1b[32mpass"}),
    "an endless cost": lambda document: json.dumps(
        document | {"cost": {"usd": float("inf"), "basis": "none"}}
    ),
    "a large number": lambda document: json.dumps(document | {"exit_code": 10**30}),
    "an endless time": lambda document: json.dumps(document | {"duration_ms": 10**400}),
    "more money than there is": lambda document: json.dumps(
        document | {"cost": {"usd": 1e300, "basis": "known"}}
    ),
    "a model that pays": lambda document: json.dumps(
        document | {"cost": {"by_model": {"m": -5.0}}}
    ),
    "more answers than were asked for": lambda document: json.dumps(
        document | {"cache": {"hits": 3, "misses": -3}}
    ),
}


@pytest.mark.parametrize("corrupt", CORRUPT.values(), ids=CORRUPT.keys())
def test_a_summary_that_is_none_is_corrupt_until_it_is_repaired(tmp_path, state, corrupt):
    record_run(tmp_path)
    summary = next((tmp_path / STORE).rglob("summary.json"))
    right = summary.read_text()
    summary.write_text(corrupt(json.loads(right)))
    settle()
    assert [(run.state, run.outcome) for run in listed(tmp_path, state)] == [("corrupt", "")]
    summary.write_text(right)
    assert [(run.state, run.outcome) for run in listed(tmp_path, state)] == [("sealed", "pass")]


def test_a_link_or_a_fifo_in_the_place_of_a_summary_is_corrupt(tmp_path, state):
    record_run(tmp_path)
    summary = next((tmp_path / STORE).rglob("summary.json"))
    summary.rename(tmp_path / "summary.json")
    summary.symlink_to(tmp_path / "summary.json")
    assert listed(tmp_path, state)[0].state == "corrupt"
    summary.unlink()
    os.mkfifo(summary)
    assert listed(tmp_path, state)[0].state == "corrupt"


def test_folders_that_are_no_runs_are_not_listed(tmp_path, state):
    run_id = record_run(tmp_path)
    store = tmp_path / STORE
    for name in (
        "objects",
        "quarantine",
        "trash",
        "sessions",
        "index",
        "a b",
        ".hidden",
        "\x1b[2J",
    ):
        (store / name / "20260102T030405678Z-00000000").mkdir(parents=True, exist_ok=True)
    (store / KEY / "20260102T030405678Z-0000000g").mkdir()
    (store / KEY / "20260102T030405678Z-00000001").write_text("a file")
    (store / KEY / "20260102T030405678Z-00000002").symlink_to(store / KEY / run_id)
    (store / ("c" * 40)).symlink_to(store / KEY)
    assert [entry.run_id for entry in listed(tmp_path, state) if entry.state == "sealed"] == [
        run_id
    ]
    assert {entry.key for entry in listed(tmp_path, state)} == {KEY}


def test_a_store_that_is_a_link_is_not_read(tmp_path, state):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    record_run(elsewhere)
    (tmp_path / STORE).symlink_to(elsewhere / STORE)
    with pytest.raises(StorageError, match="cannot be read"):
        listed(tmp_path, state)


# Finding


def test_runs_are_found_by_every_id_of_their_change(tmp_path):
    trees = {"before": "1" * 40, "after": "2" * 40}
    committed = record_run(
        tmp_path, START, Kind(ids={**trees, "patch_id": "3" * 40, "range_patch_id": "4" * 40})
    )
    staged = record_run(
        tmp_path,
        START + HOUR,
        Kind(key="tree-" + "5" * 40, ids={"after": "5" * 40, "head_commit": ""}),
    )
    begun(tmp_path, START + 2 * HOUR, Kind(key="tree-" + "6" * 40)).close()

    def find_ids(**conditions: str) -> list[str]:
        return [entry.run_id for entry in find_bundles(tmp_path, **conditions)]

    assert find_ids(commit=KEY) == [committed]
    assert find_ids(tree="2" * 40) == [committed]
    assert find_ids(tree="5" * 40) == [staged]
    assert len(find_ids(tree="6" * 40)) == 1
    assert (
        find_ids(patch_id="3" * 40)
        == find_ids(range_patch_id="4" * 40)
        == find_ids(run=committed)
        == [committed]
    )
    assert (
        find_ids(patch_id="4" * 40)
        == find_ids(commit="")
        == find_ids(patch_id="")
        == find_ids(prefix="")
        == []
    )
    assert find_ids(prefix=staged[:18]) == [staged]
    assert find_ids(commit=KEY, tree="2" * 40) == [committed]
    assert find_ids(commit=KEY, tree="5" * 40) == []
    assert len(find_ids()) == 3


def test_runs_are_found_by_what_they_are_like(tmp_path):
    fail = Kind(outcome="fail", files=("src/pay/load.py",), rubrics=("payments",), agent=True)
    failed = record_run(tmp_path, START, fail)
    passed = record_run(tmp_path, START + 24 * HOUR, Kind(files=('"caf\\351"',)))
    begun(tmp_path, START + 48 * HOUR).close()

    def find_ids(**conditions: object) -> list[str]:
        return [entry.run_id for entry in find_bundles(tmp_path, **conditions)]  # type: ignore[arg-type]

    assert (
        find_ids(outcome="fail")
        == find_ids(rubric="payments")
        == find_ids(author="agent")
        == [failed]
    )
    assert find_ids(path="src/**") == find_ids(since=START, path="*.py") == [failed]
    assert find_ids(outcome="pass") == find_ids(author="human") == find_ids(path="caf?") == [passed]
    assert len(find_ids(outcome="incomplete")) == 1
    assert find_ids(since=START + HOUR, outcome="pass") == [passed]
    assert find_ids(path="*.rs") == find_ids(rubric="pay") == []


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ({"outcome": "passed"}, "outcome is one of pass, fail,"),
        ({"author": "robot"}, "author is one of agent, human, not 'robot'"),
        ({"commit": "19bddfc"}, "commit is a whole id of 40 or 64 hex digits, not '19bddfc'"),
        ({"tree": "HEAD"}, "tree is a whole id"),
        ({"since": START.replace(tzinfo=None)}, "since is a datetime with a time zone"),
    ],
)
def test_what_no_run_can_be_is_refused_instead_of_not_found(tmp_path, condition, sentence):
    with pytest.raises(UsageError, match=sentence):
        find_bundles(tmp_path, **condition)


def test_an_unknown_word_is_refused(tmp_path):
    with pytest.raises(UsageError, match="takes no 'comit'; did you mean 'commit'"):
        find_bundles(tmp_path, comit=KEY)  # type: ignore[call-arg]
