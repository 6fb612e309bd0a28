"""Since when there is anything that tells of an agent: of a line from before, nobody is named,
whatever it was before its commit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from vibe_gate.gate.authorship import Authorship
from vibe_gate.git import Repository
from vibe_gate.run.agent_writes import AgentWrites
from vibe_gate.store import captures
from vibe_gate.store.clone_state import CloneState


def find_recorded_since(
    repository: Repository,
    state: CloneState,
    authorship: Authorship,
    writes: AgentWrites,
    committed_at: Mapping[str, int],
) -> float:
    """When the first session was captured, an agent of our own first wrote, an event was first
    lost, or the first of the file's commits with a sign of an agent was made: the earliest of
    these, in seconds since 1970; infinite if there is nothing.

    `committed_at`: by commit of the file when it was made, 0 if it does not say.
    """
    moments = [math.inf]
    for session in (*writes.sessions, *writes.applied):
        moments.append(session.started_at.timestamp())
        moments += [write.at.timestamp() for write in session.writes]
    for gap in captures.read_capture_gaps(state):
        moments.append(gap.moment.timestamp())
    earliest = min(moments)
    for commit, moment in sorted(committed_at.items(), key=lambda item: item[1]):
        if moment >= earliest:
            break
        if authorship.signs_of(repository.commit(commit)):
            return float(moment)
    return earliest
