"""Whether the text that a judge quotes is where it is said to be, and touches the change."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from vibe_gate.domain import escape
from vibe_gate.domain.change import FileDiff, Side
from vibe_gate.domain.verdict import CheckedEvidence, Evidence, Standing

MAX_QUOTE = 4000
"""Characters of a quote that we keep; a longer one is void, it no longer points at anything."""

MAX_PLACES = 10_000
"""Places of one quote that are looked at; a quote that stands more often points at nothing."""

MIN_RELOCATED = 8
"""Visible characters that a quote needs to be looked for elsewhere: a lone brace stands on every page."""


def check_evidence(evidence: Evidence, file: FileDiff | None, content: bytes) -> CheckedEvidence:
    """Whether the quoted text stands where it is said to stand, and touches the change.

    `file` is the changed file that `evidence.path` names (None: not part of the
    change) and `content` that file's bytes on the evidence's side. Both the quote
    and the content are compared as shown (`escape.show`), because that is what was
    read. The answer's lines are those where the quote really stands.
    """
    if file is None:
        return _void(evidence, "the file is not part of the change")
    quote = _normal_quote(evidence.quote)
    if not quote.strip():
        return _void(evidence, "the quote is empty")
    if len(quote) > MAX_QUOTE:
        return _void(evidence, f"the quote is longer than {MAX_QUOTE} characters")
    places = _occurrences(quote, [escape.show(line) for line in escape.lines(content)])
    if not places:
        return _void(evidence, "the quoted text does not stand in the file")
    touched = changed_lines(file, evidence.side)
    touching = [place for place in places if any(line in touched for line in range(place[0], place[1] + 1))]
    here = [place for place in touching if place[0] <= evidence.end_line and evidence.line <= place[1]]
    if here:
        return _stands(evidence, quote, here[0], "holds")
    if not touching:
        return _void(evidence, "the quoted lines were not changed")
    if len("".join(quote.split())) < MIN_RELOCATED:
        return _void(evidence, "the quote is not at that line, and too short to be looked for elsewhere")
    nearest = min(touching, key=lambda place: abs(place[0] - evidence.line))
    return _stands(evidence, quote, nearest, "relocated")


def changed_lines(file: FileDiff, side: Side) -> frozenset[int]:
    """Line numbers, from 1, that the change added (after) or removed (before)."""
    wanted = "+" if side == "after" else "-"
    skipped = "-" if side == "after" else "+"
    numbers: set[int] = set()
    for hunk in file.hunks:
        number = hunk.new_start if side == "after" else hunk.old_start
        for line in hunk.lines:
            if line.origin == wanted:
                numbers.add(number)
            if line.origin != skipped:
                number += 1
    return frozenset(numbers)


def _normal_quote(quote: str) -> str:
    lines = [line.removesuffix("\r") for line in quote.strip("\n").split("\n")]
    return "\n".join(lines).rstrip()


def _occurrences(quote: str, shown_lines: list[str]) -> list[tuple[int, int]]:
    """First and last line, from 1, of every place where the quote stands."""
    text = "\n".join(shown_lines)
    starts = list(accumulate((len(line) + 1 for line in shown_lines), initial=0))
    places: list[tuple[int, int]] = []
    at = text.find(quote)
    while at >= 0 and len(places) < MAX_PLACES:
        first = bisect_right(starts, at)
        places.append((first, first + quote.count("\n")))
        at = text.find(quote, starts[first]) if first < len(starts) else -1
    return places


def _stands(evidence: Evidence, quote: str, place: tuple[int, int], standing: Standing) -> CheckedEvidence:
    return CheckedEvidence(
        path=evidence.path, line=place[0], end_line=place[1], quote=quote, side=evidence.side, standing=standing
    )


def _void(evidence: Evidence, why: str) -> CheckedEvidence:
    return CheckedEvidence(
        path=evidence.path,
        line=evidence.line,
        end_line=evidence.end_line,
        quote=evidence.quote[:MAX_QUOTE],
        side=evidence.side,
        standing="void",
        why=why,
    )
