"""Faults while the store is cleaned: killed or refused at every step, lists stay right and bundles
whole.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import START, read_summary
from faults.system_calls import each_call_fails, each_call_kills
from faults.test_store_faults import copy
from recorded import Kind, record_run

from vibe_gate.domain.gate import Retention
from vibe_gate.store.bundle_listing import find_bundles as entries
from vibe_gate.store.store_cleaning import clean_store

DAY = timedelta(days=1)
NOW = START + 100 * DAY
MONTH = Retention(max_age_days=30, min_free_disk_mb=0)
OTHER = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def store_of_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str], set[str]]:
    """A store with an index, and two runs that have no line in it yet; the old and the young
    runs.
    """
    root = tmp_path_factory.mktemp("made")
    old = {
        record_run(root, NOW - (60 + n) * DAY, Kind(key=OTHER, contents=(b"old", b"shared")))
        for n in range(2)
    }
    entries(root)
    young = {
        record_run(root, NOW - n * DAY, Kind(contents=(b"young", b"shared"))) for n in range(2)
    }
    return root, old, young


def assert_right(root: Path, runs: set[str]) -> None:
    for _ in range(2):
        run_entries = entries(root)
        assert {entry.run_id for entry in run_entries} == runs
        assert {entry.state for entry in run_entries} <= {"sealed"}
    for entry in run_entries:
        assert read_summary(root / entry.bundle).outcome == "pass"
        for content in (root / entry.bundle / "files").glob("*/*"):
            assert content.read_bytes() in {b"old", b"young", b"shared"}


@pytest.mark.parametrize("fault", [each_call_fails, each_call_kills])
def test_a_cleaning_that_fails_or_is_killed_at_any_call_leaves_whole_bundles_and_is_finished_later(
    store_of_runs: tuple[Path, set[str], set[str]], tmp_path: Path, fault: Callable[..., int]
) -> None:
    store, old, young = store_of_runs

    def look(root: Path) -> None:
        remaining_ids = {entry.run_id for entry in entries(root)}
        assert young <= remaining_ids <= young | old
        assert_right(root, remaining_ids)
        clean_store(root, MONTH, NOW)
        assert_right(root, young)
        trash = root / ".vibe-artifacts/trash"
        assert not trash.exists() or list(trash.iterdir()) == []

    calls = fault(
        lambda root: clean_store(root, MONTH, NOW),
        lambda number: copy(store, tmp_path / str(number)),
        look,
        step=7,
    )
    assert calls > 50
