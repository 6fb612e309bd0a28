"""What source files define, import and name, by a parser for each language (ast-grep's, offline).

The parser runs in a process of its own (`parser_process`): the text is hostile, and a grammar can
run away with it. A file that it cannot do has no outline; who asks then does without.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from vibe_gate.parsing.nesting import Definition, Nesting

__all__ = [
    "Definition",
    "FileOutline",
    "Import",
    "SourceFile",
    "SourceParser",
    "is_code",
    "parse_files",
]

MAX_SOURCE = 500_000
"""Bytes of a file that is parsed: a larger one is data, or generated."""

MAX_LINE = 10_000
"""Bytes of a line: one with more is data, and counting its columns takes the square of its length."""

MAX_DEATHS = 2
"""Files of one language that may end the parser's process; no more of it are parsed then."""

MAX_TOTAL_S = 20.0
"""Seconds of processor for all files of a review; those left over are not parsed."""

MAX_QUICK_S = 6.0
"""The same for the few files that one question is about."""

MAX_FILE_S = 4.0
"""Seconds of processor after which a process has ended because of one file (its limit is 3)."""

MAX_SECONDS = 120.0
"""Of one process on the clock."""

_LANGUAGES = {
    "python": "py pyi",
    "javascript": "js jsx mjs cjs",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c",
    "cpp": "h cc cpp cxx hh hpp hxx",  # a header may be either; C++ reads C
    "ruby": "rb rake gemspec",
    "php": "php",
    "csharp": "cs",
    "kotlin": "kt kts",
    "scala": "scala",
    "swift": "swift",
    "bash": "sh bash",
    "lua": "lua",
}
"""The parser's name of a language, and the ends of its files' names."""

_LANGUAGE_OF: dict[str, str] = {}
for _language, _endings in _LANGUAGES.items():
    _LANGUAGE_OF |= dict.fromkeys(_endings.split(), _language)

_PROGRAM = str(Path(__file__).with_name("parser_process.py"))


class SourceFile(Struct, frozen=True):
    """What is to be parsed."""

    path: str
    """Its end tells the language."""

    content: bytes


class Import(Struct, frozen=True):
    """An import, include, use or require."""

    first: int
    """The first line, from 1."""

    last: int

    text: str
    """On one line, cut."""

    names: tuple[str, ...] = ()
    """The names that stand in it, those of modules, too."""


class FileOutline(Struct, frozen=True, dict=True):
    """What stands in a file."""

    definitions: tuple[Definition, ...]
    """Outer ones before inner ones."""

    imports: tuple[Import, ...]

    names: dict[str, tuple[int, ...]]
    """By name, the lines of code that have it; not those of imports, comments and strings."""

    strings: dict[str, tuple[int, ...]]
    """By its text, the lines of a short string without spaces."""

    def enclosing(self, line: int) -> Definition | None:
        """The innermost named function around a line, from 1; else the innermost other one; else
        the innermost type or value.
        """
        return self._nesting.around_line(line)

    def enclosing_type(self, inner: Definition) -> Definition | None:
        """The innermost type around one of the definitions."""
        return self._nesting.type_around(inner)

    def defines(self, name: str, line: int) -> bool:
        """Whether a definition of that name has its name on the line."""
        return (name, line) in self._definition_lines

    def imports_on(self, line: int) -> bool:
        """Whether the line is part of an import."""
        return line in self._import_lines

    def names_on(self, lines: Iterable[int]) -> dict[str, None]:
        """The names and strings of these lines."""
        names: dict[str, None] = {}
        for line in sorted(lines):
            names |= dict.fromkeys(self._by_line.get(line, ()))
        return names

    @cached_property
    def _definition_lines(self) -> frozenset[tuple[str, int]]:
        return frozenset((definition.name, definition.line) for definition in self.definitions)

    @cached_property
    def _import_lines(self) -> frozenset[int]:
        lines: set[int] = set()
        last = 0
        for row in sorted(self.imports, key=_first_line):
            lines.update(range(max(row.first, last + 1), row.last + 1))
            last = max(last, row.last)
        return frozenset(lines)

    @cached_property
    def _by_line(self) -> dict[int, list[str]]:
        names_by_line: dict[int, list[str]] = {}
        for words in (self.names, self.strings):
            for name, lines in words.items():
                for line in lines:
                    names_by_line.setdefault(line, []).append(name)
        return names_by_line

    @cached_property
    def _nesting(self) -> Nesting:
        return Nesting(self.definitions)


def _first_line(row: Import) -> int:
    return row.first


def is_code(path: str) -> bool:
    """Whether the file's language is one that is parsed."""
    return _language_of(path) is not None


class SourceParser:
    """The parser of one review: each content is parsed once, all in a bounded time."""

    def __init__(self, seconds: float = MAX_TOTAL_S) -> None:
        """`seconds` of processor, exceeded by one file's at most."""
        self._seconds_left = seconds
        self._outlines: dict[SourceFile, FileOutline | None] = {}
        self._deaths: Counter[str | None] = Counter()

    def parse(self, sources: Sequence[SourceFile]) -> list[FileOutline | None]:
        """The outline of each file; None of one in another language, too large, binary, or too much
        for the parser or for the time that is left.
        """
        new_sources = [source for source in dict.fromkeys(sources) if self._is_new(source)]
        new_sources.sort(key=_size)  # large ones shall not use up the time of all others
        while new_sources and self._seconds_left > 0:
            new_sources = self._parse_some(new_sources)
        return [self._outlines.get(source) for source in sources]

    def _is_new(self, source: SourceFile) -> bool:
        return source not in self._outlines and _is_parsed(source)

    def _parse_some(self, sources: Sequence[SourceFile]) -> list[SourceFile]:
        """Run a process; the files that another one may parse."""
        started = time.monotonic()
        rows = _run_parser(sources, self._seconds_left)
        for source, row in zip(sources, rows, strict=False):
            self._outlines[source] = row.outline
        seconds = rows[-1].seconds if rows else 0.0
        waiting = list(sources[len(rows) :])
        is_out_of_time = seconds >= self._seconds_left
        if waiting and not is_out_of_time:  # the first of them ended the process
            ended_at = waiting.pop(0)
            self._outlines[ended_at] = None
            self._deaths[_language_of(ended_at.path)] += 1
            seconds = min(time.monotonic() - started, seconds + MAX_FILE_S)
        self._seconds_left -= seconds
        return [
            source for source in waiting if self._deaths[_language_of(source.path)] < MAX_DEATHS
        ]


def parse_files(sources: Sequence[SourceFile]) -> list[FileOutline | None]:
    """The outlines of a few files, as `SourceParser.parse` gives them."""
    return SourceParser(MAX_QUICK_S).parse(sources)


def _size(source: SourceFile) -> int:
    return len(source.content)


def _language_of(path: str) -> str | None:
    return _LANGUAGE_OF.get(path.rpartition(".")[2].lower())


def _is_parsed(source: SourceFile) -> bool:
    if _language_of(source.path) is None or not source.content:
        return False
    if len(source.content) > MAX_SOURCE or b"\0" in source.content:
        return False
    return max(map(len, source.content.split(b"\n"))) <= MAX_LINE


class _ParsedRow(Struct, frozen=True):
    """What the process says of a file."""

    seconds: float
    """Of processor that it has used since its start."""

    outline: FileOutline | None


def _run_parser(sources: Sequence[SourceFile], seconds: float) -> list[_ParsedRow]:
    """A row for each file, as far as the process comes, which starts none after so many seconds."""
    order = [
        {
            "language": _language_of(source.path),
            "text": source.content.decode("utf-8", "replace"),
        }
        for source in sources
    ]
    with subprocess.Popen(
        [sys.executable, "-I", _PROGRAM, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(json.dumps(order).encode(), timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        finally:  # of the deadline, too
            process.kill()
    rows = output.split(b"\n")[:-1]  # the last is empty, or cut off
    return [msgspec.json.decode(row, type=_ParsedRow) for row in rows]
