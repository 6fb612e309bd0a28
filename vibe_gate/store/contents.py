"""Contents of files in a bundle, each stored once under the sha-256 of its bytes, whatever file has
it on whichever side, in the change or in a turn.

A name is `<sha-256>.txt` or `.bin`, with `.gz` behind it if the content is larger than 10 KiB: then
the file is a gzip without a time, so that equal contents give equal files.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol

from msgspec import Struct

from vibe_gate.domain.change import LARGEST_CONTENT, SIDES, Side
from vibe_gate.store.bundle_names import FILES, PACKED
from vibe_gate.store.folder import Folder

COMPRESS_ABOVE = 10_240
"""Bytes: larger contents are gzipped (the seed's 10 KiB, of bytes and not of characters)."""

GZIP_OVERHEAD = 1 << 14
"""Bytes by which a gzip of incompressible bytes may be larger than they are, for 10 MB of them."""

_PIECE = 1 << 16  # bytes of a content that are looked at together

NOT_A_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a gzip of `open_gzip` may raise, beside OSError."""

_LEVEL = 6
_GZIP = 31  # zlib's number for "gzip, largest window"


class TextRedactor(Protocol):
    """Replaces secrets by placeholders; whoever opens the store hands one in. Nothing is written
    before it.
    """

    def text(self, text: str, /) -> str:
        """Text without secrets."""

    def data(self, data: bytes, /) -> bytes:
        """Bytes without secrets."""

    def value(self, value: Any, /) -> Any:  # noqa: ANN401 - any JSON
        """JSON without secrets in any of its texts."""


class _GzipPacker(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class CountingRedactor(TextRedactor, Protocol):
    """A redactor that counts what it replaced: a bundle's summary says so."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many secrets were replaced, by kind."""

    def part(self) -> CountingRedactor:
        """A redactor of the same secrets with a count of its own; what it finds counts here too."""


def count_redactions(redact: CountingRedactor) -> dict[str, Any]:
    """`redacted` of a summary: how many placeholders were written, in all and by kind."""
    kinds = dict(sorted(redact.counts.items()))
    return {"count": sum(kinds.values()), "kinds": kinds}


def sha256_of(data: bytes) -> str:
    """sha-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def content_name(data: bytes) -> str:
    """The name of the file that holds this content."""
    suffix = ".txt" if _is_text(data) else ".bin"
    if len(data) > COMPRESS_ABOVE:
        suffix += ".gz"
    return sha256_of(data) + suffix


def pack_content(name: str, data: bytes) -> bytes:
    """The bytes of a content's file, by its name."""
    if not name.endswith(".gz"):
        return data
    return zlib.compress(data, _LEVEL, _GZIP)


def make_gzip_packer() -> _GzipPacker:
    """Packs a content piece by piece into the bytes that `pack_content` gives."""
    return zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)


def unpack_content(name: str, raw: bytes) -> bytes | None:
    """The content of a file, by its name; None: not a whole gzip, or more than LARGEST_CONTENT
    bytes.
    """
    if not name.endswith(".gz"):
        return raw if len(raw) <= LARGEST_CONTENT else None
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(raw, LARGEST_CONTENT + 1)
    except zlib.error:
        return None
    is_whole = unpacker.eof and not unpacker.unused_data
    if not is_whole or len(data) > LARGEST_CONTENT:
        return None
    return data


def read_content(folder: Folder, name: str) -> bytes | None:
    """The content of the file `name`; None if it cannot be unpacked. OSError."""
    with open(folder.reading(name), "rb") as file:
        if os.fstat(file.fileno()).st_size > LARGEST_CONTENT + GZIP_OVERHEAD:
            return None
        return unpack_content(name, file.read())


def open_content(folder: Folder, name: str, size: int | None = None) -> BinaryIO:
    """The content of the file `name` at its beginning, after its hash, and its size if that is
    known, were compared. A piece of it is in memory. OSError; ValueError for another content.
    """
    stream: BinaryIO = open(folder.reading(name), "rb")  # noqa: SIM115 - the caller closes it
    try:
        if name.endswith(".gz"):
            stream = open_gzip(stream)
        _require_content(stream, name, size)
        stream.seek(0)
    except NOT_A_GZIP as error:
        stream.close()
        raise ValueError("it cannot be unpacked") from error
    except BaseException:
        stream.close()
        raise
    return stream


def _require_content(stream: BinaryIO, name: str, expected_size: int | None) -> None:
    """ValueError: its bytes are not those that the name and the size say."""
    sha256 = hashlib.sha256()
    size = 0
    while piece := stream.read(_PIECE):
        sha256.update(piece)
        size += len(piece)
        if size > LARGEST_CONTENT:
            raise ValueError("its content does not match its name: it is larger than any content")
    if expected_size not in (None, size):
        raise ValueError("its content does not match the size that the bundle says")
    if sha256.hexdigest() != name[:64]:
        raise ValueError("its content does not match the hash in its name")


def open_gzip(file: BinaryIO) -> BinaryIO:
    """The unpacked bytes of a gzip, which closes `file` with itself. Reading raises NOT_A_GZIP."""
    return io.BufferedReader(_PackedContent(file))


class _PackedContent(io.RawIOBase):
    """The content of a gzip as `pack_content` writes it: one stream, with nothing behind it.

    GzipFile reads the empty streams that may follow, too: millions of them in an archive of a few
    kilobytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpacker = zlib.decompressobj(_GZIP)
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - whatever has a buffer
        """The next bytes; 0 at the end. EOFError: it was cut; zlib.error; BadGzipFile."""
        while not self._unpacker.eof:
            packed = self._unpacker.unconsumed_tail or self._file.read(_PIECE)
            piece = self._unpacker.decompress(packed, len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                self._position += len(piece)
                return len(piece)
            if not packed and not self._unpacker.eof:
                raise EOFError("the gzip was cut")
        if self._unpacker.unused_data or self._file.read(1):
            raise gzip.BadGzipFile("something stands behind the gzip")
        return 0

    def seekable(self) -> bool:
        """It is, by reading on, or again from the beginning."""
        return True

    def tell(self) -> int:
        """How many bytes were read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Read up to so many bytes from the beginning, if there are as many; where that is."""
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a gzip is read from its beginning")
        if offset < self._position:
            self._file.seek(0)
            self._unpacker = zlib.decompressobj(_GZIP)
            self._position = 0
        while self._position < offset:
            if not self.read(min(_PIECE, offset - self._position)):
                break
        return self._position

    def close(self) -> None:
        """Close the file, too."""
        super().close()
        self._file.close()


def find_content_fault(folder: Folder, name: str) -> str:
    """What is wrong with the content `name`, in a few words; "" if nothing is. OSError."""
    data = read_content(folder, name)
    if data is None:
        return "it cannot be unpacked"
    if sha256_of(data) != name[:64]:
        return "its bytes do not match the hash in its name"
    right_name = content_name(data)
    # What `tar` took out of an archive is there unpacked.
    if right_name not in (name, name + PACKED):
        return f"its name ends with {name[64:]}, not with {right_name[64:]}"
    return ""


def _is_text(data: bytes) -> bool:
    """UTF-8 without NUL."""
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class StoredFile(Struct, frozen=True):
    """A content of a bundle.

    Hash and size are those of the redacted bytes; of the bytes themselves if they were too large,
    for those are neither redacted nor written. What is too large only with its placeholders is not
    written either.
    """

    sha256: str
    """In hex."""
    size: int
    """Bytes."""
    name: str
    """Its file relative to the run's folder, "" if it was too large to keep."""


class Contents:
    """Keeps the contents of one run, those of its turns among them."""

    def __init__(self, run: Folder) -> None:
        self._run = run
        self._folders: dict[Side, Folder] = {}
        """Those that are there."""
        self._names: dict[str, str] = {}
        """Of what was kept, by content_name, its file relative to the run's folder."""

    def keep(self, side: Side, data: bytes, redact: TextRedactor) -> StoredFile:
        """Store one side of a file, unless a file has this content already on either side.
        OSError.
        """
        safe = redact.data(data) if len(data) <= LARGEST_CONTENT else data
        if len(safe) > LARGEST_CONTENT:
            return StoredFile(sha256_of(safe), len(safe), "")
        base = content_name(safe)
        if base not in self._names:
            written_side = self._write(side, base, pack_content(base, safe))
            self._names[base] = f"{FILES}/{written_side}/{base}"
        return StoredFile(base[:64], len(safe), self._names[base])

    def _write(self, side: Side, base: str, packed: bytes) -> Side:
        """Write a content under its own name at once: what a killed process leaves torn has another
        hash, and no seal. Returns the side where it is, which an earlier process may have chosen.
        OSError.
        """
        for written_side in SIDES:
            folder = self._find_folder(written_side)
            if folder is not None and folder.has(base):  # the run is resumed
                folder.place(base, packed)
                return written_side
        if side not in self._folders:
            self._folders[side] = self._run.below(f"{FILES}/{side}", create=True)
        self._folders[side].write(base, packed)
        return side

    def _find_folder(self, side: Side) -> Folder | None:
        if side not in self._folders:
            try:
                self._folders[side] = self._run.below(f"{FILES}/{side}")
            except FileNotFoundError:
                return None
        return self._folders[side]


# A patch's binary sections are deflated and in base85, so a redactor does not see what is in them.

REDACTED_SECTION = b"[redacted:binary-patch]\n"
"""In place of a section's data: such a patch cannot be applied, nor could it be with a placeholder
inside.
"""

_SECTION = re.compile(
    rb"^(?P<head>(?:literal|delta) [0-9]{1,12}\n)(?P<data>(?:[A-Za-z][!-~]{5,65}\n)+)", re.MULTILINE
)


def redact_patch(patch: bytes, redact: Callable[[bytes], bytes]) -> bytes:
    """`patch` without secrets, and without the binary sections that hold one or are too large to
    look at.
    """
    if b"\nGIT binary patch\n" in patch:
        patch = _SECTION.sub(
            lambda match: match["head"] + _redact_section(match["data"], redact), patch
        )
    return redact(patch)


def _redact_section(data: bytes, redact: Callable[[bytes], bytes]) -> bytes:
    unpacked = _unpack_section(data)
    if unpacked is None:
        return data  # not a section of git's: text, which is redacted as such
    if len(unpacked) > LARGEST_CONTENT:
        return REDACTED_SECTION
    if redact(unpacked) == unpacked:
        return data
    return REDACTED_SECTION


def _unpack_line(line: bytes) -> bytes:
    """ValueError: it is not base85."""
    return base64.b85decode(line[1:])[: _line_length(line[0])]


def _unpack_section(data: bytes) -> bytes | None:
    """What git packed: each line is a letter for its length, and base85; at most one byte above the
    limit. None if it is no such section.
    """
    try:
        packed = b"".join(map(_unpack_line, data.splitlines()))
        return zlib.decompressobj().decompress(packed, LARGEST_CONTENT + 1)
    except (ValueError, zlib.error):
        return None


def _line_length(letter: int) -> int:
    """The bytes that a line's first letter stands for: A to Z 1 to 26, a to z 27 to 52."""
    if letter <= ord("Z"):
        return letter - ord("A") + 1
    return letter - ord("a") + 27
