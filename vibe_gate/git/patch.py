"""A change as a patch: for `git apply`, for people, and as the id that survives a rebase."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vibe_gate.domain import patch_text, paths
from vibe_gate.domain.change import FileChange
from vibe_gate.domain.expressions import expression
from vibe_gate.git import compiled, diff
from vibe_gate.git.compiled import Objects
from vibe_gate.git.diff import Delta, Side

_NULL_ID = "0" * 40
_SPACE = b" \t\n\r"  # what git takes for white space
_NOT_CONTENT = expression(rb"^(?:@@ |\\ ).*\n", re.MULTILINE)
_HEADING_SPACE = expression(rb"^(@@ .*?)[ \t\r]+$", re.MULTILINE)  # libgit2 leaves it where it cuts a heading
_AFTER_NUL = expression(rb"\x00[^\n]*")


@dataclass(frozen=True, slots=True)
class _Part:
    """One `diff --git` section. A type change has two of them, a deletion and an addition, as in git."""

    before: Side | None
    after: Side | None
    percent: int
    old: bytes
    new: bytes

    @property
    def binary(self) -> bool:
        return compiled.is_binary(self.old) or compiled.is_binary(self.new)

    @property
    def differs(self) -> bool:
        return self.old != self.new


def unified(objects: Objects, before: str, after: str) -> bytes:
    """The change between two trees as one patch; `git apply --index` on the first gives exactly the second.

    It reads as `git diff --binary --full-index -M -l0` does with default settings, but that binary contents
    stand in it whole (git may write a delta). Attributes and configuration have no say: a file marked `-diff`
    is text here unless it holds a NUL. A submodule is noted by git's `Subproject commit` lines.
    """
    out: list[bytes] = []
    for part in _parts(objects, diff.deltas(objects, before, after)):
        out.append(_header(part))
        if part.differs:
            out.append(_binary(part) if part.binary else _labels(part) + _body(part))
    return b"".join(out)


def file_text(objects: Objects, file: FileChange) -> str:
    """The unified text of one file, for people: what is not visible is escaped, so it is safe on a terminal.

    Binary files are shown as text too, unless they are larger than `diff.MAX_HUNK_BYTES`.
    """
    before, after = file.before, file.after
    old_path = paths.encode(file.path if file.old_path is None else file.old_path)
    delta = Delta(
        Side(old_path, before.blob, before.mode) if before else None,
        Side(paths.encode(file.path), after.blob, after.mode) if after else None,
    )
    out: list[str] = []
    for part in _parts(objects, [delta]):
        out.append(_visible(_header(part)))
        if part.binary and max(len(part.old), len(part.new)) > diff.MAX_HUNK_BYTES:
            out.append(f"Binary contents of {len(part.old):,} and {len(part.new):,} bytes differ\n")
        elif part.differs:
            out.append(_visible(_labels(part) + _body(part)))
    return "".join(out)


def patch_id(objects: Objects, before: str, after: str) -> str:
    """The id that `git diff -l0 --full-index BEFORE AFTER | git patch-id --stable` prints; "" when nothing differs.

    `-l0` changes nothing below git's limit of 1,000 x 1,000 renames with edits, `--full-index` nothing without
    binary files. For those git hashes the object ids as they are abbreviated in this repository today, so the
    whole ids are the only form that lasts. Renames are on, as in git's default configuration: the id of a
    change that renames is another than with `--no-renames`.
    libgit2's own patch-id differs from git's where a file is empty, binary, or renamed with edits.
    """
    total = 0
    digest = hashlib.sha1(usedforsecurity=False)
    open_section = after_binary = found = False
    for part in _parts(objects, diff.deltas(objects, before, after)):
        if open_section:
            total += _little_endian(digest)
            digest = hashlib.sha1(usedforsecurity=False)
        header = _header(part, index=False)
        # git reads over the first line that follows a binary file
        digest.update((header.partition(b"\n")[2] if after_binary else header).translate(None, _SPACE))
        found, open_section, after_binary = True, False, False
        if part.differs and part.binary:
            digest.update(_id(part.before) + _id(part.after))
            after_binary = open_section = True
        elif part.differs:
            digest.update(_hashed(_labels(part) + _body(part)))
            open_section = True
    total += _little_endian(digest)
    if after_binary:  # its section ended already; git adds the empty one that follows
        total += _little_endian(hashlib.sha1(usedforsecurity=False))
    return (total % (1 << 160)).to_bytes(20, "little").hex() if found else ""


def _little_endian(digest: hashlib._Hash) -> int:
    return int.from_bytes(digest.digest(), "little")


def _hashed(body: bytes) -> bytes:
    """What git hashes of a section's lines: no positions, no markers, no white space, nothing after a NUL."""
    lines = _NOT_CONTENT.sub(b"", body)
    if b"\0" in lines:
        lines = _AFTER_NUL.sub(b"", lines)
    return lines.translate(None, _SPACE)


def _parts(objects: Objects, deltas: list[Delta]) -> Iterator[_Part]:
    read = diff.reader(objects)
    for delta in deltas:
        halves = [delta]
        if delta.change_type == "type_changed":
            halves = [replace(delta, after=None), replace(delta, before=None)]
        for half in halves:
            yield _Part(
                half.before,
                half.after,
                half.percent,
                read(half.before) if half.before else b"",
                read(half.after) if half.after else b"",
            )


def _header(part: _Part, index: bool = True) -> bytes:
    ids = (_id(part.before), _id(part.after)) if index else None
    return patch_text.header(part.before, part.after, part.percent, ids)


def _id(side: Side | None) -> bytes:
    return (side.id if side else _NULL_ID).encode("ascii")


def _labels(part: _Part) -> bytes:
    return patch_text.labels(part.before, part.after)


def _body(part: _Part) -> bytes:
    """The hunks as git prints them, each with the line that it takes for the enclosing function."""
    text: bytes = compiled.compare(part.old, part.new, diff.CONTEXT_LINES).data
    return _HEADING_SPACE.sub(rb"\1", text[text.index(b"\n@@ ") + 1 :])


def _binary(part: _Part) -> bytes:
    return patch_text.binary(part.old, part.new)


def _visible(text: bytes) -> str:
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_visible_char, line)) for line in lines)


def _visible_char(char: str) -> str:
    if char.isprintable() or char == "\t":
        return char
    if "\udc80" <= char <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")
