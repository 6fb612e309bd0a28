"""What code can tell a judge about a change, so that it need not look: functions around it, tests,
callers.

Names are found by their form, language by language, and looked for as whole words. That is a help
and no proof: what is computed here is told as facts, and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from vibe_gate.checks.tests_kept import TEST_FILES
from vibe_gate.domain import escape, paths
from vibe_gate.domain.change import Change, FileDiff, Hunk, HunkLine, NamedLine, is_case
from vibe_gate.domain.escape import counted, expression

if TYPE_CHECKING:
    from vibe_gate.git import Repository

AROUND_IN_FUNCTION = 50
"""Lines of the enclosing function that are shown before and after a changed line; its first line
always is.
"""

AROUND = 10
"""The same where no function encloses it."""

MAX_NAMES = 24
"""Names that are looked for, of the files that one rubric is about."""

MAX_TESTS = 4
"""Lines of tests that are shown of those that name one name."""

MAX_OTHERS = 5
"""Other lines."""

MANY = 60
"""Lines of a name that so many things have; such a name is left out."""

_MAX_TEXT = 160  # characters of a line that names something
_MAX_CODE_LINE = 300  # bytes; a longer line is data

_DEFINITION = expression(
    rb"^[ \t]*(?:(?:export|default|declare|pub(?:\([a-z]{1,9}\))?|async|static|public|private|protected|internal"
    rb"|abstract|final|override|unsafe|inline|virtual|sealed|partial|data|open|suspend)[ \t]+){0,5}"
    rb"(?:(?:def|class|function|func|fn|fun|sub|struct|interface|trait|enum|record|object|type)\b[ \t*]*"
    rb"(?:\([^()]{0,80}\)[ \t]*)?(?:self\.)?([A-Za-z_$][\w$]*)"
    rb"|(?:const|let|var)[ \t]+([A-Za-z_$][\w$]*)[^=]{0,80}=[ \t]*(?:async\b[ \t]*)?(?:function\b|\(|[\w$]+[ \t]*=>)"
    rb"|(?![ \t]*(?:if|for|while|switch|catch|return|else|do|when|with|match|elif|new|throw|await)\b)"
    rb"(?:[\w:<>,*&\[\]]++[ \t]++){0,6}+[*&]?([A-Za-z_~][\w]*)[ \t]*\([^;{}]{0,200}\)[^;{}()]{0,40}\{[ \t]*\r?$)"
)
"""A line that begins a function, method or type, in the form of the usual languages."""

CODE = (
    "*.py",
    "*.pyi",
    "*.rb",
    "*.go",
    "*.rs",
    "*.java",
    "*.kt",
    "*.kts",
    "*.scala",
    "*.swift",
    "*.php",
    "*.cs",
    "*.c",
    "*.h",
    "*.cc",
    "*.cpp",
    "*.cxx",
    "*.hh",
    "*.hpp",
    "*.js",
    "*.jsx",
    "*.ts",
    "*.tsx",
    "*.mjs",
    "*.cjs",
    "*.mts",
    "*.cts",
    "*.vue",
    "*.sh",
    "*.bash",
    "*.pl",
    "*.pm",
    "*.ex",
    "*.exs",
)

_EVERYWHERE = frozenset(
    {"main", "run", "get", "set", "new", "init", "open", "close", "read", "write", "call", "next"}
)
"""Names of which so many things are called that a list of them tells nothing."""


class Surroundings(Struct, frozen=True):
    """What stands around a change."""

    hunks: Mapping[str, tuple[Hunk, ...]]
    """By path, as a judge is shown them."""

    names: Mapping[str, tuple[str, ...]]
    """By path, the functions and types that the change touches."""

    has_tests: bool
    """Whether a file of the tree is named as test runners look for them."""

    mentions: Mapping[str, tuple[NamedLine, ...]]
    """By name, the lines of the tree after the change that hold it."""

    def facts(self, file_paths: Iterable[str]) -> Iterator[str]:
        """What a judge is told about these files, a line each; the repository's text is made
        visible.
        """
        yield f"test files in the tree, by their names: {'some' if self.has_tests else 'none'}"
        names: dict[str, None] = {}
        for path in file_paths:
            names |= dict.fromkeys(self.names.get(path, ()))
        for name in names:
            yield from self._facts_about(name)

    def _facts_about(self, name: str) -> Iterator[str]:
        """How many lines name it, and the first of them; nothing of a name that many lines have."""
        test_lines: list[NamedLine] = []
        other_lines: list[NamedLine] = []
        for mention in self.mentions.get(name, ()):
            if _defines(mention, name):
                continue
            lines = test_lines if is_test(mention.path) else other_lines
            lines.append(mention)
        if len(test_lines) + len(other_lines) > MANY:
            return
        test_count = _count_lines(len(test_lines))
        other_count = _count_lines(len(other_lines))
        yield f"{name}: {test_count} of tests and {other_count} elsewhere name it"
        # Callers come before prose.
        other_lines.sort(key=lambda mention: not paths.matches_any_glob(mention.path, CODE))
        for mention in (*test_lines[:MAX_TESTS], *other_lines[:MAX_OTHERS]):
            text = escape.show(mention.text.strip())[:_MAX_TEXT]
            # No line number: it moves with every line above.
            yield f"    {paths.quote(mention.path)}: {text}"


def _count_lines(count: int) -> str:
    return counted(count, "line") if count else "no line"


def find_surroundings(repository: Repository, change: Change) -> Surroundings:
    """What stands around the files of `change`, which may be fewer than differ; labelled cases are
    not looked at.
    """
    changed_paths = {file.path for file in change.files}
    wide_hunks = {}
    for path, hunks in repository.in_context(change).items():
        if path in changed_paths and not is_case(path):
            wide_hunks[path] = hunks
    names_by_path = {}
    for path, hunks in wide_hunks.items():
        if paths.matches_any_glob(path, CODE):
            names_by_path[path] = _changed_names(hunks)
    mentions = _find_mentions(repository, change, names_by_path)
    listed_names = {}
    for path, names in names_by_path.items():
        listed_names[path] = tuple(name for name in names if name in mentions)
    return Surroundings(
        hunks={
            file.path: _shown_hunks(file, wide_hunks.get(file.path, ())) for file in change.files
        },
        names=listed_names,
        has_tests=_has_tests(repository, change),
        mentions=mentions,
    )


def _find_mentions(
    repository: Repository, change: Change, names_by_path: Mapping[str, Iterable[str]]
) -> dict[str, tuple[NamedLine, ...]]:
    """By name, of the first MAX_NAMES, the lines of the tree after the change that hold it."""
    all_names: dict[str, None] = {}
    for path_names in names_by_path.values():
        all_names |= dict.fromkeys(path_names)
    names = list(all_names)[:MAX_NAMES]
    if not names:
        return {}
    lines = repository.search(change.after, names)
    mentions = {}
    for name in names:
        word = re.compile(_word_pattern(name))
        mentions[name] = tuple(line for line in lines if word.search(line.text))
    return mentions


def _has_tests(repository: Repository, change: Change) -> bool:
    files = repository.tree(change.after).list("")
    return any(is_test(path) and not is_case(path) for path in files)


def is_test(path: str) -> bool:
    """Whether a test runner would look for tests in a file of that name."""
    return paths.matches_any_glob(path, TEST_FILES)


def _shown_hunks(file: FileDiff, wide_hunks: tuple[Hunk, ...]) -> tuple[Hunk, ...]:
    """The hunks with what is near of the functions around them; those of the change itself, if
    there are no wider.
    """
    near_hunks: list[Hunk] = []
    for hunk in wide_hunks:
        near_hunks += _near_parts(hunk)
    return tuple(near_hunks) or file.hunks


def _near_parts(hunk: Hunk) -> Iterator[Hunk]:
    """The parts of a hunk that are near a changed line, each after the line that begins its
    function.
    """
    near_indexes = _near_indexes(hunk.lines)
    old_number = hunk.old_start
    new_number = hunk.new_start
    part: list[HunkLine] = []
    for index, line in enumerate(hunk.lines):
        if index in near_indexes:
            part.append(line)
        elif part:
            yield _hunk_ending_at(old_number, new_number, part)
            part = []
        if line.origin != "+":
            old_number += 1
        if line.origin != "-":
            new_number += 1
    if part:
        yield _hunk_ending_at(old_number, new_number, part)


def _near_indexes(lines: Sequence[HunkLine]) -> set[int]:
    """The indexes of lines that are shown: those around changed ones, and where functions begin."""
    indexes: set[int] = set()
    function_index: int | None = None
    for index, line in enumerate(lines):
        if _defined_name(line.content):
            function_index = index
        if line.origin == " ":
            continue
        around = AROUND
        if function_index is not None:
            around = AROUND_IN_FUNCTION
            indexes.add(function_index)
        first = max(0, index - around)
        indexes.update(range(first, min(len(lines), index + around + 1)))
    return indexes


def _hunk_ending_at(old_end: int, new_end: int, lines: list[HunkLine]) -> Hunk:
    """The hunk of these lines; the numbers are those of the lines that follow it."""
    old_count = sum(line.origin != "+" for line in lines)
    new_count = sum(line.origin != "-" for line in lines)
    return Hunk.of(old_end - old_count, old_count, new_end - new_count, new_count, lines)


def _changed_names(hunks: Iterable[Hunk]) -> tuple[str, ...]:
    """The functions and types that hold a changed line, each once."""
    names: dict[str, None] = {}
    for hunk in hunks:
        name = ""
        for line in hunk.lines:
            name = _defined_name(line.content) or name
            if line.origin != " " and _is_telling(name):
                names[name] = None
    return tuple(names)


def _is_telling(name: str) -> bool:
    """Whether a list of the lines that hold the name tells something."""
    if len(name) <= 2 or name in _EVERYWHERE:
        return False
    return not name.startswith(("test", "__"))


def _defined_name(line: bytes) -> str:
    """The name that the line defines, or ""."""
    if len(line) > _MAX_CODE_LINE:
        return ""
    match = _DEFINITION.match(line.rstrip(b"\r\n"))
    if match is None:
        return ""
    for name in match.groups():
        if name:
            return name.decode("ascii", "ignore")
    return ""


def _defines(mention: NamedLine, name: str) -> bool:
    return _defined_name(mention.text) == name


def _word_pattern(name: str) -> bytes:
    return rb"(?<![\w$])%s(?![\w$])" % re.escape(name.encode())
