"""Patches of a bundle: the headers of a stored one read as a stream, and one file's written from its two contents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vibe_gate.domain import patch_text, paths
from vibe_gate.domain.change import NO_MODE, REGULAR_MODE, ChangeType, Hunk
from vibe_gate.store.difference import hunks, is_binary

_SECTION = b"diff --git "
_INDEX_WITH_MODE = re.compile(rb"index [0-9a-f]+\.\.[0-9a-f]+ [0-7]{6}")
_SIX_DIGITS = re.compile(rb"[0-7]{6}")


@dataclass(slots=True)
class Section:
    """What a stored patch says about one file, but for its lines. Paths as the program holds them."""

    old_path: str
    path: str
    old_mode: int = NO_MODE
    mode: int = NO_MODE
    added: int = 0
    deleted: int = 0
    chunks: int = 0
    binary: bool = False

    @property
    def change_type(self) -> ChangeType:
        """A changed type shows as two sections of one path, as in git; `merged` makes one of them."""
        if self.old_mode == NO_MODE:
            return "added"
        if self.mode == NO_MODE:
            return "deleted"
        if self.old_mode >> 12 != self.mode >> 12:
            return "type_changed"
        return "modified" if self.path == self.old_path else "renamed"


def sections(patch: Iterator[bytes]) -> Iterator[Section]:
    """Of a patch as this program writes it, by its lines; holds one header at a time. Other text gives no sections."""
    open_section: Section | None = None
    in_header = False
    for line in patch:
        if line.startswith(_SECTION):
            if open_section is not None:
                yield open_section
            open_section, in_header = _begun(line), True
        elif open_section is not None:
            in_header = _read(open_section, line, in_header)
    if open_section is not None:
        yield open_section


def merged(found: Iterator[Section]) -> Iterator[Section]:
    """Sections with the two halves of a changed type made one."""
    held: Section | None = None
    for section in found:
        if held and _is_second_half(held, section):
            held.mode, held.added, held.chunks = section.mode, section.added, held.chunks + section.chunks
            held.binary = held.binary or section.binary
            continue
        if held is not None:
            yield held
        held = section
    if held is not None:
        yield held


def _is_second_half(held: Section, section: Section) -> bool:
    """Of two files of one type that are shown by one path neither is half of the other."""
    gone, came = held.change_type == "deleted", section.change_type == "added"
    return gone and came and held.path == section.path and held.old_mode >> 12 != section.mode >> 12


def _begun(line: bytes) -> Section | None:
    names = line[len(_SECTION) :].rstrip(b"\n")
    if names.startswith(b'"') or names.endswith(b'"'):
        halves = re.fullmatch(rb'("(?:[^"\\]|\\.)*"|a/.*?) ("(?:[^"\\]|\\.)*"|b/.*)', names, re.DOTALL)
        if halves is None:
            return None
        old, new = (paths.unquote(paths.decode(half)) for half in halves.groups())
        return Section(old[2:], new[2:], REGULAR_MODE, REGULAR_MODE)
    if not names.startswith(b"a/") or b" b/" not in names:
        return None
    # Unquoted, the two names are equal unless a rename says otherwise further down, so they part in the middle.
    name = paths.decode(names[2 : 2 + max(0, len(names) - 5) // 2])
    return Section(name, name, REGULAR_MODE, REGULAR_MODE)


def _read(section: Section, line: bytes, in_header: bool) -> bool:
    """Take one line in; whether the header goes on."""
    if line.startswith(b"@@ "):
        section.chunks += 1
        return False
    if not in_header:
        section.added += line.startswith(b"+")
        section.deleted += line.startswith(b"-")
        return False
    section.binary = section.binary or line.startswith((b"GIT binary patch", b"Binary files "))
    _read_header(section, line.rstrip(b"\n"))
    return True  # the lines of a binary patch, too: they are no lines of the file


def _read_header(section: Section, line: bytes) -> None:
    if line.startswith(b"rename from "):
        section.old_path = paths.unquote(paths.decode(line.removeprefix(b"rename from ")))
    elif line.startswith(b"rename to "):
        section.path = paths.unquote(paths.decode(line.removeprefix(b"rename to ")))
    elif line.startswith(b"new file mode "):
        section.old_mode, section.mode = NO_MODE, _mode(line)
    elif line.startswith(b"deleted file mode "):
        section.old_mode, section.mode = _mode(line), NO_MODE
    elif line.startswith(b"old mode "):
        section.old_mode = _mode(line)
    elif line.startswith(b"new mode "):
        section.mode = _mode(line)
    elif _INDEX_WITH_MODE.fullmatch(line):
        section.old_mode = section.mode = _mode(line)


def _mode(line: bytes) -> int:
    digits = line.rpartition(b" ")[2]
    return int(digits, 8) if _SIX_DIGITS.fullmatch(digits) else REGULAR_MODE


@dataclass(frozen=True, slots=True)
class Version:
    """One side of a file to write a patch of: its path as git knows it, its mode and its bytes."""

    path: bytes
    mode: int
    content: bytes


def unified(before: Version | None, after: Version | None) -> bytes:
    """One file's patch; `git apply` on the one side gives exactly the other, binary contents included.

    A changed type is a deletion and an addition, as in git.
    """
    if before and after and before.mode >> 12 != after.mode >> 12:
        return unified(before, None) + unified(None, after)
    old, new = before.content if before else b"", after.content if after else b""
    out = [patch_text.header(before, after, 100 if old == new else 0, (_blob_id(before), _blob_id(after)))]
    if old != new and (is_binary(old) or is_binary(new)):
        out.append(patch_text.binary(old, new))
    elif old != new:
        out.append(patch_text.labels(before, after))
        out += [_hunk(hunk) for hunk in hunks(old, new)]
    return b"".join(out)


def _blob_id(side: Version | None) -> bytes:
    if side is None:
        return b"0" * 40
    head = b"blob %d\0" % len(side.content)
    return hashlib.sha1(head + side.content, usedforsecurity=False).hexdigest().encode()


def _hunk(hunk: Hunk) -> bytes:
    out = [b"@@ -%s +%s @@\n" % (_range(hunk.old_start, hunk.old_lines), _range(hunk.new_start, hunk.new_lines))]
    for line in hunk.lines:
        out += [line.origin.encode(), line.content]
        if not line.content.endswith(b"\n"):
            out.append(b"\n\\ No newline at end of file\n")
    return b"".join(out)


def _range(start: int, lines: int) -> bytes:
    return b"%d" % start if lines == 1 else b"%d,%d" % (start, lines)


def plain(found: Sequence[Hunk]) -> list[dict[str, Any]]:
    """Hunks as data that JSON takes; bytes that are not UTF-8 become U+FFFD. `newline`: whether the line has an end."""
    return [
        {
            "old_start": hunk.old_start,
            "old_lines": hunk.old_lines,
            "new_start": hunk.new_start,
            "new_lines": hunk.new_lines,
            "lines": [
                {
                    "origin": line.origin,
                    "text": line.content.removesuffix(b"\n").decode("utf-8", "replace"),
                    "newline": line.content.endswith(b"\n"),
                }
                for line in hunk.lines
            ],
        }
        for hunk in found
    ]
