"""`repair` heals what can be healed, puts the rest aside, deletes nothing, and finds nothing a
second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    find_run,
    list_runs,
    record_a_review,
    repair_bundles,
    tree,
    verify_bundles,
)
from test_verify import NOW, content_of, place, seal_review

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.upkeep import Repaired
from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store

LATER = START + timedelta(hours=1)
QUARANTINE = f".vibe-artifacts/quarantine/{LATER:%Y%m%dT%H%M%S}678Z"


@pytest.fixture
def run(store: Store) -> RunRecorder:
    return seal_review(store)


@pytest.fixture(autouse=True)
def nothing_is_lost_and_a_second_repair_finds_nothing(tmp_path: Path) -> Iterator[None]:
    """After every test: what was there is there or in quarantine, seals are true, and no work is
    left.
    """
    yield
    second_repair = repair_bundles(tmp_path, Provenance(LATER + timedelta(hours=1)))
    assert second_repair.mended == ()
    assert second_repair.left.is_sound
    for run in list_runs(tmp_path):
        if run.state == "sealed":
            assert run.summary.outcome == "pass"


def mend(root: Path, provenance: Provenance = NOW) -> Repaired:
    """Repair, and see that every byte that was there is still somewhere."""
    before = sorted(set(tree(root).values()))
    repaired = repair_bundles(root, Provenance(LATER, provenance.tracked))
    after = b"\n".join(tree(root).values())
    assert all(line in after for data in before for line in data.splitlines())
    return repaired


def list_repairs(repaired: Repaired) -> list[tuple[str, str]]:
    return [(mended.problem.place, mended.done) for mended in repaired.mended]


def test_a_run_whose_content_is_nowhere_is_put_aside_whole(
    tmp_path: Path, run: RunRecorder
) -> None:
    content_of(run, ".bin").write_bytes(b"damaged")
    repaired = mend(tmp_path)
    assert (place("", run) + "/files/" in list_repairs(repaired)[0][0], list_repairs(repaired)[0][1]) == (
        True, "moved to quarantine, the whole run",
    )  # fmt: skip
    assert list_runs(tmp_path) == []
    assert (tmp_path / QUARANTINE / place("summary.json", run)).is_file()
    assert repaired.quarantine == QUARANTINE.removeprefix(".vibe-artifacts/")


def test_a_running_run_is_left_alone(tmp_path: Path, store: Store) -> None:
    run = store.begin(KEY, START, {})
    record_a_review(run)
    with (run.directory / "events.ndjson").open("ab") as log:
        log.write(b"torn")
    before = tree(run.directory)
    assert repair_bundles(tmp_path, Provenance(LATER)).mended == ()
    assert tree(run.directory) == before
    run.close()
    mend(tmp_path)


def test_temporary_files_go_to_quarantine_and_the_run_stays(
    tmp_path: Path, run: RunRecorder
) -> None:
    store = tmp_path / ".vibe-artifacts"
    (run.directory / ".tmp-1").write_text("half")
    (store / ".tmp-2").mkdir()
    assert {act for _, act in list_repairs(mend(tmp_path))} == {"moved to quarantine"}
    assert (tmp_path / QUARANTINE / place(".tmp-1", run)).read_text() == "half"
    assert find_run(tmp_path).summary.outcome == "pass"


def test_only_the_runs_that_are_named_are_repaired(
    tmp_path: Path, store: Store, run: RunRecorder
) -> None:
    other = seal_review(store, "q")
    for recorder in (run, other):
        (recorder.directory / ".tmp-1").write_text("half")
    repair_bundles(tmp_path, Provenance(LATER), [find_run(tmp_path, run.run_id)])
    assert [flaw.run for flaw in verify_bundles(tmp_path, NOW).problems] == [place("", other)]
    mend(tmp_path)


def test_where_nothing_can_be_moved_the_repair_says_so_and_goes_on_later(
    tmp_path: Path, run: RunRecorder
) -> None:
    (tmp_path / ".vibe-artifacts/.tmp-1").write_text("half")
    (tmp_path / ".vibe-artifacts/quarantine").mkdir()
    (tmp_path / QUARANTINE).write_text("a file in its place")
    with pytest.raises(StorageError, match="Not a directory; the repair stopped there"):
        repair_bundles(tmp_path, Provenance(LATER))
    (tmp_path / QUARANTINE).unlink()
    mend(tmp_path)


@pytest.mark.parametrize("damage", [None, b"", b"{}\n"])
def test_a_graph_that_is_lost_or_damaged_is_made_again_of_the_events(tmp_path, run, damage):
    file = run.directory / "graph.json"
    sealed_bytes = file.read_bytes()
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    assert not verify_bundles(tmp_path, NOW).is_sound
    repaired = mend(tmp_path)
    assert list_repairs(repaired) == [(place("graph.json", run), "made again from events.ndjson")]
    assert file.read_bytes() == sealed_bytes
    assert repaired.quarantine == (
        "" if damage is None else QUARANTINE.removeprefix(".vibe-artifacts/")
    )


def test_a_run_whose_graph_is_lost_is_still_read_and_one_whose_graph_is_another_is_not(
    tmp_path, run
):
    file = run.directory / "graph.json"
    sealed_bytes = file.read_bytes()
    file.unlink()
    assert read_bundle(run.directory).summary.outcome == "pass"
    file.write_text("{}")
    with pytest.raises(IntegrityError, match="changed after sealing"):
        _ = read_bundle(run.directory).summary
    file.write_bytes(sealed_bytes)


def test_a_run_that_lost_graph_and_events_is_put_aside_whole(tmp_path, run):
    (run.directory / "graph.json").unlink()
    events = run.directory / "events.ndjson"
    events.write_text(events.read_text().replace("run.created", "run.creates", 1))
    with pytest.raises(IntegrityError):
        _ = read_bundle(run.directory).summary
    assert [act for _, act in list_repairs(mend(tmp_path))] == [
        "moved to quarantine, the whole run"
    ]
