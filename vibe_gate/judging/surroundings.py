"""What code can tell a judge about a change, so that it need not look: functions around it, tests,
callers.

Names are found by their form, language by language, and looked for as whole words. That is a help
and no proof: what is computed here is told as facts, and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
    """What stands around a change. By path: `hunks` as they are shown, and `names` of what the
    change touches.

    `has_tests`: whether a file of the tree is named as test runners look for them. `mentions`: by
    name, the lines of the tree after the change that hold it.
    """

    hunks: Mapping[str, tuple[Hunk, ...]]
    names: Mapping[str, tuple[str, ...]]
    has_tests: bool
    mentions: Mapping[str, tuple[NamedLine, ...]]

    def facts(self, shown: Iterable[str]) -> Iterator[str]:
        """What is told about the files with these paths, a line each; the repository's text is made
        visible.
        """
        yield f"test files in the tree, by their names: {'some' if self.has_tests else 'none'}"
        for name in dict.fromkeys(name for path in shown for name in self.names.get(path, ())):
            yield from self._about(name)

    def _about(self, name: str) -> Iterator[str]:
        mentions = [
            mention for mention in self.mentions.get(name, ()) if not _defines(mention, name)
        ]
        if len(mentions) > MANY:
            return
        tests = [mention for mention in mentions if is_test(mention.path)]
        others = [mention for mention in mentions if not is_test(mention.path)]
        others.sort(
            key=lambda mention: not paths.matches(mention.path, CODE)
        )  # callers before prose
        yield f"{name}: {_lines(len(tests))} of tests and {_lines(len(others))} elsewhere name it"
        for mention in (*tests[:MAX_TESTS], *others[:MAX_OTHERS]):
            text = escape.show(mention.text.strip())[:_MAX_TEXT]
            yield f"    {paths.quote(mention.path)}: {text}"  # no line number: it moves with every line above


def _lines(count: int) -> str:
    return counted(count, "line") if count else "no line"


def surroundings(repository: Repository, change: Change) -> Surroundings:
    """What stands around the files of `change`, which may be fewer than differ; labelled cases are
    not looked at.
    """
    shown = {file.path for file in change.files}
    wide = {
        path: hunks
        for path, hunks in repository.in_context(change).items()
        if path in shown and not is_case(path)
    }
    hunks = {file.path: _shown(file, wide.get(file.path, ())) for file in change.files}
    names = {
        path: tuple(dict.fromkeys(_names(whole)))
        for path, whole in wide.items()
        if paths.matches(path, CODE)
    }
    wanted = list(dict.fromkeys(name for path in names for name in names[path]))[:MAX_NAMES]
    found = repository.search(change.after, wanted) if wanted else []
    mentions = {
        name: tuple(line for line in found if re.search(_word(name), line.text)) for name in wanted
    }
    kept = {path: tuple(name for name in each if name in mentions) for path, each in names.items()}
    files = repository.tree(change.after).list("")
    return Surroundings(
        hunks, kept, any(is_test(path) and not is_case(path) for path in files), mentions
    )


def is_test(path: str) -> bool:
    """Whether a test runner would look for tests in a file of that name."""
    return paths.matches(path, TEST_FILES)


def _shown(file: FileDiff, wide: tuple[Hunk, ...]) -> tuple[Hunk, ...]:
    """The hunks with what is near of the functions around them; those of the change itself, if
    there are no wider.
    """
    return tuple(part for hunk in wide for part in _near(hunk)) or file.hunks


def _near(hunk: Hunk) -> Iterator[Hunk]:
    """The parts of a hunk that are near a changed line, each after the line that begins its
    function.
    """
    lines, kept = hunk.lines, set[int]()
    head: int | None = None
    for index, line in enumerate(lines):
        head = index if _defined(line.content) else head
        if line.origin != " ":
            around = AROUND if head is None else AROUND_IN_FUNCTION
            kept.update(range(max(0, index - around), min(len(lines), index + around + 1)))
            kept.update(() if head is None else (head,))
    old, new, part = hunk.old_start, hunk.new_start, list[HunkLine]()
    for index, line in enumerate(lines):
        if index in kept:
            part.append(line)
        elif part:
            yield _hunk(old, new, part)
            part = []
        old += line.origin != "+"
        new += line.origin != "-"
    if part:
        yield _hunk(old, new, part)


def _hunk(old_end: int, new_end: int, lines: list[HunkLine]) -> Hunk:
    old, new = (sum(line.origin != sign for line in lines) for sign in "+-")
    return Hunk.of(old_end - old, old, new_end - new, new, lines)


def _names(hunks: Iterable[Hunk]) -> Iterator[str]:
    for hunk in hunks:
        name = ""
        for line in hunk.lines:
            name = _defined(line.content) or name
            if (
                line.origin != " "
                and len(name) > 2
                and name not in _EVERYWHERE
                and not name.startswith(("test", "__"))
            ):
                yield name


def _defined(line: bytes) -> str:
    """The name that the line defines, or ""."""
    found = _DEFINITION.match(line.rstrip(b"\r\n")) if len(line) <= _MAX_CODE_LINE else None
    return next(filter(None, found.groups()), b"").decode("ascii", "ignore") if found else ""


def _defines(mention: NamedLine, name: str) -> bool:
    return _defined(mention.text) == name


def _word(name: str) -> bytes:
    return rb"(?<![\w$])%s(?![\w$])" % re.escape(name.encode())
