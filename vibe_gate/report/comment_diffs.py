"""The diffs of a comment: the lines around each finding, and in folds the riskiest files and what a
workflow's agents changed. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from msgspec import Struct

from vibe_gate.domain.change import Hunk
from vibe_gate.domain.escape import counted, list_names
from vibe_gate.domain.patch import hunks
from vibe_gate.domain.verdict import Finding
from vibe_gate.report import finding_places, queries, sentences
from vibe_gate.report.change_excerpt import (
    CONTEXT_LINES,
    MAX_EXCERPT_LINES,
    Excerpt,
    ExcerptPlace,
    read_excerpts,
    sections_by_path,
)
from vibe_gate.report.comment_markup import join_first
from vibe_gate.report.markdown import (
    Block,
    escape_code,
    escape_html_code,
    fence_code,
    render_fold,
    show_code_line,
)
from vibe_gate.report.report import Report

MAX_OPEN_DIFFS = 5
"""Diffs of findings that are in sight and stay as long as their finding; those of the findings
after them are folded and go first.
"""

MAX_FINDING_DIFF = 2_000
"""Bytes of a finding's diff: code of 20 lines has less, minified lines have not."""

MAX_DIFFS = 12_000
"""Bytes of the diffs in one fold: a screen or ten, and a fifth of a comment."""

MAX_FILE_DIFF = 4_000
"""Bytes of one file's diff in a fold, so that the largest file does not take all of it."""

MIN_FILE_LINES = 4
"""Lines of a file's diff below which it is left out: the `@@` line and what says nothing alone."""

FAILURE_DIFF_RANK, FINDING_DIFF_RANK, MADE_RANK, RISKY_RANK = 6, 7, 8, 9
"""Of folded diffs, which are left out before anything else of a comment: the highest first."""

FINDING_DIFFS = "diff of a finding"
RISKY_DIFFS = "the diffs of whole files"
MADE_DIFFS = "the diffs of what agents changed"
"""Names of blocks."""

_MAX_PLACE_LINES = MAX_EXCERPT_LINES - 2 * CONTEXT_LINES
"""Lines from a finding's first place to the end of its last that stand in one excerpt."""

_FRAME = 100
"""Bytes of a diff's fence and of the sentence below it, about."""


class _FilePatch(Struct, frozen=True):
    """A file whose diff stands in a fold."""

    path: str
    """As shown (`paths.quote`)."""

    hunks: tuple[Hunk, ...]

    text: str
    """The diff from its first `@@` line on."""

    added: int

    deleted: int


class FindingDiffs:
    """The diff blocks of findings, each diff once and the first ones in sight."""

    def __init__(self, report: Report) -> None:
        places = [_excerpt_place(finding) for finding in report.summary.findings]
        self._excerpts = read_excerpts(sections_by_path(report.patch), places)
        self._quoted_texts: set[tuple[str, str]] = set()

    def make_block(self, finding: Finding, rank: int, *, is_settled: bool) -> Block:
        """The lines around the finding's first place as a part of its list item, whose rank is
        `rank`.

        Empty if the change does not have them, or if an earlier block shows the same.
        """
        excerpt = self._excerpts.get(_excerpt_place(finding))
        if excerpt is None or (finding.path, excerpt.text) in self._quoted_texts:
            return Block("")
        is_folded = is_settled or len(self._quoted_texts) >= MAX_OPEN_DIFFS
        self._quoted_texts.add((finding.path, excerpt.text))
        text = _excerpt_fence(excerpt) + _unquoted_lines(finding)
        if is_folded:
            rank = FINDING_DIFF_RANK
            if finding.level == "failure":
                rank = FAILURE_DIFF_RANK
            place = escape_html_code(sentences.place_words_of(finding))
            text = render_fold(f"The change at {place}", text)
        return Block(indent(text, "  "), rank, FINDING_DIFFS, "diffs of findings")


def _excerpt_place(finding: Finding) -> ExcerptPlace:
    """The finding's first place, and the lines from there to as many further places of the file as
    one excerpt has room for.
    """
    first, *further_places = finding_places.quoted_places(finding)
    first_line = first.place.line
    last_line = first.place.end_line
    for further in sorted(further_places, key=lambda quoted: quoted.place.line):
        is_beside = (further.path, further.side) == (first.path, first.side)
        end_line = max(further.place.line, further.place.end_line)
        is_in_room = first_line <= further.place.line and end_line < first_line + _MAX_PLACE_LINES
        if first_line and is_beside and is_in_room:
            last_line = max(last_line, end_line)
    return ExcerptPlace(first.path, first_line, last_line, first.side)


def _unquoted_lines(finding: Finding) -> str:
    """Below the excerpt, the finding's other lines of the file that it has no room for; "" without
    such.
    """
    quoted = _excerpt_place(finding)
    numbers = []
    for place in finding.places[1:]:
        is_quoted = quoted.first_line <= place.line <= quoted.last_line
        if place.path == quoted.path and place.line and not is_quoted:
            numbers.append(str(place.line))
    if not numbers:
        return ""
    noun = "line" if len(numbers) == 1 else "lines"
    return f"\n\nAlso in this file: {noun} {list_names(numbers, finding_places.MAX_NAMED_PLACES)}."


def _excerpt_fence(excerpt: Excerpt) -> str:
    rows = excerpt.text.removesuffix("\n").split("\n")
    fitting_rows = _fitting_rows(rows, MAX_FINDING_DIFF)
    fence = fence_code("\n".join(fitting_rows), "diff")
    hidden_lines = excerpt.hidden_lines + len(rows) - len(fitting_rows)
    if hidden_lines:
        fence += f"\n\n{counted(hidden_lines, 'more line')} of the change here."
    return fence


def risky_files_block(report: Report) -> Block:
    """The diffs of the riskiest files, `MAX_DIFFS` at most; without those of the gate and of what
    steers agents, which have folds of their own.
    """
    sections = sections_by_path(report.patch)
    policy_paths = {change.path for change in report.summary.policy_changes}
    files = []
    for file, _ in queries.riskiest_first(report.summary):
        if file.path in sections and file.path not in policy_paths:
            files.append(_file_patch(file.path, sections[file.path]))
    title = "Diffs of {files}, riskiest first"
    return _diffs_block(files, title, RISKY_RANK, RISKY_DIFFS)


def made_files_block(report: Report) -> Block:
    """The diffs of what a workflow's agents changed, the largest first, `MAX_DIFFS` at most."""
    sections = sections_by_path(report.made_patch)
    files = []
    for path, section in sections.items():
        files.append(_file_patch(path, section))
    files.sort(key=lambda file: -(file.added + file.deleted))
    title = "What agents changed: diffs of {files}"
    return _diffs_block(files, title, MADE_RANK, MADE_DIFFS)


def _file_patch(path: str, section: bytes) -> _FilePatch:
    _, _, text = section.partition(b"\n@@ ")
    file_hunks = hunks(section)
    return _FilePatch(
        path,
        file_hunks,
        "@@ " + text.decode("utf-8", "surrogateescape"),
        sum(hunk.added for hunk in file_hunks),
        sum(hunk.deleted for hunk in file_hunks),
    )


def _diffs_block(files: Sequence[_FilePatch], title: str, rank: int, name: str) -> Block:
    """A fold with as many diffs as there is room for, in the order of the files, and in words what
    is left out.
    """
    text_files = [file for file in files if file.hunks]
    parts: list[str] = []
    free_bytes = MAX_DIFFS
    for file in text_files:
        part = _file_part(file, min(free_bytes, MAX_FILE_DIFF))
        size = _count_bytes(part)
        if not part or size > free_bytes:
            break
        parts.append(part)
        free_bytes -= size
    if not files:
        return Block("")
    number = counted(len(parts), "file")
    parts += filter(None, [_hidden_files(text_files[len(parts) :])])
    if len(text_files) < len(files):
        parts.append(f"Without lines to show: {counted(len(files) - len(text_files), 'file')}.")
    return Block(render_fold(title.format(files=number), "\n\n".join(parts)), rank, name)


def _hidden_files(files: Sequence[_FilePatch]) -> str:
    """How many files and changed lines are not shown, and the first files' names; "" for none."""
    if not files:
        return ""
    lines = sum(file.added + file.deleted for file in files)
    names = join_first([escape_code(file.path) for file in files])
    return f"Not shown: {counted(len(files), 'file')}, {counted(lines, 'line')}: {names}"


def _file_part(file: _FilePatch, free_bytes: int) -> str:
    """The file's name, and as much of its diff as there is room for; "" if that says nothing."""
    heading = f"{escape_code(file.path)} (+{file.added:,} −{file.deleted:,})"
    rows = file.text.removesuffix("\n").split("\n")
    fitting_rows = _fitting_rows(rows, free_bytes - _count_bytes(heading) - _FRAME)
    if len(fitting_rows) < min(MIN_FILE_LINES, len(rows)):
        return ""
    fence = fence_code("\n".join(fitting_rows), "diff")
    part = f"{heading}\n\n{fence}"
    hidden_rows = len(rows) - len(fitting_rows)
    if hidden_rows:
        part += f"\n\n{counted(hidden_rows, 'more line')} of this diff."
    return part


def _fitting_rows(rows: Sequence[str], free_bytes: int) -> list[str]:
    """The first rows that fit once they are shown."""
    fitting_rows: list[str] = []
    for row in rows:
        free_bytes -= _count_bytes(show_code_line(row)) + 1
        if free_bytes < 0:
            break
        fitting_rows.append(row)
    return fitting_rows


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
