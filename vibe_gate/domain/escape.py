"""Text of others: shown so that nothing hides in it, invisible characters found, expressions compiled once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, AnyStr, cast


class _Later:
    """Stands for a `re.Pattern`; its methods are the pattern's own from the first use of each on."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._wanted = pattern, flags
        self._made: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a pattern has)
        if self._made is None:
            self._made = re.compile(*self._wanted)
        found = self.__dict__[name] = getattr(self._made, name)
        return found


def expression(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later: a mistake in the pattern shows at its first use, so it needs a test that uses it."""
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))


_UNUSUAL = expression(r"[^\t\x20-\x7e\xa1-\xac\xae-\u02ff]")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_HIDDEN_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u27e6\u17b4\u17b5")
"""Letters and marks that fonts draw as nothing, and our own bracket."""


def is_hidden(char: str) -> bool:
    """Whether the character must be written out to be seen: drawn as nothing, or as blank (but for tab and space)."""
    if char in "\t ":
        return False
    code = ord(char)
    return (
        unicodedata.category(char) in _HIDDEN_CATEGORIES
        or char in _HIDDEN_LETTERS
        or 0xFE00 <= code <= 0xFE0F
        or 0xE0100 <= code <= 0xE01EF
    )


def show(raw: bytes) -> str:
    """One line's bytes, without its line ending, as visible text."""
    return show_text(raw.decode("utf-8", "surrogateescape"))


def show_text(text: str) -> str:
    """The same for text that was decoded already (surrogate escapes are bytes)."""
    return _UNUSUAL.sub(lambda match: _write_out(match[0]), text)


def show_block(text: str) -> str:
    """Text of several lines (LF), each shown."""
    return "\n".join(show_text(line.removesuffix("\r")) for line in text.split("\n"))


def _write_out(char: str) -> str:
    if 0xDC80 <= ord(char) <= 0xDCFF:
        return f"⟦0x{ord(char) - 0xDC00:02X}⟧"
    return f"⟦U+{ord(char):04X}⟧" if is_hidden(char) else char


def lines(content: bytes) -> list[bytes]:
    """Lines as git counts them: split at LF only; the ending (LF or CR LF) is dropped."""
    if not content:
        return []
    parts = content.split(b"\n")
    if parts[-1] == b"":
        parts.pop()
    return [part[:-1] if part.endswith(b"\r") else part for part in parts]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """ "1 file", "2 files"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    everything = list(names)
    rest = len(everything) - most
    return ", ".join(everything[:most]) + (f" and {rest:,} more" if rest > 0 else "")


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe(text: str) -> str:
    """The text on one line of a terminal or a document, with every hidden character as an escape (`\\x1b`, `\\u202e`).

    Backslashes stay as they are: the result is for reading, it cannot be turned back.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_SHORT.get(char) or (_escape(char) if _is_unsafe(char) else char) for char in text)


def _is_unsafe(char: str) -> bool:
    return is_hidden(char) and char != "\u27e6" and unicodedata.category(char) != "Zs"  # spaces of any width are fine


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


MAX_FOUND = 1000
"""Characters found in one text: megabytes of them, each with its name, would fill the memory and tell nothing more."""

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_SEPARATORS = "\u2028\u2029"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = "\U000e0000-\U000e007f"

_SUSPECT = expression(f"[{_BIDI}{_ZERO_WIDTH}{_SEPARATORS}{_SELECTORS}{_TAGS}]")
_KINDS = (
    ("bidirectional control", expression(f"[{_BIDI}]")),
    ("tag character", expression(f"[{_TAGS}]")),
    ("variation selector", expression(f"[{_SELECTORS}]")),
    ("line separator", expression(f"[{_SEPARATORS}]")),
)
_FLAG = expression(
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""England, Scotland, Wales: the only tag sequences in use."""

_JOINERS = "\u200c\u200d"
_SKIN = "\U0001f3fb-\U0001f3ff"
_PICTOGRAPH = expression(
    f"[\u00a9\u00ae\u203c\u2049\u2100-\u214f\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff{_SKIN}]"
)
_JOINING = expression("[\u0600-\u109f\u1780-\u18af\u1a20-\u1cff\ua800-\uabff\U00010a00-\U00011fff]")


@dataclass(frozen=True, slots=True)
class Invisible:
    """One character at `position`; `name` reads "U+202E RIGHT-TO-LEFT OVERRIDE"."""

    position: int
    kind: str
    name: str


def find(text: str, *, file_start: bool = False) -> list[Invisible]:
    """The characters of `text` that hide or reorder, MAX_FOUND at most. `file_start`: a byte order mark is allowed."""
    if text.isascii():
        return []
    return list(islice(_suspects(text, file_start), MAX_FOUND))


def _suspects(text: str, file_start: bool) -> Iterator[Invisible]:
    flags = [match.span() for match in _FLAG.finditer(text)] if "\U0001f3f4" in text else []
    for match in _SUSPECT.finditer(text):
        position, char = match.start(), match[0]
        if (char == "\ufeff" and position == 0 and file_start) or _is_legitimate(text, position, flags):
            continue
        kind = next((name for name, pattern in _KINDS if pattern.match(char)), "zero-width character")
        yield Invisible(position, kind, f"U+{ord(char):04X} {unicodedata.name(char, 'unassigned')}")


def _is_legitimate(text: str, position: int, flags: list[tuple[int, int]]) -> bool:
    char = text[position]
    before = text[position - 1] if position else ""
    after = text[position + 1 : position + 2]
    if char in _JOINERS:
        return _joins(text, position, before, after)
    if re.match(f"[{_SELECTORS}]", char):
        return _selects(char, before)
    if re.match(f"[{_TAGS}]", char):
        while flags and flags[0][1] <= position:
            flags.pop(0)
        return bool(flags) and flags[0][0] < position
    return "\u180b" <= char <= "\u180f" and "\u1820" <= before <= "\u18aa"


def _joins(text: str, position: int, before: str, after: str) -> bool:
    """Whether a joiner or non-joiner stands between characters that it can join."""
    if before and after and _JOINING.match(before) and (_JOINING.match(after) or after in " \n"):
        return True
    if before == "\ufe0f" and position >= 2:
        before = text[position - 2]
    return bool(
        text[position] == "\u200d" and before and after and _PICTOGRAPH.match(before) and _PICTOGRAPH.match(after)
    )


def _selects(selector: str, before: str) -> bool:
    """Whether one selector stands after a character that has variants; a second in a row never does."""
    if not before:
        return False
    if selector >= "\U000e0100":
        return unicodedata.category(before) == "Lo" and "CJK" in unicodedata.name(before, "")
    if selector in "\ufe0e\ufe0f":
        return before in "0123456789#*" or _PICTOGRAPH.match(before) is not None
    return unicodedata.category(before) in {"Lo", "Sm"}
