"""What the forge takes to be posted, by its shape: `report` makes it, on a floor above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Json = Any


class Annotation(Protocol):
    """A finding at lines, as the Checks API wants it."""

    @property
    def path(self) -> str:
        """The repository's own."""

    @property
    def start_line(self) -> int:
        """From 1."""

    @property
    def end_line(self) -> int:
        """Not before the first."""

    @property
    def annotation_level(self) -> str:
        """Notice, warning or failure."""

    @property
    def message(self) -> str:
        """Plain text."""

    @property
    def title(self) -> str:
        """May be ""."""

    @property
    def raw_details(self) -> str:
        """May be ""."""


class CheckRun(Protocol):
    """A run as a check run."""

    @property
    def title(self) -> str:
        """One line."""

    @property
    def summary(self) -> str:
        """Markdown, below 65,536 characters."""

    @property
    def text(self) -> str:
        """The same, or ""."""

    @property
    def conclusion(self) -> str:
        """GitHub's word for the outcome."""

    @property
    def annotations(self) -> Sequence[Annotation]:
        """Any number."""


class LineComment(Protocol):
    """A comment at a line, or at lines of one hunk."""

    @property
    def path(self) -> str:
        """The repository's own."""

    @property
    def body(self) -> str:
        """Markdown."""

    @property
    def line(self) -> int:
        """The last line that it is about."""

    @property
    def side(self) -> str:
        """LEFT (before) or RIGHT (after)."""

    @property
    def start_line(self) -> int | None:
        """The first line, where there are several."""

    @property
    def start_side(self) -> str | None:
        """Its side."""


def annotation(each: Annotation) -> Json:
    """As the Checks API takes it; texts that are empty are left out."""
    needed = {
        "path": each.path,
        "start_line": each.start_line,
        "end_line": each.end_line,
        "annotation_level": each.annotation_level,
        "message": each.message,
    }
    more = {"title": each.title, "raw_details": each.raw_details}
    return needed | {name: value for name, value in more.items() if value}


def line_comment(each: LineComment) -> Json:
    """As a review takes it."""
    needed: Json = {"path": each.path, "body": each.body, "line": each.line, "side": each.side}
    if each.start_line is None:
        return needed
    return needed | {"start_line": each.start_line, "start_side": each.start_side or each.side}
