"""The door to the conversations of our own agents: `.vibe-artifacts/sessions/`, one folder a
session.

    kept = Sessions(folder, redact, clock, index).open(workspace, project_key, agent="fixer",
    run=...)

`kept` is a SessionStore of the Claude Agent SDK: the SDK mirrors a session into it, and resumes,
forks, renames and reads it by its own functions (`agent.sdk_sessions`). What is written is
redacted, and names the workspace's folder `{{workspace}}`, so that a session goes on in another
clone.

    agent_sessions      opened, copied, taken over     session_folder  listed, found, begun, deleted
    session_mirror      the SDK's store                session_writer  one session held by one process
    transcript_entries  lines of messages.jsonl        session_meta    meta.json
    older_sessions      the single-JSON form
"""

from vibe_gate.sessions.agent_sessions import Sessions
from vibe_gate.sessions.session_meta import SessionMeta, SessionTurn
from vibe_gate.sessions.session_mirror import SessionMirror
from vibe_gate.sessions.transcript_entries import message_blocks

__all__ = ["SessionMeta", "SessionMirror", "SessionTurn", "Sessions", "message_blocks"]
