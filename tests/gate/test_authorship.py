"""Who wrote a change: the environment, commits, captured sessions and what hooks recorded, in a
real repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from repos import Repo

from vibe_gate.domain.agent_hint import AgentHint, SessionHint, UnreadSessionsHint, VariableHint
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.provenance import Commit, Record, agents_in
from vibe_gate.gate.authorship import Authorship
from vibe_gate.git import Repository, open_repository
from vibe_gate.store.clone_state import CloneState, open_state

IN_AGENT = {"CLAUDECODE": "1"}
SIGN = VariableHint(name="CLAUDECODE", agent="Claude Code")
NEXT_COMMIT = Commit("", "Ada", "ada@example.org", "ada@example.org", "Next")


class Witnessed:
    """A repository with one change that is committed and one that is not."""

    def __init__(self, place: Path, environ: dict[str, str]) -> None:
        self.repo = Repo(place, environ)
        self.repo.commit("First", a="a\n")
        self.head = self.repo.commit("Second", a="b\n")
        self.repo.write("a", "c\n")
        self.repo.git("add", "a")
        self.repository: Repository
        self.state: CloneState

    def hints(
        self, selection: Selection, unread: str = "", **environ: str
    ) -> tuple[AgentHint, ...]:
        change = self.repository.change(selection)
        commits = self.repository.commits(change) or (NEXT_COMMIT,)
        authored = Authorship(self.repository, agents_in(environ), self.state, unread=unread).of(
            change, commits
        )
        assert authored.decision is bool(authored.hints)
        return authored.hints

    def signs(self) -> tuple[AgentHint, ...]:
        (commit,) = self.repository.commits(self.repository.change(Selection("commit")))
        return Authorship(self.repository, agents_in(IN_AGENT), self.state).signs_of(commit)

    def note_record(self, **values: object) -> None:
        record = {
            "ts": "2026-01-02T03:04:05.000+00:00",
            "kind": "reviewed",
            "stage": "pre-commit",
        } | values
        self.state.hook_records.append(Record(**record))


@pytest.fixture
def witnessed(tmp_path: Path, environ: dict[str, str]) -> Iterator[Witnessed]:
    place = Witnessed(tmp_path / "repo", environ)
    with open_repository(place.repo.path, read_environment(environ)) as place.repository:
        place.state = open_state(place.repository.common_dir)
        yield place


COMMITTED, STAGED = Selection("commit"), Selection("staged")


def test_the_environment_speaks_of_what_is_not_committed_yet(witnessed: Witnessed) -> None:
    assert witnessed.hints(STAGED, **IN_AGENT) == (SIGN,)
    assert witnessed.hints(COMMITTED, **IN_AGENT) == ()
    assert witnessed.hints(STAGED) == ()


def test_what_captured_sessions_wrote_and_could_not_be_read_is_a_sign(witnessed: Witnessed) -> None:
    assert witnessed.hints(COMMITTED, unread="cannot be read") == (
        UnreadSessionsHint(reason="cannot be read"),
    )
    blob = witnessed.repo.git("rev-parse", "HEAD:a")
    witnessed.state.captured_blobs.note("claude-1234567890", {blob: 1})
    (hint,) = witnessed.hints(COMMITTED)
    assert hint.sentence == "Claude Code session claude-1 wrote 1 of 1 file"


def test_what_a_hook_recorded_of_a_tree_or_its_commit_is_told_of_that_commit(
    witnessed: Witnessed,
) -> None:
    staged_tree = witnessed.repo.git("write-tree")
    witnessed.note_record(tree=staged_tree, hints=(SIGN,))
    (hint,) = witnessed.hints(STAGED)
    assert hint.sentence == f"this commit: recorded: {SIGN.fact}"
    assert witnessed.hints(COMMITTED) == ()
    witnessed.note_record(commit=witnessed.head, hints=(SIGN,))
    (hint,) = witnessed.hints(COMMITTED)
    assert hint.sentence == f"commit {witnessed.head[:12]}: recorded: {SIGN.fact}"


def test_the_signs_of_a_commit_are_without_what_sessions_wrote_and_this_environment(
    witnessed: Witnessed,
) -> None:
    assert witnessed.signs() == ()
    session = SessionHint(agent="Claude Code", session="12345678", files=1, all_files=1)
    witnessed.note_record(commit=witnessed.head, hints=(session, SIGN))
    assert witnessed.signs() == (replace(SIGN, commit=witnessed.head, recorded=True),)
