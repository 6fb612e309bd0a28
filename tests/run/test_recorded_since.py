"""Since when anything tells of an agent: lines of earlier commits are followed no further."""

from __future__ import annotations

import math

import pytest
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.gate.authorship import Authorship
from vibe_gate.git import open_repository
from vibe_gate.run.agent_writes import AgentWrites
from vibe_gate.run.recorded_since import find_recorded_since
from vibe_gate.store.captured_writes import WritingSessions
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.stored_writes import LineDigests

SIGNED = "Format\n\nCo-authored-by: Claude <noreply@anthropic.com>"


@pytest.mark.parametrize(
    ("messages", "since"),
    [
        (["Write", "Rewrite"], math.inf),
        (["Write", SIGNED, "Rewrite", SIGNED], 1_700_000_001),
        ([SIGNED, "Rewrite"], 1_700_000_000),
    ],
)
def test_without_sessions_the_first_commit_with_a_sign_of_an_agent_counts(
    tmp_path, environ, messages, since
):
    repo = Repo(tmp_path / "r", environ)
    committed_at = {}
    for number, message in enumerate(messages, 1_700_000_000):
        repo.write("a.py", f"number = {number}\n")
        repo.git("add", "-A")
        repo.git("commit", "-q", "-m", message)
        committed_at[repo.git("rev-parse", "HEAD")] = number
    with (
        open_repository(repo.path, read_environment(environ)) as repository,
        open_state(repository.common_dir) as state,
    ):
        sessions = WritingSessions([repo.path])
        writes = AgentWrites(sessions, state, LineDigests(b"k" * 32), {"a.py"})
        authorship = Authorship(repository, {}, state)
        recorded_since = find_recorded_since(repository, state, authorship, writes, committed_at)
    assert recorded_since == since
