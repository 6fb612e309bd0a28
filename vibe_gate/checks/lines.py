"""The added lines of a change, as text with their numbers: what pattern-like checks look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vibe_gate.domain.change import SUBMODULE_MODE, FileChange

MAX_SCANNED_LINE = 10_000
"""Characters of a line that a rubric's own expression sees. Its cost may grow with the
square of the length, and a hostile 40 MB line must not hang the gate."""


@dataclass(frozen=True, slots=True)
class AddedLine:
    """Line `number` (from 1) of the after side; `text` without its line ending, undecodable bytes replaced."""

    file: FileChange
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class AddedBlock:
    """Added lines that follow one another: `text` joined by newlines, from line `first` on."""

    file: FileChange
    first: int
    text: str

    def line_at(self, position: int) -> int:
        """The line number of the character at `position`."""
        return self.first + self.text.count("\n", 0, position)

    def line_span(self, position: int) -> tuple[int, int]:
        """Where the line that holds `position` starts and ends in `text`."""
        end = self.text.find("\n", position)
        return self.text.rfind("\n", 0, position) + 1, end if end >= 0 else len(self.text)


def added_lines(files: Iterable[FileChange]) -> Iterator[AddedLine]:
    """Every added line; those of binary files too, for a NUL must not hide text."""
    for file in files:
        if file.after is None or file.after.mode == SUBMODULE_MODE:
            continue
        for hunk in file.hunks:
            number = hunk.new_start
            for line in hunk.lines:
                if line.origin == "+":
                    yield AddedLine(file, number, text_of(line.content))
                if line.origin != "-":
                    number += 1


def added_blocks(files: Iterable[FileChange]) -> Iterator[AddedBlock]:
    """The added lines again, those that follow one another as one text."""
    block: list[AddedLine] = []
    for line in added_lines(files):
        if block and (line.file is not block[-1].file or line.number != block[-1].number + 1):
            yield _block(block)
            block = []
        block.append(line)
    if block:
        yield _block(block)


def _block(lines: list[AddedLine]) -> AddedBlock:
    return AddedBlock(lines[0].file, lines[0].number, "\n".join(line.text for line in lines))


def text_of(content: bytes) -> str:
    """A line's bytes as text, without its line ending."""
    return content.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
