"""The binary sections of a patch: deflated and in base85, so that no redactor sees what is in them."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable

from vibe_gate.store.objects import LARGEST_CONTENT

REDACTED = b"[redacted:binary-patch]\n"
"""In place of a section's data: such a patch cannot be applied, which it could not be with a placeholder inside."""

_SECTION = re.compile(rb"^(?P<head>(?:literal|delta) [0-9]{1,12}\n)(?P<data>(?:[A-Za-z][!-~]{5,65}\n)+)", re.MULTILINE)


def redact_sections(patch: bytes, redact: Callable[[bytes], bytes]) -> bytes:
    """`patch` without the data of those binary sections in which `redact` finds something, or that are too large."""
    if b"\nGIT binary patch\n" not in patch:
        return patch
    return _SECTION.sub(lambda match: match["head"] + _kept(match["data"], redact), patch)


def _kept(data: bytes, redact: Callable[[bytes], bytes]) -> bytes:
    unpacked = _unpacked(data)
    if unpacked is None:
        return data  # no section of git's: text, which is redacted as such
    if len(unpacked) > LARGEST_CONTENT:
        return REDACTED
    return data if redact(unpacked) == unpacked else REDACTED


def _unpacked(data: bytes) -> bytes | None:
    """What git packed: each line is a length (A-Z 1-26, a-z 27-52) and base85; up to the limit and one byte."""
    try:
        packed = b"".join(base64.b85decode(line[1:])[: _length(line[0])] for line in data.splitlines())
        return zlib.decompressobj().decompress(packed, LARGEST_CONTENT + 1)
    except (ValueError, zlib.error):
        return None


def _length(letter: int) -> int:
    return letter - 64 if letter <= 90 else letter - 70
