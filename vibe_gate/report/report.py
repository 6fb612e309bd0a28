"""What is reported about a run on a pull request: the summary, what was said before, and how the
job was set up.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from vibe_gate.domain.replayed import Replayed
from vibe_gate.domain.summary import Summary
from vibe_gate.report.anchors import Anchors, read_anchors
from vibe_gate.report.links import Links
from vibe_gate.report.round import Round

ArtifactContent = Literal["none", "summary", "full"]
"""Nothing; all but contents and conversations; the whole bundle."""


class Report(Struct, frozen=True):
    """A run as it is reported to people."""

    summary: Summary
    notes: tuple[str, ...]
    """The review's sentences."""
    round: Round
    links: Links | None = None
    """Addresses of a job's run and repository; None outside of a job."""
    patch: str = ""
    """The redacted change.patch as text; "" if there is none."""
    made_patch: str = ""
    """The redacted patch of what a workflow's agents changed; "" if there is none."""
    artifact: ArtifactContent | None = None
    """What of the run a job of the Action hands over; None outside of one."""
    is_uploaded: bool = True
    """Whether a step of action.yml uploads that; False: it stays in a folder, for the workflow's own
    step.
    """
    number: int | None = None
    """The pull request's."""
    name: str = ""
    """Tells several gates of one repository apart (a matrix); "" if there is one."""
    review: str = ""
    """The arguments of `vibe-gate review` that repeat the review in a clone."""
    fork: bool = False
    """Whether the pull request is a fork's."""
    dependabot: bool = False
    """Whether Dependabot started the job."""
    blocks: bool = True
    """False if the job succeeds whatever the verdict (`mode: warn`)."""
    remarks: tuple[str, ...] = ()
    """Sentences in sight: approvals that do not count."""
    replayed: Replayed = Replayed()
    """What the change's own rubrics would have said of earlier runs."""
    claimed: bool = False
    """Whether a job that the change controls says so."""

    @property
    def usd(self) -> float:
        """What this run cost, its replays included."""
        return self.summary.cost.usd + self.replayed.usd

    @property
    def anchors(self) -> Anchors:
        """Lines of the change."""
        return read_anchors(self.patch.encode("utf-8", "surrogateescape"))
