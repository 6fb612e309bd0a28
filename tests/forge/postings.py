"""What is posted, by the shapes that the forge takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Annotation:
    path: str
    start_line: int
    end_line: int
    annotation_level: str
    message: str
    title: str = ""
    raw_details: str = ""


@dataclass(frozen=True)
class CheckRun:
    annotations: tuple[Annotation, ...]
    title: str = "1 criterion failed"
    summary: str = "Details"
    text: str = ""
    conclusion: str = "failure"


@dataclass(frozen=True)
class LineComment:
    body: str
    line: int
    path: str = "a.py"
    side: str = "RIGHT"
    start_line: int | None = None
    start_side: str | None = None
