"""The index is a cache: whatever happens to it or beside it, lists are right, and it comes back the same."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bundle_words import KEY, START
from hypothesis import given
from hypothesis import strategies as st
from recorded import Kind, begun, recorded
from vibe_gate.store.finding import find_bundles
from vibe_gate.store.index import Entry, Seen, decoded, encoded, entries_of, newest
from vibe_gate.store.indexing import RACY_NS, entries, forget, listed

from vibe_gate.errors import StorageError, UsageError
from vibe_gate.report.listing import lines
from vibe_gate.store import index, list_runs
from vibe_gate.store.names import is_run_id

OTHER = "0123456789abcdef0123456789abcdef01234567"
HOUR = timedelta(hours=1)
STORE = ".vibe-artifacts"


def lines_of(root: Path) -> bytes:
    return (root / STORE / "index/runs.tsv").read_bytes()


def ids(root: Path) -> list[str]:
    return [entry.run_id for entry in entries(root)]


def settle(root: Path) -> None:
    """Until what was written last, the index's own folder included, is old enough to be believed."""
    entries(root)
    time.sleep(RACY_NS / 1e9 + 0.02)


def rebuilt(root: Path) -> bytes:
    shutil.rmtree(root / STORE / "index")
    entries(root)
    return lines_of(root)


def test_an_entry_says_what_the_summary_says(tmp_path):
    ids = {"before": "a" * 40, "after": "b" * 40, "patch_id": "c" * 40, "range_patch_id": "d" * 40}
    kind = Kind(outcome="fail", files=("a.py", "b\tc.py"), rubrics=("quality", "safety"), agent=True, ids=ids)
    run_id = recorded(tmp_path, START, kind)
    for entry in (entries(tmp_path)[0], entries(tmp_path)[0]):  # from the bundle, then from the index
        assert (entry.run_id, entry.key, entry.state) == (run_id, KEY, "sealed")
        assert (entry.outcome, entry.exit_code, entry.author, entry.workflow) == ("fail", 1, "agent", "review")
        assert {name: getattr(entry, name) for name in ids} == ids
        assert (entry.head_commit, entry.base_commit) == (KEY, "")
        assert (entry.files, entry.added, entry.deleted, entry.findings) == (2, 4, 2, 0)
        assert (entry.cost_usd, entry.cost_basis, entry.duration_ms) == (0.0125, "known", 0)
        assert entry.rubrics == (("quality", "fail"), ("safety", "fail"))
        assert entry.paths == ("a.py", "b\tc.py")
        assert entry.created_at == "2026-01-02T03:04:05.678Z"
        assert entry.bundle == f"{STORE}/{KEY}/{run_id}"


def test_the_newest_comes_first_whatever_its_key_and_whenever_it_was_sealed(tmp_path):
    late = begun(tmp_path, START + 2 * HOUR)
    first = recorded(tmp_path, START)
    middle = recorded(tmp_path, START + HOUR, Kind(key=OTHER))
    assert ids(tmp_path) == [late.run_id, middle, first]
    late.close()


def test_what_is_told_of_large_runs_stands_below_what_is_told_of_small_ones(tmp_path):
    recorded(tmp_path, START, Kind(files=tuple(f"src/{number}.py" for number in range(1980))))
    recorded(tmp_path, START + HOUR)
    begun(tmp_path, START + 2 * HOUR).close()
    assert len({line.index(KEY[:17]) for line in lines(entries(tmp_path)).splitlines()}) == 1


def test_without_a_store_there_is_nothing(tmp_path):
    assert entries(tmp_path) == []
    assert listed(tmp_path, None, 0) == []
    assert newest(str(tmp_path), 20, 0) == []
    assert list(tmp_path.iterdir()) == []


def test_deleted_it_comes_back_with_the_same_bytes(tmp_path):
    for number in (3, 1, 4, 0, 2):
        recorded(tmp_path, START + number * HOUR, Kind(key=OTHER if number % 2 else KEY))
        entries(tmp_path)
    before = lines_of(tmp_path)
    assert before.count(b"\n") == 6
    assert rebuilt(tmp_path) == before


def test_new_runs_are_appended(tmp_path):
    recorded(tmp_path, START)
    entries(tmp_path)
    before, inode = lines_of(tmp_path), (tmp_path / STORE / "index/runs.tsv").stat().st_ino
    recorded(tmp_path, START + HOUR)
    entries(tmp_path)
    assert lines_of(tmp_path).startswith(before)
    assert (tmp_path / STORE / "index/runs.tsv").stat().st_ino == inode
    assert rebuilt(tmp_path) == rebuilt(tmp_path)


def forged(line: bytes) -> bytes:
    """A line of somebody else, with a checksum that is right."""
    return b"%s\t%08x\n" % (line, zlib.crc32(line))


def later(line: bytes) -> bytes:
    """The line of a run a year later, which nobody recorded."""
    return forged(line[:-9].replace(b"20260102T", b"20270102T"))


LATER = (b"20270102T030405678Z-00000000", KEY.encode(), b"pass")

DAMAGE = {
    "empty": lambda data: b"",
    "torn": lambda data: data[:-7],
    "torn at the line end": lambda data: data[:-1],
    "a header only": lambda data: data[: data.index(b"\n") + 1],
    "another version": lambda data: data.replace(b"runs\t1", b"runs\t2"),
    "no text": lambda data: bytes(range(256)) * 40,
    "one letter changed": lambda data: data.replace(b"pass", b"fail", 1),
    "lines turned round": lambda data: b"".join([data.splitlines(True)[0], *reversed(data.splitlines(True)[1:])]),
    "a line twice": lambda data: data + data.splitlines(True)[-1],
    "a run that is not there": lambda data: data + later(data.splitlines()[-1]),
    "a line of nothing": lambda data: data + b"\n",
    "a foreign line": lambda data: data + forged(b"hello\tworld"),
    "a number that is none": lambda data: data + forged(b"\t".join([*LATER, *[b"x"] * 17])),
    "an escape that is none": lambda data: data + forged(b"\t".join([*LATER, *[b"\\"] * 17])),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_seen_and_mended(tmp_path, damage):
    wanted = [recorded(tmp_path, START + number * HOUR) for number in range(3)][::-1]
    assert ids(tmp_path) == wanted
    right = lines_of(tmp_path)
    (tmp_path / STORE / "index/runs.tsv").write_bytes(damage(right))
    assert [entry.run_id for entry in listed(tmp_path, None, time.time_ns())] == wanted
    assert {entry.outcome for entry in entries(tmp_path)} == {"pass"}
    assert lines_of(tmp_path) == right


SEEN_DAMAGE = [
    lambda data: b"",
    lambda data: data[:-3],
    lambda data: data.replace(b"seen", b"soon"),
    lambda data: data * 2,
    lambda data: data[:20],
]


@pytest.mark.parametrize("damage", SEEN_DAMAGE)
def test_what_was_seen_may_be_damaged_too(tmp_path, damage):
    wanted = [recorded(tmp_path, START + number * HOUR) for number in range(3)][::-1]
    settle(tmp_path)
    entries(tmp_path)
    seen = tmp_path / STORE / "index/seen"
    seen.write_bytes(damage(seen.read_bytes()))
    assert newest(str(tmp_path), None, time.time_ns()) is None
    assert ids(tmp_path) == wanted
    assert newest(str(tmp_path), None, time.time_ns()) is not None


@pytest.mark.parametrize("name", ["index", "index/runs.tsv", "index/seen", "index/sealed"])
@pytest.mark.parametrize("what", ["link", "fifo", "other"])
def test_what_lies_in_its_place_is_neither_followed_nor_waited_for(tmp_path, name, what):
    run_id = recorded(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    entries(tmp_path)
    place = tmp_path / STORE / name
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    if what == "link":
        place.symlink_to(victim)
    elif what == "fifo":
        os.mkfifo(place)
    elif name == "index":
        place.write_text("a file")
    else:
        place.mkdir()
    assert ids(tmp_path) == [run_id]
    assert newest(str(tmp_path), None, time.time_ns()) is None
    assert victim.read_text() == "mine"


def test_a_store_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    recorded(tmp_path / "elsewhere")
    (tmp_path / STORE).symlink_to(tmp_path / "elsewhere" / STORE)
    assert newest(str(tmp_path), None, 0) is None
    with pytest.raises(StorageError, match="cannot be read"):
        entries(tmp_path)


def test_a_read_only_store_is_listed_without_an_index(tmp_path):
    run_id = recorded(tmp_path)
    script = (
        "import sys; from pathlib import Path; from vibe_gate.store.indexing import entries;"
        "print(*[entry.run_id for entry in entries(Path(sys.argv[1]))])"
    )
    mount = f"mount --bind -o ro '{tmp_path}' '{tmp_path}' && exec \"$@\""
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, "sh", sys.executable, "-c", script, str(tmp_path)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(Path(index.__file__).parents[2])},
    )  # fmt: skip
    if done.returncode != 0 and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip("no user namespaces here")
    assert (done.stdout.strip(), done.stderr) == (run_id, "")
    assert not (tmp_path / STORE / "index").exists()


# What changes in the store


@pytest.fixture
def settled(tmp_path):
    """A store with three runs of two keys whose index is believed."""
    for number in range(3):
        recorded(tmp_path, START + number * HOUR, Kind(key=OTHER if number == 1 else KEY))
    settle(tmp_path)
    entries(tmp_path)
    assert newest(str(tmp_path), None, time.time_ns()) == entries(tmp_path)
    return tmp_path


def quick(root: Path, limit: int | None = 20) -> list[Entry] | None:
    return newest(str(root), limit, time.time_ns())


def test_the_quick_answer_is_the_long_one(settled):
    assert quick(settled) == quick(settled, None) == entries(settled)
    assert quick(settled, 2) == entries(settled)[:2]
    assert listed(settled, 1, time.time_ns()) == entries(settled)[:1]


@pytest.mark.parametrize("key", [KEY, OTHER, "tree-" + KEY])
def test_a_run_that_begins_or_is_sealed_is_noticed(settled, key):
    run = begun(settled, START + 9 * HOUR, Kind(key=key))
    assert quick(settled) is None
    assert [(entry.run_id, entry.state) for entry in listed(settled, 1, time.time_ns())] == [(run.run_id, "running")]
    run.abandon("stopped")
    assert listed(settled, 1, time.time_ns())[0].state == "incomplete"
    run_id = recorded(settled, START + 10 * HOUR, Kind(key=key))
    assert [(entry.run_id, entry.state) for entry in listed(settled, 1, time.time_ns())] == [(run_id, "sealed")]


def test_a_run_in_progress_is_believed_until_it_is_sealed(settled):
    run = begun(settled, START + 9 * HOUR)
    settle(settled)
    assert entries(settled)[0].state == "running"
    told = quick(settled)
    assert told is not None
    assert [entry.state for entry in told] == ["", "sealed", "sealed", "sealed"]
    assert listed(settled, None, time.time_ns())[0].state == "running"
    run.close()
    assert listed(settled, None, time.time_ns())[0].state == "incomplete"
    (run.directory / "summary.json").write_text("{}")
    assert quick(settled) is None
    assert listed(settled, None, time.time_ns())[0].state == "corrupt"


def test_a_run_that_was_removed_by_hand_is_noticed(settled):
    gone = entries(settled)[0]
    shutil.rmtree(settled / gone.bundle)
    assert quick(settled) is None
    assert gone.run_id not in [entry.run_id for entry in listed(settled, None, time.time_ns())]
    assert gone.run_id.encode() not in lines_of(settled)
    assert lines_of(settled) == rebuilt(settled)


@pytest.mark.parametrize("how", ["written over", "renamed over", "taken away"])
def test_a_summary_that_is_replaced_in_its_place_is_noticed(settled, how):
    run = entries(settled)[0]
    summary = settled / run.bundle / "summary.json"
    about = summary.stat()
    other = summary.read_text().replace('"outcome": "pass"', '"outcome": "fail"').replace('"pass"', '"fail"')
    assert len(other) == about.st_size
    if how == "taken away":
        summary.unlink()
    elif how == "written over":
        summary.write_text(other)
    else:
        (summary.parent / "new").write_text(other)
        (summary.parent / "new").rename(summary)
    if summary.exists():
        os.utime(summary, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert quick(settled) is quick(settled, None) is quick(settled, 1) is None
    (told, *_) = listed(settled, None, time.time_ns())
    assert (told.run_id, told.outcome) == (run.run_id, "" if how == "taken away" else "fail")
    assert entries(settled)[0] == told
    assert lines_of(settled) == rebuilt(settled)


@pytest.mark.parametrize("damage", [b"", b"1\n2\n3\n", b"x y z\n", None])
def test_times_of_summaries_that_are_lost_are_read_again(settled, damage):
    times = settled / STORE / "index/sealed"
    right = times.read_bytes()
    if damage is None:  # those of another index
        times.write_bytes(b"00000000" + right[8:])
    else:
        times.write_bytes(damage)
    assert quick(settled) is None
    told = entries(settled)
    assert len(told) == 3
    assert times.read_bytes() == right
    assert quick(settled) == told


def test_a_key_that_was_removed_by_hand_is_noticed(settled):
    shutil.rmtree(settled / STORE / OTHER)
    assert quick(settled) is None
    assert {entry.key for entry in listed(settled, None, time.time_ns())} == {KEY}
    assert lines_of(settled) == rebuilt(settled)


def test_a_bundle_that_something_else_copied_in_is_noticed(settled, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for key, year in ((KEY, 2025), (OTHER, 2027), ("tree-" + KEY, 2024)):
        run_id = recorded(elsewhere, datetime(year, 1, 1, tzinfo=UTC), Kind(key=key))
        subprocess.run(["cp", "-a", f"{elsewhere}/{STORE}/{key}/.", f"{settled}/{STORE}/{key}"], check=True)
        assert quick(settled) is None
        assert run_id in [entry.run_id for entry in listed(settled, None, time.time_ns())]
    assert lines_of(settled) == rebuilt(settled)


def test_times_that_were_set_back_hide_nothing(settled):
    """`cp -a`, `tar` and `rsync` give folders their old mtime; their ctime cannot be set."""
    key = settled / STORE / KEY
    about = key.stat()
    shutil.copytree(key / entries(settled)[0].run_id, key / "20300102T030405678Z-00000000")
    os.utime(key, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert quick(settled) is None


def test_a_change_right_after_a_look_is_never_hidden_by_the_same_time(tmp_path):
    for number in range(20):
        run_id = recorded(tmp_path, START + number * HOUR)
        assert listed(tmp_path, 1, time.time_ns())[0].run_id == run_id


@pytest.fixture
def large(tmp_path):
    """A store of more keys than a quick look at the newest checks; most of them as empty as their names."""
    recorded(tmp_path, START)
    for number in range(index.CHECKED_KEYS + 1):
        (tmp_path / STORE / f"tree-{number}").mkdir()
    recorded(tmp_path, START + HOUR, Kind(key=OTHER))
    settle(tmp_path)
    entries(tmp_path)
    return tmp_path


def test_in_a_large_store_the_newest_are_told_without_a_look_at_every_key(large):
    assert quick(large) == entries(large)
    assert newest(str(large), 20, time.time_ns() + index.TRUST_NS) is None
    assert newest(str(large), 20, 0) is None


def test_in_a_large_store_the_newest_runs_are_looked_at(large):
    (large / STORE / OTHER / "20300102T030405678Z-00000000").mkdir()
    assert quick(large) is None
    entries(large)
    shutil.rmtree(large / STORE / OTHER / "20300102T030405678Z-00000000")
    settle(large)
    assert entries(large) == quick(large)
    shutil.rmtree(large / entries(large)[0].bundle)
    assert quick(large, 1) is None


def test_in_a_large_store_a_run_of_an_old_key_that_begins_is_noticed(large):
    recorded(large, START + 2 * HOUR, Kind(key="tree-7"))
    assert quick(large) is None


# What is no sealed run of ours


CORRUPT = {
    "empty": lambda document: "",
    "no JSON": lambda document: "{",
    "a list": lambda document: "[1]",
    "deep": lambda document: "[" * 100_000,
    "another run": lambda document: json.dumps(document | {"run_id": "20260102T030405678Z-00000000"}),
    "another key": lambda document: json.dumps(document | {"key": OTHER}),
    "a new schema": lambda document: json.dumps(document | {"schema": 2}),
    "an outcome of its own": lambda document: json.dumps(document | {"outcome": "\x1b[32mpass"}),
    "no change": lambda document: json.dumps({name: value for name, value in document.items() if name != "change"}),
    "paths that are none": lambda document: json.dumps(document | {"change": document["change"] | {"files": [1]}}),
    "a cost that is none": lambda document: json.dumps(document | {"cost": {"usd": "free", "basis": "none"}}),
    "an endless cost": lambda document: json.dumps(document | {"cost": {"usd": float("inf"), "basis": "none"}}),
    "a large number": lambda document: json.dumps(document | {"exit_code": 10**30}),
}


@pytest.mark.parametrize("corrupt", CORRUPT.values(), ids=CORRUPT.keys())
def test_a_summary_that_is_none_is_corrupt_and_shows_no_outcome(tmp_path, corrupt):
    recorded(tmp_path)
    summary = next((tmp_path / STORE).rglob("summary.json"))
    summary.write_text(corrupt(json.loads(summary.read_text())))
    entry = entries(tmp_path)[0]
    assert (entry.state, entry.outcome) == ("corrupt", "")
    assert lines_of(tmp_path) == index.HEADER


def test_a_corrupt_summary_that_was_repaired_is_listed(tmp_path):
    recorded(tmp_path)
    summary = next((tmp_path / STORE).rglob("summary.json"))
    right = summary.read_bytes()
    summary.write_bytes(b"")
    assert entries(tmp_path)[0].state == "corrupt"
    settle(tmp_path)
    assert entries(tmp_path)[0].state == "corrupt"
    summary.write_bytes(right)
    assert listed(tmp_path, 1, time.time_ns())[0].outcome == "pass"


def test_a_link_or_a_fifo_in_the_place_of_a_summary_is_corrupt(tmp_path):
    recorded(tmp_path)
    summary = next((tmp_path / STORE).rglob("summary.json"))
    summary.rename(tmp_path / "summary.json")
    summary.symlink_to(tmp_path / "summary.json")
    assert entries(tmp_path)[0].state == "corrupt"
    summary.unlink()
    os.mkfifo(summary)
    assert entries(tmp_path)[0].state == "corrupt"


def test_folders_that_are_no_runs_are_not_listed(tmp_path):
    run_id = recorded(tmp_path)
    store = tmp_path / STORE
    for name in ("objects", "quarantine", "trash", "sessions", "index", "a b", ".hidden"):
        (store / name / "20260102T030405678Z-00000000").mkdir(parents=True, exist_ok=True)
    (store / KEY / "20260102T030405678Z-0000000g").mkdir()
    (store / KEY / "20260102T030405678Z-00000001").write_text("a file")
    (store / KEY / "20260102T030405678Z-00000002").symlink_to(store / KEY / run_id)
    (store / ("c" * 40)).symlink_to(store / KEY)
    assert [entry.run_id for entry in entries(tmp_path) if entry.state == "sealed"] == [run_id]
    assert {entry.key for entry in entries(tmp_path)} == {KEY}


def test_after_forgetting_everything_is_read_again(settled):
    forget(settled)
    assert quick(settled) is None
    assert len(entries(settled)) == 3


def test_it_lists_what_the_bundles_themselves_list(settled):
    begun(settled, START + 5 * HOUR).close()
    assert [(run.run_id, run.key) for run in list_runs(settled)] == [entry.place for entry in entries(settled)]


# The format


@given(st.text())
def test_every_text_survives_and_is_plain_ascii(text):
    field = encoded(text)
    assert decoded(field) == text
    assert field.isascii()
    assert field == "" or field.isprintable()


RUN_IDS = st.from_regex(r"[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8}", fullmatch=True)


@given(st.text(alphabet="0123456789abcdefTZ-g٣", min_size=27, max_size=29) | RUN_IDS)
def test_a_run_id_is_what_the_names_say(text):
    assert index.is_run_id(text) == is_run_id(text)


@given(st.binary())
def test_no_bytes_break_the_reader(data):
    for raw in (data, index.HEADER + data, index.HEADER + forged(data)):
        found, _ = entries_of(raw)
        for entry in found:
            assert (entry.rubrics, entry.paths, entry.cost_usd, entry.files) is not None
    with contextlib.suppress(ValueError):
        Seen.decode(data)


# Finding


def test_runs_are_found_by_every_id_of_their_change(tmp_path):
    trees = {"before": "1" * 40, "after": "2" * 40}
    committed = recorded(tmp_path, START, Kind(ids={**trees, "patch_id": "3" * 40, "range_patch_id": "4" * 40}))
    staged = recorded(tmp_path, START + HOUR, Kind(key="tree-" + "5" * 40, ids={"after": "5" * 40, "head_commit": ""}))
    begun(tmp_path, START + 2 * HOUR, Kind(key="tree-" + "6" * 40)).close()

    def found(**wanted: str) -> list[str]:
        return [entry.run_id for entry in find_bundles(tmp_path, **wanted)]

    assert found(commit=KEY) == [committed]
    assert found(tree="2" * 40) == [committed]
    assert found(tree="5" * 40) == [staged]
    assert len(found(tree="6" * 40)) == 1
    assert found(patch_id="3" * 40) == found(range_patch_id="4" * 40) == found(run=committed) == [committed]
    assert found(patch_id="4" * 40) == found(commit="") == found(patch_id="") == found(prefix="") == []
    assert found(prefix=staged[:18]) == [staged]
    assert found(commit=KEY, tree="2" * 40) == [committed]
    assert found(commit=KEY, tree="5" * 40) == []
    assert len(found()) == 3


def test_runs_are_found_by_what_they_are_like(tmp_path):
    fail = Kind(outcome="fail", files=("src/pay/load.py",), rubrics=("payments",), agent=True)
    failed = recorded(tmp_path, START, fail)
    passed = recorded(tmp_path, START + 24 * HOUR, Kind(files=('"caf\\351"',)))
    begun(tmp_path, START + 48 * HOUR).close()

    def found(**wanted: object) -> list[str]:
        return [entry.run_id for entry in find_bundles(tmp_path, **wanted)]  # type: ignore[arg-type]

    assert (
        found(outcome="fail") == found(rubric="payments") == found(author="agent") == found(path="src/**") == [failed]
    )
    assert found(outcome="pass") == found(author="human") == found(path="caf?") == [passed]
    assert len(found(outcome="incomplete")) == 1
    assert found(since=START + HOUR, outcome="pass") == [passed]
    assert found(since=START, path="*.py") == [failed]
    assert found(path="*.rs") == found(rubric="pay") == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"outcome": "passed"}, "outcome is one of pass, fail,"),
        ({"author": "robot"}, "author is one of agent, human, not 'robot'"),
        ({"commit": "19bddfc"}, "commit is a whole id of 40 or 64 hex digits, not '19bddfc'"),
        ({"tree": "HEAD"}, "tree is a whole id"),
    ],
)
def test_what_no_run_can_be_is_refused_instead_of_not_found(tmp_path, wanted, why):
    with pytest.raises(UsageError, match=why):
        find_bundles(tmp_path, **wanted)


def test_a_word_that_is_none_is_refused(tmp_path):
    with pytest.raises(TypeError, match="knows no 'comit'"):
        find_bundles(tmp_path, comit=KEY)  # type: ignore[call-arg]
