"""The folder of sessions: what is in it, found, begun and deleted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from vibe_gate.domain.escape import counted, show_text
from vibe_gate.errors import IntegrityError, UsageError
from vibe_gate.sessions.session_meta import MAX_META_BYTES, META, NAME, SessionMeta, parse_meta
from vibe_gate.sessions.session_writer import (
    MAX_BYTES,
    SessionFiles,
    SessionWriter,
    lock_session,
    redact_meta,
    session_errors,
)
from vibe_gate.sessions.transcript_entries import Redact

_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")


class Index(Protocol):
    """What lists say of folders, kept between processes: by folder, its ctime in ns, and the text
    that was read.
    """

    def folders(self) -> Mapping[str, tuple[int, str]]: ...  # noqa: D102
    def update(  # noqa: D102
        self, keys: Mapping[str, tuple[int, str]], deleted_keys: Iterable[str]
    ) -> None: ...


class BegunSessions(Protocol):
    """Which sessions began in this clone, kept outside of their folders."""

    def note_session(self, session: str) -> None: ...  # noqa: D102
    def has_session(self, session: str) -> bool: ...  # noqa: D102


class _UsedSession(NamedTuple):
    """A session, and when it was used last, in seconds since 1970."""

    meta: SessionMeta
    used_at: float

    def order(self) -> tuple[float, datetime, str]:
        """The one that was used last comes first."""
        return -self.used_at, self.meta.created_at, self.meta.id


def _parse_row(name: str, row: tuple[int, str]) -> _UsedSession:
    """ValueError."""
    ctime, text = row
    meta = parse_meta(text.encode(), name)
    # It may claim to be of 2099.
    used_at = min(meta.updated_at.timestamp(), ctime / 1e9)
    return _UsedSession(meta, used_at)


class SessionFolder:
    """The sessions below one folder. Safe for several processes at once."""

    def __init__(
        self,
        folder: SessionFiles,
        redact: Redact,
        clock: Callable[[], datetime],
        index: Index | None = None,
        begun: BegunSessions | None = None,
    ) -> None:
        """`begun`: None of a folder outside of a repository, where no agent works."""
        self.folder = folder
        self.redact = redact
        self.clock = clock
        self.damaged: list[str] = []
        """Folders whose meta.json could not be read, by the last `all`."""
        self._index = index
        self._begun = begun
        self._names: dict[tuple[str, str], str] = {}

    def all(self) -> list[SessionMeta]:
        """Every session, that which was used last first. Opens no messages. StorageError."""
        old_rows = dict(self._index.folders()) if self._index else {}
        new_rows: dict[str, tuple[int, str]] = {}
        sessions: list[_UsedSession] = []
        self.damaged = []
        with session_errors("folder"):
            for name in filter(NAME.fullmatch, self.folder.folders()):
                old_row = old_rows.pop(name, (0, ""))
                try:
                    row = self._read_row(name, old_row)
                    sessions.append(_parse_row(name, row))
                except FileNotFoundError:  # it just begins, or is just deleted
                    continue
                except (OSError, ValueError):
                    self.damaged.append(name)
                    continue
                if row != old_row:
                    new_rows[name] = row
        missing_names = old_rows
        if self._index and (new_rows or missing_names):
            self._index.update(new_rows, missing_names)
        sessions.sort(key=_UsedSession.order)
        return [session.meta for session in sessions]

    def _read_row(self, name: str, old_row: tuple[int, str]) -> tuple[int, str]:
        """When the session's meta.json changed last, in ns, and its text; `old_row` if it did not
        change since that was read. OSError, ValueError.
        """
        folder = self.folder.folder(name)
        ctime = folder.status(META).st_ctime_ns
        old_ctime, _ = old_row
        if ctime == old_ctime:
            return old_row
        return ctime, folder.read(META, MAX_META_BYTES).decode()

    def newest(self) -> SessionMeta:
        """The session of this clone that was used last. UsageError if there is none.
        StorageError.
        """
        for meta in self.all():
            if not meta.project and self.is_begun(meta):
                return meta
        raise UsageError(
            "No session began in this clone. Begin one with `vibe-gate run --agent ID --prompt TEXT`."
        )

    def is_begun(self, meta: SessionMeta) -> bool:
        """Whether the session began in this clone, or was taken over by a person."""
        return self._begun is None or self._begun.has_session(_key(meta))

    def require_begun(self, meta: SessionMeta) -> None:
        """IntegrityError: the session was brought here, so an agent would go on with the words of
        somebody else.
        """
        if not self.is_begun(meta):
            raise IntegrityError(
                f"{meta.id} did not begin in this clone, so no agent goes on with it. Read it (`vibe-gate sessions "
                f"show {meta.id}`); if it is yours, take it over: `vibe-gate sessions migrate {meta.id}`."
            )

    def take_over(self, meta: SessionMeta) -> None:
        """Note that a person wants a session of another clone here."""
        if self._begun is not None:
            self._begun.note_session(_key(meta))

    def find(self, text: str) -> SessionMeta:
        """The session with this id, or the one whose id begins so. UsageError. StorageError."""
        matches = self.matching(text)
        if len(matches) > 1:
            names = ", ".join(meta.id for meta in matches[:3])
            raise UsageError(
                f"'{text}' is ambiguous: {counted(len(matches), 'session')} match ({names})."
            )
        if not matches:
            raise UsageError(f"No session '{show_text(text[:80])}'; see `vibe-gate sessions list`.")
        return matches[0]

    def matching(self, text: str) -> list[SessionMeta]:
        """The sessions with this id, or those whose id begins so. StorageError."""
        if not _ID.fullmatch(text):
            return []
        sessions = self.all()
        exact_matches = [meta for meta in sessions if text in (meta.id, meta.session_id)]
        if exact_matches:
            return exact_matches
        matches = []
        for meta in sessions:
            if meta.id.startswith((text, f"vibe_{text}")) or meta.session_id.startswith(text):
                matches.append(meta)
        return matches

    def read_file(self, meta: SessionMeta, name: str) -> bytes:
        """A file that is kept beside the messages, b"" if there is none."""
        with suppress(OSError, ValueError):
            return self.folder.folder(meta.id).read(name, MAX_BYTES)
        return b""

    def delete(self, name: str) -> None:
        """Delete a session whole. StorageError if a process writes it."""
        with session_errors(name):
            folder = self.folder.folder(name)
            lock = lock_session(name, folder)
            try:
                folder.remove(META)  # nobody finds it any more, even if this ends half-way
                self.folder.remove_folder(name)
            finally:
                os.close(lock)
        self._names = {key: folder for key, folder in self._names.items() if folder != name}

    def folder_of(self, session_id: str, project: str = "") -> str:
        """The folder of a session, "" if there is none. StorageError."""
        key = (session_id, project)
        if key not in self._names:
            self._names |= {(meta.session_id, meta.project): meta.id for meta in self.all()}
        return self._names.get(key, "")

    def begin(self, meta: SessionMeta) -> SessionWriter:
        """Make the folder of a session that begins. StorageError."""
        while True:
            with session_errors(meta.id):
                try:
                    folder = self.folder.make(meta.id)
                except FileExistsError:  # of another session whose id begins alike
                    meta = replace(meta, created_at=meta.created_at + timedelta(seconds=1))
                    continue
                writer = SessionWriter(meta.id, folder, redact_meta(meta, self.redact))
                self._names[meta.session_id, meta.project] = meta.id
                self.take_over(meta)
                return writer


def _key(meta: SessionMeta) -> str:
    return f"{meta.project}/{meta.session_id}"
