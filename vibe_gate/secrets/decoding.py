r"""Carriers: the ways in which text travels inside other text, undone, with the way back to where it stood.

A secret may be written `\u0067hp_...` in JSON, `%67hp_...` in a URL, cut by a colour
or a line's continuation, or be part of something in base64. `views` gives the text
as it reads with such a layer taken off, layer by layer, and each view knows which
span of the scanned text stands for a span of its own.

The text is hostile: every step is linear, views are pieces of a bounded size, and
layers end at DEPTH. Only what is near an escape is in a view: text without any costs
one search, and the way back is made only where something was found. Escapes become
UTF-8 seen as Latin-1, as in `secrets.redaction`; for ASCII this is the same.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import html
import re
import string
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from vibe_gate.domain.expressions import expression

DEPTH = 4
"""Layers that are taken off: JSON in JSON in JSON, or a URL encoded twice inside one, need no more."""
REACH = 4096
"""Characters around an escape in which a secret could be broken by it; a line's end is nearer as a rule."""
BLOCK = 1 << 19
"""Characters after which a view ends, so that a megabyte of escapes is never held several times over."""
OVERLAP = 24_000
"""Characters that two views of one long stretch share: more than the longest secret (a private key)."""
SEPARATOR = "<\0<"
"""Between pieces that do not touch: no rule for a secret crosses it."""

CODED = 27
"""Characters from which a run is decoded: base64 of the shortest known format (20 characters), without its padding."""
CODED_HEX = 40
_BEGINNING = 15
_INSIDE = bytes(range(0x80, 0xC0))
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n\r\x1b"})

_INVISIBLE = "\u200b-\u200f\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069\xad\ufe00-\ufe0f\U000e0000-\U000e01ef"
_FULL_WIDTH = "\uff0d\uff10-\uff19\uff21-\uff3a\uff3f\uff41-\uff5a"  # what tokens are made of, not Chinese commas
_TAILS = (
    r"(?:(?<=\\)(?:[nrtbfe\"'/\\`$_.:=+-]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|[0-3][0-7]{2}|"
    r"\r?\n(?:[ \t]{0,20}[0-9]{1,7}(?:[ \t]?[ +-]?\||→|\xe2\x86\x92|\t))?[ \t]{0,200}[+-]?[ \t]{0,200})"
    r"|(?<=%)(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"
    r"|(?<==)(?:\r?\n|3[Dd]|20|2[1-9A-F]|3[A-CEF]|40|5[B-F]|60|7[B-E])"
    r"|(?<=&)(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|quot|apos|amp|lt|gt|sol|num|equals|colon|nbsp|lowbar|hyphen|dash|period|plus);"
    r"|(?<=\x1b)(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)|[ -/]{0,4}[0-Z\\^-~])"
    r"|(?<=\xc2)\xad|(?<=\xe2)(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xa9])|(?<=\xef)(?:\xbb\xbf|\xb8[\x80-\x8f])"
    r"|(?<=\xf3)\xa0[\x80-\x87][\x80-\xbf]"
    r"|(?<=\xef)(?:\xbc[\x8d\x90-\x99\xa1-\xba\xbf]|\xbd[\x81-\x9a])"
    # As `shown` writes what cannot be seen.
    r"|(?<=\xe2)\x9f\xa6U\+[0-9A-F]{4,6}\xe2\x9f\xa7"
)
# A set first, which the search jumps to; what the character is decides how it goes on.
_ESCAPE = expression(rf"[\\%=&\x1b\xad\xc2\xe2\xef\xf3]{_TAILS}|(?<=\xad))")
_ANY_ESCAPE = expression(
    rf"[\\%=&\x1b\xc2\xe2\xef\xf3⟦{_INVISIBLE}{_FULL_WIDTH}]"
    rf"{_TAILS}|(?<=⟦)U\+[0-9A-F]{{4,6}}⟧|(?<=[{_INVISIBLE}{_FULL_WIDTH}]))"
)
"""The same beyond Latin-1: a set of all characters is searched at half the speed."""
_DASHES = ("dash;", "hyphen;")  # which are U+2010, but stand for what is typed
_GOES_ON = "(goes on)"
_ROW_BREAK = expression(r"\n {4}\(goes on\) [ +-]\|")
"""Where a judge is shown the rest of a long line (`domain.brief`): what stands on both sides is one text."""
_CONTROL = {"e": "\x1b", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}

_RUN_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_RUNS = bytes(0x78 if code in _RUN_CHARACTERS else 0x20 for code in range(256))
_NEEDLE = b"x" * CODED
_WIDTHS = {1: 2, 3: 4, 5: 8}
_TO_STANDARD = str.maketrans("-_", "+/")
_HEX = expression(r"[0-9a-f]+\Z|[0-9A-F]+\Z")
_BASE32 = expression(r"[A-Z2-7]{32,}\Z|[a-z2-7]{32,}\Z")
_MARKS = "+-"
_WIDE = expression(r"(?:[\t\n\r -~]\0){16,}+[\t\n\r -~]?")
_UNPRINTABLE = expression(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_LINE_BREAK = expression(r"\r?\n[ \t]{0,40}[+-]?[ \t]{0,40}\Z")

_LAST_LINE = expression(
    rf"\r?\n[ \t]{{0,40}}[+-]?[ \t]{{0,40}}([A-Za-z0-9+/_-]{{2,{CODED_HEX - 1}}})(?![A-Za-z0-9+/_-])"
)
"""The rest of a wrapped text, which is too short to be a run of its own."""

_BYTES = expression(
    r"(?<![0-9A-Za-z])(?:0[xX])?[0-9A-Fa-f]{2}(?:[\s,;:.+|'\"_-]{1,60}+(?:0[xX])?[0-9A-Fa-f]{2}(?![0-9A-Za-z])){11,}+"
)
"""Bytes in hex, one by one, as `xxd -i`, `od -An -t x1` or a program has them."""
_BYTE = expression(r"(?:0[xX])?[0-9A-Fa-f]{2}(?![0-9A-Za-z])")
_BETWEEN_BYTES = expression(r"0[xX]|[^0-9A-Fa-f]+")
_SHAPES = bytes(
    0x68 if char in string.hexdigits else ord(char.lower()) if char.isalpha() else 0x20 for char in map(chr, range(256))
)
_SHAPES_OF_BYTES = (b" hh" * 8, b"  hh" * 8, b" hxhh" * 8, b"  hxhh" * 8)
"""How they look in `_SHAPES`, with one or two characters between. Most letters are in none of these, so that a search
jumps over texts."""

_OFFSET = "0000"  # what the lines of a dump have in common, and hardly another text
_DUMP = expression(
    r"\n[+ -]?[0-9A-Fa-f]{6,16}+(?:"
    r": (?P<xxd>(?:[0-9A-Fa-f]{2}){1,4}(?: (?:[0-9A-Fa-f]{2}){1,4}){0,15})(?=  |[ \r]*(?:\n|\Z))"
    r"|  ?(?P<od>[0-9A-Fa-f]{2}(?:  ?[0-9A-Fa-f]{2}){0,31})(?= {2,}[|>]|[ \r]*(?:\n|\Z))"
    r")[^\n]{0,200}(?=\n|\Z)"
)
"""A line of `xxd`, of `hexdump -C` or of `od -t x1`: an offset, bytes in hex, and often the same bytes as text."""

Piece = tuple[int, int, int, int, int]
"""Characters of the view, the span below that they stand for, and how many of each belong together.

(1, 1): one for one. (3, 4): base64, (1, 2): hex, (5, 8): base32. (0, 0): all for all, as an escape.
"""


class View:
    """Text with one layer taken off; `origin` leads back to the scanned text."""

    __slots__ = ("_below", "_ends", "_origins", "_pieces", "_starts", "_steps", "_widths", "text")

    def __init__(self, text: str, below: View | None, pieces: Callable[[], Iterable[Piece]]) -> None:
        self.text = text
        self._below = below
        self._pieces: Callable[[], Iterable[Piece]] | None = pieces
        self._starts, self._origins, self._ends = array("q"), array("q"), array("q")
        self._steps, self._widths = array("b"), array("b")

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The span of the scanned text that stands for `text[start:end]`; `start < end`."""
        if self._pieces is not None:
            self._map(self._pieces())
            self._pieces = None
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        begin, stop = self._origins[first], self._ends[last]
        if self._steps[first]:
            begin += (start - self._starts[first]) // self._steps[first] * self._widths[first]
        if self._steps[last]:
            reached = -(-(end - self._starts[last]) // self._steps[last]) * self._widths[last]
            stop = min(self._origins[last] + reached, stop)
        return self._below.origin(begin, stop) if self._below is not None else (begin, stop)

    def _map(self, pieces: Iterable[Piece]) -> None:
        size = 0
        for length, start, end, step, width in pieces:
            if length:
                self._starts.append(size)
                self._origins.append(start)
                self._ends.append(end)
                self._steps.append(step)
                self._widths.append(width)
                size += length


def views(text: str) -> Iterator[View]:
    """Every reading of `text` with one to DEPTH layers taken off; nothing where there is no carrier in it."""
    yield from _views(text, None, DEPTH)


def _views(text: str, below: View | None, depth: int) -> Iterator[View]:
    if not depth:
        return
    for find in (_escaped, _rejoined, _coded, _wide, _dumped, _spelled):
        for view in find(text, below):
            if view.text:
                yield view
                yield from _views(view.text, view, depth - 1)


def _escaped(text: str, below: View | None) -> Iterator[View]:
    """Views of the neighbourhood of escapes, these undone."""
    return _around(text, below, _ESCAPE if _is_latin(text) else _ANY_ESCAPE)


def _rejoined(text: str, below: View | None) -> Iterator[View]:
    """Views of long lines that were shown in several rows."""
    return _around(text, below, _ROW_BREAK) if _GOES_ON in text else iter(())


def _around(text: str, below: View | None, escape: re.Pattern[str]) -> Iterator[View]:
    gathered: list[tuple[int, int]] = []
    size = 0
    for low, high in _windows(text, escape):
        gathered.append((low, high))
        size += high - low
        if size > BLOCK:
            yield _unescaped(text, below, gathered, escape)
            gathered, size = [], 0
    if gathered:
        yield _unescaped(text, below, gathered, escape)


def _is_latin(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode("latin-1"))
    except UnicodeEncodeError:
        return False


def _unescaped(text: str, below: View | None, windows: list[tuple[int, int]], escape: re.Pattern[str]) -> View:
    parts = [escape.sub(lambda match: _undone(match[0]), text[low:high]) for low, high in windows]
    return View(SEPARATOR.join(parts), below, lambda: _pieces_of_escapes(text, windows, escape))


def _pieces_of_escapes(text: str, windows: list[tuple[int, int]], escape: re.Pattern[str]) -> Iterator[Piece]:
    for low, high in windows:
        if low != windows[0][0]:
            yield len(SEPARATOR), low, low, 0, 0
        position = 0
        stretch = text[low:high]
        for match in escape.finditer(stretch):
            yield match.start() - position, low + position, low + match.start(), 1, 1
            yield len(_undone(match[0])), low + match.start(), low + match.end(), 0, 0
            position = match.end()
        yield len(stretch) - position, low + position, high, 1, 1


def _windows(text: str, escape: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Stretches of text with everything that an escape could break: their lines, REACH at most; in order.

    Stretches that touch are one as long as it is no longer than BLOCK; after that they share OVERLAP.
    """
    low = high = position = 0
    match = escape.search(text)
    while match:
        reach = max(high, match.start() - REACH)
        start = max(text.rfind("\n", reach, match.start()) + 1, reach)
        limit = match.end() + REACH
        line_end = text.find("\n", match.end(), limit)
        end = line_end if line_end >= 0 else min(limit, len(text))
        if text.find("-----", start, end) >= 0:
            end = min(match.end() + OVERLAP, len(text))  # a private key may begin here
        if start > high + 1 or not high:
            if high:
                yield low, high
            low = start
        elif high - low > BLOCK:
            yield low, high
            low = high - OVERLAP
        high = max(high, end)
        # A continuation starts before the line's end; on an endless line the next escape may be anywhere.
        position = match.end() if line_end < 0 else max(match.end(), line_end - 2)
        match = escape.search(text, position)
    if high:
        yield low, high


@functools.lru_cache(maxsize=4096)
def _undone(escape: str) -> str:
    """What an escape stands for; "" for what is not seen."""
    lead, told = escape[0], escape[1:]
    if lead == "\\":
        return _undone_backslash(told)
    if lead == "%":
        return chr(int(told, 16)) if told[0] != "u" else _latin(chr(int(told[1:], 16)))
    if lead == "=":
        return chr(int(told, 16)) if "\n" not in told else ""
    if lead == "&":
        return "-" if told in _DASHES else _latin(html.unescape(escape))
    if lead in "\xef\uff0d" or lead > "\uff0f":
        wide = ord(escape.encode("latin-1").decode("utf-8") if lead == "\xef" else escape)
        return chr(wide - 0xFEE0) if 0xFF00 < wide < 0xFF5F else ""
    if lead in "\x1b\n":  # what a terminal does not show (it may hold anything, "U+" too), and the break of a row
        return ""
    shown = escape.partition("U+")[2].rstrip("⟧\xe2\x9f\xa7")
    return _latin(chr(min(int(shown, 16), 0x10FFFF))) if shown else ""


def _undone_backslash(told: str) -> str:
    if told[0] in "uUx":
        code = int(told[1:].strip("{}"), 16)
        return chr(code) if told[0] == "x" else _latin(chr(min(code, 0x10FFFF)))
    if told[0].isdigit():
        return chr(int(told, 8))
    if len(told) > 1 or told == "\n":
        return ""  # the line goes on
    return _CONTROL.get(told, told)


def _latin(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _coded(text: str, below: View | None) -> Iterator[View]:
    """Views of everything that is printable text in base64, hex or base32."""
    parts: list[str] = []
    pieces: list[Piece] = []
    size, reached, full = 0, 0, 0
    for first, end in _runs(text):
        start, step, told = _decoded(text, first, end) if first >= reached else (first, 0, "")
        if not told:
            continue
        # A wrapped text goes on in the next line where this one is full.
        goes_on = full == step and start - reached < 100 and _LINE_BREAK.match(text, reached, start)
        if parts and not goes_on:
            parts.append(SEPARATOR)
            pieces.append((len(SEPARATOR), start, start, 0, 0))
        parts.append(told)
        pieces.append((len(told), start, end, step, _WIDTHS[step]))
        size, reached, full = size + len(told), end, step if (end - start) % _WIDTHS[step] == 0 else 0
        if full and (last := _LAST_LINE.match(text, end)):
            told = _text_of(_bytes_of(step, last[1]))
            parts.append(told)
            pieces.append((len(told), *last.span(1), step, _WIDTHS[step]))
            size, reached, full = size + len(told), last.end(), 0
        if size > BLOCK:
            yield View("".join(parts), below, pieces.copy)
            parts, pieces, size, full = [], [], 0, 0
    if parts:
        yield View("".join(parts), below, pieces.copy)


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Spans of at least CODED characters of base64, base64url or hex, in order."""
    marks = text.encode("latin-1", "replace").translate(_RUNS)
    start = marks.find(_NEEDLE)
    while start >= 0:
        end = marks.find(b" ", start)
        end = end if end >= 0 else len(marks)
        yield start, end
        start = marks.find(_NEEDLE, end)


def _decoded(text: str, start: int, end: int) -> tuple[int, int, str]:
    """Where what is coded begins in a run, how many characters a group of it gives, and all of them ("": no text)."""
    for begin in _beginnings(text, start, end):
        run = text[begin:end]
        if step := _coding(run):
            told = _text_of(_bytes_of(step, run))
            if len(told) >= (len(run) // 2 if step == 1 else _BEGINNING):
                return begin, step, told
    return start, 0, ""


def _beginnings(text: str, start: int, end: int) -> Iterator[int]:
    """Where in a run what is coded may begin: at once, behind a hunk's mark or 0x, as the last part of a path."""
    yield start
    if text[start] in _MARKS:
        begin = end - len(text[start:end].lstrip(_MARKS))
        if end - begin >= CODED:
            yield begin
    elif text.startswith("0x", start):
        yield start + 2
    begin = text.rfind("/", start, end) + 1
    if begin and end - begin >= CODED:
        yield begin


def _coding(run: str) -> int:
    """How many characters a group of a run gives; 0 where its first look says that it is no text.

    That look saves most of the work: a hash is no text from its first bytes on.
    """
    head = run[:24]
    if len(run) >= CODED_HEX and len(run) % 2 == 0 and _HEX.match(run) and _may_be_text(bytes.fromhex(head)):
        return 1
    if _may_be_text(binascii.a2b_base64(head.translate(_TO_STANDARD))):
        return 3
    return 5 if _BASE32.match(run) and _may_be_text(base64.b32decode(head, casefold=True)) else 0


def _may_be_text(data: bytes) -> bool:
    """Whether these bytes, four at least, begin UTF-8 without control characters, or UTF-16 of ASCII.

    For random bytes the first look says no.
    """
    if len(data.translate(None, _CONTROLS)) < len(data):
        return (not data[2]) != (not data[3]) and _is_wide(data)
    return len(data.decode("utf-8", "ignore").encode()) >= len(data) - 3


def _is_wide(data: bytes) -> bool:
    """Whether this is ASCII in UTF-16 of either order, perhaps behind its mark."""
    return 0.4 * len(data) < data.count(0) < 0.6 * len(data) and not (any(data[2::2]) and any(data[3::2]))


def _bytes_of(step: int, run: str) -> bytes:
    """What is coded in base64 (3), hex (1) or base32 (5); b"" where it is not."""
    with contextlib.suppress(ValueError):
        if step == 1:
            return bytes.fromhex(run)
        if step == 5:
            whole = run[: len(run) - (len(run) % 8 in (1, 3, 6))]
            return base64.b32decode(whole + "=" * (-len(whole) % 8), casefold=True)
        padded = run[: len(run) - (len(run) % 4 == 1)].translate(_TO_STANDARD)
        return base64.b64decode(padded + "=" * (-len(padded) % 4))
    return b""


def _text_of(data: bytes) -> str:
    """The beginning of `data` that is UTF-8 without control characters, seen as Latin-1; UTF-16 as it is.

    A line of a wrapped text may begin inside of a character.
    """
    if _is_wide(data[:24]):
        return data.decode("latin-1")
    head = len(data) - len(data[:3].lstrip(_INSIDE) + data[3:])
    try:
        data[head:].decode("utf-8")
    except UnicodeDecodeError as error:
        data = data[: head + error.start]
    told = data.decode("latin-1")
    cut = _UNPRINTABLE.search(told)
    return told[: cut.start()] if cut else told


def _wide(text: str, below: View | None) -> Iterator[View]:
    """A view of ASCII in UTF-16: every other character is NUL."""
    found = list(_WIDE.finditer(text)) if "\0" in text else []
    if found:
        told = SEPARATOR.join(match[0][::2] for match in found)
        yield View(told, below, lambda: _pieces_of_wide(found))


def _pieces_of_wide(found: list[re.Match[str]]) -> Iterator[Piece]:
    for match in found:
        if match is not found[0]:
            yield len(SEPARATOR), match.start(), match.start(), 0, 0
        yield (match.end() - match.start() + 1) // 2, match.start(), match.end(), 1, 2


def _dumped(text: str, below: View | None) -> Iterator[View]:
    """Views of the bytes of hex dumps. A whole line stands for each of its bytes: it shows them a second time."""
    parts: list[str] = []
    pieces: list[Piece] = []
    reached = 0
    for match in _DUMP.finditer("\n" + text) if _OFFSET in text else ():  # all spans are one too far
        if parts and match.start() > reached:
            parts.append(SEPARATOR)
            pieces.append((len(SEPARATOR), match.start(), match.start(), 0, 0))
        group = "xxd" if match["xxd"] else "od"
        told = bytes.fromhex(match[group]).decode("latin-1")
        parts.append(told)
        pieces.append((len(told), match.start(group) - 1, match.end() - 1, 0, 0))
        reached = match.end()
    if parts:
        yield View("".join(parts), below, pieces.copy)


def _spelled(text: str, below: View | None) -> Iterator[View]:
    """Views of bytes that are written in hex one by one, with something between."""
    shapes = text.encode("latin-1", "replace").translate(_SHAPES)
    if not any(map(shapes.__contains__, _SHAPES_OF_BYTES if b"x" in shapes else _SHAPES_OF_BYTES[:2])):
        return
    parts: list[str] = []
    runs: list[tuple[int, int]] = []
    size = 0
    for run in _BYTES.finditer(text):
        if told := _told_in(text, run):
            parts.append(told)
            runs.append(run.span())
            size += len(told)
        if size > BLOCK:
            yield View(SEPARATOR.join(parts), below, functools.partial(_pieces_of_bytes, text, runs, parts))
            parts, runs, size = [], [], 0
    if parts:
        yield View(SEPARATOR.join(parts), below, functools.partial(_pieces_of_bytes, text, runs, parts))


def _told_in(text: str, run: re.Match[str]) -> str:
    """The text that a run of bytes is; "" where it is none."""
    head = islice(_BYTE.finditer(text, *run.span()), 12)
    if not _may_be_text(bytes(int(one[0], 16) for one in head)):
        return ""
    return _text_of(bytes.fromhex(_BETWEEN_BYTES.sub("", run[0])))


def _pieces_of_bytes(text: str, runs: list[tuple[int, int]], parts: list[str]) -> Iterator[Piece]:
    for (start, end), told in zip(runs, parts, strict=True):
        if start != runs[0][0]:
            yield len(SEPARATOR), start, start, 0, 0
        for one in islice(_BYTE.finditer(text, start, end), len(told)):
            yield 1, *one.span(), 0, 0
