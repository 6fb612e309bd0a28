"""A record of ours in a commit's note: beside what is there, and never in the place of what cannot
be read.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from repos import Repo

from vibe_gate.domain.agent_trace import OWN, TracedRevision, TraceRecord, TracingTool
from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import StorageError
from vibe_gate.git import open_repository
from vibe_gate.run.trace import keep_trace_record


def test_what_is_in_the_note_stays_byte_for_byte_and_only_our_own_record_is_replaced(
    tmp_path, environ, monkeypatch
):
    repo = Repo(tmp_path / "r", environ)
    commit = repo.commit("Start", a="a\n")
    other = b'not a record\n{"tool": {"name": "other"},\n "pretty": true}\n'
    repo.git("notes", "--ref=agent-trace", "add", "-F", "-", stdin=other)

    def record(name: str) -> TraceRecord:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return TraceRecord("0.1.0", name, now, (), TracedRevision("git", commit), TracingTool(OWN))

    with open_repository(repo.path, read_environment(repo.environ)) as repository:
        assert keep_trace_record(repository, record("first"))
        assert keep_trace_record(repository, record("second"))
        assert repository.note("agent-trace", commit) == other + record("second").to_line()
        tip = repo.git("rev-parse", "refs/notes/agent-trace")
        assert not keep_trace_record(repository, record("second"))
        monkeypatch.setattr("vibe_gate.git.revisions.MAX_NOTE_BYTES", 10)
        with pytest.raises(StorageError, match="too large"):
            keep_trace_record(repository, record("third"))
        assert repo.git("rev-parse", "refs/notes/agent-trace") == tip
