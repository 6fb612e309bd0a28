"""Where a bundle that is read lies, and what its seal vouches for. Every byte of a bundle is somebody else's.

Nothing is followed out of the folder that the user named, documents and lines have a
largest size, and what a sealed run vouches for is compared while it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from vibe_gate.domain import paths
from vibe_gate.errors import IntegrityError, StorageError
from vibe_gate.store import names
from vibe_gate.store.folder import Folder
from vibe_gate.store.strict import require_few

MAX_DOCUMENT_BYTES = 64 << 20
"""Of a summary: about a hundred times the largest that a review of 10,000 files leaves."""

MAX_LINE_BYTES = 128 << 20
"""Of a log: the CLI sends at most 16 MiB in one message, and JSON may write a byte as six."""

_TURN = re.compile(r"turn-[0-9]{3,9}")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """A bundle's folder: `root` as the user named it, `inside` it "" or `nodes/<node id>/<turn>`.

    `digests` has the sha-256 of the bundle's own files by name, where a sealed run
    vouches for them; None where nothing does.
    """

    root: Path
    inside: str
    digests: Mapping[str, str] | None

    @property
    def directory(self) -> Path:
        """For people and messages; nothing is opened through it."""
        return self.root / self.inside if self.inside else self.root

    def folder(self) -> Folder:
        """The bundle's folder, open. StorageError."""
        folder = open_folder(self.root)
        try:
            for name in filter(None, self.inside.split("/")):
                folder = folder.folder(name)
        except OSError as error:
            raise unreadable(self.directory, error) from error
        return folder

    def path(self, name: str) -> Path:
        """For people and messages."""
        return self.directory / name

    def has(self, name: str) -> bool:
        """Whether anything has that name."""
        return self.folder().has(name)

    def document(self, name: str, parse: Callable[[bytes], T]) -> T:
        """A whole small file as `parse` understands it. StorageError, IntegrityError."""
        data = self._read(name)
        if self.digests is not None and self.digests.get(name) != hashlib.sha256(data).hexdigest():
            raise self._altered(name)
        return self.parsed(name, data, parse)

    def parsed(self, name: str, data: bytes, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of bytes of the file `name`. IntegrityError where they are none of ours."""
        return parsed(lambda: self.path(name), data, parse)

    def lines(self, name: str) -> Iterator[tuple[int, bytes]]:
        """The whole lines of a log with their offsets, streamed; compared with the seal after the last one.

        A torn last line is left out; a log that was not begun has no lines.
        StorageError, IntegrityError.
        """
        seen = hashlib.sha256()
        offset = 0
        try:
            descriptor = self.open(name)
            if descriptor is None:
                return
            with open(descriptor, "rb") as file:
                while line := file.readline(MAX_LINE_BYTES):
                    seen.update(line)
                    if not line.endswith(b"\n"):
                        break
                    yield offset, line
                    offset += len(line)
        except OSError as error:
            raise unreadable(self.path(name), error) from error
        if len(line) == MAX_LINE_BYTES:
            raise corrupt(self.path(name), f"a line is longer than {MAX_LINE_BYTES:,} bytes")
        self.compare(name, seen.hexdigest())

    def line_at(self, name: str, offset: int, size: int) -> bytes:
        """One line again. StorageError."""
        try:
            with open(self.folder().reading(name), "rb") as file:
                return os.pread(file.fileno(), size, offset)
        except OSError as error:
            raise unreadable(self.path(name), error) from error

    def open(self, name: str) -> int | None:
        """A descriptor of a log; None: it was not begun. IntegrityError where it was vouched for. OSError."""
        try:
            return self.folder().reading(name)
        except FileNotFoundError as error:
            if self.digests is not None and name in self.digests:
                raise corrupt(self.path(name), "it is missing") from error
            return None

    def compare(self, name: str, digest: str) -> None:
        """IntegrityError where a sealed run vouches for other bytes."""
        if self.digests is not None and self.digests.get(name) != digest:
            raise self._altered(name)

    def _altered(self, name: str) -> IntegrityError:
        known = self.digests is not None and name in self.digests
        return corrupt(self.path(name), "it was changed after sealing" if known else "it was added after sealing")

    def _read(self, name: str) -> bytes:
        try:
            with open(self.folder().reading(name), "rb") as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise unreadable(self.path(name), error) from error
        if len(data) > MAX_DOCUMENT_BYTES:
            raise corrupt(self.path(name), f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
        return data


def locate(directory: Path) -> Place:
    """The bundle in `directory`: a run's, or a turn's. A turn is read through its run where it lies in one.

    StorageError: there is no bundle.
    """
    absolute = Path(os.path.abspath(directory))  # noqa: PTH100 - resolve would follow links
    if _TURN.fullmatch(absolute.name) and len(absolute.parents) > 3 and absolute.parents[1].name == "nodes":
        run = absolute.parents[2]
        if os.path.lexists(run / names.RUN):
            return turns_of(_run(run))(absolute.parent.name, absolute.name)
    return _run(absolute)


def turns_of(run: Place) -> Callable[[str, str], Place]:
    """Gives the places of a run's turns by node id and turn; what the run vouches for is read once for all of them.

    The names come from a log, so they are looked at before they become folders: IntegrityError.
    """
    vouched = _vouched(run) if run.digests is not None else None

    def place(node_id: str, turn: str) -> Place:
        try:
            names.as_folder_name(node_id, "a node id")
        except ValueError as error:
            raise corrupt(run.path(names.EVENTS), "it names a node that cannot be a folder") from error
        if _TURN.fullmatch(turn) is None:
            raise corrupt(run.path(names.EVENTS), "it names a turn that cannot be a folder")
        inside = f"nodes/{node_id}/{turn}"
        return Place(run.root, inside, None if vouched is None else _below(vouched, inside + "/"))

    return place


def _run(root: Path) -> Place:
    bare = Place(root, "", None)
    folder = bare.folder()
    if not any(folder.has(name) for name in (names.RUN, names.SUMMARY, names.EVENTS)):
        raise StorageError(f"{_shown(root)} is no bundle: neither a run's folder nor a turn's.")
    if not folder.has(names.SUMMARY) or not folder.has(names.RUN):
        return bare
    return Place(root, "", _below(_vouched(bare), ""))


def _vouched(place: Place) -> dict[str, str]:
    bare = Place(place.root, "", None)  # nobody vouches for the summary itself
    digests = bare.document(names.SUMMARY, json_object).get("digests")
    if not isinstance(digests, dict):
        raise corrupt(bare.path(names.SUMMARY), "it vouches for no files")
    return {str(name): str(digest) for name, digest in digests.items()}


def _below(digests: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Of the files that lie directly in the folder `prefix`."""
    own = ((name[len(prefix) :], digest) for name, digest in digests.items() if name.startswith(prefix))
    return {name: digest for name, digest in own if "/" not in name}


def parsed(path: Callable[[], Path], data: bytes, parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of the file's bytes; IntegrityError where it is no document of ours.

    `path` is asked only then: a log has a million lines, and a path costs more than to parse one.
    """
    try:
        return parse(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise corrupt(path(), f"{where}: {first['msg']}") from error
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise corrupt(path(), "it is no document of ours") from error


def json_object(line: bytes) -> dict[str, Any]:
    """One line of a log. ValueError."""
    require_few(line)
    value = json.loads(line.decode())
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def open_folder(root: Path) -> Folder:
    """The folder itself, which may be no link. StorageError."""
    try:
        return Folder.at(root.parent).folder(root.name)
    except OSError as error:
        raise StorageError(f"{_shown(root)} cannot be opened: {error.strerror}.") from error
    except ValueError as error:  # "/", or a NUL
        raise StorageError(f"{_shown(root)} cannot be opened: no bundle can have that name.") from error


def corrupt(path: Path, why: str) -> IntegrityError:
    """The bundle is not what was written, `why` in a few words."""
    return IntegrityError(f"{_shown(path)} is corrupt: {why}. Do not rely on this bundle.")


def unreadable(path: Path, error: OSError) -> StorageError:
    """The bundle cannot be read."""
    return StorageError(f"{_shown(path)} cannot be read: {error.strerror or error}.")


def _shown(path: Path) -> str:
    return paths.quote(str(path))
