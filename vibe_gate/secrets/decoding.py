r"""Decoded views: text that travels inside other text, with the way back to where it stood.

A secret may be written `\u0067hp_...` in JSON, `%67hp_...` in a URL, cut by a colour or a line's
continuation, or be part of something in base64. `views` gives the text with such a layer taken off,
layer by layer; each view knows which span of the scanned text stands for a span of its own.

The text is UTF-8 seen as Latin-1, and hostile: every step is linear, views are of a bounded size, and
layers end at DEPTH. Only what is near an escape is in a view, so text without any costs one search,
and the way back is made only if something was found.
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

from msgspec import Struct

from vibe_gate.domain.escape import expression
from vibe_gate.secrets.first_look import FirstLook, superset

DEPTH = 4
"""Layers that are taken off: JSON in JSON in JSON, or a URL encoded twice inside one, need no more."""
REACH = 4096
"""Characters around an escape in which a secret could be broken by it; a line's end is nearer as a rule."""
BLOCK = 1 << 19
"""Characters after which a view ends, so that a megabyte of escapes is never held several times over."""
OVERLAP = 24_000
"""Characters that two views of one long line share: more than the longest secret (a private key)."""
SEPARATOR = "<\0<"
"""Between parts that do not touch: no rule for a secret crosses it."""


class Piece(Struct, frozen=True):
    """`length` characters of a view that come from `[start:end]` of the text below it.

    Character by character if both are equally long, otherwise as a whole.
    """

    length: int
    start: int
    end: int


class DecodedPart(Struct, frozen=True):
    """A decoded stretch of text, and what its pieces stand for."""

    text: str
    pieces: Callable[[], Iterable[Piece]]


class DecodedView:
    """Text with one layer taken off; `origin` maps its spans back to the scanned text."""

    __slots__ = ("_below", "_ends", "_origins", "_parts", "_starts", "text")

    def __init__(self, parts: list[DecodedPart], below: DecodedView | None) -> None:
        self.text = SEPARATOR.join(part.text for part in parts)
        self._parts = parts
        self._below = below
        self._starts, self._origins, self._ends = array("q"), array("q"), array("q")

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The span of the scanned text that stands for `text[start:end]`; `start < end`."""
        if not self._starts:
            self._map()
        begin, stop = self._place(start)[0], self._place(end - 1)[1]
        return self._below.origin(begin, stop) if self._below is not None else (begin, stop)

    def _place(self, position: int) -> tuple[int, int]:
        """The span below of one character."""
        number = bisect_right(self._starts, position) - 1
        begin, stop, first = self._origins[number], self._ends[number], self._starts[number]
        if self._starts[number + 1] - first != stop - begin:
            return begin, stop
        return begin + position - first, begin + position - first + 1

    def _map(self) -> None:
        size = 0
        for part in self._parts:
            for number, piece in enumerate(part.pieces()):
                if size and not number:
                    size = self._add(size, Piece(len(SEPARATOR), piece.start, piece.end))
                size = self._add(size, piece)
        self._starts.append(size)

    def _add(self, size: int, piece: Piece) -> int:
        if piece.length:
            self._starts.append(size)
            self._origins.append(piece.start)
            self._ends.append(piece.end)
        return size + piece.length


def views(text: str, below: DecodedView | None = None, depth: int = DEPTH) -> Iterator[DecodedView]:
    """Every reading of `text` with one to `depth` layers taken off; nothing if it has no layer."""
    if not depth:
        return
    for layer in _first_look()(text):
        for view in _joined(layer.decode(text), below):
            yield view
            yield from views(view.text, view, depth - 1)


class _Layer(Struct, frozen=True):
    """What takes a layer off, and an expression for every text that has it."""

    decode: Callable[[str], Iterator[DecodedPart]]
    shape: re.Pattern[str]


@functools.cache
def _first_look() -> FirstLook[_Layer]:
    layers = (
        _Layer(_decode_escapes, _ESCAPE), _Layer(_decode_continued, _LINE_BREAK),
        _Layer(_decode_split_rows, _ROW_BREAK), _Layer(_decode_runs, _RUN), _Layer(_decode_utf16, _WIDE),
        _Layer(_decode_byte_lists, _BYTES),
    )  # fmt: skip
    return FirstLook(layers, lambda layer: superset(layer.shape.pattern))


def _joined(parts: Iterable[DecodedPart], below: DecodedView | None) -> Iterator[DecodedView]:
    """Views of all parts that hold text, each of about BLOCK characters."""
    held: list[DecodedPart] = []
    size = 0
    for part in parts:
        if not part.text:
            continue
        held.append(part)
        size += len(part.text)
        if size > BLOCK:
            yield DecodedView(held, below)
            held, size = [], 0
    if held:
        yield DecodedView(held, below)


# Escapes: each alternative begins with a character of its own, so that the search jumps from one of these to the next.
_ESCAPE = expression(
    r"\\(?:[nrtbfe\"'/\\`$_.:=+-]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|[0-3][0-7]{2}|"
    r"\r?\n(?:[ \t]{0,20}[0-9]{1,7}(?:(?:[ \t]{1,9}[0-9]{1,7})?[ \t]{0,9}[ +-]?\||\xe2\x86\x92|\t))?"
    r"[ \t]{0,200}[+-]?[ \t]{0,200})"
    r"|%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"
    r"|=(?:\r?\n|3[Dd]|20|2[1-9A-F]|3[A-CEF]|40|5[B-F]|60|7[B-E])"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|quot|apos|amp|lt|gt|sol|num|equals|colon|nbsp|lowbar|hyphen|dash|period|plus);"
    r"|\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)|[ -/]{0,4}[0-Z\\^-~])"
    # Invisible characters, letters and digits of full width, and what `escape` writes for what cannot be seen.
    r"|\xad|\xc2\xad|\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xa9]|\x9f\xa6U\+[0-9A-F]{4,6}\xe2\x9f\xa7)"
    r"|\xef(?:\xbb\xbf|\xb8[\x80-\x8f]|\xbc[\x8d\x90-\x99\xa1-\xba\xbf]|\xbd[\x81-\x9a])"
    r"|\xf3\xa0[\x80-\x87][\x80-\xbf]"
)
_LINE_BREAK = expression(r"\\\r?\n(?=[0-9+-])")
"""A continued line whose rest begins like a hunk's mark or a line's number, which `_ESCAPE` takes off, too."""
_GOES_ON = "(goes on)"
_ROW_BREAK = expression(r"\n {4}\(goes on\) [ +-]\|")
"""Where a judge is shown the rest of a long line (`judging.brief`): what stands on both sides is one text."""
_CONTROL = {"e": "\x1b", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _decode_escapes(text: str) -> Iterator[DecodedPart]:
    return _undone_around(text, _ESCAPE)


def _decode_continued(text: str) -> Iterator[DecodedPart]:
    """Continued lines, where what may be a mark or a number is the text's own."""
    return _undone_around(text, _LINE_BREAK)


def _decode_split_rows(text: str) -> Iterator[DecodedPart]:
    """Long lines that were shown in several rows."""
    return _undone_around(text, _ROW_BREAK) if _GOES_ON in text else iter(())


def _undone_around(text: str, escape: re.Pattern[str]) -> Iterator[DecodedPart]:
    for low, high in _windows(text, escape):
        decoded = escape.sub(lambda match: _undone(match[0]), text[low:high])
        yield DecodedPart(decoded, functools.partial(_pieces_of_escapes, text[low:high], low, escape))


def _pieces_of_escapes(text: str, low: int, escape: re.Pattern[str]) -> Iterator[Piece]:
    position = 0
    for match in escape.finditer(text):
        yield Piece(match.start() - position, low + position, low + match.start())
        yield Piece(len(_undone(match[0])), low + match.start(), low + match.end())
        position = match.end()
    yield Piece(len(text) - position, low + position, low + len(text))


def _windows(text: str, escape: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Stretches of text with everything that an escape could break: their lines, REACH at most; in order.

    Stretches that touch are one as long as it is no longer than BLOCK; after that they share OVERLAP.
    """
    low = high = 0
    match = escape.search(text)
    while match:
        reach = max(high, match.start() - REACH)
        start = max(text.rfind("\n", reach, match.start()) + 1, reach)
        line_end = text.find("\n", match.end(), match.end() + REACH)
        if start > high + 1 or not high:
            if high:
                yield low, high
            low = start
        elif high - low > BLOCK:
            yield low, high
            low = high - OVERLAP
        end = line_end if line_end >= 0 else min(match.end() + REACH, len(text))
        if text.find("-----", start, end) >= 0:
            end = min(match.end() + OVERLAP, len(text))  # a private key may begin here
        high = max(high, end)
        # A continuation starts before the line's end; on an endless line the next escape may be anywhere.
        match = escape.search(text, match.end() if line_end < 0 else max(match.end(), line_end - 2))
    if high:
        yield low, high


@functools.lru_cache(maxsize=4096)
def _undone(escape: str) -> str:
    """What an escape stands for; "" for what is not seen."""
    lead, body = escape[0], escape[1:]
    if lead == "\\":
        return _undone_backslash(body)
    if lead == "%":
        return _character(body.lstrip("u"), as_byte=body[0] != "u")
    if lead == "=":
        return "" if "\n" in body else chr(int(body, 16))
    if lead == "&":  # the names of dashes are those of other characters, but stand for what is typed
        return "-" if body in ("dash;", "hyphen;") else _as_bytes(html.unescape(escape))
    if lead == "\xe2" and "U+" in body:
        return _character(body[4:-3])
    if escape.startswith(("\xef\xbc", "\xef\xbd")):
        return chr(ord(escape.encode("latin-1").decode("utf-8")) - 0xFEE0)
    return ""


def _undone_backslash(body: str) -> str:
    if body[0] in "uUx":
        return _character(body[1:].strip("{}"), as_byte=body[0] == "x")
    if body[0].isdigit():
        return chr(int(body, 8))
    if len(body) > 1 or body == "\n":
        return ""  # the line goes on
    return _CONTROL.get(body, body)


def _character(digits: str, *, as_byte: bool = False) -> str:
    code = min(int(digits, 16), 0x10FFFF)
    return chr(code) if as_byte else _as_bytes(chr(code))


def _as_bytes(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


CODED = 27
"""Characters from which a run is decoded: base64 of the shortest known format (20 characters), without its padding."""
CODED_HEX = 40
_BEGINNING = 15
"""Characters of text that base64 or base32 must begin with to be taken for coded text."""
_INSIDE = bytes(range(0x80, 0xC0))
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n\r\x1b"})
_UNPRINTABLE = expression(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_RUN_CHARACTERS = string.ascii_letters + string.digits + "+/_-"
_RUNS = bytes(0x78 if chr(code) in _RUN_CHARACTERS else 0x20 for code in range(256))
_NEEDLE = b"x" * CODED
_RUN = expression(f"[{_RUN_CHARACTERS}]{{{CODED}}}")
_WIDTHS = {1: 2, 3: 4, 5: 8}
"""Characters of a group in hex, base64 and base32, by the bytes that it stands for."""
_TO_STANDARD = str.maketrans("-_", "+/")
_HEX = expression(r"[0-9a-f]+\Z|[0-9A-F]+\Z")
_BASE32 = expression(r"[A-Z2-7]{32,}\Z|[a-z2-7]{32,}\Z")
_NEXT_LINE = expression(r"\r?\n[ \t]{0,40}([+-]?)[ \t]{0,40}([A-Za-z0-9+/_-]{2,})")


class _CodedLine(Struct, frozen=True):
    """A run of encoded text, and what it decodes to."""

    start: int
    end: int
    decoded: str


def _decode_runs(text: str) -> Iterator[DecodedPart]:
    """Text in base64, hex or base32; wrapped text goes on in the next line."""
    reached = 0
    for first, end in _runs(text):
        for start in _beginnings(text, first, end) if first >= reached else ():
            per_group = _bytes_per_group(text[start:end])
            decoded = _text_of(_bytes_of(per_group, text[start:end])) if per_group else ""
            if decoded and len(decoded) >= ((end - start) // 2 if per_group == 1 else _BEGINNING):
                line = _CodedLine(start, end, decoded)
                lines = [line, *_lines_below(text, line, per_group)]
                reached = lines[-1].end
                whole = "".join(each.decoded for each in lines)
                yield DecodedPart(
                    whole, functools.partial(_pieces_of_groups, lines, per_group, _WIDTHS[per_group], len(whole))
                )
                break


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Spans of at least CODED characters of base64, base64url or hex, in order."""
    marks = text.encode("latin-1", "replace").translate(_RUNS)
    start = marks.find(_NEEDLE)
    while start >= 0:
        end = marks.find(b" ", start)
        end = end if end >= 0 else len(marks)
        yield start, end
        start = marks.find(_NEEDLE, end)


def _beginnings(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets at which encoded text may begin: the run's start, behind a hunk's mark or 0x, a path's last part."""
    yield start
    if text[start] in "+-":
        behind_marks = end - len(text[start:end].lstrip("+-"))
        if end - behind_marks >= CODED:
            yield behind_marks
    elif text.startswith("0x", start):
        yield start + 2
    behind_slash = text.rfind("/", start, end) + 1
    if behind_slash and end - behind_slash >= CODED:
        yield behind_slash


def _bytes_per_group(run: str) -> int:
    """Bytes that one group of characters encodes: 1 (hex), 3 (base64), 5 (base32); 0 if the run does not encode text.

    The first bytes tell: those of a hash are not text. That saves most of the work.
    """
    head = run[:24]
    if len(run) >= CODED_HEX and len(run) % 2 == 0 and _HEX.match(run) and _may_be_text(bytes.fromhex(head)):
        return 1
    if _may_be_text(binascii.a2b_base64(head.translate(_TO_STANDARD))):
        return 3
    return 5 if _BASE32.match(run) and _may_be_text(base64.b32decode(head, casefold=True)) else 0


def _may_be_text(data: bytes) -> bool:
    """Whether these bytes, four at least, begin UTF-8 without control characters, or UTF-16 of ASCII."""
    if len(data.translate(None, _CONTROLS)) < len(data):
        return (not data[2]) != (not data[3]) and _is_wide(data)
    return len(data.decode("utf-8", "ignore").encode()) >= len(data) - 3


def _is_wide(data: bytes) -> bool:
    """Whether this is ASCII in UTF-16 of either order, perhaps behind its mark."""
    return 0.4 * len(data) < data.count(0) < 0.6 * len(data) and not (any(data[2::2]) and any(data[3::2]))


def _bytes_of(per_group: int, run: str) -> bytes:
    """The bytes that a run of hex (1), base64 (3) or base32 (5) encodes; b"" if it is malformed."""
    with contextlib.suppress(ValueError):
        if per_group == 1:
            return bytes.fromhex(run[: len(run) // 2 * 2])
        if per_group == 5:
            whole = run[: len(run) - (len(run) % 8 in (1, 3, 6))]
            return base64.b32decode(whole + "=" * (-len(whole) % 8), casefold=True)
        padded = run[: len(run) - (len(run) % 4 == 1)].translate(_TO_STANDARD)
        return base64.b64decode(padded + "=" * (-len(padded) % 4))
    return b""


def _text_of(data: bytes) -> str:
    """The beginning of `data` that is UTF-8 without control characters, seen as Latin-1; UTF-16 as it is.

    A line of a wrapped text may begin and end inside of a character.
    """
    if _is_wide(data[:24]):
        return data.decode("latin-1")
    head = len(data[:3]) - len(data[:3].lstrip(_INSIDE))
    try:
        data[head:].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end < len(data) - head:
            data = data[: head + error.start]
    decoded = data.decode("latin-1")
    cut = _UNPRINTABLE.search(decoded)
    return decoded[: cut.start()] if cut else decoded


def _lines_below(text: str, line: _CodedLine, per_group: int) -> Iterator[_CodedLine]:
    """The lines below that continue an encoded text, as long as each decodes to its end and ends with a whole group."""
    while len(line.decoded) * _WIDTHS[per_group] == (line.end - line.start) * per_group:
        match = _NEXT_LINE.match(text, line.end)
        if match is None:
            return
        # A `+` or `-` is a hunk's mark if one stands before the line above, too.
        is_mark = match.end(1) < match.start(2) or text[max(0, line.start - 1) : line.start] in ("+", "-")
        start = match.start(2 if is_mark else 1)
        decoded = _text_of(_bytes_of(per_group, text[start : match.end()]))
        if not decoded:
            return
        line = _CodedLine(start, match.end(), decoded)
        yield line


def _pieces_of_groups(lines: list[_CodedLine], per_group: int, width: int, size: int) -> Iterator[Piece]:
    """Pieces of `size` characters; each `per_group` of them come from `width` characters below."""
    for line in lines:
        for start in range(line.start, line.end, width):
            length = min(per_group, size)
            size -= length
            yield Piece(length, start, min(start + width, line.end))


_WIDE = expression(r"(?:[\t\n\r -~]\x00){16,}+[\t\n\r -~]?")


def _decode_utf16(text: str) -> Iterator[DecodedPart]:
    """ASCII in UTF-16: every other character is NUL."""
    for match in _WIDE.finditer(text) if "\0" in text else ():
        decoded = match[0][::2]
        yield DecodedPart(
            decoded, functools.partial(_pieces_of_groups, [_CodedLine(*match.span(), decoded)], 1, 2, len(decoded))
        )


_BYTES = expression(
    r"(?<![0-9A-Za-z])(?:0[xX])?[0-9A-Fa-f]{2}(?:[\s,;:.+|'\"_-]{1,60}+(?:0[xX])?[0-9A-Fa-f]{2}(?![0-9A-Za-z])){11,}+"
)
"""Bytes in hex, one by one, as `xxd -i`, `od -An -t x1` or a program has them."""
_BYTE = expression(r"(?:0[xX])?([0-9A-Fa-f]{2})(?![0-9A-Za-z])")
_SHAPES = bytes(
    0x68 if char in string.hexdigits else ord(char.lower()) if char.isalpha() else 0x20 for char in map(chr, range(256))
)
_SHAPES_OF_BYTES = (b" hh" * 8, b"  hh" * 8, b" hxhh" * 8, b"  hxhh" * 8)
"""How they look in `_SHAPES`, with one or two characters between. Most letters are in none of these, so that a search
jumps over texts."""


def _decode_byte_lists(text: str) -> Iterator[DecodedPart]:
    """Bytes written in hex one by one, with separators between them."""
    shapes = text.encode("latin-1", "replace").translate(_SHAPES)
    if not any(map(shapes.__contains__, _SHAPES_OF_BYTES if b"x" in shapes else _SHAPES_OF_BYTES[:2])):
        return
    for run in _BYTES.finditer(text):
        if _may_be_text(bytes(int(byte[1], 16) for byte in islice(_BYTE.finditer(text, *run.span()), 12))):
            decoded = _text_of(bytes(int(byte[1], 16) for byte in _BYTE.finditer(text, *run.span())))
            yield DecodedPart(decoded, functools.partial(_pieces_of_bytes, text, run, len(decoded)))


def _pieces_of_bytes(text: str, run: re.Match[str], size: int) -> Iterator[Piece]:
    for byte in islice(_BYTE.finditer(text, *run.span()), size):
        yield Piece(1, *byte.span())
