"""A run whose writer died is opened again, and goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bundle_words import (
    KEY,
    START,
    Clock,
    Ended,
    OneSecretRedactor,
    View,
    summary_of,
    verify_bundles,
)

from vibe_gate.domain.bundles import Provenance
from vibe_gate.domain.turn import TurnChange
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import Store, open_store

WRITER = """
import sys, time
from pathlib import Path
from bundle_words import KEY, START, Clock, OneSecretRedactor
from vibe_gate.store.store import open_store
run = open_store(Path(sys.argv[1]), OneSecretRedactor(), Clock()).begin(KEY, START, {})
run.event("node.added", "fix", kind="stage", digest="d")
turn = run.turn("fix")
turn.event({"type": "usage", "tokens": {"input": 9, "output": 2, "cache_read": 5}, "model": "a-model"})
turn.hook({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "toolu_1", "session_id": "s-1"})
turn.event({"type": "todo", "action": "add", "text": "mend", "status": "pending"})
print(run.run_id, flush=True)
time.sleep(60)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, OneSecretRedactor(), Clock())


def finished_stage(run: RunRecorder) -> None:
    run.event("node.added", "fix", kind="stage", agent="fixer", digest="d")
    run.event("node.status", "fix", status="RUNNING", before="a" * 40, prompt="p")
    run.turn("fix").seal(Ended(change=TurnChange(before="a" * 40, after="b" * 40)))


@pytest.fixture
def killed(tmp_path: Path) -> str:
    """The id of a run whose writer was killed in an agent's turn."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    with writer:
        assert writer.stdout
        run_id = writer.stdout.readline().strip()
        store = open_store(tmp_path, OneSecretRedactor(), Clock())
        with pytest.raises(StorageError, match="is being written by another process"):
            store.reopen(KEY, run_id)
        writer.send_signal(signal.SIGKILL)
    return run_id


@pytest.mark.slow
def test_a_cut_turn_is_sealed_as_interrupted_and_counting_goes_on(store, killed):
    run = store.reopen(KEY, killed, spent_usd=0.25)
    run.event("node.added", "fix", kind="stage")
    turn = run.turn("fix")
    assert turn.relative == "nodes/fix/turn-002"
    turn.seal(Ended())
    run.seal(summary_of(run))
    assert run.lost is None
    cut_turn = read_bundle(run.directory / "nodes/fix/turn-001")
    assert (cut_turn.metrics.total_cost_usd, cut_turn.metrics.total_tokens, [todo.text for todo in cut_turn.todos]) == (
        0.25, 11, ["mend"],
    )  # fmt: skip
    assert cut_turn.hook_capture_status.missing_events == ("PostToolUse toolu_1",)
    assert cut_turn.hook_capture_status.warnings == ("cut off: the process that ran it ended",)
    (node,) = View(run.directory).graph().nodes
    assert (node.turns, node.usd) == (("turn-001", "turn-002"), 0.2625)
    assert json.loads((run.directory / "sessions.json").read_text())["nodes"]["fix"][0] == "s-1"
    assert run.earlier and (run.earlier.cost.usd, run.earlier.cost.by_model) == (
        0.25,
        {"a-model": 0.25},
    )


@pytest.mark.slow
def test_torn_lines_and_unfinished_files_are_gone(store, killed, tmp_path):
    bundle = tmp_path / ".vibe-artifacts" / KEY / killed
    for place in (bundle, bundle / "nodes/fix/turn-001"):
        with (place / "events.ndjson").open("ab") as log:
            log.write(b'{"seq": 99, "ts"')
        (place / ".tmp-0011223344556677").write_bytes(b"half")
    with (bundle / "nodes/fix/turn-001/hooks.ndjson").open("ab") as log:
        log.write(b"{")
    (bundle / "nodes/fix/turn-002").mkdir()  # killed before its turn was said to have begun
    run = store.reopen(KEY, killed)
    assert run.turn("fix").relative == "nodes/fix/turn-003"
    run.seal(summary_of(run))
    assert run.lost is None
    assert read_bundle(bundle).summary.outcome == "pass"
    assert not list(bundle.rglob(".tmp-*"))
    assert read_bundle(bundle / "nodes/fix/turn-002").complete


def test_a_content_that_a_kill_left_torn_is_untidy_and_written_again(store, tmp_path):
    run = store.begin(KEY, START, {})
    digests = [run.keep_content("after", b"kept\n", "a"), hashlib.sha256(b"torn\n").hexdigest()]
    run.close()
    (run.directory / f"files/after/{digests[1]}.txt").write_bytes(b"to")
    (torn,) = (
        problem
        for problem in verify_bundles(tmp_path, Provenance(START)).problems
        if problem.what != "run"
    )
    assert (torn.state, torn.what) == ("untidy", "temporary")
    reopened = store.reopen(KEY, run.run_id)
    assert [path.name for path in (run.directory / "files/after").iterdir()] == [
        f"{digests[0]}.txt"
    ]
    assert [
        reopened.keep_content("after", data, path)
        for data, path in ((b"kept\n", "a"), (b"torn\n", "b"))
    ] == digests
    reopened.seal(summary_of(reopened))
    assert verify_bundles(tmp_path, Provenance(START)).problems == ()


def test_a_content_that_the_log_names_and_that_was_altered_is_corrupt_and_stays(store, tmp_path):
    run = store.begin(KEY, START, {})
    run.keep_content("after", b"kept\n", "a")
    run.close()
    (content_file,) = (run.directory / "files/after").iterdir()
    content_file.write_bytes(b"other\n")
    (altered,) = (
        problem
        for problem in verify_bundles(tmp_path, Provenance(START)).problems
        if problem.what != "run"
    )
    assert (altered.state, altered.what) == ("corrupt", "content")
    store.reopen(KEY, run.run_id).close()
    assert content_file.read_bytes() == b"other\n"


def test_what_ended_stages_came_to_is_known(store):
    run = store.begin(KEY, START, {})
    finished_stage(run)
    run.event("node.added", "next", kind="stage", digest="e")
    run.close()
    reopened = store.reopen(KEY, run.run_id)
    assert reopened.earlier
    stage = reopened.earlier.stages["fix"]
    assert (stage.digest, stage.prompt, stage.before, stage.after) == ("d", "p", "a" * 40, "b" * 40)
    assert (stage.status, stage.turn) == ("answered", "nodes/fix/turn-001")
    assert reopened.earlier.cost.by_node == {"fix": 0.0125}
    reopened.close()


def test_a_sealed_run_is_refused_and_stays_as_it_is(store):
    run = store.begin(KEY, START, {})
    run.seal(summary_of(run))
    with pytest.raises(UsageError, match="there is nothing to resume"):
        store.reopen(KEY, run.run_id)
    assert read_bundle(run.directory).summary.outcome == "pass"


@pytest.mark.slow
def test_of_many_that_resume_at_once_one_wins(killed, tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom bundle_words import KEY, Clock, OneSecretRedactor\n"
        "from vibe_gate.store.store import open_store\nfrom vibe_gate.errors import StorageError\n"
        "try:\n    run = open_store(Path(sys.argv[1]), OneSecretRedactor(), Clock()).reopen(KEY, sys.argv[2])\n"
        "except StorageError as error:\n    print(error)\nelse:\n    print('won', flush=True)\n    sys.stdin.read()\n"
        "    run.turn('fix').close()\n    run.close()\n"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", code, str(tmp_path), killed]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(argv, env=environ, text=True, **pipes) for _ in range(4)]
    while sum(process.poll() is None for process in processes) > 1:
        time.sleep(0.05)
    outputs = [process.communicate()[0].strip() for process in processes]
    assert outputs.count("won") == 1
    assert sum("is being written by" in output for output in outputs) == 3, outputs
    run = open_store(tmp_path, OneSecretRedactor(), Clock()).reopen(KEY, killed)
    run.seal(summary_of(run))
    assert read_bundle(run.directory).summary.outcome == "pass"
