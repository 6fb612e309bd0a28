"""What GitHub's API takes: values that `report` makes and the forge sends."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Json = Any

Conclusion = Literal["success", "failure", "action_required", "neutral", "cancelled"]
"""Never skipped, and neutral only if the verdict is not to block: both satisfy a required check,
cancelled does not.
"""

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
    """A completed check run."""

    title: str
    """One line."""
    summary: str
    """Markdown below 65,536 characters."""
    text: str
    """Markdown below 65,536 characters."""
    conclusion: Conclusion
    annotations: tuple[CheckAnnotation, ...] = ()
    record: str = ""
    """For later runs alone (GitHub's `external_id`)."""


class LineComment(Struct, frozen=True):
    """A comment at a line, or at the lines `start_line`..`line` of one hunk."""

    path: str
    body: str
    line: int
    side: DiffSide
    start_line: int | None = None
    fingerprint: str = ""
    """That of its finding; it is not sent."""

    def json(self) -> Json:
        """As a review takes it."""
        payload: Json = {"path": self.path, "body": self.body, "line": self.line, "side": self.side}
        if self.start_line not in (None, self.line):
            payload |= {"start_line": self.start_line, "start_side": self.side}
        return payload
