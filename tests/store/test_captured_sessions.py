"""Captured sessions in the store: clean takes those that nobody needs any more."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from bundle_words import START

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.gate import Retention
from vibe_gate.domain.upkeep import Cleaned
from vibe_gate.store.store_cleaning import clean_store
from vibe_gate.store.worktree_bundles import Bundles

DAY = timedelta(days=1)
NOW = START + 100 * DAY
WEEK = Retention(max_age_days=7, min_free_disk_mb=0)
ONE, TWO = "5e551011-0000-4000-8000-000000000001", "0b7d2c3e-0000-4000-8000-000000000002"


def session(root: Path, days_old: float, session_id: str = ONE, **fields: Any) -> Path:
    updated = (NOW - days_old * DAY).astimezone(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"ts": updated, "type": "Stop", "data": {}}) + "\n"
    folder = root / ".vibe-artifacts/captures" / f"claude_20260102_030405_{session_id[:8]}"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text(line * 3)
    meta = {"schema": 1, "agent": "claude", "session_id": session_id, "parent_session_id": None, "started_at": updated,
            "updated_at": updated, "bytes": len(line) * 3}  # fmt: skip
    (folder / "meta.json").write_text(json.dumps(meta | fields))
    return folder


def bundles(root: Path) -> Bundles:
    return Bundles(root, Provenance(NOW))


def clean(root: Path, dry_run: bool = False) -> Cleaned:
    store_bundles = bundles(root)
    return clean_store(root, WEEK, store_bundles.provenance.now, dry_run, store_bundles.provenance)


def remaining_ids(root: Path) -> list[str]:
    return sorted(
        path.name.rpartition("_")[2] for path in (root / ".vibe-artifacts/captures").iterdir()
    )


def test_a_session_goes_by_its_recorded_age_a_month_after_the_runs_that_may_name_it(
    tmp_path: Path,
) -> None:
    session(tmp_path, 38)
    session(tmp_path, 36, TWO)
    planned = clean(tmp_path, dry_run=True)
    assert remaining_ids(tmp_path) == [TWO[:8], ONE[:8]]
    cleaned = clean(tmp_path)
    assert cleaned.sessions == planned.sessions == (f"claude_20260102_030405_{ONE[:8]}",)
    assert remaining_ids(tmp_path) == [TWO[:8]]


def test_a_session_stays_that_is_kept(tmp_path: Path) -> None:
    folder = session(tmp_path, 60)
    (folder / ".vibe-keep").touch()
    assert clean(tmp_path).sessions == ()
    (folder / ".vibe-keep").unlink()
    assert clean(tmp_path).sessions == (folder.name,)
