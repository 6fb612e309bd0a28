"""Evidence: whether the line that a judge quotes stands where it says, and was changed."""

from __future__ import annotations

from collections.abc import Callable

from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import Change, FileDiff, FileVersion, Side
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import CheckedEvidence, Standing
from vibe_gate.judging.brief import MAX_QUOTE, QuotedLine

Quoted = QuotedLine | CheckedEvidence

MIN_RELOCATED = 8
"""Visible characters that a quote needs to be looked for elsewhere: a lone brace stands on every page."""


def quote_in_change(
    criterion: Criterion, evidence: Quoted, change: Change, read: Callable[[FileVersion], bytes]
) -> CheckedEvidence:
    """Whether what is quoted about a criterion holds in this change; `read` gives the content of a side."""
    file = _file_of(evidence, change)
    if file is None or not criterion.concerns(file):
        return quote_in_file(evidence, None, b"")
    version = file.after if evidence.side == "after" else file.before
    return quote_in_file(evidence, file, read(version) if version else b"")


def _file_of(evidence: Quoted, change: Change) -> FileDiff | None:
    path = paths.unquote(evidence.path)
    file = change.file(path) or change.file(path.removeprefix(f"{evidence.side}/"))  # as the judge's tools name it
    if file is None and evidence.side == "before":
        file = next((renamed for renamed in change.files if renamed.old_path == path), None)
    return file


def quote_in_file(evidence: Quoted, file: FileDiff | None, content: bytes) -> CheckedEvidence:
    """Whether the quoted line stands where it is said to stand, and was changed.

    `file` is the changed file that `evidence.path` names (None: not part of the
    change) and `content` that file's bytes on the evidence's side. Both the quote
    and the content are compared as shown (`escape.show`), because that is what was
    read, and any white space counts as one space. The answer's line is the one where the quote really stands.
    """
    if file is None:
        return _checked(evidence, "void", "the file is not part of the change")
    if wrong := _misquoted(evidence):
        return _checked(evidence, "void", wrong)
    places = _places(evidence, content)
    if not places:
        return _checked(evidence, "void", "the quoted text is not in the file")
    touched = changed_lines(file, evidence.side)
    touching = [number for number in places if number in touched]
    return _nearest(evidence, touching) if touching else _checked(evidence, "void", "the quoted line was not changed")


def quote_in_tree(evidence: Quoted, content: bytes | None) -> CheckedEvidence:
    """Whether the quoted line stands in a file of a tree, changed or not; `content` is None without such a file.

    Compared as by `quote_in_file`.
    """
    if content is None:
        return _checked(evidence, "void", "there is no such file")
    if wrong := _misquoted(evidence):
        return _checked(evidence, "void", wrong)
    places = _places(evidence, content)
    return _nearest(evidence, places) if places else _checked(evidence, "void", "the quoted text is not in the file")


def _misquoted(evidence: Quoted) -> str:
    """Why no line can be looked for, or ""."""
    quote = _folded(evidence.quote)
    if not quote:
        return "the quote is empty"
    if "\n" in evidence.quote.strip():
        return "the quote is more than one line"
    return f"the quote is longer than {MAX_QUOTE} characters" if len(quote) > MAX_QUOTE else ""


def _places(evidence: Quoted, content: bytes) -> list[int]:
    """The numbers of the lines that hold the quote."""
    quote, lines = _folded(evidence.quote), enumerate(escape.lines(content), start=1)
    return [number for number, line in lines if quote in _folded(escape.show(line))]


def _nearest(evidence: Quoted, places: list[int]) -> CheckedEvidence:
    """The evidence at the one of these lines that is nearest to where it says."""
    if evidence.line in places:
        return _checked(evidence, "holds")
    if len("".join(evidence.quote.split())) < MIN_RELOCATED:
        return _checked(evidence, "void", "the quote is not at that line, and too short to be looked for elsewhere")
    return _checked(evidence, "relocated", line=min(places, key=lambda number: abs(number - evidence.line)))


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


def _checked(evidence: Quoted, standing: Standing, why: str = "", line: int = 0) -> CheckedEvidence:
    return CheckedEvidence(
        path=evidence.path,
        line=line or evidence.line,
        end_line=line or evidence.line,
        quote=evidence.quote.strip()[:MAX_QUOTE],
        side=evidence.side,
        standing=standing,
        why=why,
    )
