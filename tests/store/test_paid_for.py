"""What was paid for, kept in the git folder: verdicts and the day's spending, whatever lies in their place."""

from __future__ import annotations

import json
import os
import resource
import time
from datetime import UTC, datetime, timedelta

import pytest

from vibe_gate.store.spending import DayLedger
from vibe_gate.store.verdicts import MAX_AGE, VerdictCache

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
KEY = "ab" * 32


@pytest.fixture
def common(tmp_path):
    """A git folder."""
    (tmp_path / ".git").mkdir()
    return tmp_path / ".git"


def lie(kind, path):
    """Something else in the place of a file or a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "file":
        path.write_text("\n")
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "link":
        path.symlink_to(path.parents[-1] / "proc" / "self" / "nothing")
    else:
        path.symlink_to("/dev/zero")


def used(common):
    """What every review does with both."""
    cache, ledger = VerdictCache(common), DayLedger(common)
    assert cache.get(KEY, NOW) is None
    cache.put(KEY, {"outcome": "fail"}, NOW)
    cache.prune(NOW)
    cache.prune(NOW + timedelta(days=36_500))
    assert ledger.spent(NOW) == 0
    ledger.add(0.5, "run", NOW)
    return cache, ledger


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "file", "folder", "loop", "link", "endless"])
@pytest.mark.parametrize(
    "place", ["vibe-gate", "vibe-gate/verdicts", "vibe-gate/spent", f"vibe-gate/verdicts/{KEY}.json",
              "vibe-gate/verdicts/old.json", "vibe-gate/spent/2026-03-04.ndjson"],
)  # fmt: skip
def test_whatever_lies_in_their_place_costs_no_verdict(common, place, kind):
    lie(kind, common / place)
    used(common)


def test_a_full_disk_costs_no_verdict(common):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        used(common)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    cache, ledger = VerdictCache(common), DayLedger(common)
    assert cache.get(KEY, NOW) is None
    assert not list((common / "vibe-gate" / "verdicts").iterdir())
    ledger.add(0.25, "run", NOW)  # after the line that was torn
    assert ledger.spent(NOW) == 0.25


def test_a_folder_that_cannot_be_written_costs_no_verdict(common):
    (common / "vibe-gate").mkdir(0o500)
    used(common)


def test_a_verdict_is_found_until_it_is_too_old(common):
    cache = VerdictCache(common)
    cache.put(KEY, {"outcome": "pass"}, NOW)
    assert cache.get(KEY, NOW + MAX_AGE) == {"outcome": "pass"}
    assert cache.get(KEY, NOW + MAX_AGE + timedelta(seconds=1)) is None
    os.utime(common / "vibe-gate" / "verdicts" / f"{KEY}.json", (time.time(), 0))
    assert cache.prune(NOW) == 1
    assert cache.get(KEY, NOW) is None


@pytest.mark.parametrize(
    "line", ["[" * 10_000, '{"usd": 1' + "0" * 400 + "}", '{"usd": "1"}', '{"usd": -1}', "[]", "1"]
)
def test_a_line_that_is_no_spending_counts_nothing(common, line):
    ledger = DayLedger(common)
    ledger.add(0.5, "run", NOW)
    with open(common / "vibe-gate" / "spent" / "2026-03-04.ndjson", "a") as file:
        file.write(line + "\n" + json.dumps({"usd": 0.25}) + "\n")
    assert ledger.spent(NOW) == 0.75


def test_nobody_elses_files_are_pruned(common, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("notes.txt", f"{KEY}.json"):
        (theirs / name).write_text("x")
    (common / "vibe-gate").mkdir()
    (common / "vibe-gate" / "verdicts").symlink_to(theirs)
    assert VerdictCache(common).prune(NOW + timedelta(days=36_500)) == 0
    (common / "vibe-gate" / "verdicts").unlink()
    theirs.rename(common / "vibe-gate" / "verdicts")
    assert VerdictCache(common).prune(NOW + timedelta(days=36_500)) == 1
    assert [path.name for path in (common / "vibe-gate" / "verdicts").iterdir()] == ["notes.txt"]
