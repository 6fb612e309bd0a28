"""Sessions of our own agents: opened for the SDK, copied, taken over from the older form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vibe_gate.domain.escape import counted, show_text
from vibe_gate.errors import StorageError, UsageError
from vibe_gate.sessions.older_sessions import read_older
from vibe_gate.sessions.session_folder import SessionFolder
from vibe_gate.sessions.session_meta import SessionMeta, SessionTurn, shorten_title
from vibe_gate.sessions.session_mirror import SessionMirror
from vibe_gate.sessions.transcript_entries import Entry

_COPIED_FIELDS = ("agent", "model", "run", "node", "cwd", "private")

Copier = Callable[[SessionMirror, str, str], Awaitable[tuple[str, dict[str, str]]]]
"""Copies a session up to a message ("": all); gives the copy's id, and by message the uuid of its
copy.
"""


class Sessions(SessionFolder):
    """The sessions below one folder, as the SDK and people go on with them. Safe for several
    processes at once.
    """

    def open(self, workspace: Path, project_key: str = "", **fields: Any) -> SessionMirror:  # noqa: ANN401
        """The SDK's store of an agent that works in `workspace`; `fields`: those of SessionMeta of
        a new session.

        `project_key` is the SDK's for the workspace; "": whatever key it asks for means this
        repository.
        """
        return SessionMirror(self, workspace, project_key, fields)

    async def copy(
        self, source: SessionMeta, turns: int, copier: Copier, *, newest: bool
    ) -> SessionMeta:
        """A copy of the first `turns` turns of a session, with ids of its own; `newest`: as if it
        was used just now.

        `copier` is the SDK's. UsageError: there is no such turn. StorageError.
        """
        turn_count = len(source.turns)
        if not min(1, turn_count) <= turns <= turn_count:
            raise UsageError(
                f"{source.id} has {counted(turn_count, 'turn')}; there is no turn {turns}."
            )
        source_turns = source.turns[:turns]
        last_message = source_turns[-1].last if source_turns else ""
        fields = {name: getattr(source, name) for name in _COPIED_FIELDS}
        fields["parent_session_id"] = source.session_id
        with closing(self.open(self.place(source.id), **fields)) as mirror:
            session_id, uuids = await copier(mirror, source.session_id, last_message)
            new_turns = []
            for turn in source_turns:
                new_turns.append(replace(turn, last=uuids.get(turn.last, "")))
                self._copy_patch(source, turn, mirror, session_id)
            used_at = self.clock() if newest else source.updated_at
            return mirror.change(session_id, turns=tuple(new_turns), updated_at=used_at)

    def _copy_patch(
        self, source: SessionMeta, turn: SessionTurn, mirror: SessionMirror, session_id: str
    ) -> None:
        """Copy what the turn changed, if it is still there."""
        name = f"{turn.after}.patch"
        patch = self.read_file(source, name)
        if patch:
            mirror.keep(session_id, name, patch)

    async def migrate(self, file: Path) -> tuple[SessionMeta, int, bool]:
        """Take over an older file; the session, its messages' number, and whether it is new. Twice
        is once.

        UsageError: that is not an older session. StorageError.
        """
        fields, entries = self._read_older(file)
        session_id = fields["session_id"]
        fields["title"] = shorten_title(str(self.redact(fields["title"])))
        workspace = Path(fields["cwd"]) if fields["cwd"] else self.place(session_id)
        file_uuids = {entry["uuid"] for entry in entries}
        with closing(self.open(workspace, **fields)) as mirror:
            key = {"project_key": "", "session_id": session_id}
            earlier_uuids = await _stored_uuids(mirror, key)
            await mirror.append(key, entries)
            missing_uuids = file_uuids - await _stored_uuids(mirror, key)
            if missing_uuids or len(file_uuids) != len(entries):
                raise StorageError(
                    f"{len(missing_uuids)} of {len(entries)} messages of {file} were not kept."
                )
            is_new = not file_uuids <= earlier_uuids
            return mirror.hold(session_id), len(entries), is_new

    def _read_older(self, file: Path) -> tuple[dict[str, Any], list[Entry]]:
        """As `read_older`. UsageError: that is not an older session."""
        try:
            return read_older(file, self.clock())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"{show_text(str(file))}: {reason}.") from error

    @staticmethod
    def place(name: str) -> Path:
        """A path that no agent worked in, for reading a session outside of any workspace."""
        return Path("/vibe-gate-session") / name


async def _stored_uuids(mirror: SessionMirror, key: Mapping[str, Any]) -> set[object]:
    """Those of the entries that the session has."""
    entries = await mirror.load(key) or ()
    return {entry.get("uuid") for entry in entries}
