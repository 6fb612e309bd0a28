"""The names that a change of a file is about: what it touches, uses newly, and removes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.change import FileDiff, Hunk
from vibe_gate.judging.near_hunks import first_lines
from vibe_gate.parsing import Definition, FileOutline, is_code

MIN_NAME = 4
"""Letters of a name that is looked for: shorter ones are everywhere."""

_COMMON_WORDS = (
    "main init open close read write call next name names value values data item items node nodes "
    "type types test tests self this None True False null true false undefined default Default dump "
    "dumps load loads parse error Error result results args kwargs options config params string "
    "String object Object number Number list List dict Dict array Array print format length size "
    "index count start stop file path text line lines func function append push join split keys "
    "sort filter reduce find insert clone equals toString hashCode "
    "update create delete remove execute handle process setup clear copy "
    "require module exports typing export import Optional Union Callable Iterator Iterable Sequence "
    "Mapping Tuple Self Option Some Vec Result Promise Integer Boolean boolean void"
)
COMMON = frozenset(_COMMON_WORDS.split())
"""Names of which so many things are called that a list of them tells nothing."""

MAX_SIBLINGS_OF_NAME = 8
"""Other lines of a file that name something; of a name with more, none is shown."""

_CALLED = re.compile(rb"(?<![\w$])[\w$]+[?!]?(?=\s*[(<{!])")
_KEY = re.compile(r"[A-Za-z_][\w.-]*\Z")


class ChangedName(Struct, frozen=True):
    """A function or type that a change touches."""

    name: str
    role: Literal["function", "type", "value"]


class LeftOver(Struct, frozen=True):
    """Something that a change removes and that the same file still names."""

    name: str

    count: int
    """How many lines name it."""

    lines: tuple[bytes, ...]
    """The first of them."""

    function: str = ""
    """Of a parameter."""


class ChangedSource(Struct, frozen=True):
    """A changed file with what stands in it before and after; None if no parser can say."""

    file: FileDiff
    after_lines: tuple[bytes, ...]
    before: FileOutline | None
    after: FileOutline | None
    is_parsed: bool
    """Whether both outlines are known; a side without content needs none."""

    removed: frozenset[int]
    """Numbers before the change."""

    added: frozenset[int]
    """Numbers after it."""

    def line(self, number: int) -> bytes:
        """The line of that number after the change, without its ending."""
        if not 0 < number <= len(self.after_lines):
            return b""
        return self.after_lines[number - 1]

    def touched(self) -> Iterator[ChangedName]:
        """The functions and types that hold a changed line, each once."""
        names: dict[str, ChangedName] = {}
        for outline, numbers in ((self.before, self.removed), (self.after, self.added)):
            for number in sorted(numbers):
                definition = outline.enclosing(number) if outline is not None else None
                if outline is None or definition is None or _is_inline_test(outline, definition):
                    continue
                if is_telling(definition.name):
                    changed = ChangedName(definition.name, definition.role)
                    names.setdefault(definition.name, changed)
        yield from names.values()

    def used_names(self) -> tuple[str, ...]:
        """Names that look like functions, types or constants, and that only the added lines have
        of the file, or only the removed ones had.
        """
        if self.after is None or not self.is_parsed:
            return ()
        before_names = self.before.names if self.before is not None else {}
        used_words = _imported_names(self.after) | self._called_words()
        names = []
        for name, numbers in self.after.names.items():
            if name in before_names or self.added.isdisjoint(numbers):
                continue
            if name[:1].isupper() or name in used_words:
                names.append(name)
        for name, numbers in before_names.items():
            if name not in self.after.names and not self.removed.isdisjoint(numbers):
                names.append(name)
        defined_names = {definition.name for definition in self.after.definitions}
        return tuple(name for name in names if is_telling(name) and name not in defined_names)

    def _called_words(self) -> set[str]:
        """The words of added lines that a bracket or `!` follows."""
        words: set[str] = set()
        for number in self.added:
            for word in _CALLED.findall(self.line(number)):
                text = word.decode("utf-8", "replace")
                words |= {text, text.rstrip("?!")}
        return words

    def gone_names(self) -> tuple[str, ...]:
        """Definitions, imported names, parameters and keys on removed lines that the file after
        the change does not have in any form.
        """
        if self.before is None or not self.is_parsed:
            return ()
        candidates: dict[str, None] = {}
        for definition in self.before.definitions:
            if definition.line in self.removed:
                candidates[definition.name] = None
        for text, numbers in self.before.strings.items():
            if not self.removed.isdisjoint(numbers) and _KEY.match(text):
                candidates[text] = None
        present = _all_names(self.after)
        return tuple(name for name in candidates if is_telling(name) and name not in present)

    def dropped_imports(self) -> Iterator[LeftOver]:
        """Names of removed imports that the file still uses."""
        if self.before is None or self.after is None:
            return
        defined_names = {definition.name for definition in self.after.definitions}
        dropped_names = sorted(_imported_names(self.before) - _imported_names(self.after))
        for name in dropped_names:
            numbers = self.after.names.get(name, ())
            if numbers and name not in defined_names:
                yield LeftOver(name, len(numbers), self._lines(numbers))

    def dropped_parameters(self) -> Iterator[LeftOver]:
        """Parameters that a function has no more."""
        if self.before is None or self.after is None:
            return
        after_functions = _single_functions(self.after)
        for name, before_function in _single_functions(self.before).items():
            function = after_functions.get(name)
            if function is None:
                continue
            for parameter in before_function.parameters:
                if parameter in function.parameters:
                    continue
                all_numbers = self.after.names.get(parameter, ())
                first = bisect_left(all_numbers, function.first)
                numbers = all_numbers[first : bisect_right(all_numbers, function.last)]
                yield LeftOver(parameter, len(numbers), self._lines(numbers), name)

    def siblings(self) -> Iterator[tuple[str, tuple[bytes, ...]]]:
        """Names and keys that replaced ones, or were replaced, with the unchanged lines of the file
        that have them.
        """
        names: dict[str, None] = {}
        for hunk in self.file.hunks:
            removed, added = _changed_numbers([hunk])
            before_names = self.before.names_on(removed) if self.before is not None else {}
            after_names = self.after.names_on(added) if self.after is not None else {}
            if removed and added:
                for name in (*before_names, *after_names):
                    if (name in before_names) != (name in after_names):
                        names[name] = None
        for name in filter(is_telling, names):
            numbers = _numbers_of(self.after, name) - self.added
            if 0 < len(numbers) <= MAX_SIBLINGS_OF_NAME:
                yield name, self._lines(sorted(numbers))

    def _lines(self, numbers: Iterable[int]) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(self.line(number) for number in numbers))


def read_changed_file(
    file: FileDiff,
    contents: tuple[bytes, bytes],
    outlines: tuple[FileOutline | None, FileOutline | None],
) -> ChangedSource:
    """The file with the numbers of its changed lines.

    `contents` and `outlines`: before and after the change.
    """
    before_content, after_content = contents
    before, after = outlines
    is_parsed = is_code(file.path) or is_code(file.old_name)
    if (before is None and before_content) or (after is None and after_content):
        is_parsed = False
    removed, added = _changed_numbers(file.hunks)
    lines = tuple(line.removesuffix(b"\r") for line in after_content.split(b"\n"))
    return ChangedSource(file, lines, before, after, is_parsed, removed, added)


def _changed_numbers(hunks: Iterable[Hunk]) -> tuple[frozenset[int], frozenset[int]]:
    """The numbers of removed lines before the change, and of added ones after it."""
    removed: set[int] = set()
    added: set[int] = set()
    for hunk in hunks:
        old_number, new_number = first_lines(hunk)
        for line in hunk.lines:
            if line.origin == "-":
                removed.add(old_number)
            elif line.origin == "+":
                added.add(new_number)
            old_number += line.origin != "+"
            new_number += line.origin != "-"
    return frozenset(removed), frozenset(added)


def is_telling(name: str) -> bool:
    """Whether a list of the lines that hold the name tells something."""
    if len(name) < MIN_NAME or name in COMMON:
        return False
    return not name.startswith(("test", "__"))


def _is_inline_test(outline: FileOutline, definition: Definition) -> bool:
    """Whether it stands in a module of tests beside the code, as Rust has them."""
    outer_type = outline.enclosing_type(definition)
    return "tests" in (definition.name, outer_type.name if outer_type is not None else "")


def _imported_names(outline: FileOutline | None) -> set[str]:
    names: set[str] = set()
    if outline is not None:
        for row in outline.imports:
            names.update(row.names)
    return names


def _all_names(outline: FileOutline | None) -> set[str]:
    if outline is None:
        return set()
    defined_names = {definition.name for definition in outline.definitions}
    return {*outline.names, *outline.strings, *_imported_names(outline), *defined_names}


def _single_functions(outline: FileOutline) -> Mapping[str, Definition]:
    """The functions whose name no other one of the file has."""
    functions: dict[str, Definition] = {}
    repeated: set[str] = set()
    for definition in outline.definitions:
        if definition.role != "function" or not definition.name:
            continue
        if definition.name in functions:
            repeated.add(definition.name)
        functions[definition.name] = definition
    return {name: function for name, function in functions.items() if name not in repeated}


def _numbers_of(outline: FileOutline | None, name: str) -> set[int]:
    if outline is None:
        return set()
    return {*outline.names.get(name, ()), *outline.strings.get(name, ())}
