"""A finding as the reader of a pull request was told it: its name from round to round, and its
places. Pure.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.domain.label import FindingSource
from vibe_gate.domain.verdict import MAX_REASON, Finding, Level, Outcome
from vibe_gate.report import finding_places

MAX_VOTES = 9
"""Votes of one finding; a rubric asks for fewer."""

MAX_PLACES = 4
"""Places of one finding that are kept: where it is shown, and the first lines that it quotes
elsewhere.
"""

MAX_LINES = 8
"""Quoted lines by which a finding is recognised that has another fingerprint now."""

MAX_SOURCES = 10
"""Rubrics of one finding; gates have fewer that share a criterion's id."""

MAX_QUOTE = 400
"""Characters of a quotation, of a counterexample, and of what a second look says."""

_MAX_LINE = (1 << 31) - 1

_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z")

Commit = Annotated[str, Meta(pattern=r"^[0-9a-f]{40}(?:[0-9a-f]{24})?(?!\n)$")]

LineDigest = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(?!\n)$")]

Fingerprint = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}(?!\n)$")]


class ReportedVote(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One answer to the question that a finding is about."""

    outcome: Outcome
    reason: Annotated[str, Meta(max_length=MAX_REASON)]


class ReportedPlace(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where a finding stood at the head at which it was found last."""

    path: Annotated[str, Meta(max_length=4096)] = ""
    """As the finding has it."""
    line: Annotated[int, Meta(ge=0, le=_MAX_LINE)] = 0
    """The first line; 0: the file as a whole."""
    end: Annotated[int, Meta(ge=0, le=_MAX_LINE)] = 0
    """The last line; 0: the first one."""


class ReportedFinding(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A finding as it was said; "" and () where there was no room for what explains it to whoever
    asks.
    """

    fingerprint: Fingerprint
    criterion: Annotated[str, Meta(max_length=64)]
    path: Annotated[str, Meta(max_length=4096)]
    line: Annotated[int, Meta(ge=0, le=_MAX_LINE)]
    level: Level
    message: Annotated[str, Meta(max_length=280)]
    since: Commit
    """The head of the round that said it first."""
    fixed: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?(?!\n)$")] = ""
    """The head at which it was gone; "": it is there."""
    quote: Annotated[str, Meta(max_length=MAX_QUOTE)] = ""
    counterexample: Annotated[str, Meta(max_length=MAX_QUOTE)] = ""
    votes: Annotated[tuple[ReportedVote, ...], Meta(max_length=MAX_VOTES)] = ()
    refuted: bool = False
    """Whether a second look had refuted it."""
    second_look: Annotated[str, Meta(max_length=MAX_QUOTE)] = ""
    found_by: Annotated[tuple[FindingSource, ...], Meta(max_length=MAX_SOURCES)] = ()
    """The rubrics that found it last, for labels."""
    last: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?(?!\n)$")] = ""
    """The head at which it was found last; "": the state's own."""
    at: Annotated[tuple[ReportedPlace, ...], Meta(max_length=MAX_PLACES)] = ()
    """Where it stood then; (): at `path` and `line`."""
    lines: Annotated[tuple[LineDigest, ...], Meta(max_length=MAX_LINES)] = ()
    """The first lines that it quoted then, as `line_digest` has them."""
    thread: Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{16})?(?!\n)$")] = ""
    """The fingerprint by which the comment at its lines goes; "": its own."""

    @property
    def thread_name(self) -> str:
        """The fingerprint that marks the comment at its lines."""
        return self.thread or self.fingerprint

    @property
    def places(self) -> tuple[tuple[str, int, int], ...]:
        """Where it stood when it was found last: path, first and last line, 0 of a file as a
        whole.
        """
        reported_places = self.at or (ReportedPlace(path=self.path, line=self.line),)
        places = []
        for place in reported_places:
            end = max(place.line, place.end)
            places.append((place.path or self.path, place.line, end))
        return tuple(places)


def finding_identity(finding: Finding) -> str:
    """What names a finding from round to round: its fingerprint, or one made of its words and its
    line.
    """
    if _FINGERPRINT.match(finding.fingerprint):
        return finding.fingerprint
    words = "\0".join((finding.criterion, finding.path, str(finding.line), finding.message))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def report_finding(finding: Finding, head: str) -> ReportedFinding:
    """The finding as the round of the commit `head` says it."""
    return ReportedFinding(
        fingerprint=finding_identity(finding),
        criterion=finding.criterion[:64],
        path=finding.path[:4096],
        line=min(finding.line, _MAX_LINE),
        level=finding.level,
        message=finding.message,
        since=head,
        refuted=finding.is_refuted,
        at=_places_of(finding),
        lines=line_digests(finding)[:MAX_LINES],
    )


def report_finding_again(reported: ReportedFinding, finding: Finding) -> ReportedFinding:
    """What was said before, at the lines where it stands now, under its fingerprint of now."""
    fingerprint = finding_identity(finding)
    thread = reported.thread_name
    if thread == fingerprint:
        thread = ""
    return replace(
        reported,
        fingerprint=fingerprint,
        thread=thread,
        refuted=finding.is_refuted,
        last="",
        at=_places_of(finding),
        lines=line_digests(finding)[:MAX_LINES],
    )


def line_digests(finding: Finding) -> tuple[str, ...]:
    """The quoted lines of the change, each once, as digests of path and text."""
    digests = []
    for line in finding.evidence:
        if line.quote:
            digests.append(line_digest(line.path, line.quote))
    return tuple(dict.fromkeys(digests))


def line_digest(path: str, quote: str) -> str:
    """A quoted line in eight hex digits, whatever its white space and its number."""
    text = "\0".join((path, " ".join(quote.split())))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _places_of(finding: Finding) -> tuple[ReportedPlace, ...]:
    """Where the finding stands: its places, and the lines that it quotes elsewhere.

    A line that the change removed is in no head, so of these the file counts.
    """
    places: dict[tuple[str, int, int], None] = {}
    for quoted in finding_places.quoted_places(finding):
        place = quoted.place
        first, last = place.line, place.end_line
        if quoted.is_removed:
            first = last = 0
        places[place.path, first, last] = None
        for line in quoted.lines:
            is_inside = line.path == place.path and first <= line.line <= last
            if line.side == "after" and not is_inside:
                places[line.path, line.line, line.end_line] = None
    reported_places = []
    for path, first, last in list(places)[:MAX_PLACES]:
        if path == finding.path:
            path = ""
        if last <= first:
            last = 0
        reported_place = ReportedPlace(
            path=path[:4096],
            line=min(first, _MAX_LINE),
            end=min(last, _MAX_LINE),
        )
        reported_places.append(reported_place)
    return tuple(reported_places)
