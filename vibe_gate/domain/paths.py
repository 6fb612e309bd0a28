"""Repository paths: how they are held, shown and matched.

A path is held as the `str` that `os.fsdecode` makes of git's bytes on a UTF-8
system: bytes that are not UTF-8 become lone surrogates, and `encode` gives the
bytes back unchanged. Lone surrogates, control characters and the like must never
reach JSON, a prompt or a terminal, so whatever leaves the program goes through
`quote`, which is git's own C-style quoting (`git config core.quotePath false`,
plus quoting of what is not UTF-8 or not visible).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from vibe_gate.domain.escape import expression

_C_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r",
              34: '\\"', 92: "\\\\"}  # fmt: skip
_C_UNESCAPES = {text[1]: code for code, text in _C_ESCAPES.items()}
_UNQUOTE = expression(r"\\([0-7]{3}|.)", re.DOTALL)


def decode(raw: bytes) -> str:
    """Git's bytes as the path that the program holds."""
    return raw.decode("utf-8", "surrogateescape")


def encode(path: str) -> bytes:
    """The bytes that git knows the path by. JSON can hold lone surrogates that no bytes give: these are written out."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogatepass")


def is_plain(path: str) -> bool:
    """Whether `quote` leaves the path as it is."""
    return not path.startswith('"') and all(_is_visible(char) for char in path)


def quote(path: str) -> str:
    """The path as text that is safe anywhere: itself, or C-quoted as git does.

    A quoted path starts with a double quote, and a path that starts with one is
    always quoted, so the two cannot be confused; `unquote` reverses it exactly.
    """
    if is_plain(path):
        return path
    return '"' + "".join(_quote_char(char) for char in path) + '"'


def unquote(shown: str) -> str:
    """The path that `quote` showed. Text that was not quoted comes back as it is."""
    if len(shown) < 2 or not (shown.startswith('"') and shown.endswith('"')):
        return shown
    out = bytearray()
    position = 0
    inner = shown[1:-1]
    for match in _UNQUOTE.finditer(inner):
        out += encode(inner[position : match.start()])
        body = match[1]
        out.append(int(body, 8) & 0xFF if len(body) == 3 else _C_UNESCAPES.get(body, ord(body[0]) & 0xFF))
        position = match.end()
    out += encode(inner[position:])
    return decode(bytes(out))


def _is_visible(char: str) -> bool:
    # Cc control, Cf format (bidi, tags, zero width), Cs surrogates, Co private
    # use, Cn unassigned, Zl and Zp separators: each can hide or forge text.
    return unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _quote_char(char: str) -> str:
    if ord(char) in _C_ESCAPES:
        return _C_ESCAPES[ord(char)]
    if _is_visible(char):
        return char
    return "".join(f"\\{byte:03o}" for byte in encode(char))


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether any glob matches the whole path.

    `*` and `?` stop at `/`; `**` as a whole segment crosses it (`src/**` is all
    below src, `**/test_*.py` any depth); a pattern without `/` matches the last
    segment at any depth, as in .gitignore; `[a-z]` and `[!a-z]` are sets. Newlines
    in names are ordinary characters, so no name slips past a pattern.
    """
    name = path[path.rfind("/") + 1 :]
    return any(_matches(path, name, pattern) for pattern in patterns)


def _matches(path: str, name: str, pattern: str) -> bool:
    # Compiling an expression takes longer than a hundred of these comparisons, to which most patterns come down.
    wanted = pattern.removeprefix("**/")
    start, star, end = wanted.partition("*")
    if wanted and "/" not in wanted and not _is_special(start + end):
        return (
            len(name) >= len(start + end) and name.startswith(start) and name.endswith(end) if star else name == start
        )
    folder = pattern.removesuffix("**")
    if folder != pattern and folder.lstrip("/").endswith("/") and not _is_special(folder):
        folder = folder.lstrip("/")
        return path.startswith(folder) and path != folder
    return _compiled(pattern).match(path) is not None


def _is_special(text: str) -> bool:
    return "*" in text or "?" in text or "[" in text


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if not pattern:
        return re.compile(r"(?!)")
    anchored = pattern.lstrip("/")
    if "/" not in pattern.rstrip("/"):
        anchored = "**/" + anchored
    if anchored.endswith("/"):
        anchored += "**"
    return re.compile(_expression(anchored.split("/")) + r"\Z", re.DOTALL)


# Names are hostile and may be long, so no expression may try every way to share a
# name out among several wildcards. It need not: between two wildcards the first
# place that fits is as good as any (it leaves the most for what follows), so those
# parts are atomic groups, and only what follows the last wildcard is tried anew.


def _expression(segments: list[str]) -> str:
    """The segments of a glob, `**` between runs of them."""
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(_segment(segment))
    if len(runs) == 1:
        return "/".join(runs[0])
    start = "".join(f"{segment}/" for segment in runs[0])
    between = "".join("(?>(?:[^/]++/)*?" + "".join(f"{segment}/" for segment in run) + ")" for run in runs[1:-1] if run)
    return start + between + ("(?:[^/]++/)*" + "/".join(runs[-1]) if runs[-1] else ".+")


def _segment(segment: str) -> str:
    """One segment; `*` between runs of characters."""
    runs: list[str] = [""]
    index = 0
    while index < len(segment):
        char = segment[index]
        end = _set_end(segment, index)
        if char == "*":
            runs.append("")
        elif char == "?":
            runs[-1] += "[^/]"
        elif end:
            runs[-1] += _set(segment[index + 1 : end])
            index = end
        else:
            runs[-1] += re.escape(char)
        index += 1
    if len(runs) == 1:
        return runs[0]
    return runs[0] + "".join(f"(?>[^/]*?{run})" for run in runs[1:-1] if run) + "[^/]*" + runs[-1]


def _set_end(segment: str, start: int) -> int:
    """Where the set that opens at `start` closes; 0 where none does. A `]` in first place is a member."""
    if segment[start] != "[":
        return 0
    first = start + 1 + (segment[start + 1 : start + 2] in {"!", "^"})
    return max(0, segment.find("]", first + 1))


def _set(body: str) -> str:
    """`a-z` or `!a-z` as an expression; no set matches `/`, and a range that runs backwards has no members."""
    negated = body[0] in "!^"
    members = body[1:] if negated else body
    parts: list[str] = []
    index = 0
    while index < len(members):
        low, high = members[index], members[index + 2 : index + 3]
        if high and members[index + 1] == "-":
            if low <= high:
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
            index += 3
        else:
            parts.append(re.escape(low))
            index += 1
    inside = f"[{''.join(parts)}]" if parts else "(?!)"
    return f"(?!{inside})[^/]" if negated else f"(?!/){inside}"
