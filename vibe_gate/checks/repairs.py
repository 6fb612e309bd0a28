"""What a check would write in place of what it objects to, as differences from the reviewed files.
Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

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
    new = () if text is None else (HunkLine("+", f"{text}\n".encode()),)
    return _repaired(file, (Hunk.of(number, 1, number, len(new), (HunkLine("-", content), *new)),))


def of_file(file: FileDiff, before: bytes, after: bytes) -> FileDiff | None:
    """The file with other content; None if it is the same, or has too many lines."""
    old, new = (re.findall(rb"[^\n]*\n|[^\n]+", content) for content in (before, after))
    if max(len(old), len(new)) > MAX_LINES or before == after:
        return None
    hunks: list[Hunk] = []
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, old, new
    ).get_opcodes():
        if kind != "equal":
            hunks.append(_hunk(old, new, start, end, new_start, new_end))
    return _repaired(file, hunks)


def _hunk(
    old: list[bytes], new: list[bytes], start: int, end: int, new_start: int, new_end: int
) -> Hunk:
    """The lines that differ, with one line before and after them."""
    before, after = old[max(start - 1, 0) : start], old[end : end + 1]
    removed = old[start:end]
    added = new[new_start:new_end]
    return Hunk.of(
        old_start=start - len(before) + 1,
        old_lines=len(before) + len(removed) + len(after),
        new_start=new_start - len(before) + 1,
        new_lines=len(before) + len(added) + len(after),
        lines=(
            *(HunkLine(" ", line) for line in before),
            *(HunkLine("-", line) for line in removed),
            *(HunkLine("+", line) for line in added),
            *(HunkLine(" ", line) for line in after),
        ),
    )


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
