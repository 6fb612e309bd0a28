"""Who wrote the changed lines of a run: turns of captured sessions, as a page of the run shows
them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.escape import without_middle

MAX_PROMPT = 20_000
"""Characters of a prompt that a page shows; of a longer one its beginning and its end."""

MAX_PROMPTS = 5_000_000
"""Characters of all prompts of a page; the later ones are left out."""


class WritingTurn(Struct, frozen=True):
    """A turn of a captured session that wrote changed lines; also what a tool's record says of
    one.
    """

    agent: str
    session: str
    turn: int | None
    """Its number; None if the record names none."""
    at: datetime | None = None
    asked: str = ""
    """The prompt's first line; "" if the page is made without prompts."""
    prompt: str = ""
    """The prompt; "" if the page is made without prompts."""
    source: str = "captured"
    """"captured", or the name of the tool whose record says so."""


class WrittenLines(Struct, frozen=True, array_like=True):
    """Lines of a file after the change that one tool call wrote, both ends included.

    On the page an array in this order.
    """

    path: str
    line: int
    end_line: int
    writer: int
    """An index of the turns."""
    tool: str = ""
    tool_use_id: str = ""


class Authors(Struct, frozen=True):
    """Turns and the changed lines that they wrote, in the order of the change."""

    turns: tuple[WritingTurn, ...] = ()
    lines: tuple[WrittenLines, ...] = ()
    withheld: bool = False
    """Whether there were prompts, which are left out."""
    untold: bool = False
    """Whether sessions were captured, but the reviewed files cannot be had any more."""

    def without_prompts(self) -> Authors:
        """The same for a page that others may read."""
        turns = tuple(replace(turn, asked="", prompt="") for turn in self.turns)
        return Authors(turns, self.lines, withheld=any(turn.prompt for turn in self.turns))

    def of(self, path: str, first: int, last: int) -> list[int]:
        """The indices of the turns that wrote one of these lines of the file; of any of its lines
        if `first` is 0.
        """
        writers: dict[int, None] = {}
        for lines in self.lines:
            if lines.path != path:
                continue
            if not first or (lines.line <= last and first <= lines.end_line):
                writers[lines.writer] = None
        return list(writers)


WhoWrote: TypeAlias = Callable[[Mapping[str, Sequence[int]]], Authors]
"""Tells who wrote the lines that a change added: given by path, which is as `paths.quote` shows
it.
"""


def no_authors(_: Mapping[str, Sequence[int]]) -> Authors:
    """Of a page without captured sessions."""
    return Authors()


def limit_prompts(turns: Sequence[WritingTurn]) -> Iterator[str]:
    """The prompt of each turn as a page shows it; "" from the one on that would make the page too
    large.
    """
    room = MAX_PROMPTS
    for turn in turns:
        prompt = without_middle(turn.prompt, MAX_PROMPT)
        room -= len(prompt)
        yield prompt if room >= 0 else ""
