"""Private keys in PEM, whatever stands before each of their lines: a `grep -n`, a blame, a log, a hunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

_PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----[ \t\r\\\"',$^M]{0,20}\n")
_PEM_HEADER = re.compile(r"(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID): ")
_PEM_AFTER = " \t\r\\\"',$"  # what may stand behind a line of a key; `cat -A` shows its end as $, or as ^M$
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OTHER_LEAD = re.compile("[A-Za-z@]")  # more than a number: the line where a hunk or a sentence begins
_LEAD_WORD = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")
_LEAD_GAP = re.compile(r"[\s:-]+")  # grep tells a match from its neighbours by : and -
_LEAD = 200
"""Characters that may stand before each line of a private key: a path, a blame, a time and a host."""
_PEM_WIDTH, _PEM_WIDEST = 32, 120
_PEM_LINES = 400  # 16,384 bits have 270


class Key(NamedTuple):
    """Where a key stands, and its base64 without what stands between its lines."""

    start: int
    end: int
    value: str


@dataclass(frozen=True, slots=True)
class _KeyLine:
    """A line that ends in base64: what stands before that, and where it is."""

    lead: str
    start: int
    end: int
    body: str


def _key_line(text: str, begin: int, end: int) -> _KeyLine | None:
    line = text[begin:end].rstrip(_PEM_AFTER).removesuffix("^M")
    bare = line.rstrip("=")
    lead = bare.rstrip(_BASE64)
    body = line[len(lead) :]
    if not 1 <= len(body) <= _PEM_WIDEST or len(line) - len(bare) > 2 or len(lead) > _LEAD or "-----BEGIN " in lead:
        return None
    return _KeyLine(lead, begin + len(lead), begin + len(line), body)


def _alike(one: str, other: str) -> bool:
    """Whether one program may have written both before lines of one key, for two lines of a file or of a log."""
    if len(one) == len(other) or _shape(one) == _shape(other):
        return True
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return common * 2 > max(len(one), len(other))


def _shape(lead: str) -> str:
    return _LEAD_GAP.sub(" ", _LEAD_WORD.sub("a", lead))


def led(text: str) -> Iterator[Key]:
    """Private keys with the same kind of lead before each line: by `grep -n`, `git blame`, a log, ..."""
    reached = 0
    for begin in _PEM_BEGIN.finditer(text):
        if begin.start() < reached:
            continue
        line_start = max(text.rfind("\n", max(0, begin.start() - _LEAD), begin.start()) + 1, begin.start() - _LEAD, 0)
        bodies, end = _lines_below(text, begin.end(), text[line_start : begin.start()])
        if bodies:
            reached = end
            value = "".join(line.body for line in bodies if len(line.body) >= 16)
            yield Key(begin.start(), end, value)


def _lines_below(text: str, position: int, begin_lead: str) -> tuple[list[_KeyLine], int]:
    """The lines of a key from `position` on, and where it ends; no lines where there is no key."""
    bodies: list[_KeyLine] = []
    headers = 0
    for _ in range(_PEM_LINES):
        limit = position + _LEAD + _PEM_WIDEST + 20
        line_end = text.find("\n", position, limit)
        line_end = line_end if line_end >= 0 else min(len(text), limit)
        if last := _PEM_END.search(text, position, line_end):
            return bodies, last.end()
        line = _key_line(text, position, line_end)
        stands_before = len(text[position:line_end].strip(_PEM_AFTER)) <= len(begin_lead) + 2
        if not bodies and headers < 6 and (stands_before or _PEM_HEADER.search(text, position, line_end)):
            headers += 1
        elif line is None or not _goes_on(bodies, line):
            break
        else:
            bodies.append(line)
        position = line_end + 1
        if position >= len(text):
            break
    # Without an end line the beginning has to look like a key.
    is_key = bodies and _alike(begin_lead, bodies[0].lead) and _is_mixed(bodies[0].body)
    return (bodies, bodies[-1].end) if is_key else ([], position)


def _goes_on(bodies: list[_KeyLine], line: _KeyLine) -> bool:
    """Whether a line can follow those of a key: they are of one width, but for the last one."""
    if not bodies:
        return len(line.body) >= _PEM_WIDTH
    width, last = len(bodies[0].body), bodies[-1]
    if len(line.body) == width:
        return len(last.body) == width
    if line.lead.endswith("=") and len(line.body) == 4:
        return _alike(last.lead, line.lead[:-1])  # PGP's checksum
    return len(line.body) < width == len(last.body) and _alike(last.lead, line.lead)


def _is_mixed(body: str) -> bool:
    return any(map(str.isdigit, body)) and any(map(str.isupper, body)) and any(map(str.islower, body))


def tails(text: str) -> Iterator[Key]:
    """The rest of a private key whose beginning is not shown, as in a hunk of a patch: upwards from its end line."""
    for end in _PEM_END.finditer(text):
        line_start = text.rfind("\n", max(0, end.start() - _LEAD - 1), end.start())
        bodies = _lines_above(text, line_start, text[line_start + 1 : end.start()]) if line_start >= 0 else []
        if bodies and len(bodies[-1].body) >= 16:
            value = "".join(line.body for line in reversed(bodies) if len(line.body) >= 16)
            yield Key(bodies[-1].start, end.end(), value)


def _lines_above(text: str, above: int, lead: str) -> list[_KeyLine]:
    """The lines of a key that end at `above`, the last one first; `lead` is what stands before its end line."""
    bodies: list[_KeyLine] = []
    while above >= 0 and len(bodies) < _PEM_LINES:
        floor = max(0, above - _LEAD - _PEM_WIDEST - 20)
        begin = text.rfind("\n", floor, above)
        line = _key_line(text, max(begin + 1, floor), above)
        if line is None or (bodies and len(line.body) < max(16, len(bodies[-1].body))):
            break
        other = _OTHER_LEAD.search(line.lead) is not None and not _alike(bodies[-1].lead if bodies else lead, line.lead)
        bodies.append(line)
        above = begin
        if other:
            break
    if len(bodies) > 1 and len(bodies[-1].body) < 16:
        bodies.pop()
    return bodies
