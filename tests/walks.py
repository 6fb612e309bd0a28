"""The walk of a review, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.run.review import review_around
from vibe_gate.run.review_result import Review

LAST = Selection("commit")
"""The last commit."""


async def await_review(
    place: Path, environ: Mapping[str, str], selection: Selection = LAST, **request: Any
) -> Review:
    """A review in the repository at `place`; `request`: fields of a ReviewRequest, and a
    `meter`.
    """
    meter = request.pop("meter", None)
    return await review_around(
        ReviewRequest(selection, **request),
        start=place,
        environment=read_environment(environ),
        clock=lambda: datetime.now(UTC),
        progress=lambda stage, text: None,
        meter=meter,
    )


def run_review(
    place: Path, environ: Mapping[str, str], selection: Selection = LAST, **request: Any
) -> Review:
    """Run a review in the repository at `place` and wait for it; arguments as of `await_review`."""
    return asyncio.run(await_review(place, environ, selection, **request))
