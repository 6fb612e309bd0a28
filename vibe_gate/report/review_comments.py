"""New findings as comments at lines of the diff. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ReviewComment:
    """What the forge's review takes; `path` is the repository's own. One line: `start_line` and `start_side` None."""

    path: str
    body: str
    line: int
    side: Literal["LEFT", "RIGHT"]
    start_line: int | None
    start_side: Literal["LEFT", "RIGHT"] | None
    fingerprint: str
