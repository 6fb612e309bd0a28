"""Redaction leaves our own words alone, and no text, nor anything else, makes recording fail a
review.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bundle_words import (
    KEY,
    START,
    Clock,
    Ended,
    OneSecretRedactor,
    find_run,
    record_a_review,
    summary_of,
    verify_bundles,
)
from golden.write_bundle import _summary, _turns
from msgspec.structs import replace
from test_verify import NOW

from vibe_gate.domain.agent_hint import UnreadSessionsHint
from vibe_gate.domain.document import plain, read
from vibe_gate.domain.event import MAX_PARTS
from vibe_gate.domain.summary import AgentAuthored
from vibe_gate.errors import IntegrityError
from vibe_gate.report.round import first_round
from vibe_gate.report.round_record import RoundRecord, record_round
from vibe_gate.secrets import Redactor
from vibe_gate.secrets.redaction import MIN_VALUE
from vibe_gate.store.bundle_location import locate_bundle
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import open_store


def record(root: Path, environ: dict[str, str]) -> RunRecorder:
    """A run with all kinds of documents, sealed where the environment is `environ`."""
    root.mkdir()
    subject = {
        "workflow": "review",
        "mode": "review",
        "definitions": {".vibe-gate/gate.toml": "e" * 64},
    }
    run = open_store(root, Redactor(environ), Clock()).begin(KEY, START, subject)
    run.keep_patch(b"diff --git a/pay.py b/pay.py\n")
    run.keep_content("before", b"old\n", "pay.py")
    run.keep_content("after", b"new\n", "pay.py")
    run.event("node.added", "judge-quality", kind="judge")
    run.event("node.added", "fix", kind="agent")
    run.event("edge.added", **{"from": "judge-quality", "to": "fix"})
    _turns(run)
    round_record = record_round(first_round(_summary(run).findings, "a" * 40))
    fixed = tuple(replace(finding, fixed="b" * 40) for finding in round_record.new)
    run.event(
        "gate.decided",
        "fix",
        **plain(replace(round_record, after="judge-quality", fixed=fixed, unanswered=fixed)),
    )
    run.event("verdict.decided", outcome="fail", exit_code=4, rubrics={"quality": "fail"})
    run.seal(_summary(run))
    return run


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def words_of(run: RunRecorder) -> set[str]:
    """Everything that its documents say, whole and in pieces."""
    words = {"20260102", "2026-01-02", "nodes/judge-quality"}
    for path in run.directory.rglob("*"):
        if path.suffix == ".json":
            words |= set(texts(json.loads(path.read_text())))
        elif path.suffix == ".ndjson":
            words |= {
                text for line in path.read_text().splitlines() for text in texts(json.loads(line))
            }
    pieces = {piece for word in words for piece in re.findall(r"[A-Za-z0-9_.-]+", word)}
    return {word for word in words | pieces if len(word) >= MIN_VALUE}


ONE_BY_ONE = ("completed", "20260102", "judge-quality", "modified", "tool_use_id")


@pytest.mark.slow
def test_secrets_that_are_words_of_ours_leave_a_bundle_that_readers_take(tmp_path: Path) -> None:
    clear = record(tmp_path / "clear", {})
    words = words_of(clear)
    calls = [call.state for call in read_bundle(clear.directory).tools.all()]
    assert len(calls) > 1
    environs = [{f"W{number}_KEY": word for number, word in enumerate(sorted(words))}]
    environs += [{"CACHE_KEY": word} for word in ONE_BY_ONE]
    assert words.issuperset(ONE_BY_ONE) and len(words) > 100
    for number, environ in enumerate(environs):
        run = record(tmp_path / str(number), environ)
        assert run.lost is None, environ
        verified = verify_bundles(tmp_path / str(number), NOW)
        assert verified.is_sound and not verified.problems, (environ, verified.problems)
        summary = find_run(tmp_path / str(number)).summary
        assert (summary.outcome, summary.exit_code, summary.bundle) == ("fail", 4, run.relative), (
            environ
        )
        assert read_bundle(run.directory).files.changed()[0].change_type == "modified", environ
        assert len(read_bundle(run.directory).messages) == 1, environ
        assert [call.state for call in read_bundle(run.directory).tools.all()] == calls, environ
        (gate,) = (
            event
            for event in locate_bundle(run.directory).bare().events()
            if event.type == "gate.decided"
        )
        round_record = read(RoundRecord, gate.data)
        assert round_record.after == "judge-quality", environ
        assert len(round_record.new) == 1, environ
        assert round_record.fixed[0].fixed == "b" * 40, environ


def test_a_message_that_grows_by_its_placeholder_is_sealed_within_its_limit(tmp_path: Path) -> None:
    secret = "q8W-zz1K"
    run = open_store(tmp_path, Redactor({"X_TOKEN": secret}), Clock()).begin(KEY, START, {})
    summary = _summary(run)
    message = "x" * 260 + " " + secret
    finding = replace(summary.findings[0], message=message)
    run.event("verdict.decided", outcome="fail", exit_code=4, rubrics={"quality": "fail"})
    run.seal(replace(summary, findings=(finding,), rubrics=()))
    assert run.lost is None
    assert verify_bundles(tmp_path, NOW).is_sound
    stored_message = find_run(tmp_path).summary.findings[0].message
    assert len(stored_message) <= 280 and secret not in stored_message


class Stumbles(OneSecretRedactor):
    """Fails by some texts as no disk does."""

    def text(self, text: str) -> str:
        if "stumble" in text:
            raise UnicodeDecodeError("utf-8", b"stumble-s3cret", 0, 1, "cut in the middle")
        return text

    def data(self, data: bytes) -> bytes:
        return self.text(data.decode("latin-1")).encode("latin-1")


WAYS = {
    "event": lambda run: run.event("log.mark", message="stumble"),
    "patch": lambda run: run.keep_patch(b"stumble"),
    "content": lambda run: run.keep_content("after", b"stumble", "a"),
    "path": lambda run: (run.keep_content("after", b"x", "stumble"), run.event("log.mark")),
    "turn's content": lambda run: run.turn("a").keep_content("after", b"stumble"),
    "turn's end": lambda run: run.turn("a").seal(Ended(detail="stumble")),
    "turn's denial": lambda run: run.turn("a").seal(
        Ended(permission_denials=[{"tool_use_id": "stumble"}])
    ),
    "turn's odd denial": lambda run: run.turn("a").seal(Ended(permission_denials=["none"])),
    "abandon": lambda run: run.abandon("stumble"),
    "seal": lambda run: run.seal(replace(summary_of(run), workflow="x", agent_authored=_hint())),
    "attest": lambda run: run.seal(summary_of(run), lambda document, digests: {}["s3cret"]),
}


def _hint() -> Any:
    return AgentAuthored(hints=(UnreadSessionsHint(reason="stumble"),))


@pytest.mark.parametrize("call", WAYS)
def test_no_method_of_a_recorder_fails_whatever_it_fails_by(tmp_path: Path, call: str) -> None:
    run = open_store(tmp_path, Stumbles(), Clock()).begin(KEY, START, {})
    run.event("node.added", "a", kind="agent")
    WAYS[call](run)
    run.event("log.mark")
    run.seal(summary_of(run))
    assert run.lost is not None
    assert "please report this line" in run.lost
    assert "s3cret" not in run.lost
    assert find_run(tmp_path).state == "incomplete"


def test_a_hook_that_cannot_be_looked_at_costs_no_other(tmp_path: Path) -> None:
    run = open_store(tmp_path, Stumbles(), Clock()).begin(KEY, START, {})
    turn = run.turn("a")
    turn.hook(
        {
            "hook_event_name": "PreToolUse",
            "tool_use_id": "toolu_1",
            "tool_input": {"command": "stumble"},
        }
    )
    turn.hook({"hook_event_name": "PostToolUse", "tool_use_id": "toolu_1"})
    turn.event({"type": "message", "role": "assistant", "block": ["stumble"]})
    turn.seal(Ended())
    run.seal(summary_of(run))
    assert run.lost is None
    first, second = map(
        json.loads, (run.directory / turn.relative / "hooks.ndjson").read_text().splitlines()
    )
    assert (first["tool_use_id"], first["left_out"]) == (
        "toolu_1",
        "not recorded: UnicodeDecodeError",
    )
    assert "left_out" not in second
    assert verify_bundles(tmp_path, NOW).is_sound


NODES = [
    {"type": "node.added", "node_id": f"n{number}", "data": {"kind": "x"}}
    for number in range(MAX_PARTS + 1)
]


@pytest.mark.slow
def test_a_log_that_gives_more_than_any_runs_makes_no_graph(tmp_path: Path) -> None:
    run = open_store(tmp_path, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    run.close()
    with (run.directory / "events.ndjson").open("a") as file:
        for seq, event in enumerate(NODES, 2):
            line = {"seq": seq, "ts": "2026-01-02T03:04:05.678Z", "run_id": run.run_id} | event
            file.write(json.dumps(line) + "\n")
    with pytest.raises(IntegrityError, match="20,000 parts"):
        find_run(tmp_path).graph()


@pytest.mark.parametrize("rules", ["*", "*\r\n!.gitignore\r\n"])
def test_an_ignore_file_that_leaves_the_store_out_is_good_enough(
    tmp_path: Path, rules: str
) -> None:
    assert unignored(tmp_path, rules) == (None, False)


@pytest.mark.parametrize(
    "rules", ["", "*\n" + "\n" * 100 + "!*", "*\n!*.json\n", "objects\n", "* \\\n"]
)
def test_where_git_would_take_up_a_bundle_none_is_written(tmp_path: Path, rules: str) -> None:
    lost, is_seen = unignored(tmp_path, rules)
    assert lost is not None and "Make it one line, `*`" in lost
    assert not is_seen
    assert (tmp_path / ".vibe-artifacts" / ".gitignore").read_text() == rules


def unignored(root: Path, rules: str) -> tuple[str | None, bool]:
    """Why a run is not recorded where the store has these rules, and whether git sees any of its
    files.
    """
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / ".vibe-artifacts").mkdir()
    (root / ".vibe-artifacts" / ".gitignore").write_bytes(rules.encode())
    run = open_store(root, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    record_a_review(run)
    run.seal(summary_of(run))
    listing = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=root, capture_output=True, check=True
    ).stdout
    return run.lost, any(b".gitignore" not in line for line in listing.splitlines())
