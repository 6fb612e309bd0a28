"""A bundle that a later version wrote under the same schema: its new fields are not read, all else is."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bundle_words import KEY, View, list_runs, verify_bundles

from vibe_gate.domain.bundles import Provenance
from vibe_gate.store import find_bundles, read_bundle

GOLDEN = Path(__file__).parents[1] / "golden/bundle-1"
LATER = Provenance(datetime(2027, 1, 1, tzinfo=UTC))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The sample bundle at its place in a store, written by a version that knows more fields everywhere."""
    run_id = json.loads((GOLDEN / "run.json").read_bytes())["run_id"]
    bundle = shutil.copytree(GOLDEN, tmp_path / ".vibe-artifacts" / KEY / run_id)
    rewrite(bundle / "run.json", lambda document: document | {"weather": "fine"})
    for place in bundle.glob("nodes/*/*/summary.json"):
        rewrite(place, newer_turn)
    lines = [json.loads(line) for line in (bundle / "events.ndjson").read_text().splitlines()]
    (bundle / "events.ndjson").write_text("".join(json.dumps(line | {"host": "a"}) + "\n" for line in lines))
    rewrite(bundle / "summary.json", newer_summary)
    reseal(bundle)
    return bundle


def rewrite(place: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    place.write_text(json.dumps(change(json.loads(place.read_bytes()))))


def newer_turn(document: dict[str, Any]) -> dict[str, Any]:
    document["metrics"]["joules"] = 3
    for call in document["toolCalls"]:
        call["hookRef"]["middle"] = 1
    for file in document["files"]:
        file["after"] = (file["after"] or {}) | {"blake3": "00"}
    return document | {"mood": {"of": ["the", "agent"]}}


def newer_summary(document: dict[str, Any]) -> dict[str, Any]:
    document["change"]["files"][0]["language"] = "python"
    document["rubrics"][0]["criteria"][1]["votes"][0]["evidence"][0]["column"] = 7
    document["cost"]["carbon_g"] = 0.1
    return document | {"hints": []}


def reseal(bundle: Path) -> None:
    def vouch(document: dict[str, Any]) -> dict[str, Any]:
        names = document["digests"]
        return document | {"digests": {n: hashlib.sha256((bundle / n).read_bytes()).hexdigest() for n in names}}

    rewrite(bundle / "summary.json", vouch)


def test_it_reads_as_if_the_new_fields_were_not_there(bundle: Path) -> None:
    before, after = View(GOLDEN), View(bundle)
    assert after.summary == before.summary
    assert list(after.events()) == list(before.events())
    assert after.graph() == before.graph()
    for turn in ("nodes/judge-quality/turn-001", "nodes/fix/turn-001"):
        new, old = read_bundle(bundle / turn), read_bundle(GOLDEN / turn)
        assert (new.metrics, new.todos, new.hook_capture_status) == (old.metrics, old.todos, old.hook_capture_status)
        assert [file.path for file in new.files.changed()] == [file.path for file in old.files.changed()]
    assert read_bundle(bundle).metrics == read_bundle(GOLDEN).metrics


def test_verify_and_find_accept_it(bundle: Path, tmp_path: Path) -> None:
    assert [
        flaw for flaw in verify_bundles(tmp_path, LATER, list_runs(tmp_path)).problems if flaw.state == "corrupt"
    ] == []
    assert [run.outcome for run in find_bundles(tmp_path, commit=KEY)] == ["fail"]
