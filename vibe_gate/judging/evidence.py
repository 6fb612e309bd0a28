"""Evidence: whether the line that a judge quotes stands where it says, and was changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import Change, FileDiff, FileVersion, Side
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import CheckedEvidence, Standing
from vibe_gate.judging.brief import MAX_QUOTE, QuotedLine

Quoted = QuotedLine | CheckedEvidence

MIN_RELOCATED = 8
"""Visible characters that a quote needs to be looked for elsewhere: a lone brace stands on every
page.
"""

NOT_THERE = "the quoted text is not in the file"

_ROW = re.compile(r"\A\s*(?:\d{1,9}\s+){0,2}[-+ ]?\|")
"""What a row of the brief begins with: its numbers and its sign (`brief._numbered`)."""

_MARKS = ('""', "''", "``", "“”", "‘’", "«»")

_LEFT_OUT = ("...", "…", "⋮")


def quote_in_change(
    criterion: Criterion, evidence: Quoted, change: Change, read: Callable[[FileVersion], bytes]
) -> CheckedEvidence:
    """Whether what is quoted about a criterion holds in this change; `read` gives the content of a
    side.

    A missing or wrong side is looked up. Of a quote over several lines, each is looked for: all
    must be in the file, and the first that was changed is the evidence.
    """
    checked = [_looked_up(criterion, line, change, read) for line in _lines(evidence)]
    invented = (line for line in checked if line.why == NOT_THERE)
    standing = (line for line in checked if line.standing != "void")
    return next(invented, None) or next(standing, checked[0])


def _lines(evidence: Quoted) -> list[Quoted]:
    """The quote's lines, each with its own number; without those that are empty or stand for what
    is left out.
    """
    rows = evidence.quote.replace("\r\n", "\n").strip("\n").split("\n")
    kept = [
        (number, row)
        for number, row in enumerate(rows)
        if row.strip() and row.strip() not in _LEFT_OUT
    ]
    number = evidence.line
    return [replace(evidence, quote=row, line=number and number + more) for more, row in kept] or [
        evidence
    ]


def _looked_up(
    criterion: Criterion, evidence: Quoted, change: Change, read: Callable[[FileVersion], bytes]
) -> CheckedEvidence:
    """The evidence on the side that it names, else on the other; if it names none, where it stands
    best.
    """

    def on(side: Side) -> CheckedEvidence:
        file = _file_of(evidence.path, side, change)
        if file is None or not criterion.concerns(file):
            return quote_in_file(evidence, side, None, b"")
        version = file.after if side == "after" else file.before
        return quote_in_file(evidence, side, file, read(version) if version else b"")

    side: Side = "before" if evidence.side == "before" else "after"
    named, other = on(side), on("before" if side == "after" else "after")
    if not evidence.side:
        return min(
            named, other, key=lambda checked: ("holds", "relocated", "void").index(checked.standing)
        )
    if named.standing != "void" or other.standing == "void":
        return named
    return replace(other, standing="relocated")


def _file_of(shown: str, side: Side, change: Change) -> FileDiff | None:
    path = paths.unquote(shown).removeprefix("./")
    file = change.file(path) or change.file(
        path.removeprefix(f"{side}/")
    )  # as the judge's tools name it
    if file is None and side == "before":
        file = next((renamed for renamed in change.files if renamed.old_path == path), None)
    return file


def quote_in_file(
    evidence: Quoted, side: Side, file: FileDiff | None, content: bytes
) -> CheckedEvidence:
    """Whether the quoted line stands where it is said to stand, and was changed.

    `file` is the changed file that `evidence.path` names (None: not part of the change) and
    `content` that file's bytes on this side. Both the quote and the content are compared as shown
    (`escape.show`), because that is what was read, and any white space counts as one space. What
    surrounds the quote does not count: quotation marks, and the numbers and the sign that a row of
    the brief begins with. The answer's line is the one where the quote really stands.
    """
    if file is None:
        return _checked(evidence, side, "void", "the file is not part of the change")
    if wrong := _misquoted(evidence):
        return _checked(evidence, side, "void", wrong)
    evidence, places = _places(evidence, content)
    if not places:
        return _checked(evidence, side, "void", NOT_THERE)
    touched = changed_lines(file, side)
    touching = [number for number in places if number in touched]
    return _nearest(evidence, side, touching, "the quoted line was not changed")


def quote_in_tree(evidence: Quoted, content: bytes | None) -> CheckedEvidence:
    """Whether the quoted line stands in a file of a tree, changed or not; `content` is None without
    such a file.

    Compared as by `quote_in_file`; of a quote over several lines, all must be there, and the first
    is the evidence.
    """
    side: Side = "before" if evidence.side == "before" else "after"
    if content is None:
        return _checked(evidence, side, "void", "there is no such file")
    checked = [_in_content(line, side, content) for line in _lines(evidence)]
    return next((line for line in checked if line.why == NOT_THERE), checked[0])


def _in_content(evidence: Quoted, side: Side, content: bytes) -> CheckedEvidence:
    if wrong := _misquoted(evidence):
        return _checked(evidence, side, "void", wrong)
    evidence, places = _places(evidence, content)
    return _nearest(evidence, side, places, NOT_THERE)


def _misquoted(evidence: Quoted) -> str:
    """Why no line can be looked for, or ""."""
    quote = _folded(evidence.quote)
    if not quote:
        return "the quote is empty"
    return f"the quote is longer than {MAX_QUOTE} characters" if len(quote) > MAX_QUOTE else ""


def _places(evidence: Quoted, content: bytes) -> tuple[Quoted, list[int]]:
    """The numbers of the lines that hold the quote, and the quote in the first of its readings that
    stands there.
    """
    lines = [
        (number, _folded(escape.show(line)))
        for number, line in enumerate(escape.lines(content), start=1)
    ]
    for reading in _readings(evidence.quote):
        quote = _folded(reading)
        if places := [number for number, line in lines if quote and quote in line]:
            return replace(evidence, quote=reading), places
    return evidence, []


def _readings(quote: str) -> Iterator[str]:
    """What may be meant: the quote as it is, else without what a row begins with, else without
    quotation marks.
    """
    yield quote
    bare = _ROW.sub("", quote)
    if bare.strip() and bare != quote:
        yield bare
    inner = bare.strip()
    if len(inner) > 2 and (inner[0] + inner[-1]) in _MARKS:
        yield inner[1:-1]


def _nearest(evidence: Quoted, side: Side, places: list[int], otherwise: str) -> CheckedEvidence:
    """The evidence at the one of these lines that is nearest to where it says; void without any,
    and why.
    """
    if not places:
        return _checked(evidence, side, "void", otherwise)
    if evidence.line in places:
        return _checked(evidence, side, "holds")
    if len("".join(evidence.quote.split())) < MIN_RELOCATED:
        told = "is not at that line, and" if evidence.line else "comes without its line, and is"
        why = f"the quote {told} too short to be looked for elsewhere"
        return _checked(evidence, side, "void", why)
    return _checked(
        evidence,
        side,
        "relocated",
        line=min(places, key=lambda number: abs(number - evidence.line)),
    )


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


def _folded(text: str) -> str:
    return " ".join(text.split())


def _checked(
    evidence: Quoted, side: Side, standing: Standing, why: str = "", line: int = 0
) -> CheckedEvidence:
    return CheckedEvidence(
        path=evidence.path,
        line=line or evidence.line,
        end_line=line or evidence.line,
        quote=evidence.quote.strip()[:MAX_QUOTE],
        side=side,
        standing=standing,
        why=why,
    )
