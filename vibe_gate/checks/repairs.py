"""What a check would write in place of what it objects to, as differences from the reviewed files. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from vibe_gate.domain.change import EXECUTABLE_MODE, REGULAR_MODE, FileDiff, Hunk, HunkLine

MAX_LINES = 5_000
"""Lines of a file that is compared with its repaired form: the time grows with the square of them."""


def of_line(file: FileDiff, number: int, content: bytes, text: str | None) -> FileDiff | None:
    """The file with `text` in line `number`, or without that line (None).

    None for a line that is not plain UTF-8 with a newline: a suggestion could not give it back as it is.
    """
    if not content.endswith(b"\n") or content.endswith(b"\r\n") or not _is_text(content):
        return None
    new = () if text is None else (HunkLine("+", f"{text}\n".encode()),)
    return _repaired(file, (Hunk(number, 1, number, len(new), (HunkLine("-", content), *new)),))


def of_file(file: FileDiff, before: bytes, after: bytes) -> FileDiff | None:
    """The file with other content; None if it is the same, or has too many lines."""
    old, new = (re.findall(rb"[^\n]*\n|[^\n]+", content) for content in (before, after))
    if max(len(old), len(new)) > MAX_LINES or before == after:
        return None
    groups = difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(1)
    return _repaired(file, tuple(_hunk(group, old, new) for group in groups))


def _hunk(group: list[tuple[str, int, int, int, int]], old: list[bytes], new: list[bytes]) -> Hunk:
    lines: list[HunkLine] = []
    for kind, start, end, new_start, new_end in group:
        if kind == "equal":
            lines += [HunkLine(" ", line) for line in old[start:end]]
        else:
            lines += [HunkLine("-", line) for line in old[start:end]]
            lines += [HunkLine("+", line) for line in new[new_start:new_end]]
    (_, start, _, new_start, _), (_, _, end, _, new_end) = group[0], group[-1]
    return Hunk(start + 1, end - start, new_start + 1, new_end - new_start, tuple(lines))


def _repaired(file: FileDiff, hunks: Iterable[Hunk]) -> FileDiff | None:
    """From the reviewed file to the repaired one; None for a link, a submodule, or a file that is gone."""
    if file.after is None or file.after.mode not in (REGULAR_MODE, EXECUTABLE_MODE):
        return None
    return file._replace(before=file.after, old_path=None, change_type="modified", hunks=tuple(hunks))


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
