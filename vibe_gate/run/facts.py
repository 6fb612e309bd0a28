"""The facts of a run: its change and gate, what the author says, and who the author was, looked up once."""

from __future__ import annotations

from contextlib import suppress

from vibe_gate.domain.change import Change
from vibe_gate.domain.context import Facts, ReviewRequest, World
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Rubric
from vibe_gate.errors import GateError
from vibe_gate.gate.authorship import Authorship
from vibe_gate.git import Repository
from vibe_gate.store import captures


def facts_of(
    change: Change,
    gate: Gate,
    rubrics: tuple[Rubric, ...],
    request: ReviewRequest,
    repository: Repository,
    world: World,
) -> Facts:
    """What is known of the change. What agents' sessions wrote, and which commits were made, is noted first."""
    commits = repository.commits(change)
    if request.stage and not change.head_commit:
        commits = (repository.pending_commit(request.message),)
    _, unread = captures.fold(world.state, world.store.captures(), world.redactor, world.clock())
    _settle_marks(repository, world)
    authored = Authorship(repository, world.environ, world.state, unread=unread).of(change, commits)
    message = "\n\n".join(commit.message.strip() for commit in reversed(commits))
    return Facts(change, gate, rubrics, message, authored)


def _settle_marks(repository: Repository, world: World) -> None:
    """Record the commits that git made since hooks marked that they would come."""
    if world.state.hook_records.marks():
        from vibe_gate.receipts.committed import CommitRecords  # few reviews find a mark

        with suppress(GateError):
            CommitRecords(repository, world.state, world.environ, world.clock()).settle_marks()
