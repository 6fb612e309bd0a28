"""Text of others, shown so that nothing hides in it; expressions compiled at their first use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, AnyStr, cast


class _LazyPattern:
    """Stands for a `re.Pattern`; its methods are the pattern's own from the first use of each
    on.
    """

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags
        self._compiled: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a pattern has)
        if self._compiled is None:
            self._compiled = re.compile(self._source, self._flags)
        attribute = getattr(self._compiled, name)
        self.__dict__[name] = attribute
        return attribute


def expression(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later: a mistake in the pattern shows at its first use, so it needs a test that
    uses it.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


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
    if unicodedata.category(char) in _HIDDEN_CATEGORIES or char in _HIDDEN_LETTERS:
        return True
    return _is_variation_selector(char)


def _is_variation_selector(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


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
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"⟦0x{code - 0xDC00:02X}⟧"
    if is_hidden(char):
        return f"⟦U+{code:04X}⟧"
    return char


def lines(content: bytes) -> list[bytes]:
    """Lines as git counts them: split at LF only; the ending (LF or CR LF) is dropped."""
    if not content:
        return []
    parts = content.split(b"\n")
    if parts[-1] == b"":
        parts.pop()
    return [part.removesuffix(b"\r") for part in parts]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """ "1 file", "2 files"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {plural or noun + 's'}"


def shorten_text(text: str, most: int) -> str:
    """The text; if it has more than `most` characters, its beginning and "…"."""
    if len(text) <= most:
        return text
    return text[: most - 1] + "…"


def without_middle(text: str, most: int) -> str:
    """The text; if it has more than `most` characters, its beginning, how many were left out, and
    its end.
    """
    surplus = len(text) - most
    if surplus <= 0:
        return text
    start_length = most // 2
    end_length = most - start_length
    start = text[:start_length]
    end = text[-end_length:]
    return f"{start}\n[{counted(surplus, 'character')} left out here]\n{end}"


def end_sentence(sentence: str) -> str:
    """The sentence with a full stop, unless it ends with a mark already; "" stays ""."""
    bare = sentence.rstrip()
    last_char = bare.rstrip("\"'`)")[-1:]
    if last_char in (*".!?…:;", ""):
        return bare
    return f"{bare}."


def list_names(names: Iterable[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    all_names = list(names)
    first_names = ", ".join(all_names[:most])
    surplus = len(all_names) - most
    if surplus <= 0:
        return first_names
    return f"{first_names} and {surplus:,} more"


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe(text: str) -> str:
    """The text on one line of a terminal or a document, with every hidden character as an escape (`\\x1b`, `\\u202e`).

    Backslashes stay as they are: the result is for reading, it cannot be turned back.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_make_safe(char) for char in text)


def _make_safe(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if not is_hidden(char) or char == "⟦":
        return char
    if unicodedata.category(char) == "Zs":  # spaces of any width are fine
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"
