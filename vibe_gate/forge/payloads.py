"""What GitHub's API takes: values that `report` makes and the forge sends."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Json = Any

Conclusion = Literal["success", "failure", "action_required", "neutral", "cancelled"]
"""Never skipped, and neutral only if the verdict is not to block: both satisfy a required check, cancelled does not."""

Reaction = Literal["eyes", "-1"]
"""Seen, and no."""

DiffSide = Literal["LEFT", "RIGHT"]
"""Before or after."""


class CheckAnnotation(Struct, frozen=True):
    """A finding at lines of a file after the change, from 1; `path` is the repository's own."""

    path: str
    start_line: int
    end_line: int
    annotation_level: Literal["notice", "warning", "failure"]
    message: str
    title: str = ""
    raw_details: str = ""

    def json(self) -> Json:
        """As the Checks API takes it; empty texts are left out."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


class CheckRun(Struct, frozen=True):
    """A completed check run: a title of one line, `summary` and `text` in Markdown below 65,536 characters.

    `record` is for later runs alone (GitHub's `external_id`).
    """

    title: str
    summary: str
    text: str
    conclusion: Conclusion
    annotations: tuple[CheckAnnotation, ...] = ()
    record: str = ""


class LineComment(Struct, frozen=True):
    """A comment at a line, or at the lines `start_line`..`line` of one hunk.

    `fingerprint` is that of its finding and stays here.
    """

    path: str
    body: str
    line: int
    side: DiffSide
    start_line: int | None = None
    fingerprint: str = ""

    def json(self) -> Json:
        """As a review takes it."""
        sent: Json = {"path": self.path, "body": self.body, "line": self.line, "side": self.side}
        if self.start_line in (None, self.line):
            return sent
        return sent | {"start_line": self.start_line, "start_side": self.side}
