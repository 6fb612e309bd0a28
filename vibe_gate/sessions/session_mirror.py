"""The SDK's session store: what it writes of a session, and reads to resume, fork and rename one.

The SDK files sessions under a key made of the agent's working directory. Workspaces come and go,
and another clone has others, so the key of this workspace means the sessions of this repository;
any other key stays one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vibe_gate.errors import StorageError
from vibe_gate.sessions import session_writer
from vibe_gate.sessions.session_folder import SessionFolder
from vibe_gate.sessions.session_meta import SessionMeta, SessionTurn, shorten_title
from vibe_gate.sessions.session_writer import SessionWriter, session_errors
from vibe_gate.sessions.transcript_entries import Entry, WorkspacePath, is_message, read_prompt_text


class SessionMirror:
    """A SessionStore of the SDK. A session is held from the first entry, or from `hold`, until
    `close`.
    """

    def __init__(
        self, sessions: SessionFolder, workspace: Path, project_key: str, fields: Mapping[str, Any]
    ) -> None:
        """`fields`: those of SessionMeta of a session that begins."""
        self._sessions = sessions
        self._workspace = WorkspacePath(workspace)
        self._own_key = project_key
        self._fields = fields
        self._writers: dict[str, SessionWriter] = {}
        """By the names of their folders, the sessions that are held."""
        self._last_messages: dict[str, str] = {}
        """By session id, the uuid of the last message that came in this turn."""

    # What the SDK calls

    async def append(self, key: Mapping[str, Any], entries: Sequence[Entry]) -> None:
        """Keep entries; those that are there already (by uuid) are not kept twice. StorageError."""
        if not entries:
            return
        name = self._name(key)
        subpath = str(key.get("subpath") or "")
        if name:
            writer = self._hold(name)
        else:
            writer = self._begin(key["session_id"], self._project(key["project_key"]))
        with session_errors(writer.meta.id):
            writer.append(subpath, entries, self._workspace, self._sessions.redact)
        if not subpath:
            self._note_entries(writer, entries)

    async def load(self, key: Mapping[str, Any]) -> list[Entry] | None:
        """The entries in the order in which they came, None if there are none. StorageError."""
        name = self._name(key)
        if not name:
            return None
        subpath = str(key.get("subpath") or "")
        with session_errors(name):
            folder = self._sessions.folder.folder(name)
            return session_writer.read_entries(folder, subpath, self._workspace)

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Ids and times in ms of the sessions under a key. StorageError."""
        sessions = []
        for meta in self._sessions.all():
            folder = self._sessions.folder.folder(meta.id)
            if meta.project == self._project(project_key) and folder.has(session_writer.MESSAGES):
                mtime_ms = folder.status(session_writer.MESSAGES).st_mtime_ns // 1_000_000
                sessions.append({"session_id": meta.session_id, "mtime": mtime_ms})
        return sessions

    async def delete(self, key: Mapping[str, Any]) -> None:
        """Delete a session, or one subagent's part of it. StorageError."""
        name = self._name(key)
        if not name:
            return
        subpath = str(key.get("subpath") or "")
        if subpath:
            with session_errors(name):
                self._hold(name).folder.remove(session_writer.log_name(subpath))
            return
        writer = self._writers.pop(name, None)
        if writer:
            writer.close()
        self._sessions.delete(name)

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        """Whose transcripts a session has besides its own. StorageError."""
        name = self._name(key)
        if not name:
            return []
        with session_errors(name):
            return session_writer.list_subpaths(self._sessions.folder.folder(name))

    # What we call

    def hold(self, session_id: str) -> SessionMeta:
        """Hold a session that goes on. StorageError: another process does, or nothing was written
        of it.
        """
        return self._hold_session(session_id).meta

    def finish(self, session_id: str, **turn: Any) -> bool:  # noqa: ANN401  fields of SessionTurn
        """Note that a turn has ended, at the last message that came; False if none did.
        StorageError.
        """
        last_message = self._last_messages.pop(session_id, "")
        if not last_message:
            return False
        now = self._sessions.clock()
        new_turn = SessionTurn(last=last_message, ended_at=now, **turn)
        turns = (*self._hold_session(session_id).meta.turns, new_turn)
        self.change(session_id, turns=turns, updated_at=now)
        return True

    def keep(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file beside the messages, redacted by who gives it. StorageError."""
        writer = self._hold_session(session_id)
        with session_errors(writer.meta.id):
            writer.folder.place(name, data)

    def change(self, session_id: str, **fields: Any) -> SessionMeta:  # noqa: ANN401  fields of SessionMeta
        """Change what meta.json says. StorageError."""
        writer = self._hold_session(session_id)
        with session_errors(writer.meta.id):
            writer.save(replace(writer.meta, **fields), self._sessions.redact)
        return writer.meta

    def close(self) -> None:
        """Release every session."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _project(self, key: str) -> str:
        return "" if self._own_key in ("", key) else key

    def _name(self, key: Mapping[str, Any]) -> str:
        return self._sessions.folder_of(key["session_id"], self._project(key["project_key"]))

    def _hold_session(self, session_id: str) -> SessionWriter:
        name = self._sessions.folder_of(session_id)
        if not name:
            raise StorageError(
                f"The session {session_id} is not there, or nothing was written of it."
            )
        return self._hold(name)

    def _hold(self, name: str) -> SessionWriter:
        if name not in self._writers:
            with session_errors(name):
                self._writers[name] = SessionWriter(name, self._sessions.folder.folder(name))
        return self._writers[name]

    def _begin(self, session_id: str, project: str) -> SessionWriter:
        now = self._sessions.clock()
        fields = {
            "session_id": session_id,
            "project": project,
            "created_at": now,
            "updated_at": now,
            **self._fields,
        }
        writer = self._sessions.begin(SessionMeta(**fields))
        self._writers[writer.meta.id] = writer
        return writer

    def _note_entries(self, writer: SessionWriter, entries: Sequence[Entry]) -> None:
        """The title, and where a turn would end now."""
        title = writer.meta.title
        for entry in entries:
            if is_message(entry):
                self._last_messages[writer.meta.session_id] = entry["uuid"]
            if entry.get("type") == "custom-title":
                title = self._make_title(str(entry.get("customTitle") or ""))
            title = title or self._make_title(read_prompt_text(entry))
        with session_errors(writer.meta.id):
            writer.save(replace(writer.meta, title=title), self._sessions.redact)

    def _make_title(self, text: str) -> str:
        """Redacted before it is cut: what a limit leaves of a secret is not known as one any
        more.
        """
        return shorten_title(str(self._sessions.redact(text)))
