"""Sessions of our own agents: opened for the SDK, copied, taken over from the older form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vibe_gate.domain.escape import counted, show_text
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.sessions.older_sessions import read_older
from vibe_gate.sessions.session_folder import SessionFolder
from vibe_gate.sessions.session_meta import SessionMeta, shorten_title
from vibe_gate.sessions.session_mirror import SessionMirror

Copier = Callable[[SessionMirror, str, str], Awaitable[tuple[str, dict[str, str]]]]
"""Copies a session up to a message ("": all); gives the copy's id, and by message the uuid of its
copy.
"""


class Sessions(SessionFolder):
    """The sessions below one folder, as the SDK and people go on with them. Safe for several
    processes at once.
    """

    def open(self, workspace: Path, project_key: str = "", **about: Any) -> SessionMirror:  # noqa: ANN401
        """The SDK's store of an agent that works in `workspace`; `about`: fields of SessionMeta of
        a new session.

        `project_key` is the SDK's for the workspace; "": whatever key it asks for means this
        repository.
        """
        return SessionMirror(self, workspace, project_key, about)

    async def copy(
        self, source: SessionMeta, turns: int, copier: Copier, *, newest: bool
    ) -> SessionMeta:
        """A copy of the first `turns` turns of a session, with ids of its own; `newest`: as if it
        was used just now.

        `copier` is the SDK's. UsageError: there is no such turn. StorageError.
        """
        if not min(1, len(source.turns)) <= turns <= len(source.turns):
            raise UsageError(
                f"{source.id} has {counted(len(source.turns), 'turn')}; there is no turn {turns}."
            )
        kept = source.turns[:turns]
        about = {
            name: getattr(source, name)
            for name in ("agent", "model", "run", "node", "cwd", "private")
        }
        with closing(
            self.open(self.place(source.id), parent_session_id=source.session_id, **about)
        ) as mirror:
            session_id, uuids = await copier(
                mirror, source.session_id, kept[-1].last if kept else ""
            )
            copied = tuple(replace(turn, last=uuids.get(turn.last, "")) for turn in kept)
            for turn in copied:
                if patch := self.kept(source, f"{turn.after}.patch"):
                    mirror.keep(session_id, f"{turn.after}.patch", patch)
            used = self.clock() if newest else source.updated_at
            return mirror.change(session_id, turns=copied, updated_at=used)

    async def migrate(self, file: Path) -> tuple[SessionMeta, int, bool]:
        """Take over an older file; the session, its messages' number, and whether it is new. Twice
        is once.

        UsageError: that is not an older session. StorageError.
        """
        try:
            about, entries = read_older(file, self.clock())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{show_text(str(file))}: {getattr(error, 'strerror', None) or error}."
            ) from error
        own, cwd, wanted = about["session_id"], about["cwd"], {entry["uuid"] for entry in entries}
        about["title"] = shorten_title(str(self.redact(about["title"])))
        key = {"project_key": "", "session_id": own}
        with closing(self.open(Path(cwd) if cwd else self.place(own), **about)) as mirror:
            known = {entry.get("uuid") for entry in await mirror.load(key) or ()}
            await mirror.append(key, entries)
            missing = wanted - {entry.get("uuid") for entry in await mirror.load(key) or ()}
            if missing or len(wanted) != len(entries):
                raise StorageError(
                    f"{len(missing)} of {len(entries)} messages of {file} were not kept."
                )
            return mirror.hold(own), len(entries), not wanted <= known

    @staticmethod
    def place(name: str) -> Path:
        """A path that no agent worked in, for reading a session outside of any workspace."""
        return Path("/vibe-gate-session") / name
