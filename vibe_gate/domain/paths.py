"""Repository paths: how they are held, shown and matched.

A path is held as the `str` that `os.fsdecode` makes of git's bytes: those that are not UTF-8 become
lone surrogates, which must never reach JSON, a prompt or a terminal. Whatever leaves the program
goes through `quote`: git's own C-style quoting (`core.quotePath false`), also of what is not UTF-8
or not visible.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

from vibe_gate.domain.escape import expression

_C_ESCAPES = {
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}
_C_UNESCAPES = {text[1]: code for code, text in _C_ESCAPES.items()}
_UNQUOTE = expression(r"\\([0-7]{3}|.)", re.DOTALL)


def decode(raw: bytes) -> str:
    """Git's bytes as the path that the program holds."""
    return raw.decode("utf-8", "surrogateescape")


def encode(path: str) -> bytes:
    """The bytes that git knows the path by. JSON can hold lone surrogates that no bytes give: these
    are written out.
    """
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogatepass")


def is_plain(path: str) -> bool:
    """Whether `quote` leaves the path as it is."""
    visible = path.isprintable() if path.isascii() else all(map(is_visible, path))
    return visible and not path.startswith('"')


def quote(path: str) -> str:
    """The path as text that is safe anywhere: itself, or C-quoted as git does.

    A quoted path starts with a double quote, and a path that starts with one is
    always quoted, so the two cannot be confused; `unquote` reverses it exactly.
    """
    if is_plain(path):
        return path
    return '"' + "".join(_quote_char(char) for char in path) + '"'


def unquote(quoted: str) -> str:
    """The path that `quote` showed. Text that was not quoted comes back as it is."""
    if len(quoted) < 2 or not (quoted.startswith('"') and quoted.endswith('"')):
        return quoted
    out = bytearray()
    position = 0
    inner = quoted[1:-1]
    for match in _UNQUOTE.finditer(inner):
        out += encode(inner[position : match.start()])
        body = match[1]
        if len(body) == 3:
            out.append(int(body, 8) & 0xFF)
        else:
            out.append(_C_UNESCAPES.get(body, ord(body[0]) & 0xFF))
        position = match.end()
    out += encode(inner[position:])
    return decode(bytes(out))


def is_visible(char: str) -> bool:
    """Whether the character shows itself, and nothing else, wherever it is printed."""
    # Cc control, Cf format (bidi, tags, zero width), Cs surrogates, Co private
    # use, Cn unassigned, Zl and Zp separators: each can hide or forge text.
    return unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _quote_char(char: str) -> str:
    if ord(char) in _C_ESCAPES:
        return _C_ESCAPES[ord(char)]
    if is_visible(char):
        return char
    return "".join(f"\\{byte:03o}" for byte in encode(char))


def matches_any_glob(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether any glob matches the whole path.

    `*` and `?` stop at `/`; `**` as a whole segment crosses it; a pattern without `/` matches the
    last segment at any depth, as in .gitignore; `[a-z]` and `[!a-z]` are sets. A newline is an
    ordinary character: no name slips past.
    """
    names = path.split("/")
    globs = _compile_globs(patterns)
    if globs.fits_last_name(names[-1]):
        return True
    return any(
        literals.issubset(names) and _fits(names, segments)
        for literals, segments in globs.from_root
    )


_WILDCARDS = frozenset("*?[")

Segment = Callable[[str], object] | None
"""Tells whether a name fits; None is `**`, any number of names."""


class _Globs(NamedTuple):
    """Patterns of paths, compiled."""

    fits_last_name: Callable[[str], object]
    """Tells whether the last name fits a pattern of one name at any depth."""

    from_root: tuple[tuple[frozenset[str], tuple[Segment, ...]], ...]
    """Of each other pattern the names that a path must have, for most have none of them, and the
    segments, from the root.
    """


@lru_cache(maxsize=1024)
def _compile_globs(patterns: tuple[str, ...]) -> _Globs:
    last_names: list[str] = []
    from_root: list[tuple[frozenset[str], tuple[Segment, ...]]] = []
    for pattern in filter(None, patterns):
        segments = _segments(pattern)
        if len(segments) == 2 and segments[0] == "**":
            last_names.append(translate(segments[1]))
        else:
            literals = frozenset(filter(_is_literal, segments))
            from_root.append((literals, tuple(map(_compile_segment, segments))))
    any_last_name = "|".join(last_names) or "(?!)"
    return _Globs(re.compile(any_last_name).match, tuple(from_root))


def _is_literal(segment: str) -> bool:
    """Whether it fits no name but itself."""
    return _WILDCARDS.isdisjoint(segment)


def _compile_segment(segment: str) -> Segment:
    if segment == "**":
        return None
    return re.compile(translate(segment)).match


def _segments(pattern: str) -> list[str]:
    """The pattern's names, from the root."""
    is_anchored = "/" in pattern.rstrip("/")
    anchored = pattern.lstrip("/") if is_anchored else f"**/{pattern}"
    segments = anchored.replace("[^", "[!").split("/")
    if segments[-1] in ("", "**"):
        return [*segments[:-1], "**", "?*"]
    return segments


def _fits(names: list[str], globs: tuple[Segment, ...]) -> bool:
    """Whether the names fit, in time that grows with their number times that of the globs."""
    if globs and globs[-1] is not None and not globs[-1](names[-1]):
        return False  # as of most pairs
    counts = {0}  # how many names the globs until now may have taken
    for glob in globs:
        if not counts:
            return False
        if glob is None:
            counts = set(range(min(counts), len(names) + 1))
            continue
        next_counts = set()
        for count in counts:
            if count < len(names) and glob(names[count]):
                next_counts.add(count + 1)
        counts = next_counts
    return len(names) in counts
