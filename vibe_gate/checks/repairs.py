"""What a check would write in place of what it objects to, as differences from the reviewed files.
Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Literal

from msgspec.structs import replace

from vibe_gate.domain.change import EXECUTABLE_MODE, REGULAR_MODE, FileDiff, Hunk, HunkLine

MAX_LINES = 5_000
"""Lines of a file that is compared with its repaired form: the time grows with the square of
them.
"""


def of_line(file: FileDiff, number: int, content: bytes, text: str | None) -> FileDiff | None:
    """The file with `text` in line `number`, or without that line (None).

    None for a line that is not plain UTF-8 with a newline: a suggestion could not give it back as
    it is.
    """
    if not content.endswith(b"\n") or content.endswith(b"\r\n") or not _is_text(content):
        return None
    lines = [HunkLine("-", content)]
    if text is not None:
        lines.append(HunkLine("+", f"{text}\n".encode()))
    hunk = Hunk.of(
        old_start=number,
        old_lines=1,
        new_start=number,
        new_lines=len(lines) - 1,
        lines=tuple(lines),
    )
    return _repaired(file, [hunk])


def of_file(file: FileDiff, before: bytes, after: bytes) -> FileDiff | None:
    """The file with other content; None if it is the same, or has too many lines."""
    if before == after:
        return None
    old = _split_lines(before)
    new = _split_lines(after)
    if max(len(old), len(new)) > MAX_LINES:
        return None
    hunks: list[Hunk] = []
    matcher = difflib.SequenceMatcher(None, old, new)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        line_before = old[max(old_start - 1, 0) : old_start]
        line_after = old[old_end : old_end + 1]
        lines = [
            *_hunk_lines(" ", line_before),
            *_hunk_lines("-", old[old_start:old_end]),
            *_hunk_lines("+", new[new_start:new_end]),
            *_hunk_lines(" ", line_after),
        ]
        context = len(line_before) + len(line_after)
        hunk = Hunk.of(
            old_start=old_start - len(line_before) + 1,
            old_lines=old_end - old_start + context,
            new_start=new_start - len(line_before) + 1,
            new_lines=new_end - new_start + context,
            lines=tuple(lines),
        )
        hunks.append(hunk)
    return _repaired(file, hunks)


def _split_lines(content: bytes) -> list[bytes]:
    """The lines with their ends."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


def _hunk_lines(mark: Literal[" ", "-", "+"], lines: Iterable[bytes]) -> list[HunkLine]:
    return [HunkLine(mark, line) for line in lines]


def _repaired(file: FileDiff, hunks: Iterable[Hunk]) -> FileDiff | None:
    """From the reviewed file to the repaired one; None for a link, a submodule, or a file that is
    gone.
    """
    if file.after is None or file.after.mode not in (REGULAR_MODE, EXECUTABLE_MODE):
        return None
    return replace(
        file, before=file.after, old_path=None, change_type="modified", hunks=tuple(hunks)
    )


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
