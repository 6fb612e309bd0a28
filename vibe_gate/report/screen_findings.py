"""The findings of the verdict screen: each with its place, its lines and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET
from rich.cells import cell_len, chop_cells
from rich.text import Text

from vibe_gate.domain.escape import counted, safe
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import SHORT_FINGERPRINT, Finding, Proof, SecondLook, short
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.screen_rows import (
    LEVEL_MARKS,
    ScreenRow,
    cut_line,
    quote_evidence,
    quote_unnumbered,
    visible_path,
)

MOST_PLACES = 5
"""Places of a finding whose lines are shown."""

MOST_PLACE_LINES = 4
"""Lines of a place that is wider than the screen; of a longer one the middle is left out."""


def finding_rows(
    finding: Finding, summary: Summary, columns: int, shown_texts: set[str]
) -> list[ScreenRow]:
    """Place, criterion and fingerprint; the quoted lines of each place, and those that decide; what
    is wrong; what would go wrong.

    `shown_texts`: counterexamples, tests and second looks that stand above already, and stand once;
    this finding's are added.
    """
    rank = queries.GRAVITY[finding.level]
    rows = _place_rows(finding, summary, rank, columns)
    rows += _line_rows(finding, rank, columns)
    rows.append(ScreenRow(rank, Text(f"    {safe(sentences.finding_sentence(finding))}")))
    counterexample = queries.counterexample_of(finding, summary)
    if counterexample and counterexample not in shown_texts:
        shown_texts.add(counterexample)
        example = safe(short(counterexample, sentences.MAX_COUNTEREXAMPLE))
        rows.append(ScreenRow(rank, Text(f"    e.g. {example}", "dim")))
    if finding.proof is not UNSET:
        rows += proof_rows(finding.proof, rank, shown_texts)
    if finding.second_look is not UNSET:
        rows += _second_look_rows(finding.second_look, rank, columns, shown_texts)
    return rows


def _line_rows(finding: Finding, rank: int, columns: int) -> Iterator[ScreenRow]:
    """The quoted lines of the first places, then the unchanged lines that decide the finding."""
    places = finding_places.quoted_places(finding)
    path = finding.path
    for index, place in enumerate(places[:MOST_PLACES]):
        lines = queries.shown_evidence(place.lines)
        if index and (place.path != path or not lines):
            yield _named_place_row("also at", sentences.place_words_of(place.place), rank)
            path = place.path
        for line in lines:
            yield ScreenRow(rank, cut_line(quote_evidence(line), columns))
    if len(places) > MOST_PLACES:
        count = counted(len(places) - MOST_PLACES, "more place")
        yield ScreenRow(rank, Text(f"    and {count}", "dim"))
    for line in finding_places.deciding_lines(finding)[: finding_places.MAX_DECIDING_LINES]:
        yield _named_place_row("decided by", sentences.place_words_of(line), rank)
        yield ScreenRow(rank, cut_line(quote_unnumbered(line), columns))


def _named_place_row(words: str, place: str, rank: int) -> ScreenRow:
    return ScreenRow(rank, Text.assemble((f"    {words} ", "dim"), visible_path(place)))


def _place_rows(finding: Finding, summary: Summary, rank: int, columns: int) -> list[ScreenRow]:
    """Place and source on one row; a place that is too wide is broken, as it would lose its line
    number if it were cut.
    """
    mark, style = LEVEL_MARKS[finding.level]
    place = visible_path(finding.path) or "the change"
    if finding.line:
        place += f":{finding.line}"
    place_text = Text.assemble((f"{mark} ", style), (place, "bold"))
    source_text = _source_text(finding, summary)
    if cell_len(place_text.plain) <= columns:
        return [ScreenRow(rank, Text("  ").join((place_text, source_text)))]
    pieces = chop_cells(place_text.plain, columns)
    if len(pieces) > MOST_PLACE_LINES:
        pieces[1:-2] = ["…"]
    rows = []
    for piece in pieces:
        rows.append(ScreenRow(rank, Text(piece, "bold")))
    rows.append(ScreenRow(rank, Text("    ").append_text(source_text)))
    return rows


def _source_text(finding: Finding, summary: Summary) -> Text:
    """The criterion, the fingerprint, and how the finding is known."""
    criterion = finding.criterion
    if queries.advice_behind(finding, summary):
        criterion += " (would have blocked)"
    name = ""
    if finding.fingerprint:
        name = f"  [{safe(finding.fingerprint[:SHORT_FINGERPRINT])}]"
    basis = queries.finding_basis(finding)
    if basis:
        basis = f"  {basis}"
    else:
        basis = ""
    return Text.assemble(safe(criterion), (name, "dim"), (basis, "dim"))


def proof_rows(proof: Proof, rank: int, shown_texts: set[str]) -> Iterator[ScreenRow]:
    """What running its test came to, and how to repeat it. Once for all its findings."""
    if proof.test in shown_texts:
        return
    shown_texts.add(proof.test)
    yield ScreenRow(rank, Text(f"    {safe(sentences.proof_sentence(proof))}"))
    if proof.test:
        command = f"    repeat: {safe(proof.command)} (the bundle has the test)"
        yield ScreenRow(rank, Text(command, "dim"))


def _second_look_rows(
    look: SecondLook, rank: int, columns: int, shown_texts: set[str]
) -> Iterator[ScreenRow]:
    """What was said against the finding; what a second look came to, unless the finding says it; the
    lines that prevent or intend it. Once for all its findings.
    """
    sentence = sentences.second_look_sentence(look)
    if sentence in shown_texts:
        return
    shown_texts.add(sentence)
    if dispute := sentences.dispute_sentence(look):
        yield ScreenRow(rank, Text(f"    {safe(dispute)}", "dim"))
    if look.outcome != "refuted":
        yield ScreenRow(rank, Text(f"    {safe(sentence)}", "dim"))
    for evidence in queries.grounds_of_look(look):
        words = sentences.grounds_words(look)
        yield _named_place_row(words, sentences.place_words_of(evidence), rank)
        yield ScreenRow(rank, cut_line(quote_unnumbered(evidence), columns))
