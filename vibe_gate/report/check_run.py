"""A run as a check run: conclusion, summary, and an annotation for each finding at its lines. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Conclusion = Literal["success", "failure", "action_required"]
"""Never neutral or skipped: those satisfy a required check."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One finding at lines of the after side, or at the first line of its file; `path` is the repository's own."""

    path: str
    start_line: int
    end_line: int
    annotation_level: Literal["notice", "warning", "failure"]
    message: str
    title: str = ""
    raw_details: str = ""


@dataclass(frozen=True, slots=True)
class CheckRun:
    """What the Checks API takes, all annotations in order; `text` may be ""."""

    title: str
    summary: str
    text: str
    conclusion: Conclusion
    annotations: tuple[Annotation, ...] = ()
