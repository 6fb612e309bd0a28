"""One finding on one screen: what was asked, what it rests on, what people said, what to do next.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET, Struct

from vibe_gate.domain.escape import safe
from vibe_gate.domain.gate import Override
from vibe_gate.domain.label import Label
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, CheckedEvidence, Finding
from vibe_gate.report import finding_places, next_step, queries, sentences

MAX_QUOTES = 4
"""Quoted lines of a place, and of a second look."""

MAX_OTHER_PLACES = 4
"""Further places whose lines are quoted; the others are named."""

MAX_QUOTE, MAX_TEXT = 66, 280
"""Characters of a quoted line, and of any other text: all of it has to fit one screen."""

Row = tuple[str, str]
"""A label, "" for a further line, and its text."""


class Explanation(Struct, frozen=True):
    """What is known of a finding."""

    finding: Finding
    summary: Summary
    question: str
    """What its criterion asks; "" if that is not known any more."""
    labels: Sequence[Label] = ()
    """Those of this finding."""
    overrides: Sequence[Override] = ()
    """Those of this finding."""
    is_accepted: bool = False
    """Whether one of these overrides holds today."""
    is_about_session: bool = False
    """Whether it is about what agents ran or said, which no change of files repairs."""
    by_agent: bool = False
    """Whether a coding agent asks, which may neither label nor let pass."""


def explanation_rows(of: Explanation) -> Iterator[Row]:
    """The explanation, row by row; no text of others is anything but text."""
    finding, summary = of.finding, of.summary
    must = any(criterion.must for _, criterion in queries.sources_of_finding(finding, summary))
    kind = f"{finding.level}{', must' if must else ''}"
    yield "finding", f"{finding.criterion} [{finding.fingerprint}], {kind}"
    yield "place", sentences.place_words_of(finding)
    if of.question:
        yield "asked", _cut_text(of.question)
    yield from _label_first("lines", _line_texts(finding))
    yield from _label_first("decides", map(_placed_quote, finding_places.deciding_lines(finding)))
    yield "answer", _cut_text(finding.message)
    if remark := finding_places.remark_words(finding):
        yield "remark", remark
    yield from _reason_rows(finding, summary)
    yield from _label_first("people", map(_cut_text, _people(of)))
    yield "run", summary.run_id
    yield from _next_steps(of)


def _line_texts(finding: Finding) -> Iterator[str]:
    """The quoted lines of the first places; where a place is not in the first's file, before its
    lines the place. Last the names of the other places.
    """
    first, *other_places = finding_places.quoted_places(finding)
    yield from map(_quoted, queries.shown_evidence(first.lines)[:MAX_QUOTES])
    path = first.path
    for place in other_places[:MAX_OTHER_PLACES]:
        lines = queries.shown_evidence(place.lines)[:MAX_QUOTES]
        if place.path != path or not lines:
            yield f"also at {sentences.place_words_of(place.place)}"
            path = place.path
        yield from map(_quoted, lines)
    unquoted_places = [place.place for place in other_places[MAX_OTHER_PLACES:]]
    if unquoted_places:
        yield f"also at {', '.join(map(sentences.place_words_of, unquoted_places))}"


def _placed_quote(evidence: CheckedEvidence) -> str:
    quote = _cut_quote(evidence.quote.strip())
    return f"{sentences.place_words_of(evidence)}: {quote}"


def _label_first(label: str, texts: Iterable[str]) -> Iterator[Row]:
    """The texts as rows of which the first has the label."""
    for text in texts:
        yield label, text
        label = ""


def _reason_rows(finding: Finding, summary: Summary) -> Iterator[Row]:
    """What supports the finding, and what was said against it."""
    counterexample = queries.counterexample_of(finding, summary)
    if counterexample:
        yield "e.g.", _cut_text(counterexample)
    if finding.proof is not UNSET:
        yield "test", _cut_text(sentences.proof_sentence(finding.proof))
        if finding.proof.test:
            yield "", _cut_text(f"repeat: {finding.proof.command}")
    votes = _votes(finding, summary)
    if votes:
        yield "votes", votes
    if finding.second_look is not UNSET:
        dispute = finding.second_look.dispute
        if dispute is not UNSET:
            yield "argued", _cut_text(sentences.dispute_words(dispute))
        yield "look", _cut_text(sentences.second_look_sentence(finding.second_look))
        for evidence in queries.grounds_of_look(finding.second_look)[:MAX_QUOTES]:
            words = sentences.grounds_words(finding.second_look)
            yield "", f"{words} {_placed_quote(evidence)}"


def _quoted(evidence: CheckedEvidence) -> str:
    quote = _cut_quote(evidence.quote.replace("\t", "    ").rstrip())
    sign = "|"
    if evidence.side == "before":
        sign = "-"
    return f"{evidence.line:>5} {sign} {quote}"


def _cut_quote(quote: str) -> str:
    if len(quote) <= MAX_QUOTE:
        return quote
    return quote[: MAX_QUOTE - 1] + "…"


def _votes(finding: Finding, summary: Summary) -> str:
    """How the votes on its criterion were, "" of a check."""
    outcomes: Counter[str] = Counter()
    models: dict[str, None] = {}
    for _, criterion in queries.sources_of_finding(finding, summary):
        for vote in criterion.votes:
            outcomes[vote.outcome.replace("_", " ")] += 1
            if vote.model:
                models[vote.model] = None
    if not outcomes:
        return ""
    counts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
    if models:
        return f"{counts} ({', '.join(models)})"
    return counts


def _people(of: Explanation) -> Iterator[str]:
    for label in of.labels[-3:]:
        words = f"wrong, says {label.by}"
        if label.right:
            words = f"right, says {label.by}"
        if label.reason:
            words += f": {label.reason}"
        yield words
    for override in of.overrides[-2:]:
        yield f"accepted by {override.by} until {override.expires}: {override.reason}"
    waiver = queries.waiver_text(of.finding)
    if waiver and not of.overrides:
        yield waiver
    if not (of.labels or of.overrides or waiver):
        yield "no label, not accepted"


def _next_steps(of: Explanation) -> Iterator[Row]:
    finding, summary = of.finding, of.summary
    name = finding.fingerprint[:SHORT_FINGERPRINT]
    if finding.is_refuted:
        yield "next", "nothing to do: a second look refuted it"
        return
    if queries.waiver_text(finding):
        yield "next", "nothing to do: it is accepted"
        return
    if finding_places.remark_words(finding):
        yield "next", "nothing has to change: a remark blocks nothing"
        return
    if of.is_about_session:
        yield "fix", "run it, or correct what was said; no change of files is needed"
    else:
        yield "fix", f"change the lines{next_step.by_an_agent(summary)}, then review again"
    if queries.may_be_disputed(finding, summary):
        yield "dispute", f"vibe-gate dispute {name} --reason TEXT (once; a second look decides)"
    if of.is_accepted:
        yield "next", "it is accepted in this clone: review again to see the verdict with that"
        return
    if of.by_agent:
        yield "accept", "ask the user to accept it"
        return
    if summary.sources(finding):
        yield "label", f"vibe-gate label {name} right|wrong --reason TEXT"
    yield "accept", f"vibe-gate override {name} --reason TEXT (this clone, 30 days)"
    if queries.has_own_gate(summary):
        yield "", f"vibe-gate suppress {name} --reason TEXT (everybody, once merged)"


def _cut_text(text: str) -> str:
    text = " ".join(safe(text).split())
    if len(text) <= MAX_TEXT:
        return text
    words = text[:MAX_TEXT].rpartition(" ")[0]
    return f"{words or text[: MAX_TEXT - 1]}…"
