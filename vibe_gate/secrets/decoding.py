r"""Decoded views: text that travels inside other text, with the way back to where it stood.

Programs write a secret as `\u0067hp_...` in JSON, as `%67hp_...` in a URL, with a colour in it, in
base64 or in UTF-16.
`views` gives the text without one such encoding; each view knows which span of the scanned text
stands for a span of its own. What hides a secret on purpose, in encodings of encodings or in
spellings of its own, is not decoded.

The text is UTF-8 seen as Latin-1, and hostile: every step is linear, and views are of a bounded
size. Only what is near an escape is in a view, so text without any costs one search, and the way
back is made only if something was found.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
import string
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from vibe_gate.domain.escape import expression

REACH = 4096
"""Characters around an escape in which a secret could be broken by it; a line's end is nearer as a
rule.
"""
BLOCK = 1 << 19
"""Characters after which a view ends, so that a megabyte of escapes is never held several times
over.
"""
OVERLAP = 24_000
"""Characters that two views of one long line share: more than the longest secret (a private
key).
"""
SEPARATOR = "<\0<"
"""Between parts that do not touch: no rule for a secret crosses it."""


class Piece(Struct, frozen=True):
    """`length` characters of a view that come from `[start:end]` of the scanned text.

    Character by character if both are equally long, otherwise as a whole.
    """

    length: int
    start: int
    end: int


class DecodedPart(Struct, frozen=True):
    """A decoded stretch of text."""

    text: str
    pieces: Callable[[], Iterable[Piece]]
    """What it is made of, in order."""


class DecodedView:
    """Decoded parts of a text; `origin` maps its spans back."""

    __slots__ = ("_ends", "_origins", "_parts", "_starts", "text")

    def __init__(self, parts: list[DecodedPart]) -> None:
        self.text = SEPARATOR.join(part.text for part in parts)
        self._parts = parts
        self._starts = array("q")
        self._origins = array("q")
        self._ends = array("q")

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The span of the scanned text that stands for `text[start:end]`; `start < end`."""
        if not self._starts:
            self._map_pieces()
        return self._origin_of(start)[0], self._origin_of(end - 1)[1]

    def _origin_of(self, position: int) -> tuple[int, int]:
        """The span of one character."""
        number = bisect_right(self._starts, position) - 1
        piece_start = self._starts[number]
        piece_length = self._starts[number + 1] - piece_start
        start = self._origins[number]
        end = self._ends[number]
        if piece_length != end - start:
            return start, end
        start += position - piece_start
        return start, start + 1

    def _map_pieces(self) -> None:
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


def views(text: str) -> Iterator[DecodedView]:
    """Every reading of `text` without one of its encodings; nothing if it has none."""
    for decode in (_decode_escapes, _decode_split_rows, _decode_base64, _decode_utf16):
        yield from _joined(decode(text))


def _joined(parts: Iterable[DecodedPart]) -> Iterator[DecodedView]:
    """Views of all parts that hold text, each of about BLOCK characters."""
    waiting: list[DecodedPart] = []
    size = 0
    for part in parts:
        if not part.text:
            continue
        waiting.append(part)
        size += len(part.text)
        if size > BLOCK:
            yield DecodedView(waiting)
            waiting = []
            size = 0
    if waiting:
        yield DecodedView(waiting)


_COLOUR = r"\[[0-9;?]{0,40}[A-Za-z]"
# Each alternative begins with a character of its own, so that the search jumps from one of these to
# the next.
_ESCAPE = expression(
    # JSON, also in JSON, where each level doubles the backslashes.
    rf"\\{{1,8}}(?:u001[bB]{_COLOUR}|u[0-9A-Fa-f]{{4}}|[nrtbf\"'/])"
    r"|%(?:25){0,2}[0-9A-Fa-f]{2}"  # also of a URL in a URL
    # A terminal's colour, and as `escape` writes it for people.
    rf"|\x1b{_COLOUR}|\xe2\x9f\xa6U\+001B\xe2\x9f\xa7{_COLOUR}"
)
_GOES_ON = "(goes on)"
_ROW_BREAK = expression(r"(?:\n|\\{1,8}n) {4}\(goes on\) [ +-]\|")
"""Where a judge is shown the rest of a long line (`judging.brief`): what stands on both sides is
one text.
"""
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _decode_escapes(text: str) -> Iterator[DecodedPart]:
    return _undone_around(text, _ESCAPE)


def _decode_split_rows(text: str) -> Iterator[DecodedPart]:
    """Long lines that were shown in several rows."""
    if _GOES_ON not in text:
        return iter(())
    return _undone_around(text, _ROW_BREAK)


def _undone_around(text: str, escape: re.Pattern[str]) -> Iterator[DecodedPart]:
    for start, end in _windows(text, escape):
        window = text[start:end]
        decoded = escape.sub(lambda match: _undone(match[0]), window)
        pieces = functools.partial(_pieces_of_escapes, window, start, escape)
        yield DecodedPart(decoded, pieces)


def _pieces_of_escapes(window: str, offset: int, escape: re.Pattern[str]) -> Iterator[Piece]:
    """What a window, which begins at `offset` of the text, is made of."""
    position = offset
    for match in escape.finditer(window):
        start = offset + match.start()
        end = offset + match.end()
        yield Piece(start - position, position, start)
        yield Piece(len(_undone(match[0])), start, end)
        position = end
    end = offset + len(window)
    yield Piece(end - position, position, end)


def _windows(text: str, escape: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Stretches of text with everything that an escape could break: their lines, REACH at most; in
    order.

    Stretches that touch are one as long as it is no longer than BLOCK; after that they share
    OVERLAP.
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
        # On an endless line the next escape may be anywhere.
        match = escape.search(text, max(match.end(), line_end))
    if high:
        yield low, high


@functools.lru_cache(maxsize=4096)
def _undone(escape: str) -> str:
    """What an escape stands for; "" for what is not seen."""
    if escape[0] == "%":
        return chr(int(escape[-2:], 16))
    body = escape.lstrip("\\")
    if body == escape or "[" in body or _GOES_ON in body:
        return ""  # a colour, or the break of a row
    if body[0] == "u":
        return chr(int(body[1:], 16)).encode("utf-8", "surrogatepass").decode("latin-1")
    return _CONTROL.get(body, body)


CODED = 27
"""Characters from which a run is decoded: base64 of the shortest known format (20 characters),
without its padding.
"""
_BEGINNING = 15
"""Characters of text that base64 must begin with to be taken for coded text."""
_INSIDE = bytes(range(0x80, 0xC0))
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n\r\x1b"})
_UNPRINTABLE = expression(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_RUN_CHARACTERS = string.ascii_letters + string.digits + "+/_-"
_RUNS = bytes(0x78 if chr(code) in _RUN_CHARACTERS else 0x20 for code in range(256))
_NEEDLE = b"x" * CODED
_TO_STANDARD = str.maketrans("-_", "+/")
_NEXT_LINE = expression(r"\r?\n[ \t]{0,40}([+-]?)[ \t]{0,40}([A-Za-z0-9+/_-]{2,})")


class _CodedLine(Struct, frozen=True):
    """A run of encoded text."""

    start: int
    end: int
    decoded: str


def _decode_base64(text: str) -> Iterator[DecodedPart]:
    """Text in base64; wrapped text goes on in the next line."""
    reached = 0
    for first, end in _runs(text):
        if first < reached:
            continue
        for start in _beginnings(text, first, end):
            line = _CodedLine(start, end, _text_in_base64(text[start:end]))
            if len(line.decoded) < _BEGINNING:
                continue
            lines = [line, *_lines_below(text, line)]
            reached = lines[-1].end
            decoded = "".join(line.decoded for line in lines)
            pieces = functools.partial(_pieces_of_groups, lines, 3, 4, len(decoded))
            yield DecodedPart(decoded, pieces)
            break


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Spans of at least CODED characters of base64 or base64url, in order."""
    marks = text.encode("latin-1", "replace").translate(_RUNS)
    start = marks.find(_NEEDLE)
    while start >= 0:
        end = marks.find(b" ", start)
        if end < 0:
            end = len(marks)
        yield start, end
        start = marks.find(_NEEDLE, end)


def _beginnings(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets at which encoded text may begin: the run's start, behind a hunk's mark, a path's last
    part.
    """
    if text[start - 1 : start] == "\\":
        start += 1  # the letter of an escaped line break
    yield start
    if text[start] in "+-":
        behind_marks = end - len(text[start:end].lstrip("+-"))
        if end - behind_marks >= CODED:
            yield behind_marks
    behind_slash = text.rfind("/", start, end) + 1
    if behind_slash and end - behind_slash >= CODED:
        yield behind_slash


def _text_in_base64(run: str) -> str:
    """The beginning of what a run encodes that is UTF-8 without control characters; "" if its first
    bytes are not.

    The first bytes tell most: those of a hash are not text.
    """
    standard = run.translate(_TO_STANDARD)
    head = binascii.a2b_base64(standard[:24])
    if len(head.translate(None, _CONTROLS)) < len(head):
        return ""
    if len(head.decode("utf-8", "ignore").encode()) < len(head) - 3:
        return ""
    return _text_of(_bytes_of(standard))


def _bytes_of(standard: str) -> bytes:
    """The bytes that base64 without padding encodes; b"" if it is malformed."""
    if len(standard) % 4 == 1:  # one character alone says nothing
        standard = standard[:-1]
    padding = "=" * (-len(standard) % 4)
    try:
        return base64.b64decode(standard + padding)
    except ValueError:
        return b""


def _text_of(data: bytes) -> str:
    """The beginning of `data` that is UTF-8 without control characters, seen as Latin-1.

    A line of a wrapped text may begin and end inside of a character.
    """
    head = len(data[:3]) - len(data[:3].lstrip(_INSIDE))
    try:
        data[head:].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end < len(data) - head:
            data = data[: head + error.start]
    decoded = data.decode("latin-1")
    control_character = _UNPRINTABLE.search(decoded)
    if control_character is None:
        return decoded
    return decoded[: control_character.start()]


def _lines_below(text: str, line: _CodedLine) -> Iterator[_CodedLine]:
    """The lines below that continue an encoded text, while each decodes to its end and ends with a
    whole group.
    """
    while len(line.decoded) * 4 == (line.end - line.start) * 3:
        match = _NEXT_LINE.match(text, line.end)
        if match is None:
            return
        # A `+` or `-` is a hunk's mark if one stands before the line above, too.
        char_before = text[max(0, line.start - 1) : line.start]
        is_mark = match.end(1) < match.start(2) or char_before in ("+", "-")
        start = match.start(2 if is_mark else 1)
        decoded = _text_of(_bytes_of(text[start : match.end()].translate(_TO_STANDARD)))
        if not decoded:
            return
        line = _CodedLine(start, match.end(), decoded)
        yield line


def _pieces_of_groups(
    lines: list[_CodedLine], per_group: int, width: int, size: int
) -> Iterator[Piece]:
    """Pieces of `size` characters; each `per_group` of them come from `width` characters of the
    text.
    """
    for line in lines:
        for start in range(line.start, line.end, width):
            length = min(per_group, size)
            size -= length
            yield Piece(length, start, min(start + width, line.end))


_WIDE = expression(r"(?:[\t\n\r -~]\x00){16,}+[\t\n\r -~]?")


def _decode_utf16(text: str) -> Iterator[DecodedPart]:
    """ASCII in UTF-16: every other character is NUL."""
    if "\0" not in text:
        return
    for match in _WIDE.finditer(text):
        decoded = match[0][::2]
        line = _CodedLine(match.start(), match.end(), decoded)
        pieces = functools.partial(_pieces_of_groups, [line], 1, 2, len(decoded))
        yield DecodedPart(decoded, pieces)
