"""Agent Trace records by other tools: read from notes and from `.agent-trace/`, as a witness of who
wrote a commit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from repos import Repo

from vibe_gate.domain import agent_trace
from vibe_gate.domain.agent_trace import MAX_RECORD_BYTES, TraceClaim, hash_of
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.provenance import Commit
from vibe_gate.gate import traces
from vibe_gate.gate.authorship import Authorship
from vibe_gate.gate.traces import Traces
from vibe_gate.git import open_repository
from vibe_gate.store.clone_state import open_state

AI = {"type": "ai", "model_id": "openai/gpt-6"}
TEXT = "one\ntwo\nthree\n"


def lines(first: int = 1, last: int = 2, **fields: Any) -> dict[str, Any]:
    return {"start_line": first, "end_line": last, **fields}


def record(
    revision: str, *ranges: dict[str, Any], path: str = "a.py", contributor: Any = AI, **fields: Any
) -> dict[str, Any]:
    """A record as another tool writes it."""
    conversation = {
        "url": "https://tool.example/c/1",
        "contributor": contributor,
        "ranges": [*ranges] or [lines()],
    }
    return {
        "version": "0.1.0",
        "id": "550e8400-e29b-41d4-a716-446655440000",
        "timestamp": "2026-01-25T10:00:00Z",
        "vcs": {"type": "git", "revision": revision},
        "tool": {"name": "other", "version": "2.4"},
        "files": [{"path": path, "conversations": [conversation]}],
        **fields,
    }


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("Start", **{"b.py": "b\n"})
    repo.commit("Change", **{"a.py": TEXT})
    return repo


def note(repo: Repo, *texts: Any, commit: str = "HEAD") -> None:
    note_text = "\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts)
    repo.git("notes", "--ref=agent-trace", "add", "-f", "-F", "-", commit, stdin=note_text.encode())


def hints(repo: Repo, selection: Selection | None = None) -> tuple[str, ...]:
    """What `Authorship` says of HEAD, or of another change."""
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        change = repository.change(selection or Selection("commit", "HEAD"))
        commits = repository.commits(change) or (Commit("", "", "", "", ""),)
        authorship = Authorship(repository, {}, open_state(repository.common_dir))
        return tuple(hint.sentence for hint in authorship.of(change, commits).hints)


def claims(repo: Repo, path: str = "a.py") -> list[TraceClaim]:
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        return [*Traces(repository).claims(repository.head(), path)]


def says(repo: Repo, count: str = "1 of 1 file", tool: str = "other") -> tuple[str, ...]:
    commit = repo.git("rev-parse", "HEAD")[:12]
    return (f"commit {commit}: an Agent Trace record of {tool} says that an agent wrote {count}",)


@pytest.mark.slow
def test_a_note_by_another_tool_is_a_witness_and_says_which_lines(repo):
    head = repo.git("rev-parse", "HEAD")
    assert (hints(repo), claims(repo)) == ((), [])
    note(repo, record(head, lines(1, 1), lines(3, 3, contributor={"type": "mixed"})))
    assert hints(repo) == says(repo)
    assert claims(repo) == [
        TraceClaim(1, 1, "other", "openai/gpt-6"),
        TraceClaim(3, 3, "other", ""),
    ]
    note(
        repo,
        json.dumps(record(head), indent=2),
        record(head, tool={"name": "third"}),
        "and what is no record",
    )
    assert hints(repo)[:2] == (*says(repo), *says(repo, tool="third"))


def test_our_own_record_is_no_second_sign_beside_the_captured_session_that_it_tells_of(repo):
    note(repo, record(repo.git("rev-parse", "HEAD"), tool={"name": "vibe-gate"}))
    assert hints(repo) == says(repo, tool="vibe-gate")
    blob = repo.git("rev-parse", "HEAD:a.py")
    with open_state(repo.path / ".git") as state:
        state.file.change(
            lambda db: db.execute("INSERT INTO captured_blobs VALUES ('s1', ?)", [blob])
        )
    assert hints(repo) == ("Claude Code session s1 wrote 1 of 1 file",)


@pytest.mark.slow
def test_a_record_that_names_a_person_or_no_agent_says_nothing(repo):
    head = repo.git("rev-parse", "HEAD")
    note(repo, record(head))
    agents = hints(repo)
    note(
        repo,
        record(head),
        record(head, contributor={"type": "human"}, tool={"name": "denial"}),
        record(head, contributor=None),
    )
    assert hints(repo) == agents
    note(
        repo,
        record(head, contributor={"type": "human"}),
        record(head, contributor={"type": "unknown"}),
    )
    assert (hints(repo), claims(repo)) == ((), [])


def test_a_record_of_another_commit_counts_for_the_lines_that_are_still_the_same(repo):
    other = "9" * 40
    same_hash = hash_of([b"two", b"three"])
    note(repo, record(other), record(other, lines(2, 3, content_hash="murmur3:9f2e8a1b")))
    assert claims(repo) == []
    note(
        repo,
        record(other, lines(2, 3, content_hash=same_hash), lines(1, 2, content_hash=same_hash)),
    )
    assert claims(repo) == [TraceClaim(2, 3, "other", "openai/gpt-6")]


def test_a_record_in_the_folder_that_was_written_before_the_commit_names_files_and_no_lines(repo):
    parent = repo.git("rev-parse", "HEAD~1")
    repo.write(
        ".agent-trace/traces.jsonl",
        json.dumps(record(parent, version="1.0", tool={"name": "hook"})) + "\n",
    )
    assert (hints(repo), claims(repo)) == (says(repo, tool="hook"), [])
    repo.write(".agent-trace/one.json", json.dumps(record(repo.git("rev-parse", "HEAD"))))
    assert claims(repo) == [TraceClaim(1, 2, "other", "openai/gpt-6")]
    # What is staged now was written while HEAD was at the commit that the record names.
    (repo.path / "a.py").write_text("new\n")
    repo.git("add", "a.py")
    (hint,) = hints(repo, Selection("staged"))
    assert (
        hint == "this commit: an Agent Trace record of other says that an agent wrote 1 of 1 file"
    )


def test_a_record_that_names_many_commits_is_parsed_once(repo, monkeypatch):
    parsed: list[bytes] = []
    read = traces.read_records
    monkeypatch.setattr(traces, "read_records", lambda parts: parsed.extend(parts) or read(parts))
    names = repo.git("rev-list", "HEAD").split()
    related = [{"type": "commit", "revision": name} for name in names]
    (repo.path / ".agent-trace").mkdir()
    repo.write(".agent-trace/t.jsonl", json.dumps(record(names[0], metadata={"related": related})))
    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        every = Traces(repository)
        assert [len(every.claims(name, "a.py")) for name in names] == [1, 0]
    assert len(parsed) == 1


@pytest.mark.slow
def test_hostile_records_are_bounded_and_told_and_hide_no_other(repo, monkeypatch):
    head = repo.git("rev-parse", "HEAD")
    good = record(head)
    hostile = [
        "{" * 100_000,
        json.dumps(good).replace('"version"', '"version": "0.1.0", "version"'),
        json.dumps(good | {"metadata": {"deep": 0}}).replace(
            ": 0", ": " + "[" * 100_000 + "]" * 100_000
        ),
        good | {"files": {}},
        good | {"files": [{"path": 7, "conversations": []}]},
        good | {"version": "2.0.0"},
        good | {"timestamp": "yesterday"},
        record(head, lines(0, 1)),
        record(head, lines(1, 1 << 70)),
        json.dumps(good | {"id": "x" * MAX_RECORD_BYTES}),
        json.dumps(good).replace("other", "\\ud800"),
    ]
    harmless = [
        record(head, path="../../etc/passwd"), record(head, path="b.py"), record(head, path="/a.py"),
        record(head, path="a.py\0"), record(head, lines(4, 9), lines(3, 2)),
    ]  # fmt: skip
    note(
        repo,
        *hostile,
        *harmless,
        record(head, lines(3, 1 << 31), tool={"name": "a\x1b[31m\nb" + "c" * 99}),
    )
    clipped = "a⟦U+001B⟧[31m⟦U+000A⟧b" + "c" * 32
    unread = f"commit {head[:12]}: {len(hostile)} Agent Trace records cannot be read, so an agent may have made it"
    assert hints(repo) == (*says(repo, tool=clipped), unread)
    assert [(claim.first, claim.last) for claim in claims(repo)] == [(3, 3)]
    monkeypatch.setattr("vibe_gate.git.revisions.MAX_NOTE_BYTES", 10)
    assert hints(repo) == (
        unread.replace(f"{len(hostile)} Agent Trace records", "1 Agent Trace record"),
    )


def test_the_hashes_of_many_records_cost_one_limit_a_commit_and_a_review_compares_none(
    repo, monkeypatch
):
    other, wrong = "9" * 40, {"content_hash": "sha256:0"}
    right = lines(2, 3, content_hash=hash_of([b"two", b"three"]))
    hashed: list[int] = []
    monkeypatch.setattr(
        agent_trace, "hash_of", lambda rows: hashed.append(len(rows)) or hash_of(rows)
    )
    monkeypatch.setattr(agent_trace, "MAX_HASHED_LINES", 6)
    note(
        repo,
        *[record(other, lines(1, 3, **wrong))] * 50,
        record(other, lines(1, 1, **wrong), right, lines(3, 3)),
    )
    assert (hints(repo), hashed) == (says(repo), [])
    assert claims(repo) == [TraceClaim(2, 3, "other", "openai/gpt-6")]
    assert hashed == [3, 1, 2]
    monkeypatch.setattr(traces, "MAX_CLAIMED_BYTES", len(TEXT) - 1)
    assert (hints(repo), claims(repo)) == (says(repo), [])


def test_of_a_folder_the_newest_records_are_read_and_no_link_is_followed(
    repo, tmp_path, monkeypatch
):
    head = repo.git("rev-parse", "HEAD")
    folder = repo.path / ".agent-trace"
    folder.mkdir()
    (tmp_path / "outside.jsonl").write_text(json.dumps(record(head, tool={"name": "outside"})))
    (folder / "linked.jsonl").symlink_to(tmp_path / "outside.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.json").mkdir()
    (folder / "notes.txt").write_text(json.dumps(record(head, tool={"name": "text"})))
    line = json.dumps(record(head, tool={"name": "newest"})) + "\n"
    monkeypatch.setattr(traces, "MAX_BYTES", len(line) + 5)
    (folder / "traces.jsonl").write_text(
        json.dumps(record(head, tool={"name": "oldest"})) + "\n" + line
    )
    assert hints(repo) == says(repo, tool="newest")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert hints(repo) == ()
