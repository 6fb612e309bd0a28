"""The check `no-skipped-tests`: no test that ran before the change is switched off by it.

Each side of a test file is read as an outline, by indentation: its tests, what they stand in, and
the markers that switch them off. A test with the same name that ran before and does not now is
lost; a new test, or one that had a condition before, is not.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate.checks.check_contract import (
    MAX_FURTHER_LINES,
    MAX_SCANNED_LINE,
    AddedLine,
    CheckInput,
    Files,
    Hit,
    HitLine,
    RegularExpression,
    added_lines,
    any_of,
    read_side_text,
)
from vibe_gate.checks.tests_kept import (
    SCRIPTS,
    TestOptions,
    declared_tests,
    disabling_marker,
    extension,
    is_comment,
    is_pytest_conftest,
    name_tests,
    read_test_lines,
    with_test_enabled,
)
from vibe_gate.domain.change import FileDiff, Side
from vibe_gate.domain.escape import counted, expression


class SkipOptions(TestOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `no-skipped-tests`."""

    allow: Annotated[
        tuple[RegularExpression, ...],
        Meta(description="regular expressions of lines that may skip, such as `sys\\.platform`"),
    ] = ()


RUNS, SOMETIMES, NEVER = 0, 1, 2
"""How much a test is switched off."""

ScopeKind = Literal["file", "container", "helper", "test"]


class Marker(Struct, frozen=True):
    """What switches tests off: the line that it stands in, from 1, and its words."""

    line: int
    text: str
    level: int


MAX_MARKERS = 20
"""Markers of one scope that are kept; more of them switch off no more."""


class OutlineScope(Struct):
    """A test, or what holds tests: the file, a class, a block, a function that is no test."""

    kind: ScopeKind
    name: str
    indent: int
    parent: OutlineScope | None = None
    markers: list[Marker] = []
    body_indent: int = -1
    """Columns before the first line inside; -1 before there is one."""
    has_tests: bool = False
    """Whether tests stand in it."""
    is_setup: bool = False
    """Whether it runs around all tests of what it stands in."""

    def add(self, marker: Marker) -> None:
        """Take a marker; beyond MAX_MARKERS only one that switches off more than all others."""
        if len(self.markers) < MAX_MARKERS or marker.level > max(
            other.level for other in self.markers
        ):
            self.markers.append(marker)

    def all_markers(self) -> list[Marker]:
        """Its own and those of what it stands in."""
        markers: list[Marker] = []
        scope: OutlineScope | None = self
        while scope is not None:
            markers += scope.markers
            scope = scope.parent
        return markers

    def level(self) -> int:
        """How much all markers together switch it off."""
        return max((marker.level for marker in self.all_markers()), default=RUNS)


class Outline(Struct):
    """One side of a test file. `loose`: markers that belong to no test, class or function that is
    known.

    `cases`: marks of single cases of a parametrized test. `narrowing`: markers that leave all other
    tests out.
    """

    tests: list[OutlineScope] = []
    helpers: list[OutlineScope] = []
    loose: list[Marker] = []
    cases: list[Marker] = []
    narrowing: list[Marker] = []


_SCRIPT_CONTAINER = (
    r"\s*[fx]?(?:describe|context|suite)\b"
    r"(?:(?:\.\w+)*\s*\(\s*(?P<quote>['\"`])(?P<name>.{1,200}?)(?P=quote))?"
)
_RUBY_CONTAINER = (
    r"\s*(?:RSpec\.)?[fx]?(?:describe|context|class|module)\b[\s(]*"
    r"(?P<name>(?:(?![,)]|\s+do\b).){0,200})"
)
_CONTAINERS: dict[str, str] = {
    "py": r"\s*class\s+(?P<name>\w+)",
    **dict.fromkeys(SCRIPTS, _SCRIPT_CONTAINER),
    "rb": _RUBY_CONTAINER,
    "rs": r"\s*(?:pub\s+)?(?:mod|impl)\b\s*(?P<name>\w*)",
    **dict.fromkeys(
        ("java", "kt", "kts", "scala", "groovy", "cs", "php", "swift"),
        r"\s*(?:[\w.()\"]+\s+){0,6}(?:class|object|interface|struct|trait)\s+(?P<name>\w+)",
    ),
}
_HELPERS: dict[str, str] = {
    "py": r"\s*(?:async\s+)?def\s+(?P<name>\w+)",
    **dict.fromkeys(SCRIPTS, r"\s*(?:export\s+)?(?:async\s+)?function\s+(?P<name>\w+)"),
    "go": r"func\s+(?:\([^()]{0,80}\)\s*)?(?P<name>\w+)",
    "rb": r"\s*def\s+(?P<name>\w+)",
    "rs": r"\s*(?:pub\s+)?(?:async\s+)?fn\s+(?P<name>\w+)",
}
_SETUP = expression(r"(?i)set_?up\w*|tear_?down\w*|TestMain|before\w*|after\w*")
"""Functions that run around all tests of a class or file."""

_SUBTEST = expression(r"\s*\w+\.Run\(\s*\"(?P<name>[^\"]{1,200})\"")
"""Go's subtests."""

_ANNOTATION = expression(r"\s*(?:@\w|#!?\[|\[\s*[A-Z])")
_ASSIGNED = expression(
    r"\s*(?:(?:const|let|var|val|static)\s+)?(?P<name>\w+)\s*(?::[^=]{1,80})?=(?!=)"
)
_FOR_ALL = frozenset(("pytestmark", "__test__", "collect_ignore", "collect_ignore_glob"))
"""Names whose value switches off the tests of their file or class; another name is a marker for
later use.
"""

_CASE = expression(r"\bmarks\s*=")
_NARROWING = expression(r"\.only\b|(?<![\w.])(?:fit|fdescribe|fcontext|fspecify)\b")
_CONDITIONAL = expression(
    r"importorskip|skip_?if|skip_?unless|run_?if|(?:en|dis)abled(?:if|on|for)|assum|cfg_attr|xctskip(?:if|unless)|\?",
    re.IGNORECASE,
)
_CONSTANT = expression(
    r"(?:skip_?if|\bAssume\w*False|assumeFalse|XCTSkipIf)\s*\(\s*(?:true|1)\b"
    r"|(?:skip_?unless|run_?if|assumeTrue|XCTSkipUnless)\s*\(\s*(?:false|0|null|none)\b",
    re.IGNORECASE,
)
_XFAIL_IF = expression(r"xfail\(\s*(?!reason|strict|raises|run|condition\s*=\s*True)\w")
_TITLE = expression(r"\)\s*\(\s*(?P<quote>['\"`])(?P<name>.{1,200}?)(?P=quote)")
"""The title in `it.skipIf(isWindows)("title", ...)` and `(isWindows ? it.skip : it)("title",
...)`.
"""

# An end that is missing is no failure: then each quote would look for it anew.
_PYTHON_TEXT = expression(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:""")?|'
    r"'''(?:[^'\\]|\\.|'(?!''))*(?:''')?|"
    r'"(?:[^"\\\n]|\\.)*"?|'
    r"'(?:[^'\\\n]|\\.)*'?|#[^\n]*",
    re.DOTALL,
)
_QUOTED = expression(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?")
_OPENING, _CLOSING = "([{", ")]}"
MAX_CONTINUED = 1_000
"""Lines of one annotation, such as a table of cases; brackets that stay open longer are no part of
it.
"""


def no_skipped_tests(input: CheckInput, options: SkipOptions, files: Files) -> Iterator[Hit]:
    """No test that ran before is skipped now, and no added line narrows the run to some tests."""
    added: dict[str, dict[int, AddedLine]] = {}
    for line in added_lines(files):
        added.setdefault(line.file.path, {})[line.number] = line
    outlines = _ChangedOutlines(input, options, any_of(options.allow))
    marked_files: list[FileDiff] = []
    for file in files:
        if file.path in added and _has_markers(outlines.of(file, "after")):
            marked_files.append(file)
    if not marked_files:
        return
    lost_tests = _LostTests(input.change.files, outlines)
    for file in marked_files:
        lines = added[file.path]
        reports: dict[int, _DisablingLine] = {}
        for report in _reports(file, lines, outlines, lost_tests):
            reports[report.line] = report
        for group in _group_reports(sorted(reports.values())):
            yield _disabling_hit(group, lines)


def _group_reports(reports: Iterable[_DisablingLine]) -> list[list[_DisablingLine]]:
    """The lines that disable tests by the same marker, or say the same, together."""
    groups: dict[tuple[str, str], list[_DisablingLine]] = {}
    for report in reports:
        key = (report.marker, "" if report.names else report.message)
        groups.setdefault(key, []).append(report)
    return list(groups.values())


def _disabling_hit(reports: Sequence[_DisablingLine], added: Mapping[int, AddedLine]) -> Hit:
    """The lines of a file that disable tests for one cause."""
    first, *further_reports = reports
    first_line = added[first.line]
    hit = first_line.hit(first.message, 0, with_test_enabled(first_line, first.marker))
    if not further_reports:
        return hit
    names = list(first.names)
    for report in further_reports:
        names += report.names
    message = _message(first.marker, names) if names else first.message
    if len(further_reports) > MAX_FURTHER_LINES:
        message += f" ({len(reports):,} lines)"
    repairs = list(hit.repairs)
    further_lines = []
    for report in further_reports[:MAX_FURTHER_LINES]:
        line = added[report.line]
        repair = with_test_enabled(line, report.marker)
        if repair:
            repairs.append(repair)
        further_lines.append(HitLine(hit.path, line.number, line.text))
    return replace(
        hit,
        message=message,
        fingerprint="\0".join([first.marker, str(len(reports)), *names]),
        repairs=tuple(repairs),
        further_lines=tuple(further_lines),
        count=len(reports),
    )


class _DisablingLine(NamedTuple):
    """What is said of an added line that switches tests off; one line has one."""

    line: int
    """From 1."""

    message: str

    marker: str
    """The text by which it does."""

    names: tuple[str, ...] = ()
    """Of the tests that it disables as a whole."""


class _ChangedOutlines:
    """The outlines of both sides of changed test files, each read once."""

    def __init__(
        self, input: CheckInput, options: SkipOptions, is_allowed: Callable[[str], bool]
    ) -> None:
        self._input = input
        self._options = options
        self._is_allowed = is_allowed
        self._outlines: dict[tuple[str, Side], Outline] = {}

    def of(self, file: FileDiff, side: Side) -> Outline:
        """The outline of one side; an empty one of what is no test file."""
        if (file.path, side) not in self._outlines:
            path = file.name_on(side)
            lines = read_test_lines(self._input, file, self._options, side, with_conftest=True)
            self._outlines[file.path, side] = read_outline(path, lines, self._is_allowed)
        return self._outlines[file.path, side]


def _has_markers(outline: Outline) -> bool:
    if outline.loose or outline.cases or outline.narrowing:
        return True
    return any(scope.all_markers() for scope in (*outline.tests, *outline.helpers))


_TestPlace = tuple[str, str, str]
"""Where a test stands: the file's path, the classes or blocks around it, its name."""


class _LostTests:
    """The tests that ran before the change and do not after it.

    A test is compared with the one at its own place. Only at a new place it is compared with tests
    of its name that are gone from theirs: it was moved.
    """

    def __init__(self, files: Files, outlines: _ChangedOutlines) -> None:
        self._declared = Counter[_TestPlace]()
        """By place, how many tests more are declared before than after."""
        self._running = Counter[_TestPlace]()
        """By place, how many more ran before."""
        self._possible = Counter[_TestPlace]()
        """By place, how many more could run before."""
        sides: tuple[tuple[Side, int], ...] = (("before", 1), ("after", -1))
        for file, (side, sign) in product(files, sides):
            for test in outlines.of(file, side).tests:
                place = _test_place(file, test)
                self._declared[place] += sign
                self._running[place] += sign * (test.level() == RUNS)
                self._possible[place] += sign * (test.level() < NEVER)
        self._moved_running = self._sum_moved(self._running)
        self._moved_possible = self._sum_moved(self._possible)

    def _sum_moved(self, surplus: Counter[_TestPlace]) -> Counter[_TestPlace]:
        """By name alone, how many more ran at places that lost a test than run where one is new."""
        moved = Counter[_TestPlace]()
        for place, count in surplus.items():
            declared = self._declared[place]
            if declared > 0:
                moved["", "", place[2]] += max(0, min(count, declared))
            elif declared < 0:
                moved["", "", place[2]] += min(0, max(count, declared))
        return moved

    def take(self, file: FileDiff, test: OutlineScope) -> bool:
        """Whether the test is one of those that ran more before; each is taken once."""
        place = _test_place(file, test)
        is_new_here = self._declared[place] < 0
        if not is_new_here:
            return _take_lost(place, test, self._running, self._possible)
        self._declared[place] += 1
        return _take_lost(("", "", test.name), test, self._moved_running, self._moved_possible)


def _test_place(file: FileDiff, test: OutlineScope) -> _TestPlace:
    outer_names: list[str] = []
    scope = test.parent
    while scope is not None:
        outer_names.append(scope.name)
        scope = scope.parent
    return file.path, "\n".join(outer_names), test.name


def _take_lost(
    place: _TestPlace,
    test: OutlineScope,
    running: Counter[_TestPlace],
    possible: Counter[_TestPlace],
) -> bool:
    is_lost = running[place] > 0
    if test.level() == NEVER and possible[place] > 0:
        is_lost = True
        possible[place] -= 1
    if is_lost:
        running[place] -= 1
    return is_lost


def _reports(
    file: FileDiff,
    added: dict[int, AddedLine],
    outlines: _ChangedOutlines,
    lost_tests: _LostTests,
) -> Iterator[_DisablingLine]:
    """Each added line that switches off what ran before; of two reports about a line the later one
    is right.
    """
    before = outlines.of(file, "before")
    after = outlines.of(file, "after")
    yield from _disabled_tests(file, added, after, lost_tests)
    yield from _disabled_helpers(added, before, after)
    yield from _disabled_cases(file, added, after)
    yield from _more_markers("Runs only some tests", before.narrowing, after.narrowing, added)
    if is_pytest_conftest(file.path):
        constant_markers = [marker for marker in after.loose if marker.level == NEVER]
        yield from _more_markers("Disables tests beside it", before.loose, constant_markers, added)
    elif file.before is not None:
        yield from _more_markers("Disables a test", before.loose, after.loose, added)


def _disabled_tests(
    file: FileDiff, added: dict[int, AddedLine], after: Outline, lost_tests: _LostTests
) -> Iterator[_DisablingLine]:
    """The markers that switch off whole tests, each with all of its tests."""
    markers: dict[int, Marker] = {}
    names_by_line: dict[int, list[str]] = {}
    for test in after.tests:
        new_markers = [marker for marker in test.all_markers() if marker.line in added]
        if new_markers and lost_tests.take(file, test):
            marker = max(new_markers, key=lambda marker: marker.level)
            markers.setdefault(marker.line, marker)
            names_by_line.setdefault(marker.line, []).append(test.name)
    for line, names in names_by_line.items():
        marker_text = markers[line].text
        yield _DisablingLine(line, _message(marker_text, names), marker_text, tuple(names))


def _disabled_helpers(
    added: dict[int, AddedLine], before: Outline, after: Outline
) -> Iterator[_DisablingLine]:
    """The markers in functions that tests call."""
    levels_before = {helper.name: helper.level() for helper in before.helpers}
    for helper in after.helpers:
        if helper.level() <= levels_before.get(helper.name, NEVER):
            continue
        for marker in helper.markers:
            if marker.line in added:
                message = f"Disables the tests that use {helper.name} ({marker.text})."
                yield _DisablingLine(marker.line, message, marker.text)


def _disabled_cases(
    file: FileDiff, added: dict[int, AddedLine], after: Outline
) -> Iterator[_DisablingLine]:
    """The marks of single cases that were there before."""
    new_markers = [marker for marker in after.cases if marker.line in added]
    if not new_markers:
        return
    removed_text = _removed_text(file)
    for marker in new_markers[:MAX_CASES]:
        if _is_old_case(marker, removed_text, added):
            message = f"Disables a case of a test ({marker.text})."
            yield _DisablingLine(marker.line, message, marker.text)


def _message(marker: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"Disables the test {names[0]} ({marker})."
    return f"Disables {counted(len(names), 'test')} ({marker}): {name_tests(names)}."


def _more_markers(
    message: str, before: Sequence[Marker], after: Sequence[Marker], added: dict[int, AddedLine]
) -> Iterator[_DisablingLine]:
    """The added markers of which there are more than before."""
    surplus = Counter(marker.text for marker in after) - Counter(marker.text for marker in before)
    for marker in after:
        if marker.line in added and surplus[marker.text] > 0:
            surplus[marker.text] -= 1
            yield _DisablingLine(marker.line, f"{message} ({marker.text}).", marker.text)


MAX_CASES = 200
"""Cases of a file that are looked for among its removed lines; each search reads them all."""
MAX_CASE_LINES = 50
"""Lines before the marks of a case in which it begins."""


def _removed_text(file: FileDiff) -> str:
    """The removed lines without white space."""
    removed_rows: list[bytes] = []
    for hunk in file.hunks:
        removed_rows += [row[1:] for row in hunk.rows if row.startswith(b"-")]
    return "".join(read_side_text(b"".join(removed_rows)).split())


def _is_old_case(marker: Marker, removed_text: str, added: dict[int, AddedLine]) -> bool:
    """Whether a case that was there before gets the marks: its values stand in a line that is kept
    or removed.
    """
    values = added[marker.line].text[:MAX_SCANNED_LINE].partition("marks")[0]
    number = marker.line - 1
    while "param(" not in values and marker.line - number < MAX_CASE_LINES:
        if number not in added:
            return True
        values = added[number].text[:MAX_SCANNED_LINE] + values
        number -= 1
    plain_values = "".join(values.rpartition("param(")[2].split()).strip(",")
    return bool(plain_values) and plain_values in removed_text


def read_outline(path: str, lines: Sequence[str], is_allowed: Callable[[str], bool]) -> Outline:
    """The outline of a file's lines; a line that `is_allowed` has no marker."""
    if extension(path) == "py":
        lines = _without_multiline_text("\n".join(lines)).split("\n")
    reader = _OutlineReader(path, lines, is_allowed)
    for number, line in enumerate(lines, start=1):
        reader.read_line(number, line[:MAX_SCANNED_LINE])
    return reader.finish()


def _without_multiline_text(source: str) -> str:
    """Python without what stands in strings of several lines: that is data."""

    def blank(match: re.Match[str]) -> str:
        newline_count = match[0].count("\n")
        if not newline_count:
            return match[0]
        return '""' + "\n" * newline_count

    return _PYTHON_TEXT.sub(blank, source)


class _OutlineReader:
    """Reads an outline line by line. `_scopes`: the file, and what the current line stands in,
    innermost last.
    """

    def __init__(self, path: str, lines: Sequence[str], is_allowed: Callable[[str], bool]) -> None:
        self._path = path
        self._language = extension(path)
        self._is_allowed = is_allowed
        self._test_names = {test.line: test.name for test in declared_tests(path, list(lines))}
        self._container = re.compile(_CONTAINERS.get(self._language, r"(?!)"))
        self._helper = re.compile(_HELPERS.get(self._language, r"(?!)"))
        self._outline = Outline()
        self._scopes = [OutlineScope("file", "", -1)]
        self._holders = [self._scopes[0]]
        self._pending: list[Marker] = []
        self._pending_cases: list[Marker] = []
        """Marks of cases in the annotations that wait for their test."""
        self._annotations: list[list[str]] = []
        """The lines of these annotations."""
        self._is_autouse = False
        self._open_brackets = 0
        self._continued_until = 0
        self._aliases: dict[str, int] = {}
        self._opener = ""

    def read_line(self, number: int, line: str) -> None:
        """Take one line."""
        marker = self._marker_in(number, line)
        if not line.strip() or (is_comment(self._language, line) and marker is None):
            return
        if marker is not None and self._is_sorted_out(marker, line):
            marker = None
        is_continued = self._open_brackets > 0 and number <= self._continued_until
        if is_continued and number not in self._test_names:
            self._open_brackets += _bracket_balance(line)
            self._add_pending(marker)
            self._annotations[-1].append(line)
            return
        self._open_brackets = 0
        indent = _indent_of(line)
        self._enter_scope(line, indent)
        self._read_statement(number, line, indent, marker)
        if line.rstrip()[-1] in _OPENING:
            self._opener = line

    def _is_sorted_out(self, marker: Marker, line: str) -> bool:
        """Note a marker that is about no whole test; whether it is one."""
        if _NARROWING.search(marker.text):
            self._outline.narrowing.append(marker)
            return True
        if _CASE.search(line):
            self._outline.cases.append(marker)
            self._pending_cases.append(marker)
            return True
        return False

    def _enter_scope(self, line: str, indent: int) -> None:
        """Leave the scopes that end before this line."""
        if line.lstrip()[0] not in _CLOSING:
            while self._scopes[-1].indent >= indent:
                self._scopes.pop()
        scope = self._scopes[-1]
        if scope.body_indent < 0 and scope.kind != "file":
            scope.body_indent = indent

    def _add_pending(self, marker: Marker | None) -> None:
        if marker is not None:
            self._pending.append(marker)

    def finish(self) -> Outline:
        """The outline, when all lines are read."""
        self._outline.loose += self._pending
        for holder in self._holders:
            if not holder.has_tests:
                self._outline.loose += holder.markers
        return self._outline

    def _read_statement(self, number: int, line: str, indent: int, marker: Marker | None) -> None:
        name = self._test_name(number, line, marker)
        if name:
            self._begin("test", name, indent, marker)
        elif match := self._container.match(line):
            self._begin("container", match.groupdict().get("name") or "", indent, marker)
        elif match := self._helper.match(line):
            self._begin("helper", match["name"], indent, marker)
        elif _ANNOTATION.match(line):
            self._add_pending(marker)
            self._is_autouse |= "autouse" in line
            self._annotations.append([line])
            self._open_brackets = _bracket_balance(line)
            self._continued_until = number + MAX_CONTINUED
        else:
            self._outline.loose += self._pending
            self._forget_pending()
            if marker is not None:
                self._attach(marker, line, indent)

    def _begin(self, kind: ScopeKind, name: str, indent: int, marker: Marker | None) -> None:
        scope = OutlineScope(kind, name, indent, self._scopes[-1])
        for own_marker in (*self._pending, marker):
            if own_marker is not None:
                scope.add(own_marker)
        if kind == "test":
            self._outline.tests.append(scope)
            if self._pending_cases and (all_cases := self._mark_of_all_cases()):
                scope.add(all_cases)
            for outer in self._scopes:
                outer.has_tests = True
        elif kind == "container":
            self._holders.append(scope)
        elif self._is_autouse or _SETUP.fullmatch(name):
            scope.is_setup = True
        else:
            self._outline.helpers.append(scope)
        self._scopes.append(scope)
        self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending = []
        self._pending_cases = []
        self._annotations = []
        self._is_autouse = False

    def _mark_of_all_cases(self) -> Marker | None:
        """The first mark of a case if one of the annotations marks all of its cases."""
        first_case = self._pending_cases[0]
        for lines in self._annotations:
            levels = []
            for marks in _marks_of_cases("\n".join(lines)):
                marker = self._marker_in(first_case.line, f"marks={marks}")
                levels.append(marker.level if marker else RUNS)
            if levels and min(levels) > RUNS:
                return Marker(first_case.line, first_case.text, min(levels))
        return None

    def _test_name(self, number: int, line: str, marker: Marker | None) -> str:
        """The name of the test that the line declares, "" if it declares none."""
        if number in self._test_names:
            return self._test_names[number].replace("DISABLED_", "")
        if marker is not None and self._language in SCRIPTS and "describe" not in marker.text:
            title = _TITLE.search(line)
            return title["name"] if title else ""
        subtest = _SUBTEST.match(line) if self._language == "go" else None
        if subtest and self._scopes[-1].kind == "test":
            return f"{self._scopes[-1].name}/{subtest['name']}"
        return ""

    def _attach(self, marker: Marker, line: str, indent: int) -> None:
        """Put a marker that is a statement where it belongs."""
        scope = self._scopes[-1]
        if scope.kind in ("file", "container"):
            name = self._assigned_name(line, indent)
            is_call = "importorskip" in marker.text
            if name and name not in _FOR_ALL and not is_call:
                self._aliases[name] = marker.level
                return
            if name:
                scope.add(marker)
                return
        is_deeper = indent > max(scope.body_indent, 0)
        level = min(marker.level, SOMETIMES) if is_deeper else marker.level
        while scope.is_setup and scope.parent is not None:
            scope = scope.parent
        scope.add(Marker(marker.line, marker.text, level))

    def _assigned_name(self, line: str, indent: int) -> str:
        """The name that the statement of this line is assigned to; "" without one."""
        match = _ASSIGNED.match(line)
        if match is None and self._opener and _indent_of(self._opener) < indent:
            match = _ASSIGNED.match(self._opener)
        return match["name"] if match else ""

    def _marker_in(self, number: int, line: str) -> Marker | None:
        text = disabling_marker(self._path, line)
        level = _level_of(line)
        if not text:
            for use in _ALIAS_USE.finditer(line):
                if use["name"] in self._aliases:
                    text = use[0].strip()
                    level = self._aliases[use["name"]]
                    break
        if not text or self._is_allowed(line):
            return None
        return Marker(number, text, level)


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def _marks_of_cases(annotation: str) -> list[str]:
    """The source of each case's `marks` in a `parametrize`, "" for a case without; [] for anything
    else.
    """
    try:
        call = ast.parse(annotation.strip().removeprefix("@"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if not isinstance(call, ast.Call) or "parametrize" not in ast.dump(call.func):
        return []
    named_values = [keyword.value for keyword in call.keywords if keyword.arg == "argvalues"]
    values = [*call.args[1:2], *named_values]
    if not values or not isinstance(values[0], ast.List | ast.Tuple):
        return []
    sources = []
    for case in values[0].elts:
        keywords = case.keywords if isinstance(case, ast.Call) else []
        marks = [ast.unparse(keyword.value) for keyword in keywords if keyword.arg == "marks"]
        sources.append("".join(marks))
    return sources


_ALIAS_USE = expression(r"(?:^\s*@|\bmarks\s*=\s*)(?P<name>\w+)")


def _level_of(line: str) -> int:
    if _CONSTANT.search(line):
        return NEVER
    if _CONDITIONAL.search(line) or _XFAIL_IF.search(line):
        return SOMETIMES
    return NEVER


def _bracket_balance(line: str) -> int:
    code = _QUOTED.sub("", line)
    return sum(map(code.count, _OPENING)) - sum(map(code.count, _CLOSING))
