"""A round in figures, and as a page or a log of events holds it. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct

from vibe_gate.domain.document import Count
from vibe_gate.domain.verdict import Finding
from vibe_gate.report import queries
from vibe_gate.report.reported_finding import ReportedFinding, report_finding
from vibe_gate.report.round import Round
from vibe_gate.report.round_state import MAX_NUMBER, MAX_SEEN

REFUTED, ACCEPTED = "Raised and refuted", "Accepted"
"""Titles of findings about which there is nothing to do."""


class RoundCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many findings a round has: `accepted` and `refuted` are among no others."""

    new: Count = 0
    open: Count = 0
    fixed: Count = 0
    accepted: Count = 0
    refuted: Count = 0
    unanswered: Count = 0
    unraised: Count = 0

    def __str__(self) -> str:
        parts = [f"{self.new:,} new", f"{self.open:,} still open", f"{self.fixed:,} fixed"]
        rare_counts = {
            ACCEPTED: self.accepted,
            REFUTED: self.refuted,
            "not raised again": self.unraised,
            "not found again": self.unanswered,
        }
        for words, number in rare_counts.items():
            if number:
                parts.append(f"{number:,} {words.lower()}")
        return ", ".join(parts)


class RoundRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A round as those read it who have not the findings themselves, in a page or in a log of
    events.
    """

    number: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    after: str = ""
    """The round before, a gate's node or a run; "" if there was none, or it is told elsewhere."""
    counts: RoundCounts = RoundCounts()
    new: tuple[ReportedFinding, ...] = ()
    """Of this round alone."""
    fixed: tuple[ReportedFinding, ...] = ()
    """Of this round alone."""
    unanswered: tuple[ReportedFinding, ...] = ()
    back: tuple[str, ...] = ()
    """Fingerprints among the new that were called fixed before."""


def settled_title(finding: Finding) -> str:
    """The title under which it stands if there is nothing to do about it; else ""."""
    if queries.waiver_text(finding):
        return ACCEPTED
    if not finding.is_refuted:
        return ""
    return REFUTED


def count_findings(round: Round) -> RoundCounts:
    """What the round comes to, in figures."""
    title_counts = Counter(settled_title(finding) for finding in round.reportable)
    return RoundCounts(
        new=sum(not settled_title(finding) for finding in round.new),
        open=sum(not settled_title(finding) for finding in round.open),
        fixed=len(_fixed_now(round)),
        accepted=title_counts[ACCEPTED],
        refuted=title_counts[REFUTED],
        unanswered=len(round.unanswered),
        unraised=len(round.unraised),
    )


def is_further(round: Round) -> bool:
    """Whether there is something to say of what became of what was said before."""
    is_later = round.number > 1 and bool(round.new or round.open or _fixed_now(round))
    return is_later or bool(round.withheld or round.unanswered or round.unraised)


def record_round(round: Round, after: str = "") -> RoundRecord:
    """The round without its findings; `after` as of RoundRecord."""
    open_findings = []
    for finding in round.new:
        if not settled_title(finding):
            open_findings.append(finding)
    reported = []
    for finding in open_findings[:MAX_SEEN]:
        reported.append(report_finding(finding, round.head))
    return RoundRecord(
        number=round.number,
        after=after,
        counts=count_findings(round),
        new=tuple(reported),
        fixed=_fixed_now(round),
        unanswered=(*round.unraised, *round.unanswered),
        back=tuple(sorted(round.reappeared)),
    )


def _fixed_now(round: Round) -> tuple[ReportedFinding, ...]:
    return tuple(reported for reported in round.fixed if reported.fixed == round.head)
