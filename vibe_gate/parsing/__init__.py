"""What source files define, import and name, by a parser for each language (ast-grep's, offline).

The parser runs in a process of its own (`parser_process`): the text is hostile, and a grammar can
run away with it. A file that it cannot do has no outline; who asks then does without.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from vibe_gate.parsing.nesting import Definition, Nesting

__all__ = ["Definition", "FileOutline", "Import", "SourceFile", "is_code", "parse_files"]

MAX_SOURCE = 500_000
"""Bytes of a file that is parsed: a larger one is data, or generated."""

MAX_LINE = 10_000
"""Bytes of a line: one with more is data, and counting its columns takes the square of its length."""

MAX_DEATHS = 3
"""Files that may end the parser's process; those after the last of them are not parsed."""

MAX_SECONDS = 120.0
"""Of one process: it ends by itself after 3 seconds of processor for one file."""

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

    @cached_property
    def _nesting(self) -> Nesting:
        return Nesting(self.definitions)


def is_code(path: str) -> bool:
    """Whether the file's language is one that is parsed."""
    return _language_of(path) is not None


def parse_files(sources: Sequence[SourceFile]) -> list[FileOutline | None]:
    """The outline of each file; None of one in another language, too large, binary, or too much
    for the parser.
    """
    outlines: list[FileOutline | None] = [None] * len(sources)
    waiting = [index for index, source in enumerate(sources) if _is_parsed(source)]
    for _ in range(MAX_DEATHS):
        if not waiting:
            break
        rows = _run_parser([sources[index] for index in waiting])
        for index, row in zip(waiting, rows, strict=False):
            outlines[index] = row
        waiting = waiting[len(rows) + 1 :]  # the one after the last row ended the process
    return outlines


def _language_of(path: str) -> str | None:
    return _LANGUAGE_OF.get(path.rpartition(".")[2].lower())


def _is_parsed(source: SourceFile) -> bool:
    if _language_of(source.path) is None or not source.content:
        return False
    if len(source.content) > MAX_SOURCE or b"\0" in source.content:
        return False
    return max(map(len, source.content.split(b"\n"))) <= MAX_LINE


def _run_parser(sources: Sequence[SourceFile]) -> list[FileOutline | None]:
    """What the process says of each file, as far as it comes."""
    order = [
        {
            "language": _language_of(source.path),
            "text": source.content.decode("utf-8", "replace"),
        }
        for source in sources
    ]
    with subprocess.Popen(
        [sys.executable, "-I", _PROGRAM],
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
    return [msgspec.json.decode(row, type=FileOutline | None) for row in rows]
