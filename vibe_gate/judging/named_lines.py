"""The lines of a tree that name something: code that refers to it, definitions, and other text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vibe_gate.checks.tests_kept import TEST_FILES
from vibe_gate.domain import paths
from vibe_gate.domain.change import FoundLines, NamedLine
from vibe_gate.parsing import Definition, FileOutline, SourceFile, SourceParser, is_code

if TYPE_CHECKING:
    from vibe_gate.git import Repository

MAX_FILES = 40
"""Files of the tree that are parsed because they name something: the first that do, by path."""

MAX_BYTES = 1_500_000
"""Of these files together."""

TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing", "e2e"})
"""Folders whose code is tests, in any language. A check that tests stay does without: data and
helpers stand there, too."""

_PARTS = re.compile(rb"[\w$]+(?:-[\w$]+)*")


def is_test(path: str) -> bool:
    """Whether a test runner would look for tests in a file of that name, or its folder says so."""
    if paths.matches_any_glob(path, TEST_FILES):
        return True
    return is_code(path) and not TEST_FOLDERS.isdisjoint(path.lower().split("/")[:-1])


class NamedLines:
    """The lines of a tree that hold one of some names as a whole word."""

    def __init__(
        self,
        repository: Repository,
        tree: str,
        names: Sequence[str],
        outlines: Mapping[str, FileOutline | None],
        parser: SourceParser,
    ) -> None:
        """`outlines`: of files that are parsed already, by path."""
        self._by_name: dict[str, list[NamedLine]] = {name: [] for name in names}
        self._outlines = dict(outlines)
        self._parser = parser
        found_lines = repository.search(tree, names) if names else FoundLines()
        self.is_whole = found_lines.is_whole
        for line in found_lines.lines:
            for word in _words_of(line.text, is_code(line.path)):
                if word in self._by_name:
                    self._by_name[word].append(line)
        self._parse(repository, tree)

    def is_common(self, name: str, most: int) -> bool:
        """Whether more than `most` lines hold the name."""
        return len(self._by_name.get(name, ())) > most

    def code(self, name: str) -> list[NamedLine]:
        """Lines of code that refer to the name, imports too; not its definitions."""
        return self._lines_of_kind(name, "code")

    def texts(self, name: str) -> list[NamedLine]:
        """Lines that hold it in text, comments, strings and data, or in a language without a
        parser.
        """
        return self._lines_of_kind(name, "text")

    def unparsed(self, name: str) -> list[NamedLine]:
        """Lines of code that hold it in files that were not parsed: they are too many, or too
        much for the parser.
        """
        return self._lines_of_kind(name, "unparsed")

    def definitions(self, name: str) -> list[NamedLine]:
        """The lines that define it."""
        return self._lines_of_kind(name, "definition")

    def _lines_of_kind(self, name: str, kind: str) -> list[NamedLine]:
        lines = self._by_name.get(name, ())
        return [line for line in lines if self._kind(line, name) == kind]

    def is_import(self, line: NamedLine) -> bool:
        """Whether the line is part of an import."""
        outline = self._outlines.get(line.path)
        return outline is not None and outline.imports_on(line.line)

    def function_around(self, line: NamedLine) -> Definition | None:
        """The function that has the line, if it has a name."""
        outline = self._outlines.get(line.path)
        definition = outline.enclosing(line.line) if outline is not None else None
        if definition is None or definition.role != "function" or not definition.name:
            return None
        return definition

    def _kind(self, line: NamedLine, name: str) -> str:
        outline = self._outlines.get(line.path)
        if outline is None:
            if is_code(line.path):
                return "unparsed"
            return "text"
        if outline.defines(name, line.line):
            return "definition"
        if line.line in outline.names.get(name, ()) or outline.imports_on(line.line):
            return "code"
        return "text"

    def _parse(self, repository: Repository, tree: str) -> None:
        """Parse the files of the lines, as many as are allowed; those of names that few lines have
        come first.
        """
        file_paths: dict[str, None] = {}
        for name_lines in sorted(self._by_name.values(), key=len):
            for line in name_lines:
                if is_code(line.path) and line.path not in self._outlines:
                    file_paths[line.path] = None
        contents = repository.tree(tree)
        sources: list[SourceFile] = []
        size = 0
        for path in list(file_paths)[:MAX_FILES]:
            content = contents.read(path) or b""
            size += len(content)
            if size > MAX_BYTES:
                break
            sources.append(SourceFile(path, content))
        for source, outline in zip(sources, self._parser.parse(sources), strict=True):
            self._outlines[source.path] = outline


def _words_of(text: bytes, is_in_code: bool) -> set[str]:
    """The words of a line; outside of code, one with dashes is one word."""
    words: set[str] = set()
    for part in _PARTS.findall(text):
        words.add(part.decode("utf-8", "replace"))
        if is_in_code:
            words.update(piece.decode("utf-8", "replace") for piece in part.split(b"-"))
    return words
