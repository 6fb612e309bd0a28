"""`verify` tells everything that is wrong, in one go, and nothing that is not."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    Clock,
    OneSecretRedactor,
    record_a_review,
    summary_of,
    tree,
    verify_bundles,
)

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.upkeep import Verified
from vibe_gate.errors import StorageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store import Store, open_store
from vibe_gate.store.store_repair import repair_store
from vibe_gate.store.worktree_bundles import Bundles

NOW = Provenance(START + timedelta(days=1))
TURN = "nodes/judge-quality/turn-001"


@pytest.fixture
def run(store: Store) -> RunRecorder:
    """A sealed run."""
    return seal_review(store)


def seal_review(store: Store, prompt: str = "p") -> RunRecorder:
    run = store.begin(KEY, START, {"prompt": prompt})
    record_a_review(run)
    run.seal(summary_of(run))
    assert run.lost is None
    return run


def left_off(store: Store) -> RunRecorder:
    """A run that ended before its verdict."""
    run = store.begin(KEY, START, {"prompt": "cut short"})
    record_a_review(run)
    run.close()
    return run


def place(name: str, run: RunRecorder) -> str:
    return f"{KEY}/{run.run_id}/{name}" if name else f"{KEY}/{run.run_id}"


def list_flaws(root: Path, provenance: Provenance = NOW) -> list[tuple[str, str, str]]:
    return [
        (flaw.state, flaw.what, flaw.place) for flaw in verify_bundles(root, provenance).problems
    ]


def content_of(run: RunRecorder, suffix: str) -> Path:
    return next((run.directory / "files").glob(f"*/*{suffix}"))


def test_a_whole_store_has_no_flaws(tmp_path: Path, run: RunRecorder) -> None:
    assert verify_bundles(tmp_path, NOW) == Verified(runs=1, contents=4, problems=())


def test_a_running_run_and_an_incomplete_one_are_not_corrupt(tmp_path: Path, store: Store) -> None:
    running = store.begin(KEY, START, {"prompt": "still at it"})
    (running.directory / ".tmp-0123456789abcdef").write_text("half")
    over = left_off(store)
    verified = verify_bundles(tmp_path, NOW)
    assert verified.is_sound
    states = {(flaw.state, flaw.what, flaw.run[-28:]) for flaw in verified.problems}
    assert ("running", "run", running.run_id) in states
    assert ("incomplete", "run", over.run_id) in states
    assert not [flaw for flaw in verified.problems if flaw.what == "temporary"]
    running.close()


def damage_file(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = change(path.read_bytes())
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name",
    ["run.json", "events.ndjson", "change.patch", f"{TURN}/hooks.ndjson", f"{TURN}/summary.json"],
)
def test_a_sealed_file_that_was_changed_removed_or_swapped_is_told(
    tmp_path: Path, run: RunRecorder, name: str
) -> None:
    damage_file(run.directory / name, lambda data: data + b" \n")
    assert ("corrupt", "digest", place(name, run)) in list_flaws(tmp_path)
    (run.directory / name).unlink()
    assert ("corrupt", "digest", place(name, run)) in list_flaws(tmp_path)
    (run.directory / name).symlink_to("/etc/passwd")
    assert ("corrupt", "entry", place(name, run)) in list_flaws(tmp_path)


def test_every_flaw_is_told_in_one_go(tmp_path: Path, store: Store, run: RunRecorder) -> None:
    other = seal_review(store, "q")
    damage_file(run.directory / "graph.json", lambda data: data.replace(b"DONE", b"IDLE"))
    (other.directory / "summary.json").write_bytes(b'{"schema": 1, "schema": 1}')
    shutil.rmtree(other.directory / TURN)
    os.mkfifo(run.directory / "files/after/pipe")
    assert set(list_flaws(tmp_path)) == {
        ("corrupt", "digest", place("graph.json", run)),
        ("corrupt", "document", place("summary.json", other)),
        ("corrupt", "entry", place("files/after/pipe", run)),
    }


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".bin"])
def test_a_content_that_is_not_what_its_name_says_is_told_wherever_it_is_shown(
    tmp_path: Path, run: RunRecorder, suffix: str
) -> None:
    path = content_of(run, suffix)
    wrong = gzip.compress(b"something else" * 1000) if suffix.endswith("gz") else b"\0else" * 4
    path.write_bytes(wrong)
    name = path.relative_to(run.directory).as_posix()
    assert ("corrupt", "content", place(name, run)) in list_flaws(tmp_path)


def test_a_content_that_the_events_name_and_nobody_has_is_told(
    tmp_path: Path, run: RunRecorder
) -> None:
    path = content_of(run, ".bin")
    path.unlink()
    assert list_flaws(tmp_path) == [("corrupt", "missing", place(f"files/after/{path.stem}", run))]


def test_a_summary_that_was_deleted_is_named(tmp_path: Path, store: Store) -> None:
    run = store.begin(KEY, START, {"prompt": "p"})
    run.seal(summary_of(run), attest=lambda *_: b"{}")
    (run.directory / "summary.json").unlink()
    (told_of,) = verify_bundles(tmp_path, NOW).problems
    assert (told_of.state, told_of.why.partition(":")[0]) == (
        "incomplete",
        "summary.json is missing",
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("summary.json", b'"outcome":"pass"', b'"outcome":"fine"'),
        ("summary.json", b'"schema":1', b'"schema":2'),
        ("summary.json", b'"digests"', b'"digest"'),
    ],
)
def test_a_document_that_says_something_else_than_its_place_or_schema_is_told(
    tmp_path: Path, run: RunRecorder, name: str, old: bytes, new: bytes
) -> None:
    path = run.directory / name
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    assert ("corrupt", "document", place(name, run)) in list_flaws(tmp_path)


def test_a_run_under_another_runs_name_is_told(tmp_path: Path, run: RunRecorder) -> None:
    run.directory.rename(run.directory.with_name("20260102T030405678Z-00000000"))
    assert {kind for _, kind, _ in list_flaws(tmp_path)} == {"document"}


def test_a_turn_without_a_summary_is_told_and_not_corrupt_where_its_session_never_ended(
    tmp_path: Path, store: Store
) -> None:
    run = store.begin(KEY, START, {})
    run.event("node.added", "judge", kind="judge")
    run.turn("judge").event({"type": "message"})
    run.seal(summary_of(run))
    assert list_flaws(tmp_path) == [("incomplete", "turn", place("nodes/judge/turn-001", run))]


@pytest.mark.parametrize(
    "path", [".vibe-artifacts", f".vibe-artifacts/{KEY}", f".VIBE-artifacts/{KEY}"]
)
def test_a_submodule_in_the_stores_place_makes_all_in_it_foreign(
    tmp_path: Path, run: RunRecorder, path: str
) -> None:
    assert ("foreign", "run", place("", run)) in list_flaws(tmp_path, Provenance(START, {path}))


def test_annotations_come_after_the_seal_and_break_nothing(
    tmp_path: Path, run: RunRecorder
) -> None:
    body = b"why\n"
    name = hashlib.sha256(body).hexdigest()
    (run.directory / "annotations").mkdir()
    (run.directory / "annotations" / name).write_bytes(body)
    (run.directory / "annotations.ndjson").write_text(json.dumps({"seq": 0, "message": "m"}) + "\n")
    (run.directory / ".vibe-keep").touch()
    assert list_flaws(tmp_path) == []
    (run.directory / "annotations" / name).write_bytes(b"else")
    assert list_flaws(tmp_path) == [("corrupt", "entry", place(f"annotations/{name}", run))]


def test_verifying_changes_nothing(tmp_path: Path, store: Store, run: RunRecorder) -> None:
    left_off(store)
    damage_file(run.directory / "run.json", lambda data: data + b" ")
    before = tree(tmp_path)
    verify_bundles(tmp_path, NOW)
    assert tree(tmp_path) == before


def test_foreign_runs_are_told_apart_and_show_no_outcome(
    tmp_path: Path, store: Store, run: RunRecorder
) -> None:
    newer = seal_review(store, "forged")
    clock = Clock()
    clock.now += timedelta(days=36500)
    later = open_store(tmp_path, OneSecretRedactor(), clock).begin(KEY, clock.now, {})
    later.seal(summary_of(later))
    tracked = Provenance(START + timedelta(days=1), {f".vibe-artifacts/{place('run.json', newer)}"})
    assert list_flaws(tmp_path, tracked) == [
        ("foreign", "run", place("", recorder)) for recorder in (newer, later)
    ]
    states = {
        entry.run_id: (entry.state, entry.outcome) for entry in Bundles(tmp_path, tracked).find()
    }
    assert states == {
        run.run_id: ("sealed", "pass"), newer.run_id: ("foreign", ""), later.run_id: ("foreign", ""),
    }  # fmt: skip
    with pytest.raises(StorageError, match="git rm -r --cached"):
        repair_store(tmp_path, tracked)
    with pytest.raises(StorageError, match="git rm -r --cached"):
        Bundles(tmp_path, tracked).keep(Bundles(tmp_path, tracked).find()[0])


def test_where_git_tracks_the_store_a_run_is_unrecorded_and_says_how(
    tmp_path: Path, run: RunRecorder
) -> None:
    before = tree(tmp_path)
    store = open_store(
        tmp_path, OneSecretRedactor(), Clock(), lambda: [".vibe-artifacts/.gitignore"]
    )
    lost = store.begin(KEY, START, {})
    assert lost.lost == (
        "git tracks 1 file in .vibe-artifacts, so nothing is written there. Run `git rm -r --cached .vibe-artifacts`."
    )
    assert store.captures() is None
    assert tree(tmp_path) == before
