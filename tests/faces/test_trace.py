"""`vibe-gate trace`, and the records that `install git --trace` keeps in git notes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import vibe_gate
from hooked import Hooked, started

from vibe_gate.domain.agent_trace import hash_of, model_id

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
def here(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    return started(tmp_path / "repository", environ)


def tick(here: Hooked) -> int:
    """A minute goes by; the time, which commits have, too."""
    now = int(here.more.get("GIT_AUTHOR_DATE", f"{YESTERDAY} +0000").split()[0]) + 60
    here.more["GIT_AUTHOR_DATE"] = here.more["GIT_COMMITTER_DATE"] = f"{now} +0000"
    return now


def event(here: Hooked, session: str = SESSION, **data: Any) -> None:
    folder = here.path / ".git" / "vibe-gate" / "captures" / session
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "events.ndjson", "a") as file:
        file.write(
            json.dumps({"ts": tick(here) * 1000, "event": {"session_id": session, **data}}) + "\n"
        )


def agent_writes(here: Hooked, name: str, text: str, session: str = SESSION) -> None:
    """The agent writes a whole file, and capture keeps the call."""
    path = here.path / name
    before = path.read_text() if path.exists() else None
    path.write_text(text)
    answer = {
        "type": "create" if before is None else "update",
        "content": text,
        "originalFile": before,
    }
    event(
        here,
        session,
        hook_event_name="PostToolUse",
        tool_name="Write",
        tool_use_id="toolu_1",
        tool_input={"file_path": str(path), "content": text},
        tool_response=answer,
    )


def commit(here: Hooked, *options: str) -> str:
    tick(here)
    here.git("add", "-A")
    here.git("commit", "-q", "-m", "change", *options)
    return here.git("rev-parse", "HEAD")


def trace(here: Hooked, *argv: str) -> list[dict[str, Any]]:
    done = vibe_gate("trace", *argv, cwd=here.path, environ=here.environ | here.more)
    assert done.code == 0, done.err
    return valid(done.out)


def valid(text: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in text.splitlines() if line]
    for record in records:
        CHECKED.validate(record)
    return records


def noted(here: Hooked, revision: str = "HEAD") -> list[dict[str, Any]]:
    done = here.run("git", "notes", "--ref=agent-trace", "show", revision)
    return valid(done.text) if done.code == 0 else []


def ranges(record: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    return {
        file["path"]: [
            (lines["start_line"], lines["end_line"])
            for one in file["conversations"]
            for lines in one["ranges"]
        ]
        for file in record["files"]
    }


@pytest.mark.slow  # `git blame` and the CLI, of a history of four commits
def test_records_of_three_commits_are_valid_by_the_schema_and_hold_no_prompt(here, tmp_path):
    event(here, hook_event_name="SessionStart", model="claude-opus-4-8[1m]")
    event(here, hook_event_name="UserPromptSubmit", prompt=PROMPT)
    agent_writes(here, "new.py", "one\ntwo\n")
    commits = [commit(here)]
    here.write(b="by hand\n")
    by_hand = commit(here)
    agent_writes(here, "new.py", "one\nand a half\ntwo\n", "no-uuid")
    commits.append(commit(here))
    agent_writes(here, "d", "more\n")
    commits.append(commit(here))
    records = trace(here, f"{commits[0]}~1..HEAD")
    assert [record["vcs"] for record in records] == [
        {"type": "git", "revision": one} for one in commits
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
    assert trace(here, "HEAD", "-o", str(file)) == []
    assert valid(file.read_text()) == records[2:]
    done = vibe_gate("trace", by_hand, cwd=here.path, environ=here.environ)
    assert (done.code, done.out) == (0, "")
    assert "No line is known to be a captured session's: 1 of 1 commit." in done.err


def test_blame_names_the_tool_whose_record_claims_a_line_and_no_record_makes_a_line_a_persons(here):
    here.write(a="one\ntwo\nthree\nfour\nfive\n")
    tick(here)
    head = commit(here)
    vcs = {"type": "git", "revision": head}

    def file(who: str, first: int, last: int, model: str = "openai/gpt-6") -> list[dict[str, Any]]:
        told = {"contributor": {"type": who, "model_id": model}}
        return [
            {
                "path": "a",
                "conversations": [{**told, "ranges": [{"start_line": first, "end_line": last}]}],
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
    here.git(
        "notes", "--ref=agent-trace", "add", "-F", "-", stdin="\n".join(map(json.dumps, claims))
    )
    done = vibe_gate("blame", "a", "--json", cwd=here.path, environ=here.environ)
    lines = json.loads(done.out)["lines"]
    assert [(line["by"], line["source"], line["agent"]) for line in lines] == [
        ("unknown", "", ""),
        ("agent", "other", "openai/gpt-6"),
        ("agent", "an unnamed tool", "openai/gpt-6"),
        ("agent", "an unnamed tool", "openai/gpt-6"),
        ("agent", forged, "an agent"),
    ]
    shown = vibe_gate("blame", "a", cwd=here.path, environ=here.environ).out
    assert (
        "other says: openai/gpt-6\n" in shown and "  Claude Code session… says: an agent\n" in shown
    )
    assert trace(here) == []


@pytest.mark.slow  # git starts the hooks, and they Python
def test_the_hooks_keep_records_beside_those_of_other_tools_through_amend_and_rebase(here):
    done = vibe_gate("install", "git", "--trace", cwd=here.path, environ=here.environ | here.more)
    assert "go to refs/notes/agent-trace" in done.out
    here.write(b="no session yet\n")
    commit(here)
    assert noted(here) == []
    event(here, hook_event_name="UserPromptSubmit", prompt=PROMPT)
    agent_writes(here, "new.py", "one\ntwo\n")
    first = commit(here)
    assert [ranges(record) for record in noted(here)] == [{"new.py": [(1, 2)]}]
    here.git("notes", "--ref=agent-trace", "append", "-m", json.dumps(OTHER), "HEAD")
    kept = noted(here)
    (here.path / "new.py").write_text("by hand\none\ntwo\n")
    here.git("config", "notes.rewriteRef", "refs/notes/agent-trace")
    amended = commit(here, "--amend")
    assert noted(here, first) == kept
    other, own = noted(here)
    assert (other, own["vcs"]["revision"], ranges(own)) == (OTHER, amended, {"new.py": [(2, 3)]})
    here.git("branch", "topic")
    here.git("reset", "-q", "--hard", "HEAD~1")
    here.write(c="meanwhile\n")
    onto = commit(here)
    assert noted(here) == []
    here.git("checkout", "-q", "topic")
    here.git("rebase", "-q", "main")
    rebased = here.git("rev-parse", "HEAD")
    assert here.git("rev-parse", "HEAD~1") == onto
    assert [record["vcs"]["revision"] for record in noted(here) if "vcs" in record] == [rebased]
    assert PROMPT not in here.git("log", "-p", "refs/notes/agent-trace")


@pytest.mark.slow  # the same
def test_what_fails_while_a_record_is_kept_is_said_and_stops_no_commit(here):
    vibe_gate("install", "git", "--trace", cwd=here.path, environ=here.environ | here.more)
    agent_writes(here, "new.py", "one\n")
    (here.path / ".git" / "refs" / "notes").mkdir(parents=True, exist_ok=True)
    lock = here.path / ".git" / "refs" / "notes" / "agent-trace.lock"
    lock.touch()
    tick(here)
    here.git("add", "-A")
    done = here.run("git", "commit", "-q", "-m", "change")
    assert done.code == 0
    assert "vibe-gate: its Agent Trace record was not kept: The note on" in done.text
    lock.unlink()
    assert commit(here, "--amend", "--no-edit")
    assert len(noted(here)) == 1


def test_uninstall_takes_it_back_and_keeps_what_is_recorded(here):
    was = sorted(path.name for path in (here.path / ".git").rglob("*"))
    vibe_gate("install", "git", "--trace", cwd=here.path, environ=here.environ | here.more)
    done = vibe_gate("uninstall", "git", cwd=here.path, environ=here.environ | here.more)
    assert "git update-ref -d refs/notes/agent-trace" in done.out
    assert sorted(path.name for path in (here.path / ".git").rglob("*")) == was


@pytest.mark.parametrize(
    ("name", "found"),
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
def test_a_model_is_named_with_its_provider_or_not_at_all(name, found):
    assert model_id(name) == found
