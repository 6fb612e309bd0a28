"""What code can tell a judge about a change, so that it need not look: functions around it, tests,
callers, definitions, what is left of what it removes.

A parser says what a name is (`parsing`); git finds the lines that hold it. That is a help and no
proof: what is computed here is told as facts, and decides nothing. No row has a line's number: it
would move with every line above, and a question be asked again after a rebase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import Change, FileDiff, Hunk, NamedLine, is_case
from vibe_gate.domain.escape import counted, list_names
from vibe_gate.judging.changed_names import ChangedName, ChangedSource, read_changed_file
from vibe_gate.judging.manifests import find_manifests, manifest_facts
from vibe_gate.judging.named_lines import NamedLines, is_test
from vibe_gate.judging.near_hunks import widen_hunks
from vibe_gate.parsing import SourceFile, SourceParser, is_code, parse_files

if TYPE_CHECKING:
    from vibe_gate.git import Repository

MAX_NAMES = 24
"""Names of a kind (changed, gone, newly used) that are looked for in the tree."""

MAX_TESTS = 3
"""Lines of tests that are shown of those that name one name."""

MAX_OTHERS = 4
"""Lines of other code."""

MAX_TEXTS = 1
"""Lines of documentation, comments, strings and data."""

MANY = 60
"""Lines of a name that so many things have; such a name is left out."""

MAX_DEFINITIONS = 12
"""Definitions of names that the change uses newly, or replaces."""

MAX_NAMESAKES = 3
"""Definitions of one name; of a name with more, none is shown."""

MAX_SIBLINGS = 4
"""Names of changed lines whose other lines in the file are shown."""

MAX_SIBLING_LINES = 3
"""Lines of a file that are shown for one such name."""

MAX_DROPPED = 24
"""Imports, and parameters, that a file has no more and that a fact is about."""

MAX_IMPORTS = 25
"""Imports of one file."""

MAX_LISTED = 5
"""Test files, or names, that a row lists."""

MAX_FACTS = 12_000
"""Characters of facts in one prompt: a tenth of what it may show of the change."""

MAX_PARSED_BYTES = 6_000_000
"""Of changed files; those after are shown with the lines around, as if no parser knew them."""

_FUTURE = "from __future__ "
_MAX_TEXT = 160  # characters of a line that is shown


class Fact(Struct, frozen=True):
    """Rows that belong together."""

    paths: tuple[str, ...]
    """The changed files that it is about; () if it is about all."""

    rows: tuple[str, ...]
    """The repository's text is made visible in them."""


class Surroundings(Struct, frozen=True):
    """What stands around a change."""

    hunks: Mapping[str, tuple[Hunk, ...]]
    """By path, as a judge is shown them."""

    all_facts: tuple[Fact, ...]
    """The most telling first."""

    def facts(self, file_paths: Iterable[str]) -> Iterator[str]:
        """What a judge is told about these files, a line each, at most MAX_FACTS characters."""
        wanted_paths = set(file_paths)
        size = 0
        left_out = 0
        for fact in self.all_facts:
            if fact.paths and wanted_paths.isdisjoint(fact.paths):
                continue
            fact_size = sum(len(row) + 3 for row in fact.rows)
            if size + fact_size > MAX_FACTS:
                left_out += 1
                continue
            size += fact_size
            yield from fact.rows
        if left_out:
            yield f"({counted(left_out, 'more fact')} left out, as they would be too long)"


def enclosing_range(path: str, text: str, line: int) -> tuple[int, int] | None:
    """The first and last line of the innermost function around a line, else of the type; None if
    there is none, or no parser can say.
    """
    (outline,) = parse_files([SourceFile(path, text.encode("utf-8", "surrogateescape"))])
    definition = outline.enclosing(line) if outline is not None else None
    if definition is None:
        return None
    return (definition.first, definition.last)


def find_surroundings(
    repository: Repository, whole_change: Change, change: Change, parser: SourceParser | None = None
) -> Surroundings:
    """What stands around the files of `change`, which are some of those of the `whole_change`;
    labelled cases are not looked at. `parser`: the review's; None for a new one.
    """
    parser = parser or SourceParser()
    hunks = {file.path: file.hunks for file in change.files}
    changed_files = []
    for changed_file, content in _read_changed_files(repository, change.files, parser):
        path = changed_file.file.path
        hunks[path] = widen_hunks(changed_file.file, content, changed_file.after)
        changed_files.append(changed_file)
    finder = _FactFinder(repository, whole_change, change.after, changed_files, hunks, parser)
    return Surroundings(hunks, tuple(finder.facts()))


def _read_changed_files(
    repository: Repository, files: Iterable[FileDiff], parser: SourceParser
) -> list[tuple[ChangedSource, bytes]]:
    """Each file whose lines a judge is shown, with its content after the change."""
    read_files = [file for file in files if _has_shown_lines(file)]
    sources: list[SourceFile] = []
    parsed_bytes = 0
    for file in read_files:
        for version, path in ((file.before, file.old_name), (file.after, file.path)):
            content = repository.read(version) if version is not None else b""
            parsed_bytes += len(content) if is_code(path) else 0
            is_parsed = parsed_bytes <= MAX_PARSED_BYTES
            sources.append(SourceFile(path if is_parsed else "", content))
    outlines = parser.parse(sources)
    changed_files = []
    for index, file in enumerate(read_files):
        before, after = sources[2 * index : 2 * index + 2]
        before_outline, after_outline = outlines[2 * index : 2 * index + 2]
        changed_file = read_changed_file(
            file, (before.content, after.content), (before_outline, after_outline)
        )
        changed_files.append((changed_file, after.content))
    return changed_files


def _has_shown_lines(file: FileDiff) -> bool:
    return not (is_case(file.path) or file.binary) and file.is_read and bool(file.hunks)


class _FactFinder:
    """Computes the facts about a change."""

    def __init__(
        self,
        repository: Repository,
        whole_change: Change,
        tree: str,
        files: Sequence[ChangedSource],
        hunks: Mapping[str, tuple[Hunk, ...]],
        parser: SourceParser,
    ) -> None:
        self._whole_change = whole_change
        self._files = files
        self._tree = repository.tree(tree)
        self._shown = {path: _shown_texts(path_hunks) for path, path_hunks in hunks.items()}
        self._touched: dict[ChangedName, tuple[str, ...]] = _first_of(
            [(file, file.touched()) for file in files if not is_test(file.file.path)]
        )
        self._gone: dict[str, tuple[str, ...]] = _first_of(
            [(file, file.gone_names()) for file in files]
        )
        self._used: dict[str, tuple[str, ...]] = _first_of(
            [(file, file.used_names()) for file in files]
        )
        touched_names = [changed.name for changed in self._touched]
        names = tuple(dict.fromkeys((*touched_names, *self._gone, *self._used)))
        outlines = {file.file.path: file.after for file in files}
        self._lines = NamedLines(repository, tree, names, outlines, parser)

    def facts(self) -> Iterator[Fact]:
        """Each, the most telling first."""
        yield Fact((), tuple(self._test_rows()))
        yield from self._facts_of_limits()
        for file in self._files:
            yield from _facts_of_imports_dropped(file)
            yield from self._facts_of_parameters_dropped(file)
        yield from self._facts_of_gone_names()
        for changed, file_paths in self._touched.items():
            yield from self._facts_of_name(changed, file_paths)
        yield from self._facts_of_definitions()
        for file in self._files:
            yield from self._facts_of_siblings(file)
        yield from self._facts_of_manifests()
        for file in self._files:
            yield from self._facts_of_imports(file)

    def _facts_of_limits(self) -> Iterator[Fact]:
        """What could not be found out."""
        unparsed_paths = []
        for file in self._files:
            if is_code(file.file.path) and not file.is_parsed:
                unparsed_paths.append(file.file.path)
        if unparsed_paths:
            row = f"not parsed: {_list_paths(unparsed_paths)}: the functions in them, and callers there, are not known"
            yield Fact(tuple(unparsed_paths), (row,))
        if not self._lines.is_whole:
            row = "the search of the tree was cut off: more lines may name what facts are about"
            yield Fact((), (row,))

    def _test_rows(self) -> Iterator[str]:
        changed_tests = []
        for file in self._whole_change.files:
            if any(map(is_test, file.names)) and not file.is_case:
                changed_tests.append(file.shown_path)
        yield f"test files of this change: {list_names(changed_tests, MAX_LISTED) or 'none'}"
        folders: dict[str, None] = {}
        for path in self._tree.list(""):
            folder = path.rpartition("/")[0] or "."
            if folder not in folders and is_test(path) and not is_case(path):
                folders[folder] = None
        place = f"in {_list_paths(folders)}" if folders else "none"
        yield f"test files in the tree, by their names and folders: {place}"

    def _facts_of_parameters_dropped(self, file: ChangedSource) -> Iterator[Fact]:
        for dropped in islice(file.dropped_parameters(), MAX_DROPPED):
            function, parameter = _show(dropped.function), _show(dropped.name)
            rows = [f"{function} of {file.file.shown_path} has no parameter {parameter} any more"]
            if dropped.lines:
                rows.append("    its lines that still name it:")
                rows += _quoted(dropped.lines)
            callers = self._lines_with_both(dropped.function, dropped.name)
            if callers:
                rows.append("    lines that name both:")
                rows += [self._row(line) for line in callers[:MAX_OTHERS]]
            yield Fact((file.file.path,), tuple(rows))

    def _lines_with_both(self, function: str, parameter: str) -> list[NamedLine]:
        word = re.compile(rb"(?<![\w$])%s(?![\w$])" % re.escape(parameter.encode()))
        lines = self._lines.code(function) + self._lines.unparsed(function)
        lines += self._lines.texts(function)
        return [line for line in lines if word.search(line.text)]

    def _facts_of_gone_names(self) -> Iterator[Fact]:
        """What the tree still names of what a file defined or had as a key."""
        for name, file_paths in self._gone.items():
            if self._lines.is_common(name, MANY) or self._lines.definitions(name):
                continue
            lines = self._lines.code(name) + self._lines.unparsed(name) + self._lines.texts(name)
            row = f"{_show(name)}, gone from {_list_paths(file_paths)}: "
            if not lines:
                if not self._lines.is_whole:
                    continue
                yield Fact(file_paths, (f"{row}no line of the tree names it any more",))
                continue
            row += f"{counted(len(lines), 'line')} of the tree still {_name_verb(lines)} it:"
            rows = [self._row(line) for line in lines[:MAX_OTHERS]]
            yield Fact(file_paths, (row, *rows))

    def _facts_of_name(self, changed: ChangedName, file_paths: tuple[str, ...]) -> Iterator[Fact]:
        """Who names a function or type that the change touches."""
        name = changed.name
        if self._lines.is_common(name, MANY):
            return
        import_lines: list[NamedLine] = []
        test_lines: list[NamedLine] = []
        other_lines: list[NamedLine] = []
        for line in self._lines.code(name):
            if self._lines.is_import(line):
                import_lines.append(line)
            elif is_test(line.path):
                test_lines.append(line)
            else:
                other_lines.append(line)
        if name.startswith("_") and len(test_lines) + len(other_lines) <= 1:
            return  # a helper of what is shown
        texts = self._lines.texts(name)
        row = (
            f"{_show(name)} ({changed.role}): {counted(len(test_lines), 'line')} of tests and "
            f"{counted(len(other_lines), 'line')} of other code {_name_verb(other_lines)} it"
        )
        if import_lines:
            row += f"; imported by {_list_paths(line.path for line in import_lines)}"
        if texts:
            row += f"; {counted(len(texts), 'line')} of text, strings or data"
        unparsed_lines = self._lines.unparsed(name)
        if unparsed_lines:
            row += f"; {counted(len(unparsed_lines), 'line')} in code that was not parsed"
        rows = [row]
        texts = unparsed_lines + texts
        for lines, most in ((test_lines, MAX_TESTS), (other_lines, MAX_OTHERS), (texts, MAX_TEXTS)):
            unshown_lines = [line for line in lines if not self._is_shown(line)]
            rows += [self._row(line) for line in unshown_lines[:most]]
        yield Fact(file_paths, tuple(rows))

    def _facts_of_definitions(self) -> Iterator[Fact]:
        """Where names are defined that the change uses newly, or uses no more."""
        count = 0
        for name, file_paths in self._used.items():
            definitions = self._lines.definitions(name)
            if len(definitions) > MAX_NAMESAKES:
                continue
            for line in definitions:
                if self._is_shown(line) or count >= MAX_DEFINITIONS:
                    continue
                count += 1
                place = paths.quote(line.path)
                row = f"{_show(name)} is defined in {place}: {_show_line(line.text)}"
                yield Fact(file_paths, (row,))

    def _facts_of_siblings(self, file: ChangedSource) -> Iterator[Fact]:
        """Other lines of a file that name what its changed lines name newly, or no more."""
        path = file.file.path
        if is_test(path):
            return
        count = 0
        for name, lines in file.siblings():
            unshown_lines = [line for line in lines if line not in self._shown[path]]
            if not unshown_lines or count >= MAX_SIBLINGS:
                continue
            count += 1
            row = f"other lines of {file.file.shown_path} that name {_show(name)}:"
            yield Fact((path,), (row, *_quoted(unshown_lines)))

    def _facts_of_manifests(self) -> Iterator[Fact]:
        outlines = [
            (file.file.path, file.after) for file in self._files if not is_test(file.file.path)
        ]
        manifests = find_manifests(outlines, cache(self._tree.read))
        if manifests:
            yield Fact((), tuple(manifest_facts(manifests)))

    def _facts_of_imports(self, file: ChangedSource) -> Iterator[Fact]:
        """The imports of a file that stand in no shown line."""
        if file.after is None or is_test(file.file.path):
            return
        shown_lines = self._shown[file.file.path]
        texts: dict[str, None] = {}
        for row in file.after.imports:
            if file.line(row.first) not in shown_lines and _FUTURE not in row.text:
                texts[row.text] = None
        if not texts:
            return
        rows = [f"    {_show(text)}" for text in texts]
        head = f"imports of {file.file.shown_path} that are not shown above"
        if len(rows) > MAX_IMPORTS:
            head += f", the first {MAX_IMPORTS} of {len(rows)}"
        yield Fact((file.file.path,), (f"{head}:", *rows[:MAX_IMPORTS]))

    def _is_shown(self, line: NamedLine) -> bool:
        return line.text.removesuffix(b"\r") in self._shown.get(line.path, ())

    def _row(self, line: NamedLine) -> str:
        function = self._lines.function_around(line)
        place = paths.quote(line.path)
        if function is not None:
            place += f", in {_show(function.name)}"
        return f"    {place}: {_show_line(line.text)}"


def _facts_of_imports_dropped(file: ChangedSource) -> Iterator[Fact]:
    """What a file still uses of what it imports no more."""
    for dropped in islice(file.dropped_imports(), MAX_DROPPED):
        row = (
            f"{file.file.shown_path} imports {_show(dropped.name)} no more and names it in "
            f"{counted(dropped.count, 'line')}:"
        )
        yield Fact((file.file.path,), (row, *_quoted(dropped.lines)))


N = TypeVar("N")


def _first_of(names: Iterable[tuple[ChangedSource, Iterable[N]]]) -> dict[N, tuple[str, ...]]:
    """The first MAX_NAMES names, with the paths of the files that they are of."""
    file_paths: dict[N, dict[str, None]] = {}
    for file, file_names in names:
        for name in file_names:
            if name in file_paths or len(file_paths) < MAX_NAMES:
                file_paths.setdefault(name, {})[file.file.path] = None
    return {name: tuple(name_paths) for name, name_paths in file_paths.items()}


def _shown_texts(hunks: Iterable[Hunk]) -> frozenset[bytes]:
    """The lines that a judge is shown of a file after the change."""
    texts: set[bytes] = set()
    for hunk in hunks:
        for row in hunk.rows:
            if not row.startswith(b"-"):
                texts.add(row[1:].removesuffix(b"\n").removesuffix(b"\r"))
    return frozenset(texts)


def _quoted(lines: Sequence[bytes]) -> list[str]:
    return [f"    {_show_line(line)}" for line in lines[:MAX_SIBLING_LINES]]


def _list_paths(file_paths: Iterable[str]) -> str:
    return list_names(map(paths.quote, dict.fromkeys(file_paths)), MAX_LISTED)


def _name_verb(lines: Sequence[object]) -> str:
    return "names" if len(lines) == 1 else "name"


def _show(text: str) -> str:
    return escape.show_text(text)[:_MAX_TEXT]


def _show_line(line: bytes) -> str:
    return escape.show(line.strip())[:_MAX_TEXT]
