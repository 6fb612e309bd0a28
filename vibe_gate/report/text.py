"""Text from a repository, a model or an error, made safe to show: nothing invisible, nothing that acts."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories that can hide or forge text: control, format (bidi, tags, zero width), surrogates, private use,
unassigned, line and paragraph separators."""

_BLANK = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u034f"}
"""Letters, a symbol and a mark by category that show nothing."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe(text: str) -> str:
    """The text on one line, with everything invisible written as an escape (`\\x1b`, `\\u202e`, `\\n`).

    Backslashes stay as they are: this is for reading, not for turning back.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_SHORT.get(char) or (_escape(char) if _is_hidden(char) else char) for char in text)


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN or char in _BLANK or _is_variation_selector(char)


def _is_variation_selector(char: str) -> bool:
    # VS1-16 and VS17-256 carry a byte each and show nothing; emoji lose their colour here, not their meaning.
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
