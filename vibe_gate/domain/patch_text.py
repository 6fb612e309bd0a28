"""Git's patches as text: split into files and hunks, made visible for people, and the words around hunks."""

from __future__ import annotations

import base64
import re
import zlib
from typing import Protocol, cast

from vibe_gate.domain.change import Hunk, Line, Origin

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


_SECTION = re.compile(rb"^diff --git ", re.MULTILINE)
_RENAMED_TO = re.compile(rb"^rename to (.*)$", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*$", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {escape[1:]: bytes([byte]) for byte, escape in _ESCAPES.items()}


def split_patch(patch: bytes) -> dict[bytes, bytes]:
    """The sections of a patch that git wrote, by path after the change (before it, of a deleted file).

    A type change has two sections, a deletion and an addition; they stay together.
    """
    starts = [match.start() for match in _SECTION.finditer(patch)]
    sections: dict[bytes, bytes] = {}
    for start, end in zip(starts, [*starts[1:], len(patch)], strict=False):
        section = patch[start:end]
        path = _path_of(section)
        sections[path] = sections.get(path, b"") + section
    return sections


def _path_of(section: bytes) -> bytes:
    header = section.partition(b"\n@@ ")[0]
    if renamed := _RENAMED_TO.search(header):
        return unquoted(renamed[1])
    names = header.partition(b"\n")[0].removeprefix(b"diff --git ")
    return unquoted(names[len(names) // 2 + 1 :])[2:]  # both names are the same but for "a/" and "b/"


def unquoted(name: bytes) -> bytes:
    """A path that git wrote, in quotes or not, as the bytes that it is."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1]) or bytes([int(match[1], 8)]), name[1:-1])


def hunks(section: bytes) -> tuple[Hunk, ...]:
    """The hunks of one section of a patch."""
    return tuple(_hunk(match, section) for match in _HUNK.finditer(section))


def _hunk(header: re.Match[bytes], section: bytes) -> Hunk:
    old_start, old, new_start, new = (1 if group is None else int(group) for group in header.groups())
    lines: list[Line] = []
    left_old, left_new, at = old, new, header.end() + 1
    while left_old or left_new or section[at : at + 1] == b"\\":
        end = section.find(b"\n", at) + 1 or len(section)
        origin, content = section[at : at + 1], section[at + 1 : end]
        at = end
        if origin == b"\\":  # "\\ No newline at end of file"
            lines[-1] = Line(lines[-1].origin, lines[-1].content[:-1])
            continue
        left_old -= origin != b"+"
        left_new -= origin != b"-"
        lines.append(Line(cast("Origin", origin.decode("ascii")), content))
    return Hunk(old_start, old, new_start, new, tuple(lines))


def visible(text: bytes) -> str:
    """A patch as text that is safe on a terminal: what cannot be seen is escaped."""
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_visible_char, line)) for line in lines)


def _visible_char(char: str) -> str:
    if char.isprintable() or char == "\t":
        return char
    if "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")
