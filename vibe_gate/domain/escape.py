"""Text of others, shown so that nothing hides in it; expressions compiled at their first use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, AnyStr, cast


class _Later:
    """Stands for a `re.Pattern`; its methods are the pattern's own from the first use of each
    on.
    """

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._wanted = pattern, flags
        self._made: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a pattern has)
        if self._made is None:
            self._made = re.compile(*self._wanted)
        attribute = self.__dict__[name] = getattr(self._made, name)
        return attribute


def expression(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later: a mistake in the pattern shows at its first use, so it needs a test that
    uses it.
    """
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))


_UNUSUAL = expression(r"[^\t\x20-\x7e\xa1-\xac\xae-\u02ff]")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_HIDDEN_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u27e6\u17b4\u17b5")
"""Letters and marks that fonts draw as nothing, and our own bracket."""


def is_hidden(char: str) -> bool:
    """Whether the character must be written out to be seen: drawn as nothing, or as blank (but for
    tab and space).
    """
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


def without_middle(text: str, most: int) -> str:
    """The text; if it has more than `most` characters, its beginning, how many were left out, and
    its end.
    """
    if (left_out := len(text) - most) <= 0:
        return text
    return f"{text[: most // 2]}\n[{counted(left_out, 'character')} left out here]\n{text[-(most - most // 2) :]}"


def ended(sentence: str) -> str:
    """The sentence with a full stop, unless it ends with a mark already; "" stays ""."""
    bare = sentence.rstrip()
    return bare if not bare or bare.rstrip("\"'`)")[-1:] in (*".!?…:;", "") else f"{bare}."


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    everything = list(names)
    more_count = len(everything) - most
    return ", ".join(everything[:most]) + (f" and {more_count:,} more" if more_count > 0 else "")


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe(text: str) -> str:
    """The text on one line of a terminal or a document, with every hidden character as an escape (`\\x1b`, `\\u202e`).

    Backslashes stay as they are: the result is for reading, it cannot be turned back.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _SHORT.get(char) or (_escape(char) if _is_unsafe(char) else char) for char in text
    )


def _is_unsafe(char: str) -> bool:
    return (
        is_hidden(char) and char != "\u27e6" and unicodedata.category(char) != "Zs"
    )  # spaces of any width are fine


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
