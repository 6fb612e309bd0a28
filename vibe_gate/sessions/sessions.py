"""The folder of sessions: listed, found, opened, copied, taken over, deleted."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from vibe_gate.domain.escape import counted, show_text
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.sessions.entries import Redact
from vibe_gate.sessions.meta import MAX_META_BYTES, META, NAME, SessionMeta, parse_meta, titled
from vibe_gate.sessions.mirror import SessionMirror
from vibe_gate.sessions.older import read_older
from vibe_gate.sessions.writer import MAX_BYTES, SessionFiles, SessionWriter, lock, redacted, storing

_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")

Copier = Callable[[SessionMirror, str, str], Awaitable[tuple[str, dict[str, str]]]]
"""Copies a session up to a message ("": all); gives the copy's id, and by message the uuid of its copy."""


class Index(Protocol):
    """What lists say of folders, kept between processes: by folder, its ctime in ns, and the text that was read."""

    def folders(self) -> Mapping[str, tuple[int, str]]: ...  # noqa: D102
    def update(self, keys: Mapping[str, tuple[int, str]], gone: Iterable[str]) -> None: ...  # noqa: D102


class Sessions:
    """The sessions below one folder. Safe for several processes at once."""

    def __init__(
        self, folder: SessionFiles, redact: Redact, clock: Callable[[], datetime], index: Index | None = None
    ) -> None:
        self.folder = folder
        self.redact = redact
        self.clock = clock
        self.damaged: list[str] = []
        """Folders whose meta.json could not be read, by the last `all`."""
        self._index = index
        self._names: dict[tuple[str, str], str] = {}

    def open(self, workspace: Path, project_key: str = "", **about: Any) -> SessionMirror:  # noqa: ANN401
        """The SDK's store of an agent that works in `workspace`; `about`: fields of SessionMeta of a new session.

        `project_key` is the SDK's for the workspace; "": whatever key it asks for means this repository.
        """
        return SessionMirror(self, workspace, project_key, about)

    def all(self) -> list[SessionMeta]:
        """Every session, that which was used last first. Opens no messages. StorageError."""
        known = dict(self._index.folders()) if self._index else {}
        found: list[tuple[float, SessionMeta]] = []
        news: dict[str, tuple[int, str]] = {}
        self.damaged = []
        with storing("folder"):
            for name in filter(NAME.fullmatch, self.folder.folders()):
                row = known.pop(name, (0, ""))
                try:
                    folder = self.folder.folder(name)
                    ctime = folder.status(META).st_ctime_ns
                    text = row[1] if row[0] == ctime else folder.read(META, MAX_META_BYTES).decode()
                    meta = parse_meta(text.encode(), name)
                    found.append((min(meta.updated_at.timestamp(), ctime / 1e9), meta))  # it may claim to be of 2099
                    if row[0] != ctime:
                        news[name] = ctime, text
                except FileNotFoundError:  # it just begins, or is just deleted
                    continue
                except (OSError, ValueError):
                    self.damaged.append(name)
        if self._index and (news or known):
            self._index.update(news, known)
        return [meta for _, meta in sorted(found, key=lambda one: (-one[0], one[1].created_at, one[1].id))]

    def newest(self) -> SessionMeta:
        """The session of this repository that was used last. UsageError if there is none. StorageError."""
        for meta in self.all():
            if not meta.project:
                return meta
        raise UsageError("There is no session yet. Begin one with `vibe-gate run --agent ID --prompt TEXT`.")

    def find(self, text: str) -> SessionMeta:
        """The session with this id, or the one whose id begins so. UsageError. StorageError."""
        found = self.all() if _ID.fullmatch(text) else []
        whole = [meta for meta in found if text in (meta.id, meta.session_id)]
        begin = (text, f"vibe_{text}")
        matches = whole or [meta for meta in found if meta.id.startswith(begin) or meta.session_id.startswith(text)]
        if len(matches) > 1:
            names = ", ".join(meta.id for meta in matches[:3])
            raise UsageError(f"'{text}' is ambiguous: {counted(len(matches), 'session')} match ({names}).")
        if not matches:
            raise UsageError(f"No session '{show_text(text[:80])}'; see `vibe-gate sessions list`.")
        return matches[0]

    async def copy(self, source: SessionMeta, turns: int, copier: Copier, *, newest: bool) -> SessionMeta:
        """A copy of the first `turns` turns of a session, with ids of its own; `newest`: as if it was used just now.

        `copier` is the SDK's. UsageError: there is no such turn. StorageError.
        """
        if not min(1, len(source.turns)) <= turns <= len(source.turns):
            raise UsageError(f"{source.id} has {counted(len(source.turns), 'turn')}; there is no turn {turns}.")
        kept = source.turns[:turns]
        about = {name: getattr(source, name) for name in ("agent", "model", "run", "node", "cwd")}
        with closing(self.open(self.place(source.id), parent_session_id=source.session_id, **about)) as mirror:
            session_id, uuids = await copier(mirror, source.session_id, kept[-1].last if kept else "")
            copied = tuple(turn.model_copy(update={"last": uuids.get(turn.last, "")}) for turn in kept)
            for turn in copied:
                if patch := self.kept(source, f"{turn.after}.patch"):
                    mirror.keep(session_id, f"{turn.after}.patch", patch)
            used = self.clock() if newest else source.updated_at
            return mirror.change(session_id, turns=copied, updated_at=used)

    async def migrate(self, file: Path) -> tuple[SessionMeta, int, bool]:
        """Take over an older file; the session, its messages' number, and whether it is new. Twice is once.

        UsageError: that is not an older session. StorageError.
        """
        try:
            about, entries = read_older(file, self.clock())
        except (OSError, ValueError) as error:
            raise UsageError(f"{show_text(str(file))}: {getattr(error, 'strerror', None) or error}.") from error
        own, cwd, wanted = about["session_id"], about["cwd"], {entry["uuid"] for entry in entries}
        about["title"] = titled(str(self.redact(about["title"])))
        key = {"project_key": "", "session_id": own}
        with closing(self.open(Path(cwd) if cwd else self.place(own), **about)) as mirror:
            known = {entry.get("uuid") for entry in await mirror.load(key) or ()}
            await mirror.append(key, entries)
            missing = wanted - {entry.get("uuid") for entry in await mirror.load(key) or ()}
            if missing or len(wanted) != len(entries):
                raise StorageError(f"{len(missing)} of {len(entries)} messages of {file} were not kept.")
            return mirror.hold(own), len(entries), not wanted <= known

    def kept(self, meta: SessionMeta, name: str) -> bytes:
        """A file that is kept beside the messages, b"" if there is none."""
        with suppress(OSError, ValueError):
            return self.folder.folder(meta.id).read(name, MAX_BYTES)
        return b""

    @staticmethod
    def place(name: str) -> Path:
        """A path that no agent worked in, for reading a session outside of any workspace."""
        return Path("/vibe-gate-session") / name

    def delete(self, name: str) -> None:
        """Delete a session whole. StorageError if a process writes it."""
        with storing(name):
            folder = self.folder.folder(name)
            locked = lock(name, folder)
            try:
                folder.remove(META)  # nobody finds it any more, even if this ends half-way
                self.folder.remove_folder(name)
            finally:
                os.close(locked)
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
            with storing(meta.id):
                try:
                    folder = self.folder.make(meta.id)
                except FileExistsError:  # of another session whose id begins alike
                    meta = meta.model_copy(update={"created_at": meta.created_at + timedelta(seconds=1)})
                    continue
                held = SessionWriter(meta.id, folder, redacted(meta, self.redact))
                self._names[meta.session_id, meta.project] = meta.id
                return held
