"""Contents, each stored once under the sha-256 of its bytes, and linked into the bundles that show it.

An object that is already there is read and compared before it is shared: a
repository may have committed one, and a disk may have damaged one. What is wrong
is moved to `quarantine/`, never deleted, and written anew; unless git tracks it: then it
stays, and bundles have copies of their own.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import zlib
from collections.abc import Callable
from importlib import import_module

import deflate

from vibe_gate.store.folder import CANNOT_LINK, Folder, temporary_name
from vibe_gate.store.tracked import may_be_tracked

COMPRESS_ABOVE = 10_240
"""Bytes: larger contents are gzipped (the seed's 10 KiB, of bytes and not of characters)."""

LARGEST_CONTENT = 10_000_000
"""Bytes: of larger files a bundle has the hash and the size only (PRODUCT 4)."""

_LEVEL = 6  # libdeflate's: smaller than zlib's 6, in well under half the time (docs/decisions/0007)
_GZIP_OVERHEAD = 1024  # a gzip of incompressible bytes is larger than they are, by less than this per 10 MB
_FAST_LEVEL = 2  # ISA-L's: five times as fast as libdeflate's 6, four points less saved
_GZIP = 31  # zlib's number for "gzip, largest window"
_TRIES = 5


def digest_of(data: bytes) -> str:
    """sha-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def suffix_of(data: bytes) -> str:
    """`.txt` for UTF-8 without NUL, else `.bin`; `.gz` behind it where it is stored compressed."""
    return (".txt" if _is_text(data) else ".bin") + (".gz" if len(data) > COMPRESS_ABOVE else "")


def name_of(data: bytes) -> str:
    """The name of an object with this content."""
    return digest_of(data) + suffix_of(data)


def encode(name: str, data: bytes) -> bytes:
    """The bytes of an object's file, by its name; equal contents give equal files on one machine."""
    return bytes(deflate.gzip_compress(data, _LEVEL)) if name.endswith(".gz") else data


def encode_fast(name: str, data: bytes) -> bytes:
    """The same, sooner and larger."""
    if not name.endswith(".gz"):
        return data
    isal = import_module("isal.isal_zlib")  # loaded by runs that need it: a person's commit waits for every module
    return bytes(isal.compress(data, _FAST_LEVEL, _GZIP))


def decode(name: str, raw: bytes, limit: int) -> bytes | None:
    """The content of an object's file, by its name; None: not a whole gzip of at most `limit` bytes."""
    if not name.endswith(".gz"):
        return raw if len(raw) <= limit else None
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(raw, limit + 1)
    except zlib.error:
        return None
    return data if unpacker.eof and not unpacker.unused_data and len(data) <= limit else None


Encode = Callable[[str, bytes], bytes]
"""Makes the bytes of an object's file, as `encode` does: any gzip of the content will do."""


class Tracked(OSError):
    """A corrupt object stays where it is: it came with the repository, and a review changes no file of that."""


class Objects:
    """The contents under `.vibe-artifacts/objects`, by the first two digits of their hash."""

    def __init__(self, store: Folder, tracks: Callable[[str], bool] | None = None) -> None:
        """`tracks` says of a place in the store whether git tracks it; without it every doubt counts."""
        self._store = store
        self._tracks = tracks or (lambda place: may_be_tracked(os.fspath(store.path.parent)))
        self._shelves: Folder | None = None
        self._open: dict[str, Folder] = {}
        self._most_open = min(256, max(0, os.sysconf("SC_OPEN_MAX")) // 4)
        self._verified: set[str] = set()

    def put(self, data: bytes, into: Folder, name: str = "", encode: Encode = encode) -> str:
        """Store `data` (already redacted) and show it in `into`; the name it has in both. OSError.

        `name` is `name_of(data)`, where it is known. Safe for several threads.
        """
        name = name or name_of(data)
        for _ in range(_TRIES):
            try:
                shelf = self._keep_as(name, data, encode)
            except Tracked:
                into.place(name, encode(name, data))
                return name
            with contextlib.suppress(FileNotFoundError):  # a cleaner saw it while nobody showed it
                _show(shelf, name, into)
                return name
        raise OSError(errno.ENOENT, "a content is removed as soon as it is stored", str(into.path))

    def replace(self, data: bytes, into: Folder) -> bool:
        """Show `data` in `into` as a link to its object, whatever showed it until now; False: links are impossible."""
        try:
            shelf, name = self.keep(data)
        except Tracked:
            return False
        temporary = temporary_name()
        try:
            shelf.link(name, into, temporary)
            into.move(temporary, into, name)
        except OSError as error:
            if error.errno not in CANNOT_LINK:
                raise
            return False
        finally:
            into.remove(temporary)  # it is still there where both names were links to one file
        return True

    def adopt(self, folder: Folder, name: str) -> None:
        """Make the content `name` of a bundle an object, or a link to the object that there is. OSError, ValueError."""
        data = read_content(folder, name, LARGEST_CONTENT)
        if data is None or name != name_of(data):
            raise ValueError(f"{name} is no content")
        if name not in self._verified:
            shelf = self._shelf(name)
            try:
                if not self._holds(shelf, name, data):
                    folder.link(name, shelf, name)
                    self._verified.add(name)
                    return
            except FileExistsError:
                pass  # another process was faster
            except OSError as error:
                if error.errno not in CANNOT_LINK:
                    raise
        self.replace(data, folder)

    def keep(self, data: bytes) -> tuple[Folder, str]:
        """Store `data` (already redacted); the folder where it is, and its name there. OSError, Tracked."""
        name = name_of(data)
        return self._keep_as(name, data), name

    def _keep_as(self, name: str, data: bytes, encode: Encode = encode) -> Folder:
        shelf = self._shelf(name)
        if name not in self._verified or not shelf.has(name):
            self._keep(shelf, name, data, encode)
            self._verified.add(name)
        return shelf

    def _shelf(self, name: str) -> Folder:
        shelf = self._open.get(name[:2])
        if shelf is None:
            if self._shelves is None:
                self._shelves = self._store.folder("objects", create=True)
            shelf = self._shelves.folder(name[:2], create=True)
            if len(self._open) < self._most_open:
                self._open[name[:2]] = shelf
        return shelf

    def _keep(self, shelf: Folder, name: str, data: bytes, encode: Encode) -> None:
        for _ in range(_TRIES):
            if self._holds(shelf, name, data):
                return
            if self._add(shelf, name, encode(name, data)):
                return
        raise OSError(f"the object {name} keeps changing while it is stored")

    def _holds(self, shelf: Folder, name: str, data: bytes) -> bool:
        if not shelf.has(name):
            return False
        if content(shelf, name, len(data)) == data:
            return True
        place = f"objects/{name[:2]}/{name}"
        if self._tracks(place):
            raise Tracked(errno.EPERM, "it is corrupt, and git tracks it, so it is left as it is", place)
        quarantine = self._store.folder("quarantine", create=True)
        shelf.move(name, quarantine, f"{name}.{temporary_name().lstrip('.')}")
        return False

    def _add(self, shelf: Folder, name: str, raw: bytes) -> bool:
        """Write a new object; False: another process was faster, and its object needs a look."""
        temporary = temporary_name()
        try:
            shelf.write(temporary, raw)
            shelf.link(temporary, shelf, name)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in CANNOT_LINK or not shelf.has(temporary):
                raise
            shelf.move(temporary, shelf, name)
        finally:
            shelf.remove(temporary)
        return True


def content(shelf: Folder, name: str, limit: int) -> bytes | None:
    """The content that a file holds, by its name; None: it cannot be read, or is not of at most `limit` bytes."""
    try:
        return read_content(shelf, name, limit)
    except OSError:
        return None  # a link, a directory, a FIFO: whatever it is, it is no object


def read_content(shelf: Folder, name: str, limit: int) -> bytes | None:
    """The same; OSError where it is no regular file or cannot be read."""
    with open(shelf.reading(name), "rb") as file:
        if os.fstat(file.fileno()).st_size > limit + _GZIP_OVERHEAD:
            return None
        return decode(name, file.read(), limit)


def _show(shelf: Folder, name: str, into: Folder) -> None:
    try:
        shelf.link(name, into, name)
    except FileExistsError:
        pass  # the same content twice on one side of the change
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        into.place(name, shelf.read(name))


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
