"""Front matter of Claude Code's Markdown files: the part of YAML that such files use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from textwrap import dedent

from vibe_gate.domain.escape import expression

_KEY = expression(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?\Z")
_QUOTED = expression(r"""(?:("(?:[^"\\]|\\.)*")|'((?:[^']|'')*)')(?:[ \t]+#.*)?\Z""")
_COMMENT = expression(r"(?:^|[ \t])#.*")


def front_matter_end(lines: Sequence[str]) -> int:
    """The index of the line that ends the front matter; 0 if there is none."""
    if lines[0].rstrip(" \t") != "---":
        return 0
    for index, line in enumerate(lines):
        if index and line.rstrip(" \t") == "---":
            return index
    return 0


def front_matter_blocks(lines: Sequence[str]) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Each key of front matter: the number of its line in the file, its name ("" if the line is not
    a key), and its lines.
    """
    index = 0
    while index < len(lines):
        number = index + 2
        first = index
        line = lines[index]
        index += 1
        match = _KEY.match(line)
        if match:
            while index < len(lines) and (not lines[index].strip() or lines[index][0] in " \t-"):
                index += 1
            yield number, match[1], lines[first:index]
        elif line.strip() and not line.startswith("#"):
            yield number, "", lines[first:index]


def front_matter_entries(
    lines: Sequence[str],
) -> Iterator[tuple[int, str, str | list[str] | None]]:
    """Each key of front matter, with its line and value (None: a form that is not read); "" if it
    is not a key.
    """
    for number, key, block in front_matter_blocks(lines):
        value: str | list[str] | None = None
        match = _KEY.match(block[0])
        if match:
            value = _read_value((match[2] or "").strip(), block[1:])
        yield number, key, value


def _read_value(head: str, inner_lines: Sequence[str]) -> str | list[str] | None:
    """A value in the part of YAML that such files use: text, quoted or as a block, and lists of
    words.
    """
    if head[:1] in ("|", ">"):
        body = dedent("\n".join(inner_lines)).strip("\n")
        return body if head[0] == "|" else " ".join(body.split())
    lines = [line.strip() for line in inner_lines if line.strip()]
    joined = " ".join([head, *lines])
    if head.startswith("["):
        if not joined.endswith("]"):
            return None
        return [_read_scalar(word) for word in joined[1:-1].split(",") if word.strip()]
    if head or not lines:
        return _read_scalar(joined)
    if not all(line.startswith("- ") for line in lines):
        return None
    return [_read_scalar(line[2:]) for line in lines]


def _read_scalar(text: str) -> str:
    """A word or text, without quotation marks and comment."""
    stripped = text.strip()
    match = _QUOTED.match(stripped)
    if match:
        with suppress(ValueError):
            return str(json.loads(match[1])) if match[1] else match[2].replace("''", "'")
    return _COMMENT.sub("", stripped).strip()
