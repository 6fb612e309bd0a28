"""The door to the conversations of our own agents: `.vibe-artifacts/sessions/`, one folder a
session.

    kept = Sessions(folder, redact, clock, index).open(workspace, project_key, agent="fixer",
    run=...)

`kept` is a SessionStore of the Claude Agent SDK: the SDK mirrors a session into it, and resumes,
forks, renames and reads it by its own functions (`agent.sdk_sessions`). What is written is
redacted, and names the workspace's folder `{{workspace}}`, so that a session goes on in another
clone.

    sessions   opened, copied, taken over                      folder    listed, found, begun, deleted
    mirror     the SDK's store                                 writer    one session held by one process
    entries    lines of messages.jsonl                         meta      meta.json
    older      the single-JSON form
"""

from vibe_gate.sessions.entries import blocks
from vibe_gate.sessions.meta import SessionMeta, SessionTurn
from vibe_gate.sessions.mirror import SessionMirror
from vibe_gate.sessions.sessions import Sessions

__all__ = ["SessionMeta", "SessionMirror", "SessionTurn", "Sessions", "blocks"]
