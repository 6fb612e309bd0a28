"""Front matter of Claude Code's Markdown files: the part of YAML that such files use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from textwrap import dedent

from vibe_gate.domain.escape import expression

_KEY = expression(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?\Z")
_QUOTED = expression(r"""(?:("(?:[^"\\]|\\.)*")|'((?:[^']|'')*)')(?:[ \t]+#.*)?\Z""")
_COMMENT = expression(r"(?:^|[ \t])#.*")
_INNER_KEY = expression(r"[^\s:]+:(?:[ \t]|\Z)")
_ACTING = expression(r"[{}\[\]*&#!|>%@`]|: ")
"""What has Claude Code quote the whole value of a line, where it is no YAML as it stands."""
_CLOSING_MARKS: Mapping[str, str] = {"[": "]", "{": "}", '"': '"', "'": "'"}
_TOOL_KEYS = ("tools", "disallowedTools", "allowed-tools", "disallowed-tools")


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


def unreadable_value(key: str, block: Sequence[str]) -> str:
    """Why the lines of a key are no value; "" if they are one.

    A plain text with ": " or brackets in its midst is one: Claude Code takes it as it stands.
    """
    match = _KEY.match(block[0])
    if match is None:
        return "is no key with a value"
    head = (match[2] or "").strip()
    inner_lines = [line.strip() for line in block[1:] if line.strip()]
    if head[:1] in ("|", ">"):
        return ""
    if head:
        return _unreadable_text(key, head, inner_lines)
    for line in inner_lines:
        if line.startswith("- "):
            problem = _unreadable_text(key, line[2:].strip(), [])
            if problem:
                return problem
    return ""


def _unreadable_text(key: str, head: str, inner_lines: Sequence[str]) -> str:
    """Why the text that begins with `head` is no value; "" if it is one."""
    joined = " ".join([head, *inner_lines])
    closing_mark = _CLOSING_MARKS.get(head[0])
    if closing_mark and closing_mark not in joined[1:]:
        return f"opens {head[0]} and does not close it"
    is_quoted = head[0] in "\"'"
    if is_quoted and not _QUOTED.match(joined) and not _ACTING.search(head):
        return f"goes on behind its closing {head[0]}"
    if not closing_mark and any(_INNER_KEY.match(line) for line in inner_lines):
        return "is text and has keys below it"
    plain = _COMMENT.sub("", joined)
    if key in _TOOL_KEYS and plain.count("(") != plain.count(")"):
        return "has a ( without its )"
    return ""


def unclosed_front_matter(lines: Sequence[str]) -> bool:
    """Whether the file begins with front matter that no line of `---` ends; a rule above plain text
    is none.
    """
    if lines[0].rstrip(" \t") != "---" or front_matter_end(lines):
        return False
    return len(lines) > 1 and _KEY.match(lines[1]) is not None


def first_key(lines: Sequence[str]) -> str:
    """The key on the first line of a file without front matter; "" if it has none."""
    match = _KEY.match(lines[0])
    return match[1] if match else ""


def _read_value(head: str, inner_lines: Sequence[str]) -> str | list[str] | None:
    """A value in the part of YAML that such files use: text, quoted or as a block, and lists of
    words.
    """
    if head.startswith("|"):
        return _read_block(inner_lines)
    if head.startswith(">"):
        return " ".join(_read_block(inner_lines).split())
    lines = [line.strip() for line in inner_lines if line.strip()]
    joined = " ".join([head, *lines])
    if head.startswith("["):
        return _read_list(joined)
    if head or not lines:
        return _read_scalar(joined)
    if not all(line.startswith("- ") for line in lines):
        return None
    return [_read_scalar(line[2:]) for line in lines]


def _read_block(lines: Sequence[str]) -> str:
    """Text on indented lines, without their indentation."""
    return dedent("\n".join(lines)).strip("\n")


def _read_list(text: str) -> list[str] | None:
    """The words between brackets; None if the closing one is missing."""
    if not text.endswith("]"):
        return None
    return [_read_scalar(word) for word in text[1:-1].split(",") if word.strip()]


def _read_scalar(text: str) -> str:
    """A word or text, without quotation marks and comment."""
    stripped = text.strip()
    match = _QUOTED.match(stripped)
    if match:
        with suppress(ValueError):
            if match[1]:
                return str(json.loads(match[1]))
            return match[2].replace("''", "'")
    return _COMMENT.sub("", stripped).strip()
