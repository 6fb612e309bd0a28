"""Evidence: whether the line that a judge quotes stands where it says, and was changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

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
    """
    files = tuple(file for file in change.files if criterion.concerns(file))
    return quote_in_files(evidence, replace(change, files=files), read)


def quote_in_files(
    evidence: Quoted, change: Change, read: Callable[[FileVersion], bytes]
) -> CheckedEvidence:
    """Whether what is quoted stands in a changed line of the change's files.

    A missing or wrong side is looked up. Of a quote over several lines, each is looked for: all
    must be in the file, and the first that was changed is the evidence.
    """
    checked_lines = [_check_on_either_side(line, change, read) for line in _quoted_lines(evidence)]
    for line in checked_lines:
        if line.why == NOT_THERE:
            return line
    for line in checked_lines:
        if line.standing != "void":
            return line
    return checked_lines[0]


def _quoted_lines(evidence: Quoted) -> list[Quoted]:
    """The quote's lines, each with its own number; without those that are empty or stand for what
    is left out.
    """
    rows = evidence.quote.replace("\r\n", "\n").strip("\n").split("\n")
    quoted_lines: list[Quoted] = []
    for index, row in enumerate(rows):
        if not row.strip() or row.strip() in _LEFT_OUT:
            continue
        number = 0
        if evidence.line:
            number = evidence.line + index
        quoted_lines.append(replace(evidence, quote=row, line=number))
    return quoted_lines or [evidence]


def _check_on_either_side(
    evidence: Quoted, change: Change, read: Callable[[FileVersion], bytes]
) -> CheckedEvidence:
    """The evidence on the side that it names, else on the other; if it names none, where it stands
    best.
    """
    side, other_side = _sides_to_search(evidence)
    checked = _check_on_side(evidence, side, change, read)
    other_checked = _check_on_side(evidence, other_side, change, read)
    if not evidence.side:
        return min(checked, other_checked, key=_standing_rank)
    if checked.standing != "void" or other_checked.standing == "void":
        return checked
    return replace(other_checked, standing="relocated")


def _sides_to_search(evidence: Quoted) -> tuple[Side, Side]:
    """The side that the evidence names comes first; after the change, if it names none."""
    if evidence.side == "before":
        return "before", "after"
    return "after", "before"


def _standing_rank(checked: CheckedEvidence) -> int:
    return ("holds", "relocated", "void").index(checked.standing)


def _check_on_side(
    evidence: Quoted, side: Side, change: Change, read: Callable[[FileVersion], bytes]
) -> CheckedEvidence:
    file = find_changed_file(evidence.path, side, change)
    if file is None:
        return quote_in_file(evidence, side, None, b"")
    content = b""
    version = file.version_on(side)
    if version:
        content = read(version)
    found_evidence = replace(evidence, path=file.shown_path)
    return quote_in_file(found_evidence, side, file, content)


def find_changed_file(quoted_path: str, side: Side, change: Change) -> FileDiff | None:
    """The changed file that a judge means by the path, which may begin as its tools show it."""
    path = paths.unquote(quoted_path).removeprefix("./")
    file = change.file(path) or change.file(path.removeprefix(f"{side}/"))
    if file is not None or side == "after":
        return file
    for renamed_file in change.files:
        if renamed_file.old_path == path:
            return renamed_file
    return None


def quote_in_file(
    evidence: Quoted, side: Side, file: FileDiff | None, content: bytes
) -> CheckedEvidence:
    """Whether the quoted line stands where it is said to stand, and was changed.

    Both the quote and the content are compared as shown (`escape.show`), because that is what was
    read, and any white space counts as one space. What surrounds the quote does not count:
    quotation marks, and the numbers and the sign that a row of the brief begins with. The answer's
    line is the one where the quote really stands.

    Args:
        evidence: What is quoted.
        side: Where it is looked for.
        file: The changed file that `evidence.path` names; None if it is not part of the change.
        content: That file's bytes on this side.
    """
    if file is None:
        return _checked(evidence, side, "void", "the file is not part of the change")
    problem = _quote_problem(evidence)
    if problem:
        return _checked(evidence, side, "void", problem)
    found_quote, numbers = _find_quote(evidence, content)
    if not numbers:
        return _checked(found_quote, side, "void", NOT_THERE)
    changed_numbers = changed_lines(file, side)
    changed_matches = [number for number in numbers if number in changed_numbers]
    return _check_nearest(found_quote, side, changed_matches, "the quoted line was not changed")


def quote_in_tree(evidence: Quoted, content: bytes | None) -> CheckedEvidence:
    """As `quote_lines_in_tree`, of a quote over several lines the first that stands."""
    return quote_lines_in_tree(evidence, content)[0]


def quote_lines_in_tree(evidence: Quoted, content: bytes | None) -> tuple[CheckedEvidence, ...]:
    """Each line of the quote, looked up in a file of a tree, changed or not; `content` is None
    without such a file.

    Compared as by `quote_in_file`. All must be there, else the one that is not is all that is
    returned; one of a few characters that is not at its number is left out if others stand.
    """
    side, _ = _sides_to_search(evidence)
    if content is None:
        return (_checked(evidence, side, "void", "there is no such file"),)
    standing_lines: list[CheckedEvidence] = []
    short_lines: list[CheckedEvidence] = []
    for quoted_line in _quoted_lines(evidence):
        line = _check_in_content(quoted_line, side, content)
        if line.standing != "void":
            standing_lines.append(line)
        elif line.why == NOT_THERE or visible_length(line.quote) >= MIN_RELOCATED:
            return (line,)
        else:
            short_lines.append(line)
    return tuple(standing_lines) or (short_lines[0],)


def quote_in_trees(
    evidence: Quoted, read: Mapping[Side, Callable[[str], bytes | None]]
) -> CheckedEvidence:
    """Whether the quoted line stands in one of the trees, changed or not: in that after the change,
    unless it names the other, then in the other. Arguments as of `quote_lines_in_trees`.
    """
    return quote_lines_in_trees(evidence, _sides_to_search(evidence), read)[0]


def quote_lines_in_trees(
    evidence: Quoted,
    sides: Iterable[Side],
    read: Mapping[Side, Callable[[str], bytes | None]],
) -> tuple[CheckedEvidence, ...]:
    """Each line of the quote, looked up in the first of these trees in which it stands.

    Args:
        evidence: What is quoted; its path may begin as tools show it.
        sides: Those that are looked at, at least one.
        read: By side, the content at a path of the tree, None without a file.
    """
    path = paths.unquote(evidence.path).removeprefix("./")
    first_lines: tuple[CheckedEvidence, ...] = ()
    for side in sides:
        for tree_path in dict.fromkeys((path, path.removeprefix(f"{side}/"))):
            quote = replace(evidence, path=paths.quote(tree_path), side=side)
            lines = quote_lines_in_tree(quote, read[side](tree_path))
            if lines[0].standing != "void":
                return lines
            first_lines = first_lines or lines
    return first_lines


WORDS_PATH = "said"
"""The path by which a judge names a line of the agents' words."""

NO_WORDS = "no line of the agent's words is quoted"


def quote_in_words(evidence: Quoted, words: str) -> CheckedEvidence:
    """Whether the quoted line stands in what agents said, which stays in this clone: so evidence that
    holds has neither path nor quote.
    """
    checked = quote_in_tree(evidence, words.encode("utf-8", "surrogatepass"))
    if checked.standing == "void":
        return checked
    return replace(checked, path="", line=0, end_line=0, quote="", standing="holds")


def _check_in_content(evidence: Quoted, side: Side, content: bytes) -> CheckedEvidence:
    problem = _quote_problem(evidence)
    if problem:
        return _checked(evidence, side, "void", problem)
    found_quote, numbers = _find_quote(evidence, content)
    return _check_nearest(found_quote, side, numbers, NOT_THERE)


def _quote_problem(evidence: Quoted) -> str:
    """Why no line can be looked for, or ""."""
    quote = _folded(evidence.quote)
    if not quote:
        return "the quote is empty"
    if len(quote) > MAX_QUOTE:
        return f"the quote is longer than {MAX_QUOTE} characters"
    return ""


def _find_quote(evidence: Quoted, content: bytes) -> tuple[Quoted, list[int]]:
    """The quote in the first of its readings that stands in the content, and the numbers of the
    lines that hold it, from 1.
    """
    lines = [_folded(escape.show(line)) for line in escape.lines(content)]
    for reading in _readings(evidence.quote):
        quote = _folded(reading)
        if not quote:
            continue
        numbers = [number for number, line in enumerate(lines, start=1) if quote in line]
        if numbers:
            return replace(evidence, quote=reading), numbers
    return evidence, []


def _readings(quote: str) -> Iterator[str]:
    """What may be meant: the quote as it is, else without what a row begins with, else without
    quotation marks.
    """
    yield quote
    bare_quote = _ROW.sub("", quote)
    if bare_quote.strip() and bare_quote != quote:
        yield bare_quote
    stripped_quote = bare_quote.strip()
    if len(stripped_quote) > 2 and (stripped_quote[0] + stripped_quote[-1]) in _MARKS:
        yield stripped_quote[1:-1]


def _check_nearest(
    evidence: Quoted, side: Side, numbers: list[int], why_void: str
) -> CheckedEvidence:
    """The evidence at the one of these lines that is nearest to where it says.

    Without any it is void, with `why_void`.
    """
    if not numbers:
        return _checked(evidence, side, "void", why_void)
    if evidence.line in numbers:
        return _checked(evidence, side, "holds")
    if visible_length(evidence.quote) < MIN_RELOCATED:
        clause = "comes without its line, and is"
        if evidence.line:
            clause = "is not at that line, and"
        why_short = f"the quote {clause} too short to be looked for elsewhere"
        return _checked(evidence, side, "void", why_short)
    nearest_number = min(numbers, key=lambda number: abs(number - evidence.line))
    return _checked(evidence, side, "relocated", line=nearest_number)


def changed_lines(file: FileDiff, side: Side) -> frozenset[int]:
    """Line numbers, from 1, that the change added (after) or removed (before)."""
    changed_sign, absent_sign = "+", "-"
    if side == "before":
        changed_sign, absent_sign = "-", "+"
    numbers: set[int] = set()
    for hunk in file.hunks:
        number = hunk.new_start
        if side == "before":
            number = hunk.old_start
        for line in hunk.lines:
            if line.origin == changed_sign:
                numbers.add(number)
            if line.origin != absent_sign:
                number += 1
    return frozenset(numbers)


def is_added(line: CheckedEvidence, change: Change) -> bool:
    """Whether the line came with the change: one that stands after it, in a file that is new, or is
    changed and not shown line by line, or among the added lines.
    """
    if line.side == "before":
        return False
    file = change.file(paths.unquote(line.path))
    if file is None or _has_same_content(file):
        return False
    if not file.hunks or file.before is None:
        return True
    return line.line in changed_lines(file, "after")


def _has_same_content(file: FileDiff) -> bool:
    """Whether the change moved it, or altered its mode alone."""
    if file.before is None or file.after is None:
        return False
    return file.before.blob == file.after.blob


def visible_length(text: str) -> int:
    """How many characters are no white space."""
    return len("".join(text.split()))


def _folded(text: str) -> str:
    return " ".join(text.split())


def _checked(
    evidence: Quoted, side: Side, standing: Standing, reason: str = "", line: int = 0
) -> CheckedEvidence:
    return CheckedEvidence(
        path=paths.quote(paths.unquote(evidence.path)),
        line=line or evidence.line,
        end_line=line or evidence.line,
        quote=evidence.quote.strip()[:MAX_QUOTE],
        side=side,
        standing=standing,
        why=reason,
    )
