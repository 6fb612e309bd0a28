"""Private keys in PEM, whatever stands before or behind each of their lines: a `grep -n`, a blame, a log, a hunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from vibe_gate.domain.expressions import expression

_PEM_END = expression(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BEGIN = expression(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----[ \t\r\\\"',$^M]{0,20}\n")
_PEM_HEADER = expression(r"(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID): ")
_PEM_AFTER = " \t\r\\\"',$"  # what may stand behind a line of a key; `cat -A` shows its end as $, or as ^M$
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OTHER_LEAD = expression("[A-Za-z@]")  # more than a number: the line where a hunk or a sentence begins
_LEAD_WORD = expression("[0-9A-Za-z\x80-\U0010ffff]+")
_LEAD_GAP = expression(r"[\s:-]+")  # grep tells a match from its neighbours by : and -
_LEAD = 200
"""Characters that may stand before each line of a private key: a path, a blame, a time and a host."""
_PEM_WIDTH, _PEM_WIDEST = 32, 120
_PEM_LINES = 400  # 16,384 bits have 270
_PEM_MARK = expression(r"-----(?P<side>BEGIN|END) (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_RUN = expression(r"[A-Za-z0-9+/]{16,}+={0,2}")
_PEM_WINDOW = 64_000  # what is looked at above an end line
_ANY_DIGIT = str.maketrans("123456789", "000000000")
GAP = 600
"""Characters between two lines of a key: the rest of a log's record, and the beginning of the next one."""


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


def every(text: str) -> Iterator[Key]:
    """Private keys in whatever form; one may be told more than once, and the spans overlap then."""
    if "PRIVATE KEY" not in text:
        return
    known = [*led(text), *tails(text)]
    yield from known
    for key in followed(text):
        if not any(one.start <= key.start and key.end <= one.end for one in known[:_PEM_LINES]):
            yield key


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


def followed(text: str) -> Iterator[Key]:
    """Private keys with something behind each of their lines, too: `echo "..." >> id_rsa`, <li>, a log in JSON.

    Here a line of a key is a run of base64 of one width, wherever it stands, no further than
    GAP from the one before. It takes two such lines, or one and the other end of the key.
    """
    marks = list(_PEM_MARK.finditer(text)) if "PRIVATE KEY" in text else []
    for number, mark in enumerate(marks):
        before = marks[number - 1].end() if number else 0
        after = marks[number + 1] if number + 1 < len(marks) else None
        if mark["side"] == "BEGIN":
            ends = after if after is not None and after["side"] == "END" else None
            yield from _between(text, mark, ends, after.start() if after is not None else len(text))
        elif not number or marks[number - 1]["side"] == "END":
            yield from _above(text, mark, before)


def _between(text: str, begin: re.Match[str], ends: re.Match[str] | None, limit: int) -> Iterator[Key]:
    """The key from its first line on, to its last one or as far as it is shown."""
    bodies: list[re.Match[str]] = []
    reached = stop = begin.end()
    for run in _PEM_RUN.finditer(text, begin.end(), min(limit, begin.end() + _PEM_LINES * GAP)):
        if run.start() - reached > GAP or len(bodies) == _PEM_LINES:
            break
        if len(run[0]) == len(bodies[0][0]) if bodies else _is_whole_line(run[0]):
            bodies.append(run)
            reached = stop = run.end()
        elif bodies and stop == reached and _is_last(text, bodies, run):
            stop = run.end()
    if bodies and ends is not None and ends.start() - reached <= 2 * GAP:  # the last line is between
        yield Key(begin.start(), ends.end(), "".join(run[0] for run in bodies))
    elif len(bodies) > 1:
        yield Key(begin.start(), stop, "".join(run[0] for run in bodies))


def _above(text: str, end: re.Match[str], limit: int) -> Iterator[Key]:
    """The rest of a key whose beginning is not shown, upwards from its last line."""
    runs = list(_PEM_RUN.finditer(text, max(limit, end.start() - _PEM_WINDOW), end.start()))
    while runs and not _is_whole_line(runs[-1][0]):
        runs.pop()
    bodies: list[re.Match[str]] = []
    reached = end.start()
    for run in reversed(runs):
        if reached - run.end() > (GAP if bodies else 2 * GAP) or len(bodies) == _PEM_LINES:
            break
        if len(bodies) == 1 and len(bodies[0][0]) < len(run[0]) and _is_whole_line(run[0]):
            bodies.pop()  # that was the last line, which is shorter
        if not bodies or len(run[0]) == len(bodies[0][0]):
            bodies.append(run)
            reached = run.start()
    if bodies:
        yield Key(bodies[-1].start(), end.end(), "".join(run[0] for run in reversed(bodies)))


def _is_whole_line(run: str) -> bool:
    """Whether a run may be a whole line of a key: neither a word nor a path."""
    upper, lower, digits = (sum(map(kind, run)) for kind in (str.isupper, str.islower, str.isdigit))
    return _PEM_WIDTH <= len(run) <= _PEM_WIDEST and digits > 1 and min(upper, lower) > 3 and run.count("/") < 8


def _is_last(text: str, bodies: list[re.Match[str]], run: re.Match[str]) -> bool:
    """Whether a shorter run is the last line, or what a limit has left of one: it stands behind the same."""
    leads = [text[max(0, one.start() - 3) : one.start()].translate(_ANY_DIGIT) for one in (bodies[-1], run)]
    return len(run[0]) < len(bodies[0][0]) and leads[0] == leads[1] and _is_mixed(run[0])
