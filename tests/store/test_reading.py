"""Runs read back: found, never shown unfinished, never shown altered."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    Clock,
    OneSecretRedactor,
    find_run,
    list_runs,
    read_summary,
    record_a_review,
    summary_of,
    tree,
)

from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.store import Store, open_store


def seal_review(store: Store) -> RunRecorder:
    run = store.begin(KEY, START, {})
    record_a_review(run)
    run.seal(summary_of(run))
    return run


def test_nothing_means_the_newest_by_recorded_time_not_by_mtime(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(tmp_path, OneSecretRedactor(), clock)
    runs = [store.begin(key, clock(), {}) for key in ("b" * 40, "tree-" + "a" * 40, "c" * 40)]
    os.utime(runs[0].directory, (2**31, 2**31))
    assert find_run(tmp_path).run_id == runs[2].run_id
    assert [view.run_id for view in list_runs(tmp_path)] == [run.run_id for run in reversed(runs)]


def test_any_changed_missing_or_added_log_is_named(store: Store) -> None:
    run = seal_review(store)
    names = list(json.loads((run.directory / "summary.json").read_bytes())["digests"])
    assert len(names) == 9
    names.remove("graph.json")  # made again from events.ndjson
    for name in names:
        place = run.directory / name
        content = place.read_bytes()
        place.write_bytes(content + b"\n")
        with pytest.raises(IntegrityError, match="changed after sealing") as caught:
            read_summary(run.directory)
        assert name in str(caught.value)
        place.unlink()
        with pytest.raises(IntegrityError, match="missing") as caught:
            read_summary(run.directory)
        assert name in str(caught.value)
        place.write_bytes(content)
    assert read_summary(run.directory).outcome == "pass"
    (run.directory / "nodes/judge-quality/turn-001/turn.patch").write_bytes(b"")
    with pytest.raises(IntegrityError, match="added after sealing"):
        read_summary(run.directory)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b"{}", b'{"digests": []}', b"[" * 100_000, b"\xff", b'{"digests": {"../../x": "0"}}',
    ],
)  # fmt: skip
def test_a_summary_that_is_none_of_ours_is_an_integrity_error(store: Store, text: bytes) -> None:
    run = seal_review(store)
    (run.directory / "summary.json").write_bytes(text)
    with pytest.raises(IntegrityError, match=r"summary\.json|\.\./\.\./x"):
        read_summary(run.directory)


def test_a_torn_last_event_is_cut_and_a_damaged_one_named(store: Store, tmp_path: Path) -> None:
    run = store.begin(KEY, START, {})
    run.event("log.mark", text="whole")
    run.close()
    with (run.directory / "events.ndjson").open("ab") as file:
        file.write(b'{"seq": 3, "ts"')
    assert [event.type for event in find_run(tmp_path).events()] == ["run.created", "log.mark"]
    with (run.directory / "events.ndjson").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(IntegrityError, match="entry 3: "):
        list(find_run(tmp_path).events())


@pytest.mark.parametrize(
    "event",
    [
        {"type": "node.added", "node_id": "a", "data": {}},
        {"type": "node.added", "data": {"kind": "judge"}},
        {"type": "node.status", "node_id": "a", "data": {"status": "FINE"}},
        {"type": "edge.added", "data": {"from": "a", "to": ["b"]}},
        {"type": "turn.started", "node_id": "a", "data": {"turn": 1}},
        {"type": "anything", "data": {}},
        {"type": "log.mark", "data": {}, "node_id": "half \ud83d"},
        {"type": "log.mark", "data": {}, "seq": 7},
    ],
)
def test_an_event_that_the_graph_could_not_read_is_an_integrity_error(
    store: Store, tmp_path: Path, event
) -> None:
    run = store.begin(KEY, START, {})
    run.close()
    line = {"seq": 2, "ts": "2026-01-02T03:04:05.678Z", "run_id": run.run_id} | event
    with (run.directory / "events.ndjson").open("a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(IntegrityError, match=r"events\.ndjson") as caught:
        find_run(tmp_path).graph()
    assert "codec" not in str(caught.value)


def test_a_run_that_is_gone_is_a_storage_error(store: Store, tmp_path: Path) -> None:
    seal_review(store)
    view = find_run(tmp_path)
    shutil.rmtree(view.directory)
    for read in (lambda: view.summary, lambda: list(view.events()), lambda: view.run_document):
        with pytest.raises(StorageError):
            read()


# What a hostile repository may have committed where the store belongs.


def _refused(root: Path, words: str) -> None:
    before = tree(root)
    run = open_store(root, OneSecretRedactor(), Clock()).begin("a" * 40, Clock()(), {})
    assert run.relative == ""
    assert words in (run.lost or "")
    assert tree(root) == before


def test_a_store_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for target in ("home", "nowhere"):
        (tmp_path / ".vibe-artifacts").symlink_to(target)
        _refused(tmp_path, "is a symbolic link")
        (tmp_path / ".vibe-artifacts").unlink()
    (tmp_path / ".vibe-artifacts").write_text("")
    _refused(tmp_path, "is not a directory")


def test_a_linked_key_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / ".vibe-artifacts" / KEY).symlink_to(tmp_path / "outside")
    lost = store.begin(KEY, START, {}).lost
    assert lost is not None
    assert KEY in lost
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["notes.txt", "nodes/notes.txt", "files/notes.txt", "other/run.json"]
)
def test_a_file_that_no_bundle_has_is_an_integrity_error(store: Store, name: str) -> None:
    run = seal_review(store)
    (run.directory / name).parent.mkdir(exist_ok=True)
    (run.directory / name).write_text("added")
    with pytest.raises(IntegrityError, match="no bundle has a file of that name"):
        read_summary(run.directory)
