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
    return next(
        (lines[location[:end]] for end in range(len(location), 0, -1) if location[:end] in lines), 1
    )


@lru_cache(maxsize=1)  # the mistakes of one file are told in a row
def _lines(text: str) -> dict[Location, int]:
    """The lines in text that tomllib has read; what stands in an inline table counts as on the line
    of its key.
    """
    lines: dict[Location, int] = {}
    newest: dict[Location, int] = {}  # array of tables -> index of its last item
    table: Location = ()
    line, at = 1, 0
    while statement := _STATEMENT.match(text, at):
        line += text.count("\n", at, statement.start(2))
        location = () if statement[1] else table
        inner = tomllib.loads(f"{statement[2]} = 0")
        while isinstance(inner, dict):
            ((part, inner),) = inner.items()
            lines.setdefault(location := (*location, part), line)
            if statement[1] == "[[" and not isinstance(inner, dict):
                newest[location] = newest.get(location, -1) + 1
            if location in newest:
                lines.setdefault(location := (*location, newest[location]), line)
        at = statement.end()
        if statement[1]:
            table = location
            continue
        depth, index = 0, 0
        for token in _TOKEN.finditer(text, at):
            line += text.count("\n", at, token.start())
            at = token.start()
            if token[0] == "\n" and depth == 0:
                break
            if (
                depth == 1
                and token[0] not in ("\n", ",", "]", "}")
                and not token[0].startswith("#")
            ):
                lines.setdefault((*location, index), line)
            depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
            index += depth == 1 and token[0] == ","
    return lines
