"""Small changes to a JSON text that leave every other byte of it as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")
_INDENTED = re.compile(r"\n([ \t]+)\S")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object or an item of an array: where it starts, where its value is, and its key."""

    key: str | None
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class Style:
    """How a text is laid out; `unit` is None where it stands on one line."""

    unit: str | None
    newline: str

    def write(self, value: Any, depth: int) -> str:  # noqa: ANN401 - JSON
        """The value as it would stand `depth` levels deep."""
        if self.unit is None:
            return json.dumps(value, ensure_ascii=False)
        text = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return text.replace("\n", self.newline + self.unit * depth)

    def margin(self, depth: int) -> str:
        """What stands before something `depth` levels deep."""
        return "" if self.unit is None else self.newline + self.unit * depth


def style(text: str) -> Style:
    """The layout of a text: its own indentation and line ends, two spaces where it shows none."""
    newline = "\r\n" if "\r\n" in text else "\n"
    indented = _INDENTED.search(text)
    if indented:
        return Style(indented[1], newline)
    one_line = "\n" not in text.strip() and len(text.strip()) > len("{}")
    return Style(None if one_line else "  ", newline)


def skip(text: str, at: int) -> int:
    """The next place that is no white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def parts(text: str, opening: int) -> list[Member]:
    """Members or items of the object or array that opens at `opening`; the text must be valid JSON."""
    return list(_parts(text, opening))


def _parts(text: str, opening: int) -> Iterator[Member]:
    at = skip(text, opening + 1)
    while text[at] not in "}]":
        start, key = at, None
        if text[opening] == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = skip(text, skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield Member(key, start, at, end)
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)


def appended(text: str, opening: int, depth: int, key: str | None, value: Any) -> str:  # noqa: ANN401 - JSON
    """The text with a value at the end of the object or array that opens at `opening`, `depth` levels deep."""
    look = style(text)
    new = ("" if key is None else json.dumps(key) + ": ") + look.write(value, depth + 1)
    inside = parts(text, opening)
    if inside:
        separator = look.margin(depth + 1) or " "
        end = inside[-1].end
        return f"{text[:end]},{separator}{new}{text[end:]}"
    closing = skip(text, opening + 1)
    return f"{text[: opening + 1]}{look.margin(depth + 1)}{new}{look.margin(depth)}{text[closing:]}"


def removed(text: str, opening: int, index: int) -> str:
    """The text without one member or item: what `appended` added goes, and nothing else."""
    inside = parts(text, opening)
    if index > 0:
        return text[: inside[index - 1].end] + text[inside[index].end :]
    if len(inside) > 1:
        return text[: inside[0].start] + text[inside[1].start :]
    return text[: opening + 1] + text[skip(text, inside[0].end) :]
