"""Where keys stand in TOML text: tomllib gives no positions."""

from __future__ import annotations

import tomllib
from functools import lru_cache

from vibe_gate.domain.escape import expression
from vibe_gate.domain.tables import Location

_STRING = r'''"""(?:\\.|[^\\])*?"""(?!")|"(?:\\.|[^"\\])*"|\'\'\'.*?\'\'\'(?!\')|'[^']*\''''
_STATEMENT = expression(
    rf"(?s)(?:\s|#[^\n]*+)*+(\[*)[ \t]*((?:{_STRING}|[^\s\]=#\"']|[ \t])+)(?:=|\]+)"
)
_TOKEN = expression(rf"(?s){_STRING}|#[^\n]*|[\[{{\]}},\n]|[^\s\[{{\]}},#\"']+")


def line_of(text: str, location: Location) -> int:
    """The line of a key, of an array's item or of the nearest table around it; 1 if none is written
    down.
    """
    lines = _lines(text)
    for length in range(len(location), 0, -1):
        if location[:length] in lines:
            return lines[location[:length]]
    return 1


@lru_cache(maxsize=1)  # the mistakes of one file are told in a row
def _lines(text: str) -> dict[Location, int]:
    """The lines in text that tomllib has read; what stands in an inline table counts as on the line
    of its key.
    """
    lines: dict[Location, int] = {}
    newest: dict[Location, int] = {}  # array of tables -> index of its last item
    table: Location = ()
    line = 1
    position = 0
    while statement := _STATEMENT.match(text, position):
        brackets = statement[1]
        line += text.count("\n", position, statement.start(2))
        location = () if brackets else table
        inner = tomllib.loads(f"{statement[2]} = 0")
        while isinstance(inner, dict):
            ((part, inner),) = inner.items()
            location = (*location, part)
            lines.setdefault(location, line)
            if brackets == "[[" and not isinstance(inner, dict):
                newest[location] = newest.get(location, -1) + 1
            if location in newest:
                location = (*location, newest[location])
                lines.setdefault(location, line)
        position = statement.end()
        if brackets:
            table = location
        else:
            position, line = _add_items(text, position, line, location, lines)
    return lines


def _add_items(
    text: str, position: int, line: int, location: Location, lines: dict[Location, int]
) -> tuple[int, int]:
    """Add the lines of an array's items; the position and line at which the key's value ends."""
    depth = 0
    index = 0
    for token in _TOKEN.finditer(text, position):
        line += text.count("\n", position, token.start())
        position = token.start()
        word = token[0]
        if word == "\n" and depth == 0:
            break
        is_item = word not in ("\n", ",", "]", "}") and not word.startswith("#")
        if depth == 1 and is_item:
            lines.setdefault((*location, index), line)
        if word in ("[", "{"):
            depth += 1
        elif word in ("]", "}"):
            depth -= 1
        elif word == "," and depth == 1:
            index += 1
    return position, line
