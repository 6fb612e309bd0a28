"""Bundles made by somebody who means harm: nothing is followed, nothing is unbounded, nothing
hangs.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from bundle_words import KEY, START, Ended, OneSecretRedactor

from vibe_gate.domain.turn import Content, TurnChange, TurnFile
from vibe_gate.errors import GateError, IntegrityError, StorageError
from vibe_gate.store.changed_files import StoredContent
from vibe_gate.store.ndjson_log import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import RunResult, read_bundle
from vibe_gate.store.store import Store

GOLDEN = Path(__file__).parents[1] / "golden/bundle-1"
TURN = "nodes/judge-quality/turn-001"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return shutil.copytree(GOLDEN, tmp_path / "bundle-1")


@pytest.fixture
def turn(bundle: Path, tmp_path: Path) -> Path:
    """A turn's folder alone, for which nobody vouches."""
    return shutil.copytree(bundle / TURN, tmp_path / "alone")


def everything(result: RunResult) -> None:
    """Read everything that a result offers."""

    async def stream() -> None:
        async for event in result.timeline.events():
            assert event.ts is not None

    assert result.metrics is not None
    for message in result.messages:
        message.load()
    for call in result.tools.all():
        call.input()
        call.response()
    for file in result.files.changed():
        assert file.stats.added >= 0
        file.patch()
    assert result.git.diff_summary() is not None
    assert result.todos is not None
    assert result.hook_capture_status is not None
    asyncio.run(stream())


@pytest.mark.parametrize(
    "name", ["nodes", "nodes/judge-quality", TURN, f"{TURN}/events.ndjson", "summary.json"]
)
def test_a_link_in_the_place_of_a_folder_or_a_file_is_not_followed(
    bundle: Path, tmp_path: Path, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (bundle / name).rename(elsewhere)
    (bundle / name).symlink_to(elsewhere)
    with pytest.raises(GateError):
        everything(read_bundle(bundle))


@pytest.mark.parametrize("name", ["events.ndjson", "hooks.ndjson", "summary.json"])
def test_a_fifo_in_a_files_place_does_not_hang(turn: Path, name: str) -> None:
    (turn / name).unlink()
    os.mkfifo(turn / name)
    with pytest.raises(StorageError, match="not a regular file"):
        everything(read_bundle(turn))


def test_a_bundle_that_is_a_link_is_refused(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(bundle)
    with pytest.raises(StorageError, match="cannot be opened"):
        read_bundle(tmp_path / "link")


def test_a_summary_without_end_is_refused_unread(turn: Path) -> None:
    with (turn / "summary.json").open("wb") as file:
        file.truncate(MAX_DOCUMENT_BYTES * 1000)
    with pytest.raises(IntegrityError, match="larger than"):
        read_bundle(turn)


@pytest.mark.slow
def test_a_line_without_end_is_refused(turn: Path) -> None:
    with (turn / "events.ndjson").open("wb") as file:
        file.truncate(MAX_LINE_BYTES + (2 << 20))
    with pytest.raises(IntegrityError, match="a line is longer"):
        list(read_bundle(turn).messages)


def sealed_content(run: RunRecorder, data: bytes = b"12345", **lie: Any) -> StoredContent:
    """The content of a turn's only file, of which the turn's summary says something else."""
    recorder = run.turn("fix")
    stored = recorder.keep_content("after", data)
    assert stored is not None
    content = Content(**{"sha256": stored.sha256, "size": stored.size} | lie)
    recorder.seal(
        Ended(change=TurnChange(files=(TurnFile(path="a", change_type="added", after=content),)))
    )
    (change,) = read_bundle(run.directory / recorder.relative).files.changed()
    assert change.after is not None
    return change.after


@pytest.mark.parametrize("sha256", ["../../../../../etc/passwd", "A" * 64, "", "a" * 64 + "\n"])
def test_a_hash_that_is_none_opens_nothing(store: Store, sha256: str) -> None:
    with pytest.raises(IntegrityError, match="its name is not a sha-256"):
        sealed_content(store.begin(KEY, START, {}), sha256=sha256).bytes()


@pytest.mark.parametrize("size", [-1, 4])
def test_a_size_that_is_a_lie_is_noticed(store: Store, size: int) -> None:
    with pytest.raises(IntegrityError):
        sealed_content(store.begin(KEY, START, {}), size=size).bytes()


LINES = [
    "null", "1", '"text"', "[]", "{}", '{"type":"message"}', '{"type":["message"],"role":{},"ts":"x"}',
    '{"type":"message","role":"tool","ts":1e999,"result":"message"}', '{"seq":0,"ts":1,"hook":"PreToolUse"}',
    '{"type":"todo","text":{},"status":[],"action":"add"}', '{"type":"usage","tokens":[],"cost":"dear"}',
    '{"type":"result","permission_denials":[null,{"tool_use_id":7}]}', '{"seq":0,"ts":1,"hook":7,"tool_use_id":[]}',
    '{"type":"message","content":' + "[" * 3000 + "]" * 3000 + "}", "\x00", "{", '{"a":"\\ud800","type":"message"}',
    '{"seq":' + "9" * 5000 + ',"ts":1}', '{"seq":0,"ts":' + "9" * 400 + ',"type":"message"}',
]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
@pytest.mark.parametrize("log", ["events.ndjson", "hooks.ndjson"])
def test_whatever_a_line_holds_is_an_event_or_an_integrity_error(
    turn: Path, log: str, line: str
) -> None:
    with (turn / log).open("a") as file:
        file.write(line + "\n")
    (turn / "summary.json").unlink()
    for ask in (
        lambda result: [message.load() for message in result.messages],
        lambda result: [(call.input(), call.response()) for call in result.tools.all()],
        lambda result: (result.todos, result.metrics, result.hook_capture_status),
        lambda result: everything(result),
    ):
        try:
            ask(read_bundle(turn))
        except IntegrityError as error:
            assert log in str(error)


@pytest.mark.parametrize(
    "document",
    [
        {"testId": "x", "files": [{"path": "a", "changeType": "stolen"}]},
        {"testId": "x", "toolCalls": [{"name": "Read"}]},
        {"testId": "x", "metrics": {"totalTokens": "many"}},
        {"schema": 2, "testId": "x"},
    ],
)
def test_a_turns_summary_of_another_form_is_named(turn: Path, document: dict[str, Any]) -> None:
    (turn / "summary.json").write_text(json.dumps(document))
    with pytest.raises(IntegrityError, match=r"summary\.json is corrupt"):
        read_bundle(turn)


def test_annotating_follows_no_link(bundle: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (bundle / "annotations.ndjson").symlink_to(secret)
    with pytest.raises(StorageError, match="was not written"):
        read_bundle(bundle, redact=OneSecretRedactor()).annotate("x")
    assert secret.read_text() == "mine"


@pytest.mark.slow
def test_a_bomb_takes_little_memory(store: Store) -> None:
    """A gzip of 200 MB that claims to be 9 MB."""
    run = store.begin(KEY, START, {})
    content = sealed_content(run, b"x" * 20_000, size=9_000_000)
    (path,) = run.directory.glob("files/*/*")
    path.write_bytes(gzip.compress(bytes(200_000_000), 1))
    tracemalloc.start()
    try:
        with pytest.raises(IntegrityError, match="its content does not match"):
            content.bytes()
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
