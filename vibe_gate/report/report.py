"""What is reported about a run on a pull request: the summary, what was said before, and how the
job was set up.
"""

from __future__ import annotations

from msgspec import Struct

from vibe_gate.domain.replayed import Replayed
from vibe_gate.domain.summary import Summary
from vibe_gate.report.anchors import Anchors, read_anchors
from vibe_gate.report.links import Links
from vibe_gate.report.round import Round


class Report(Struct, frozen=True):
    """A run as it is told.

    `notes` are the review's sentences. `patch` is the redacted change.patch as text ("" if there is
    none), `artifact` whether the bundle is uploaded, `number` the pull request's. `name` tells
    several gates of one repository apart (a matrix); "" if there is one. `review` is the command
    that repeats the review here, without `vibe-gate review`.
    `fork`: the pull request is a fork's. `dependabot`: Dependabot started the job. `blocks` is
    False if the job succeeds whatever the verdict (`mode: warn`). `remarks` are sentences in sight:
    approvals that do not count.
    `replayed`: what the change's own rubrics would have said of earlier runs. `claimed`: a job that
    the change controls says so.
    """

    summary: Summary
    notes: tuple[str, ...]
    round: Round
    links: Links | None = None
    patch: str = ""
    artifact: bool = False
    number: int | None = None
    name: str = ""
    review: str = ""
    fork: bool = False
    dependabot: bool = False
    blocks: bool = True
    remarks: tuple[str, ...] = ()
    replayed: Replayed = Replayed()
    claimed: bool = False

    @property
    def usd(self) -> float:
        """What this run cost, its replays included."""
        return self.summary.cost.usd + self.replayed.usd

    @property
    def anchors(self) -> Anchors:
        """Lines of the change."""
        return read_anchors(self.patch.encode("utf-8", "surrogateescape"))
