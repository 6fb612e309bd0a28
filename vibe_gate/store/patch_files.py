"""Patches in a bundle: plain up to COMPRESS_PATCH_ABOVE bytes, above that `NAME.gz`, a gzip without
a time, and above MAX_PACKED_TEXT plain again.

Whoever asks for `change.patch` gets its text, however it is stored. Digests are of the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from vibe_gate.store.bundle_names import PACKED, is_packed_patch
from vibe_gate.store.contents import NOT_A_GZIP, open_gzip, pack_content
from vibe_gate.store.folder import Folder
from vibe_gate.store.ndjson_log import split_lines

COMPRESS_PATCH_ABOVE = 1 << 20
"""Bytes: nearly every patch is smaller, and stands there as `git apply` takes it."""

MAX_PACKED_TEXT = 256 << 20
"""Bytes of the text of a gzip, which a gzip of a quarter of a megabyte can claim: whoever reads a
bundle unpacks so much of it in a second. A larger patch is as large on the disk as it says.
"""

MAX_PATCH_TEXT = 2 << 30
"""Bytes of a patch that stands plain: it is in memory as a whole when a section of it is shown."""

_PIECE = 1 << 20


def place_patch(folder: Folder, name: str, text: bytes) -> None:
    """Store a patch, in place of an earlier one in either form. OSError."""
    packed_name = name + PACKED
    if is_patch_packed(len(text)):
        folder.place(packed_name, pack_content(packed_name, text))
        folder.remove(name)
        return
    folder.place(name, text)
    folder.remove(packed_name)


def is_patch_packed(size: int) -> bool:
    """Whether a patch of so many bytes stands as a gzip."""
    return COMPRESS_PATCH_ABOVE < size <= MAX_PACKED_TEXT


def find_patch_file(folder: Folder, name: str) -> str:
    """The file in which the text of the patch `name` stands; `name` if there is none."""
    packed_name = name + PACKED
    if not folder.has(name) and folder.has(packed_name):
        return packed_name
    return name


def open_patch(folder: Folder, name: str) -> BinaryIO:
    """The text of the patch `name` at its beginning. OSError; reading may raise NOT_A_GZIP."""
    file_name = find_patch_file(folder, name)
    file = open(folder.reading(file_name), "rb")  # noqa: SIM115 - the caller closes it
    return file if file_name == name else open_gzip(file)


def read_patch_lines(
    folder: Folder, name: str, inspect: Callable[[bytes], object] = len
) -> Iterator[bytes]:
    """The whole lines of the patch `name`, streamed; `inspect` as of `read_lines`. OSError;
    ValueError: it cannot be unpacked, or is too large.
    """
    is_packed = find_patch_file(folder, name) != name
    limit = MAX_PACKED_TEXT if is_packed else MAX_PATCH_TEXT
    size = 0

    def count(line: bytes) -> None:
        nonlocal size
        size += len(line)
        if size > limit:
            raise ValueError(f"its text is larger than {limit:,} bytes")
        inspect(line)

    try:
        with open_patch(folder, name) as file:
            yield from split_lines(file, count)
    except NOT_A_GZIP as error:
        raise ValueError("it cannot be unpacked") from error


def digest_sealed_file(folder: Folder, name: str, base: str) -> str:
    """sha-256 in hex of what a seal vouches for: the file's bytes, of a gzipped patch its text; ""
    if that cannot be unpacked, or is larger than MAX_PACKED_TEXT. OSError.

    `name`: relative to the run's folder; `base`: in `folder`.
    """
    file: BinaryIO = open(folder.reading(base), "rb")  # noqa: SIM115 - closed below
    if is_packed_patch(name):
        file = open_gzip(file)
    sha256 = hashlib.sha256()
    size = 0
    with file:
        try:
            while piece := file.read(_PIECE):
                sha256.update(piece)
                size += len(piece)
                if is_packed_patch(name) and size > MAX_PACKED_TEXT:
                    return ""
        except NOT_A_GZIP:
            return ""
    return sha256.hexdigest()
