"""A bundle that a later version wrote under the same schema: its new fields are not read, all else
is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bundle_words import KEY, View, list_runs, verify_bundles

from vibe_gate.domain.bundles import Provenance
from vibe_gate.store.bundle_listing import find_bundles
from vibe_gate.store.run_result import read_bundle

GOLDEN = Path(__file__).parents[1] / "golden/bundle-1"
FIX = "nodes/fix/turn-001"


def newer(value: Any) -> Any:
    """The JSON value with a new field in each of its objects but those whose names are not ours."""
    if isinstance(value, list):
        return [newer(item) for item in value]
    if not isinstance(value, dict):
        return value
    names_by_users = (
        "digests",
        "by_node",
        "by_model",
        "kinds",
        "data",
        "versions",
        "definitions",
        "nodes",
    )
    return {
        name: item if name in names_by_users else newer(item) for name, item in value.items()
    } | {"weather": ["fine"]}


def test_it_reads_as_if_the_new_fields_were_not_there(tmp_path: Path) -> None:
    run_id = json.loads((GOLDEN / "run.json").read_bytes())["run_id"]
    bundle = shutil.copytree(GOLDEN, tmp_path / ".vibe-artifacts" / KEY / run_id)
    for place in (bundle / "run.json", *bundle.glob("nodes/*/*/summary.json")):
        place.write_text(json.dumps(newer(json.loads(place.read_bytes()))))
    log = bundle / "events.ndjson"
    log.write_text(
        "".join(json.dumps(newer(json.loads(line))) + "\n" for line in log.read_text().splitlines())
    )
    summary = newer(json.loads((bundle / "summary.json").read_bytes()))
    summary["digests"] = {
        name: hashlib.sha256((bundle / name).read_bytes()).hexdigest()
        for name in summary["digests"]
    }
    (bundle / "summary.json").write_text(json.dumps(summary))
    before, after = View(GOLDEN), View(bundle)
    assert (after.summary, list(after.events()), after.graph()) == (
        before.summary, list(before.events()), before.graph(),
    )  # fmt: skip
    new, old = read_bundle(bundle / FIX), read_bundle(GOLDEN / FIX)
    assert (new.metrics, new.todos, new.hook_capture_status) == (
        old.metrics,
        old.todos,
        old.hook_capture_status,
    )
    assert [file.path for file in new.files.changed()] == [
        file.path for file in old.files.changed()
    ]
    verified = verify_bundles(
        tmp_path, Provenance(datetime(2027, 1, 1, tzinfo=UTC)), list_runs(tmp_path)
    )
    assert [flaw for flaw in verified.problems if flaw.state == "corrupt"] == []
    assert [run.outcome for run in find_bundles(tmp_path, commit=KEY)] == ["fail"]
