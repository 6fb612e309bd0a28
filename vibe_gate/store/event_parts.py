"""What the events of every agent are read with: parts of them, and the files that a call wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

MAX_FILE_BYTES = 10 << 20
"""Of a file whose content is read back from disk, and letters that an edit may lead to: a bundle
keeps none larger.
"""


class PatchedLines(Struct, frozen=True):
    """Neighbouring lines of a patch, those around a change included, before and after it."""

    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


class WrittenFile(Struct, frozen=True):
    """What a call's event says of one file that the call wrote."""

    path: str
    """As the event has it: absolute, or from the agent's directory."""
    before: str | None = None
    """The whole text before the call; None if the event does not have it."""
    after: str | None = None
    """The whole text after the call, as `before`."""
    hunks: tuple[PatchedLines, ...] = ()
    """What the call changed, from the top of the file down."""


class CommandEnd(Struct, frozen=True):
    """How an event says that a command ended."""

    exit_status: int | None = None
    """None if the event does not tell it."""
    goes_on: bool = False
    """Whether it was left to go on in the background."""


def text_in(values: Mapping[str, Any], key: str) -> str | None:
    """The member of an event, if it is a text."""
    value = values.get(key)
    return value if isinstance(value, str) else None


def object_in(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The member of an event, if it is an object; else an empty one."""
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def split_patched_lines(lines: Iterable[str]) -> PatchedLines:
    """Both sides of lines that begin with " ", "-" or "+", as in a patch; what else stands there is
    no line of the file.
    """
    old: list[str] = []
    new: list[str] = []
    for line in lines:
        mark, text = line[:1], line[1:]
        if mark in (" ", "-"):
            old.append(text)
        if mark in (" ", "+"):
            new.append(text)
    return PatchedLines(tuple(old), tuple(new))
