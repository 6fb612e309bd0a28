"""`vibe-gate trace`, and the records that `install git --trace` keeps in git notes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import vibe_gate
from hooked import Hooked, start_repository

from vibe_gate.domain.agent_trace import hash_of, model_id
from vibe_gate.report.sentences import UNCAPTURED

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "gate" / "agent-trace-0.1.0.schema.json").read_text()
)
CHECKED = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
SESSION = "0f3c9a1e-1111-4222-8333-444455556666"
PROMPT = "Write the secret plan"
YESTERDAY = int(time.time()) - 24 * 3600
OTHER = {
    "version": "0.1.0",
    "id": "550e8400-e29b-41d4-a716-446655440000",
    "timestamp": "2026-01-25T10:00:00Z",
    "tool": {"name": "other"},
    "files": [],
}


@pytest.fixture
def repository(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    return start_repository(tmp_path / "repository", environ)


def tick(repository: Hooked) -> int:
    """A minute goes by; the time, which commits have, too."""
    now = int(repository.more.get("GIT_AUTHOR_DATE", f"{YESTERDAY} +0000").split()[0]) + 60
    repository.more["GIT_AUTHOR_DATE"] = repository.more["GIT_COMMITTER_DATE"] = f"{now} +0000"
    return now


def event(repository: Hooked, session: str = SESSION, **data: Any) -> None:
    folder = repository.path / ".git" / "vibe-gate" / "captures" / session
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "events.ndjson", "a") as file:
        file.write(
            json.dumps({"ts": tick(repository) * 1000, "event": {"session_id": session, **data}})
            + "\n"
        )


def agent_writes(repository: Hooked, name: str, text: str, session: str = SESSION) -> None:
    """The agent writes a whole file, and capture keeps the call."""
    path = repository.path / name
    before = path.read_text() if path.exists() else None
    path.write_text(text)
    answer = {
        "type": "create" if before is None else "update",
        "content": text,
        "originalFile": before,
    }
    event(
        repository,
        session,
        hook_event_name="PostToolUse",
        tool_name="Write",
        tool_use_id="toolu_1",
        tool_input={"file_path": str(path), "content": text},
        tool_response=answer,
    )


def commit(repository: Hooked, *options: str) -> str:
    tick(repository)
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "change", *options)
    return repository.git("rev-parse", "HEAD")


def trace(repository: Hooked, *argv: str) -> list[dict[str, Any]]:
    result = vibe_gate(
        "trace", *argv, cwd=repository.path, environ=repository.environ | repository.more
    )
    assert result.code == 0, result.err
    return valid(result.out)


def valid(text: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in text.splitlines() if line]
    for record in records:
        CHECKED.validate(record)
    return records


def read_notes(repository: Hooked, revision: str = "HEAD") -> list[dict[str, Any]]:
    result = repository.run("git", "notes", "--ref=agent-trace", "show", revision)
    return valid(result.text) if result.code == 0 else []


def install_with_records(repository: Hooked) -> None:
    """The hooks of git, which keep Agent Trace records."""
    environ = repository.environ | repository.more
    vibe_gate("install", "git", "--trace", cwd=repository.path, environ=environ)


def ranges(record: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    return {
        file["path"]: [
            (lines["start_line"], lines["end_line"])
            for conversation in file["conversations"]
            for lines in conversation["ranges"]
        ]
        for file in record["files"]
    }


@pytest.mark.slow  # `git blame` and the CLI, of a history of four commits
def test_records_of_three_commits_are_valid_by_the_schema_and_hold_no_prompt(repository, tmp_path):
    event(repository, hook_event_name="SessionStart", model="claude-opus-4-8[1m]")
    event(repository, hook_event_name="UserPromptSubmit", prompt=PROMPT)
    agent_writes(repository, "new.py", "one\ntwo\n")
    commits = [commit(repository)]
    repository.write(b="by hand\n")
    by_hand = commit(repository)
    agent_writes(repository, "new.py", "one\nand a half\ntwo\n", "no-uuid")
    commits.append(commit(repository))
    agent_writes(repository, "d", "more\n")
    commits.append(commit(repository))
    records = trace(repository, f"{commits[0]}~1..HEAD")
    assert [record["vcs"] for record in records] == [
        {"type": "git", "revision": revision} for revision in commits
    ]
    assert [ranges(record) for record in records] == [
        {"new.py": [(1, 2)]},
        {"new.py": [(2, 2)]},
        {"d": [(1, 1)]},
    ]
    (conversation,) = records[0]["files"][0]["conversations"]
    assert conversation["contributor"] == {"type": "ai", "model_id": "anthropic/claude-opus-4-8"}
    assert conversation["url"] == f"urn:uuid:{SESSION}"
    assert conversation["ranges"][0]["content_hash"] == hash_of([b"one", b"two"])
    assert records[0]["metadata"] == {"vibe-gate": {"sessions": {SESSION: "claude"}}}
    (second,) = records[1]["files"][0]["conversations"]
    assert (second["contributor"], "url" in second) == ({"type": "ai"}, False)
    assert "secret" not in json.dumps(records)
    file = tmp_path / "traces.jsonl"
    assert trace(repository, "HEAD", "-o", str(file)) == []
    assert valid(file.read_text()) == records[2:]
    result = vibe_gate("trace", by_hand, cwd=repository.path, environ=repository.environ)
    assert (result.code, result.out) == (0, "")
    assert result.err == (
        "No record of 1 of 1 commit. No captured session is known to have written a line there.\n"
    )


def test_without_a_captured_session_a_sentence_says_what_records_them(repo, environ):
    result = vibe_gate("trace", cwd=repo, environ=environ)
    assert (result.code, result.out) == (0, "")
    assert result.err == f"No record of 1 of 1 commit. {UNCAPTURED}\n"


def test_blame_names_the_tool_whose_record_claims_a_line_and_no_record_makes_a_line_a_persons(
    repository,
):
    repository.write(a="one\ntwo\nthree\nfour\nfive\n")
    tick(repository)
    head = commit(repository)
    vcs = {"type": "git", "revision": head}

    def file(kind: str, first: int, last: int, model: str = "openai/gpt-6") -> list[dict[str, Any]]:
        claim = {"contributor": {"type": kind, "model_id": model}}
        return [
            {
                "path": "a",
                "conversations": [{**claim, "ranges": [{"start_line": first, "end_line": last}]}],
            }
        ]

    forged = "Claude Code session 1f3c9a1e, turn 1, Write of a file"
    claims = [
        OTHER | {"vcs": vcs, "files": file("human", 1, 3)},
        OTHER | {"vcs": vcs, "files": file("ai", 2, 2)},
        OTHER | {"vcs": vcs, "files": file("mixed", 3, 3), "tool": {"name": "captured"}},
        OTHER | {"vcs": vcs, "files": file("ai", 4, 4), "tool": {"name": "applied"}},
        OTHER | {"vcs": vcs, "files": file("ai", 5, 99, forged), "tool": {"name": forged}},
    ]
    repository.git(
        "notes", "--ref=agent-trace", "add", "-F", "-", stdin="\n".join(map(json.dumps, claims))
    )
    result = vibe_gate("blame", "a", "--json", cwd=repository.path, environ=repository.environ)
    lines = json.loads(result.out)["lines"]
    assert [(line["by"], line["source"], line["agent"]) for line in lines] == [
        ("unknown", "", ""),
        ("agent", "other", "openai/gpt-6"),
        ("agent", "an unnamed tool", "openai/gpt-6"),
        ("agent", "an unnamed tool", "openai/gpt-6"),
        ("agent", forged, "an agent"),
    ]
    output = vibe_gate("blame", "a", cwd=repository.path, environ=repository.environ).out
    assert (
        "other says: openai/gpt-6\n" in output
        and "  Claude Code session… says: an agent\n" in output
    )
    assert trace(repository) == []


@pytest.mark.slow  # git starts the hooks, and they Python
def test_the_hooks_keep_records_beside_those_of_other_tools_through_amend_and_rebase(repository):
    result = vibe_gate(
        "install",
        "git",
        "--trace",
        cwd=repository.path,
        environ=repository.environ | repository.more,
    )
    assert "go to refs/notes/agent-trace" in result.out
    repository.write(b="no session yet\n")
    commit(repository)
    assert read_notes(repository) == []
    event(repository, hook_event_name="UserPromptSubmit", prompt=PROMPT)
    agent_writes(repository, "new.py", "one\ntwo\n")
    first = commit(repository)
    assert [ranges(record) for record in read_notes(repository)] == [{"new.py": [(1, 2)]}]
    repository.git("notes", "--ref=agent-trace", "append", "-m", json.dumps(OTHER), "HEAD")
    first_records = read_notes(repository)
    (repository.path / "new.py").write_text("by hand\none\ntwo\n")
    repository.git("config", "notes.rewriteRef", "refs/notes/agent-trace")
    amended = commit(repository, "--amend")
    assert read_notes(repository, first) == first_records
    other, own_record = read_notes(repository)
    assert (other, own_record["vcs"]["revision"], ranges(own_record)) == (
        OTHER,
        amended,
        {"new.py": [(2, 3)]},
    )
    repository.git("branch", "topic")
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.write(c="meanwhile\n")
    onto = commit(repository)
    assert read_notes(repository) == []
    repository.git("checkout", "-q", "topic")
    repository.git("rebase", "-q", "main")
    rebased = repository.git("rev-parse", "HEAD")
    assert repository.git("rev-parse", "HEAD~1") == onto
    assert [record["vcs"]["revision"] for record in read_notes(repository) if "vcs" in record] == [
        rebased
    ]
    assert PROMPT not in repository.git("log", "-p", "refs/notes/agent-trace")


@pytest.mark.slow  # the same
def test_what_fails_while_a_record_is_kept_is_said_and_stops_no_commit(repository):
    install_with_records(repository)
    agent_writes(repository, "new.py", "one\n")
    (repository.path / ".git" / "refs" / "notes").mkdir(parents=True, exist_ok=True)
    lock = repository.path / ".git" / "refs" / "notes" / "agent-trace.lock"
    lock.touch()
    tick(repository)
    repository.git("add", "-A")
    result = repository.run("git", "commit", "-q", "-m", "change")
    assert result.code == 0
    assert "vibe-gate: its Agent Trace record was not kept: The note on" in result.text
    lock.unlink()
    assert commit(repository, "--amend", "--no-edit")
    assert len(read_notes(repository)) == 1


def test_uninstall_takes_it_back_and_keeps_what_is_recorded(repository):
    was = sorted(path.name for path in (repository.path / ".git").rglob("*"))
    install_with_records(repository)
    result = vibe_gate(
        "uninstall", "git", cwd=repository.path, environ=repository.environ | repository.more
    )
    assert "git update-ref -d refs/notes/agent-trace" in result.out
    assert sorted(path.name for path in (repository.path / ".git").rglob("*")) == was


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-opus-4-8", "anthropic/claude-opus-4-8"),
        ("gpt-6-sol", "openai/gpt-6-sol"),
        ("o3", "openai/o3"),
        ("gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("openrouter/x-ai/grok", "openrouter/x-ai/grok"),
        ("my-own-model", ""),
        ("opus", ""),
        ("claude-\x1b[31m", ""),
        ("gpt-" + "x" * 250, ""),
    ],
)
def test_a_model_is_named_with_its_provider_or_not_at_all(name, expected):
    assert model_id(name) == expected
