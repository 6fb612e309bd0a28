"""One session held by one process: its lock, its meta.json and its logs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from typing import Protocol
from urllib.parse import quote, unquote

from msgspec.structs import replace

from vibe_gate.domain.document import parse_object, plain
from vibe_gate.errors import StorageError
from vibe_gate.sessions.session_meta import MAX_META_BYTES, META, SessionMeta, parse_meta
from vibe_gate.sessions.transcript_entries import Entry, Redact, WorkspacePath

MESSAGES = "messages.jsonl"

LOCK = ".lock"
"""Locked by the process that writes the session, as long as it lives; holds its process id."""

MAX_BYTES = 1 << 30
"""Of one log: it is read as a whole."""


class SessionFiles(Protocol):
    """A directory held open: names are single components, symlinks are never followed."""

    def folder(self, name: str, create: bool = False) -> SessionFiles: ...  # noqa: D102
    def make(self, name: str) -> SessionFiles: ...  # noqa: D102
    def folders(self) -> list[str]: ...  # noqa: D102
    def files(self) -> list[str]: ...  # noqa: D102
    def has(self, name: str) -> bool: ...  # noqa: D102
    def status(self, name: str) -> os.stat_result: ...  # noqa: D102
    def read(self, name: str, limit: int = -1) -> bytes: ...  # noqa: D102
    def appending(self, name: str) -> int: ...  # noqa: D102
    def place(self, name: str, data: bytes) -> None: ...  # noqa: D102
    def remove(self, name: str) -> None: ...  # noqa: D102
    def remove_folder(self, name: str) -> None: ...  # noqa: D102


@contextlib.contextmanager
def session_errors(name: str) -> Iterator[None]:
    """StorageError for what the disk, or a damaged file, does."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"The session {name} cannot be used: {error.strerror or error}."
        ) from error
    except ValueError as error:
        raise StorageError(f"The session {name} is damaged: {error}.") from error


def log_name(subpath: str) -> str:
    """The file of the main transcript (""), or of a subagent's."""
    if subpath:
        return f"messages.{quote(subpath, safe='')}.jsonl"
    return MESSAGES


def list_subpaths(folder: SessionFiles) -> list[str]:
    """Whose transcripts there are besides the main one."""
    subagent_paths = []
    for name in folder.files():
        if name.startswith("messages.") and name != MESSAGES:
            quoted_path = name.removeprefix("messages.").removesuffix(".jsonl")
            subagent_paths.append(unquote(quoted_path))
    return subagent_paths


def read_entries(
    folder: SessionFiles, subpath: str, workspace: WorkspacePath
) -> list[Entry] | None:
    """The entries of a transcript, None if there is none. A torn last line is left out. OSError,
    ValueError.
    """
    entries: list[Entry] = []
    try:
        for line in _cut_torn_line(folder.read(log_name(subpath), MAX_BYTES)).splitlines():
            entries.append(workspace.decode(line))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{log_name(subpath)}, line {len(entries) + 1}: {error}") from error
    return entries


def _cut_torn_line(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise OSError(0, f"its messages are larger than {MAX_BYTES:,} bytes")
    return data[: data.rfind(b"\n") + 1]


class SessionWriter:
    """The right to write one session, until `close` or until the process dies."""

    def __init__(self, name: str, folder: SessionFiles, meta: SessionMeta | None = None) -> None:
        """`meta` of a session that begins. StorageError: another process writes it. OSError,
        ValueError.
        """
        self.folder = folder
        self._logs: dict[str, SessionLog] = {}
        self._lock = lock_session(name, folder)
        try:
            if meta is not None:
                self._place(meta)
            self.meta = meta or parse_meta(folder.read(META, MAX_META_BYTES), name)
        except BaseException:
            self.close()
            raise

    def append(
        self, subpath: str, entries: Sequence[Entry], workspace: WorkspacePath, redact: Redact
    ) -> None:
        """Append what is not there yet. OSError, ValueError: nothing was appended."""
        if subpath not in self._logs:
            self._logs[subpath] = SessionLog(self.folder, log_name(subpath))
        log = self._logs[subpath]
        lines: list[bytes] = []
        new_uuids: set[object] = set()
        for entry in entries:
            if entry.get("uuid") is not None and entry["uuid"] in log.uuids:
                continue
            lines.append(workspace.encode(entry, redact))
            if "uuid" in entry:
                new_uuids.add(entry["uuid"])
        log.append(b"".join(lines))
        log.uuids |= new_uuids

    def save(self, meta: SessionMeta, redact: Redact) -> None:
        """Write meta.json, whole or not at all. OSError."""
        if meta != self.meta:
            self._place(redact_meta(meta, redact))

    def close(self) -> None:
        """Nothing more is written."""
        descriptors = [log.descriptor for log in self._logs.values()]
        for descriptor in (*descriptors, self._lock):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._logs.clear()

    def _place(self, meta: SessionMeta) -> None:
        document = plain(meta)
        self.folder.place(META, json.dumps(document, indent=2).encode() + b"\n")
        self.meta = meta


def redact_meta(meta: SessionMeta, redact: Redact) -> SessionMeta:
    """What meta.json may say."""
    texts = {name: getattr(meta, name) for name in ("title", "cwd", "agent", "model")}
    return replace(meta, **redact(texts))


class SessionLog:
    """One log open for appending; a torn last line is cut first, or the next one would be lost with
    it.
    """

    def __init__(self, folder: SessionFiles, name: str) -> None:
        self.descriptor = folder.appending(name)
        data = _cut_torn_line(folder.read(name, MAX_BYTES))
        self._size = len(data)
        os.ftruncate(self.descriptor, self._size)
        self.uuids: set[object] = set()
        """Those of its entries; of a damaged line none."""
        for line in data.splitlines():
            with contextlib.suppress(ValueError):
                self.uuids.add(parse_object(line).get("uuid"))

    def append(self, data: bytes) -> None:
        """Append lines, whole or not at all. OSError."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError:
            os.ftruncate(self.descriptor, self._size)
            raise
        self._size += len(data)


def lock_session(name: str, folder: SessionFiles) -> int:
    """The locked file of a session; close it to unlock. StorageError if another process has it.
    OSError.
    """
    descriptor = folder.appending(LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink == 0:
            raise StorageError(f"The session {name} was just deleted.")
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).strip().decode("ascii", "replace")
        os.close(descriptor)
        process = f"process {holder}" if holder.isdecimal() else "another process"
        raise StorageError(
            f"The session {name} is in use by {process}; wait for it, or end it."
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
