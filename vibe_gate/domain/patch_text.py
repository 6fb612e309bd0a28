"""The words of git's patches but for their hunks: headers, labels, quoted paths, binary contents."""

from __future__ import annotations

import base64
import re
import zlib
from typing import Protocol

_QUOTED = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')  # git's core.quotePath, which is on by default
_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
_BASE85_BYTES = 52  # bytes in each line of a binary patch; its first character gives their number
_LENGTHS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Named(Protocol):
    """One side of a file: its path as git knows it, and its mode."""

    @property
    def path(self) -> bytes: ...  # noqa: D102
    @property
    def mode(self) -> int: ...  # noqa: D102


def header(before: Named | None, after: Named | None, percent: int, ids: tuple[bytes, bytes] | None) -> bytes:
    """The lines of a section before its labels.

    `percent` is the likeness of a rename, 0 to leave it out; `ids` the whole ids of
    the blobs, None to leave the index line out.
    """
    kept = after or before
    assert kept is not None, "a change has a side"
    lines = [b"diff --git %s %s" % (quoted(b"a/", (before or kept).path), quoted(b"b/", kept.path))]
    if before is None:
        lines.append(b"new file mode %06o" % kept.mode)
    elif after is None:
        lines.append(b"deleted file mode %06o" % kept.mode)
    elif before.mode != after.mode:
        lines += [b"old mode %06o" % before.mode, b"new mode %06o" % after.mode]
    if before and after and before.path != after.path:
        lines += [b"similarity index %d%%" % percent] if percent else []
        lines += [b"rename from " + quoted(b"", before.path), b"rename to " + quoted(b"", after.path)]
    if ids and ids[0] != ids[1]:
        mode = b" %06o" % after.mode if before and after and before.mode == after.mode else b""
        lines.append(b"index %s..%s%s" % (*ids, mode))
    return b"\n".join(lines) + b"\n"


def labels(before: Named | None, after: Named | None) -> bytes:
    """The two lines before the hunks."""
    return _label(b"---", b"a/", before) + _label(b"+++", b"b/", after)


def _label(sign: bytes, prefix: bytes, side: Named | None) -> bytes:
    name = quoted(prefix, side.path) if side else b"/dev/null"
    return b"%s %s%s\n" % (sign, name, b"\t" if b" " in name else b"")  # a tab ends a name that has spaces


def quoted(prefix: bytes, path: bytes) -> bytes:
    """A path as git writes it, in quotes where it has to be."""
    if not _QUOTED.search(path):
        return prefix + path
    return b'"' + prefix + _QUOTED.sub(lambda found: _ESCAPES.get(found[0][0], b"\\%03o" % found[0][0]), path) + b'"'


def binary(old: bytes, new: bytes) -> bytes:
    """Both contents whole, as `git apply` takes them back and forth."""
    return b"GIT binary patch\n" + _literal(new) + _literal(old)


def _literal(content: bytes) -> bytes:
    packed = zlib.compress(content)
    lines = [b"literal %d\n" % len(content)]
    for start in range(0, len(packed), _BASE85_BYTES):
        piece = packed[start : start + _BASE85_BYTES]
        lines.append(_LENGTHS[len(piece) - 1 : len(piece)] + base64.b85encode(piece, pad=True) + b"\n")
    return b"".join(lines) + b"\n"
