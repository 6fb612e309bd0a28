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
        self, sessions: SessionFolder, workspace: Path, project_key: str, about: Mapping[str, Any]
    ) -> None:
        """`about`: fields of SessionMeta of a session that begins."""
        self._sessions = sessions
        self._workspace = WorkspacePath(workspace)
        self._own = project_key
        self._about = about
        self._held: dict[str, SessionWriter] = {}
        self._last: dict[str, str] = {}

    # What the SDK calls

    async def append(self, key: Mapping[str, Any], entries: Sequence[Entry]) -> None:
        """Keep entries; those that are there already (by uuid) are not kept twice. StorageError."""
        if not entries:
            return
        name, subpath = self._name(key), str(key.get("subpath") or "")
        held = (
            self._hold(name)
            if name
            else self._begin(key["session_id"], self._project(key["project_key"]))
        )
        with session_errors(held.meta.id):
            held.append(subpath, entries, self._workspace, self._sessions.redact)
        if not subpath:
            self._note(held, entries)

    async def load(self, key: Mapping[str, Any]) -> list[Entry] | None:
        """The entries in the order in which they came, None if there are none. StorageError."""
        if not (name := self._name(key)):
            return None
        with session_errors(name):
            folder = self._sessions.folder.folder(name)
            return session_writer.read_entries(
                folder, str(key.get("subpath") or ""), self._workspace
            )

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Ids and times in ms of the sessions under a key. StorageError."""
        found = []
        for meta in self._sessions.all():
            folder = self._sessions.folder.folder(meta.id)
            if meta.project == self._project(project_key) and folder.has(session_writer.MESSAGES):
                time = folder.status(session_writer.MESSAGES).st_mtime_ns // 1_000_000
                found.append({"session_id": meta.session_id, "mtime": time})
        return found

    async def delete(self, key: Mapping[str, Any]) -> None:
        """Delete a session, or one subagent's part of it. StorageError."""
        if not (name := self._name(key)):
            return
        if subpath := str(key.get("subpath") or ""):
            with session_errors(name):
                self._hold(name).folder.remove(session_writer.log_name(subpath))
            return
        if held := self._held.pop(name, None):
            held.close()
        self._sessions.delete(name)

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        """Whose transcripts a session has besides its own. StorageError."""
        name = self._name(key)
        with session_errors(name):
            return session_writer.list_subpaths(self._sessions.folder.folder(name)) if name else []

    # What we call

    def hold(self, session_id: str) -> SessionMeta:
        """Hold a session that goes on. StorageError: another process does, or nothing was written
        of it.
        """
        return self._of(session_id).meta

    def finish(self, session_id: str, **turn: Any) -> bool:  # noqa: ANN401  fields of SessionTurn
        """Note that a turn has ended, at the last message that came; False if none did.
        StorageError.
        """
        if last := self._last.pop(session_id, ""):
            now = self._sessions.clock()
            turns = (*self._of(session_id).meta.turns, SessionTurn(last=last, ended_at=now, **turn))
            self.change(session_id, turns=turns, updated_at=now)
        return bool(last)

    def keep(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file beside the messages, redacted by who gives it. StorageError."""
        held = self._of(session_id)
        with session_errors(held.meta.id):
            held.folder.place(name, data)

    def change(self, session_id: str, **fields: Any) -> SessionMeta:  # noqa: ANN401  fields of SessionMeta
        """Change what meta.json says. StorageError."""
        held = self._of(session_id)
        with session_errors(held.meta.id):
            held.save(replace(held.meta, **fields), self._sessions.redact)
        return held.meta

    def close(self) -> None:
        """Let go of every session."""
        for held in self._held.values():
            held.close()
        self._held.clear()

    def _project(self, key: str) -> str:
        return "" if self._own in ("", key) else key

    def _name(self, key: Mapping[str, Any]) -> str:
        return self._sessions.folder_of(key["session_id"], self._project(key["project_key"]))

    def _of(self, session_id: str) -> SessionWriter:
        if not (name := self._sessions.folder_of(session_id)):
            raise StorageError(
                f"The session {session_id} is not there, or nothing was written of it."
            )
        return self._hold(name)

    def _hold(self, name: str) -> SessionWriter:
        if name not in self._held:
            with session_errors(name):
                self._held[name] = SessionWriter(name, self._sessions.folder.folder(name))
        return self._held[name]

    def _begin(self, session_id: str, project: str) -> SessionWriter:
        now = self._sessions.clock()
        fields = {
            "session_id": session_id,
            "project": project,
            "created_at": now,
            "updated_at": now,
            **self._about,
        }
        held = self._sessions.begin(SessionMeta(**fields))
        self._held[held.meta.id] = held
        return held

    def _note(self, held: SessionWriter, entries: Sequence[Entry]) -> None:
        """The title, and where a turn would end now."""
        title = held.meta.title
        for entry in entries:
            if is_message(entry):
                self._last[held.meta.session_id] = entry["uuid"]
            if entry.get("type") == "custom-title":
                title = self._titled(str(entry.get("customTitle") or ""))
            title = title or self._titled(read_prompt_text(entry))
        with session_errors(held.meta.id):
            held.save(replace(held.meta, title=title), self._sessions.redact)

    def _titled(self, text: str) -> str:
        """Redacted before it is cut: what a limit leaves of a secret is not known as one any
        more.
        """
        return shorten_title(str(self._sessions.redact(text)))
