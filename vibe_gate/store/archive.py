"""The `.tar.zst` of an export, as bytes: one zstd frame around a tar of regular files, written and read as streams.

Reading trusts nothing. The tar reader knows regular files and the long names of pax,
and refuses all else that a tar can hold, where the standard library's would follow.
What is unpacked is counted as it comes, so that a bomb ends after a few megabytes.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from vibe_gate.errors import IntegrityError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 12
WINDOW_LOG = 27
"""2**27 bytes: how far back equal bytes are found, and the memory that unpacking needs (128 MiB)."""

MAX_BYTES = 8 << 30
"""Unpacked, of a whole archive."""

MAX_RATIO = 1000
"""Unpacked to packed bytes, above FREE_BYTES; histories of similar files reach 100, bombs 30,000."""

FREE_BYTES = 64 << 20
MAX_MEMBERS = 500_000
MAX_NAME = 512

_BLOCK = 512
_CHUNK = 1 << 17
_MAX_PAX = 4096
_KINDS = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"5": "a folder", b"6": "a pipe"}


class Packer:
    """Writes members in the order given; the same members give the same bytes. A context manager."""

    def __init__(self, file: BinaryIO) -> None:
        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: LEVEL,
            zstd.CompressionParameter.window_log: WINDOW_LOG,
            zstd.CompressionParameter.enable_long_distance_matching: 1,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        self._file = file
        self._compressor = zstd.ZstdCompressor(options=options)

    def add(self, name: str, size: int, chunks: Iterator[bytes]) -> None:
        """One file of exactly `size` bytes. OSError; ValueError where it has another size."""
        info = tarfile.TarInfo(name)
        info.size = size
        info.mode = 0o600
        self._write(info.tobuf(tarfile.PAX_FORMAT, "utf-8"))
        written = 0
        for chunk in chunks:
            self._write(chunk)
            written += len(chunk)
        if written != size:
            raise ValueError(f"{name} changed while it was read")
        self._write(bytes(-size % _BLOCK))

    def close(self) -> None:
        """The archive is whole afterwards."""
        self._write(bytes(2 * _BLOCK))
        self._file.write(self._compressor.flush())

    def _write(self, data: bytes) -> None:
        self._file.write(self._compressor.compress(data))


class Member:
    """One regular file of an archive; `chunks` can be read once, before the next member."""

    def __init__(self, name: str, size: int, stream: _Unpacked) -> None:
        self.name = name
        self.size = size
        self._stream = stream
        self._left = size

    def chunks(self) -> Iterator[bytes]:
        """The bytes in pieces."""
        while self._left:
            chunk = self._stream.read(min(self._left, _CHUNK))
            self._left -= len(chunk)
            yield chunk

    def read(self, limit: int) -> bytes:
        """The bytes; IntegrityError above `limit`."""
        if self.size > limit:
            raise refused(f"{self.name} is larger than {limit:,} bytes")
        return b"".join(self.chunks())

    def skip(self) -> None:
        """Pass over what was not read, and the padding."""
        for _ in self.chunks():
            pass
        self._stream.read(-self.size % _BLOCK)


def members(file: BinaryIO) -> Iterator[Member]:
    """The files of an archive, in its order. IntegrityError for whatever is not a whole and ordinary one."""
    stream = _Unpacked(file)
    long_name: str | None = None
    distinct = Distinct()
    while any(header := stream.read(_BLOCK)):
        kind, name, size = _parsed(header)
        if kind == b"x":
            if long_name is not None or size > _MAX_PAX:
                raise refused("it has a header that no export writes")
            long_name = _path_of(stream.read(size))
            stream.read(-size % _BLOCK)
            continue
        name, long_name = long_name or name, None
        _look_at(kind, name)
        if not distinct.add(name):
            raise refused(twice(name))
        if len(distinct) > MAX_MEMBERS:
            raise refused(f"it has more than {MAX_MEMBERS:,} files")
        member = Member(name, size, stream)
        yield member
        member.skip()
    stream.end()


class Distinct:
    """Names of files, none twice: not even on a disk that takes upper and lower case for the same."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._files)

    def add(self, name: str) -> bool:
        """False where the name, or a folder on its way, is there in another way already."""
        folded = name.casefold()
        twice = folded in self._files or folded in self._folders
        while not twice and (name := name.rpartition("/")[0]):
            twice = name.casefold() in self._files or self._folders.setdefault(name.casefold(), name) != name
        self._files.add(folded)
        return not twice


def twice(name: str) -> str:
    """What `Distinct` found, in a few words."""
    return f"the name {shown(name)} is in it twice, if only in other case"


def shown(name: str) -> str:
    """A name for a message."""
    return name if name.isascii() and name.isprintable() else ascii(name)


def refused(why: str) -> IntegrityError:
    """An archive is not taken, `why` in a few words."""
    return IntegrityError(f"The archive is refused: {why}. Nothing was imported.")


class _Unpacked:
    """The bytes inside the zstd frame, counted."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor = zstd.ZstdDecompressor(
            options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        )  # fmt: skip
        self._packed = 0
        self._unpacked = 0
        self._buffer = b""

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        pieces = [self._buffer]
        have = len(self._buffer)
        while have < size:
            piece = self._more()
            if not piece:
                raise refused("it ends too soon")
            pieces.append(piece)
            have += len(piece)
        data = b"".join(pieces)
        self._buffer = data[size:]
        return data[:size]

    def end(self) -> None:
        """Nothing may follow but zeros, and the frame's own end with its checksum."""
        rest = self._buffer or self._more()
        while rest:
            if any(rest):
                raise refused("it goes on after its end")
            rest = self._more()
        if self._decompressor.unused_data or self._file.read(1):
            raise refused("it goes on after its end")

    def _more(self) -> bytes:
        """The next bytes; b"" at the end of the frame."""
        piece = b""
        while not piece and not self._decompressor.eof:
            packed = self._file.read(_CHUNK) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not packed:
                raise refused("it ends too soon")
            self._packed += len(packed)
            try:
                piece = self._decompressor.decompress(packed, _CHUNK)
            except zstd.ZstdError as error:
                raise refused("it is no whole zstd archive") from error
        self._unpacked += len(piece)
        if self._unpacked > MAX_BYTES:
            raise refused(f"it unpacks to more than {MAX_BYTES:,} bytes")
        if self._unpacked > FREE_BYTES and self._unpacked > MAX_RATIO * self._packed:
            raise refused(f"it unpacks to more than {MAX_RATIO} times its size")
        return piece


def _parsed(header: bytes) -> tuple[bytes, str, int]:
    """Kind, name and size of a tar header."""
    checksum = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    if _number(header[148:156]) != checksum or header[257:263] != b"ustar\0":
        raise refused("it is no tar of the kind that an export writes")
    name, prefix = _text(header[:100]), _text(header[345:500])
    return header[156:157], f"{prefix}/{name}" if prefix else name, _number(header[124:136])


def _number(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        raise refused("it has a header that no export writes")
    return int(digits, 8)


def _text(field: bytes) -> str:
    try:
        return field.partition(b"\0")[0].decode("utf-8")
    except UnicodeDecodeError:
        raise refused("it has a name that is not UTF-8") from None


def _path_of(records: bytes) -> str:
    """The long name that a pax header holds, which may hold nothing else."""
    length, _, record = records.partition(b" ")
    name, equals, value = record.partition(b"=")
    is_one = length == b"%d" % len(records) and name == b"path" and equals and value.endswith(b"\n")
    if not is_one or b"\0" in value:  # pax ends a name by its length: a NUL would be part of it
        raise refused("it has a header that no export writes")
    return _text(value[:-1])


def _look_at(kind: bytes, name: str) -> None:
    if kind != b"0":
        raise refused(f"{shown(name)} is {_KINDS.get(kind, 'no file')}, and only files are taken")
    if len(name) > MAX_NAME:
        raise refused("it has a name that is too long")
    if name.startswith("/"):
        raise refused(f"{shown(name)} is an absolute name")
    if ".." in name.split("/"):
        raise refused(f"{shown(name)} leads out of the archive")
