"""What is told of a run at a pull request: the summary, and what stands around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from vibe_gate.domain.summary import Summary
from vibe_gate.report.anchors import Anchors, anchors
from vibe_gate.report.links import Links
from vibe_gate.report.round import Round, first_round


@dataclass(frozen=True)
class Report:
    """A run as it is told.

    `notes` are the review's sentences. `patch` is the redacted change.patch as text
    ("" where there is none), `papers` one sentence about receipt and signature ("" none),
    `artifact` whether the bundle is uploaded, `number` the pull request's. `name` tells
    several gates of one repository apart (a matrix); "" where there is one. `review`
    is the command that repeats the review here, without `vibe-gate review`.
    """

    summary: Summary
    notes: tuple[str, ...]
    round: Round
    links: Links | None = None
    patch: str = field(default="", repr=False)
    papers: str = ""
    artifact: bool = False
    number: int | None = None
    name: str = ""
    review: str = ""

    @property
    def anchors(self) -> Anchors:
        """Lines of the change."""
        return anchors(self.patch.encode("utf-8", "surrogateescape"))


def report_of(summary: Summary, notes: tuple[str, ...] = (), patch: str = "") -> Report:
    """A run that is told where nothing was said before, and no forge is known."""
    return Report(summary, notes, first_round(summary.findings, summary.change.head_commit), patch=patch)
