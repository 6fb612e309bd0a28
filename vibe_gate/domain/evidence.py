"""Evidence: bytes that a finding points at."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vibe_gate.domain.change import Side
from vibe_gate.domain.model import Model

MAX_REASON = 280
"""Characters of a reason or message: one comment line (PRODUCT 5)."""

Standing = Literal["holds", "relocated", "void"]


class Evidence(Model):
    """Lines `line`..`end_line` of a file, counted from 1, and the text said to stand there.

    `path` is as shown (`paths.quote`); `side` "before" is for what was removed.
    """

    path: str
    line: int = Field(ge=1)
    end_line: int = Field(ge=1)
    quote: str
    side: Side = "after"


class CheckedEvidence(Model):
    """Evidence after our own look: where it stands, and why it is void if it is."""

    path: str
    line: int
    end_line: int
    quote: str
    side: Side = "after"
    standing: Standing
    why: str = ""
