"""Checks that tests stay: not deleted, not moved out of the runner's sight, not switched off.

First what tests look like, by language; then the checks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from vibe_gate.checks.check_contract import (
    MAX_FURTHER_LINES,
    AddedLine,
    CheckInput,
    Excluding,
    Files,
    Hit,
    HitLine,
    read_side_text,
)
from vibe_gate.domain import paths
from vibe_gate.domain.change import REGULAR_MODE, SUBMODULE_MODE, SYMLINK_MODE, FileDiff, Side
from vibe_gate.domain.escape import counted, list_names
from vibe_gate.domain.rubric import Glob

TEST_FILES = (
    "test_*.py",
    "*_test.py",
    "tests.py",
    "*.test.*",
    "*.spec.*",
    "*-test.js",
    "*-test.ts",
    "**/__tests__/**",
    "*_test.go",
    "*Test.java",
    "*Tests.java",
    "*IT.java",
    "Test*.java",
    "*Test.kt",
    "*Tests.kt",
    "*Test.scala",
    "*Spec.scala",
    "*Test.cs",
    "*Tests.cs",
    "*Test.php",
    "*Tests.swift",
    "*Test.swift",
    "*_spec.rb",
    "*_test.rb",
    "test_*.rb",
    "*_test.cc",
    "*_test.cpp",
    "*_test.exs",
    "**/tests/**/*.rs",
    "tests/**/*.rs",
    "**/src/test/**",
)
"""Names under which test runners find tests. Data beside tests is not a test."""

INLINE_TESTS = ("*.rs",)
"""Files that hold tests beside the code, by the language's custom."""


class DeclaredTest(Struct, frozen=True):
    """A test and where it stands; `line` counts from 1."""

    name: str
    line: int
    text: str


_PYTHON = r"\s*(?:async\s+)?def\s+(test\w*)"
_SCRIPT = r"\s*[fx]?(?:it|test|specify)(?:\.[A-Za-z]{1,20}){0,3}\s*\(\s*(?P<quote>['\"`])(?P<name>.{1,200}?)(?P=quote)"
_GO = r"func\s+(?:\([^()]{0,80}\)\s*)?((?:Test|Benchmark|Fuzz|Example)\w*)\s*\("
_RUBY = r"\s*(?:def\s+(test_\w+)|[fx]?(?:it|specify|test)\s*\(?\s*[\"'](.{1,200}?)[\"'])"
_NAMED = r"\s*(?:[a-z]+\s+){0,3}(?:function|func|fun|def)\s+(test\w+)"
_MACRO = r"\s*(TEST(?:_F|_P)?|TYPED_TEST)\s*\(\s*(\w+)\s*,\s*(\w+)"

_ANNOTATION = (
    r"\s*(?:@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate|Property)\b"
    r"|\[(?:Test|Fact|Theory|TestMethod|TestCase|DataTestMethod)\b"
    r"|#\[(?:[a-z_]+::)?(?:test|rstest|test_case|quickcheck|proptest)\b)"
)
_METHOD = r"[^=;(]{0,200}?\b(?:fn|fun|func|def|function|void|Task|[A-Z]\w*(?:<[^<>]{0,60}>)?)\s+(\w+|`[^`]{1,200}`)\s*[(<]"
METHOD_WITHIN = 8
"""Lines after an annotation in which the method's own line is looked for; other annotations stand
between.
"""

SCRIPTS = ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue")
# Compiled where they are used (`re` keeps them): a change has files of one or two languages.
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "py": (_PYTHON,),
    **dict.fromkeys(SCRIPTS, (_SCRIPT,)),
    "go": (_GO,),
    "rb": (_RUBY,),
    **dict.fromkeys(("php", "swift", "kt", "scala", "groovy"), (_NAMED,)),
    **dict.fromkeys(("cc", "cpp", "cxx", "c", "h", "hpp"), (_MACRO,)),
}
_ANNOTATED = frozenset({"java", "kt", "kts", "scala", "groovy", "cs", "rs", "swift", "php"})

_OFF_PYTHON = (
    r"pytest\.mark\.(?:skip|skipif|xfail)\b|\bmark\.(?:skip|skipif|xfail)\b|pytest\.(?:skip|xfail|importorskip)\s*\("
    r"|@(?:unittest\.)?(?:skip|skipIf|skipUnless|expectedFailure)\b|\.skipTest\s*\(|raise\s+(?:unittest\.)?SkipTest\b"
    r"|\bcollect_ignore(?:_glob)?\b(?!\s*=\s*\[\s*\])|__test__\s*=\s*False"
)
_OFF_SCRIPT = (
    r"\b(?:it|test|describe|context|suite|specify)(?:\.(?:each|concurrent|serial|parallel|failing))?\.(?:skip|todo|only|fixme|skipIf|runIf|fails)\b"
    r"|\b(?:xit|xtest|xdescribe|xcontext|xspecify|fit|fdescribe)\s*[(.]|\bthis\.skip\s*\(|\bpending\s*\("
)
_OFF_JVM = (
    r"@(?:org\.junit\.)?(?:Ignore|Disabled\w*|EnabledIf\w*)\b|\b(?:Assume\w*\.|assume)(?:True|False|That)\s*\("
    r"|enabled\s*=\s*false|\bthrow\s+new\s+SkipException"
)
_OFF: dict[str, str] = {
    "py": _OFF_PYTHON,
    **dict.fromkeys(SCRIPTS, _OFF_SCRIPT),
    **dict.fromkeys(("java", "kt", "kts", "scala", "groovy"), _OFF_JVM),
    "go": r"\b[a-zA-Z]\w{0,20}\.(?:Skip|Skipf|SkipNow)\s*\(|//go:build\s+ignore\b",
    "rs": r"#!?\[\s*ignore\b|#!?\[\s*cfg_attr\s*\([^\n]{0,200}\bignore\b",
    "cs": r"\[\s*(?:Ignore|Explicit)\b|\bSkip\s*=\s*\"|Assert\.(?:Ignore|Inconclusive)\s*\(",
    "rb": r"^\s*(?:xit|xdescribe|xcontext|xspecify|fit|fdescribe|skip|pending)\b|\bskip:\s*(?:true|['\"])",
    "php": r"markTest(?:Skipped|Incomplete)\s*\(|#\[\s*(?:Skip|Ignore)|@group\s+skip",
    "swift": r"\bXCTSkip\w*\b|\.disabled\s*\(",
    "exs": r"@tag\s+:?skip|@moduletag\s+:?skip",
    **dict.fromkeys(("cc", "cpp", "cxx", "c", "h", "hpp"), r"\bDISABLED_\w+|\bGTEST_SKIP\b"),
}

_HASH_COMMENT = ("#",)
_C_COMMENT = ("//", "*", "/*")
_COMMENTS = {"py": _HASH_COMMENT, "rb": _HASH_COMMENT, "exs": _HASH_COMMENT}
"""How a comment begins, by extension; elsewhere as in C."""


def extension(path: str) -> str:
    """The name's last extension in lower case, without its dot; "" without one."""
    name = path.rpartition("/")[2]
    _, dot, ending = name.rpartition(".")
    return ending.lower() if dot else ""


def declared_tests(path: str, lines: list[str]) -> Iterator[DeclaredTest]:
    """The tests that a file declares, as far as its lines tell; commented ones are none."""
    language = extension(path)
    patterns = [re.compile(source) for source in _LANGUAGES.get(language, ())]
    annotated = language in _ANNOTATED
    waiting = 0
    for number, line in enumerate(lines, start=1):
        if len(line) > 2000 or is_comment(language, line):
            continue
        name = _first_name(patterns, line)
        if annotated:
            if re.match(_ANNOTATION, line):
                waiting = METHOD_WITHIN
            if waiting and not name:
                name = _name(re.match(_METHOD, _without_attributes(line)))
            waiting = 0 if name else max(0, waiting - 1)
        if name:
            yield DeclaredTest(name, number, line)


def _first_name(patterns: list[re.Pattern[str]], line: str) -> str:
    """The name that the first matching pattern finds; "" if none does."""
    for pattern in patterns:
        name = _name(pattern.match(line))
        if name:
            return name
    return ""


def _name(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    if "name" in match.re.groupindex:
        return match["name"]
    return ".".join(group for group in match.groups() if group)


def _without_attributes(line: str) -> str:
    """The line without leading annotations, whose names look like types: `@Test void a()`, `[Fact]
    public void A()`.
    """
    return re.sub(r"^\s*(?:(?:@\w+(?:\([^()]{0,200}\))?|#?\[[^\]]{0,200}\])\s*){1,8}", "", line)


def disabling_marker(path: str, line: str) -> str:
    """The marker by which `line` skips tests or narrows the run to some; "" without one."""
    language = extension(path)
    pattern = _OFF.get(language)
    if pattern is None:
        return ""
    is_build_constraint = line.lstrip().startswith("//go:build")
    if is_comment(language, line) and not is_build_constraint:
        return ""
    match = re.search(pattern, line)
    return match[0].strip() if match else ""


def is_comment(language: str, line: str) -> bool:
    """Whether the whole line is a comment."""
    return line.lstrip().startswith(_COMMENTS.get(language, _C_COMMENT))


_SWITCH = r"\A[xf](?=it|test|describe|context|specify)|\.(?:skip|only|fixme)\Z"
"""What switches a test of JavaScript off, or all others: without it `xit(` is `it(` and `it.skip`
is `it`.
"""


def with_test_enabled(line: AddedLine, marker: str) -> FileDiff | None:
    """The file with the test switched on: without a line that is but the marker, or with the call's
    plain name.
    """
    text = line.text.strip()
    is_alone = text.startswith((marker, f"@{marker}")) and text.startswith(("@", "#[", "["))
    is_whole = re.fullmatch(r"@[\w.]+(?:\(.*\))?|#?\[.*\]", text) is not None
    if is_alone and is_whole and text.count("(") == text.count(")"):
        return line.repaired(None)
    is_script = extension(line.file.path) in SCRIPTS
    call = re.sub(_SWITCH, "", marker) if is_script else marker
    plain = line.text.replace(marker, call, 1)
    if call == marker or disabling_marker(line.file.path, plain):
        return None
    return line.repaired(plain)


MAX_TEST_FILE = 5_000_000
"""Bytes of a file that is searched for tests; nobody writes a larger one by hand."""


class TestOptions(Excluding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of checks that keep tests."""

    __test__ = False  # pytest would collect the name

    tests: Annotated[
        tuple[Glob, ...],
        Meta(description="globs of test files, by default the names that common runners look for"),
    ] = TEST_FILES


def no_deleted_tests(input: CheckInput, options: TestOptions, files: Files) -> Iterator[Hit]:
    """No test file and no test goes, unless the test stands elsewhere in the change's test
    files.
    """
    gained = _gained(input, options)
    for file in files:
        before = _tests_of(input, file, options, "before")
        missing = _missing(before, _tests_of(input, file, options, "after"), gained)
        path = paths.quote(file.old_name)
        if _left_the_tests(file, options) and (missing or not before):
            count = f" with {counted(len(before), 'test')}" if before else ""
            message = f"This test file is deleted{count}."
            if file.after:
                message = f"This test file{count} is moved out of the tests, to {file.shown_path}."
            yield Hit(message, path)
            continue
        if missing:
            yield _removal_hit(missing, path)


MAX_NAMED_TESTS = 3
"""Tests that a message names; it counts the others."""


def name_tests(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return list_names(names, MAX_NAMED_TESTS)


def _removal_hit(tests: Sequence[DeclaredTest], path: str) -> Hit:
    """The tests that are gone from a file."""
    names = [test.name for test in tests]
    message = f"Test {names[0]} was removed."
    if len(names) > 1:
        message = f"{len(names):,} tests were removed: {name_tests(names)}."
    first, *further_tests = tests
    further_lines = []
    for test in further_tests[:MAX_FURTHER_LINES]:
        further_lines.append(HitLine(path, test.line, test.text, "before"))
    return Hit(
        message,
        path,
        first.line,
        first.text,
        "before",
        fingerprint="\0".join(names) if further_tests else "",
        further_lines=tuple(further_lines),
        count=len(tests),
    )


def holds_tests(file: FileDiff, options: TestOptions) -> bool:
    """Whether a runner looks for tests in the file after the change."""
    return file.after is not None and _is_test_file(file.path, options)


def _is_test_file(path: str, options: TestOptions) -> bool:
    if paths.matches_any_glob(path, options.tests):
        return True
    return options.tests == TEST_FILES and paths.matches_any_glob(path, INLINE_TESTS)


def can_skip_tests(file: FileDiff, options: TestOptions) -> bool:
    """Whether the file after the change has tests, or pytest reads it for the tests beside it."""
    is_conftest = file.after is not None and is_pytest_conftest(file.path)
    return is_conftest or holds_tests(file, options)


def held_tests(file: FileDiff, options: TestOptions) -> bool:
    """Whether a runner looked for tests in the file before the change."""
    return file.before is not None and _is_test_file(file.old_name, options)


def _left_the_tests(file: FileDiff, options: TestOptions) -> bool:
    """Whether the file is no longer where a runner looks. A file with tests beside code counts by
    its tests alone.
    """
    if not paths.matches_any_glob(file.old_name, options.tests):
        return False
    if file.after is None or not _is_test_file(file.path, options):
        return True
    return file.after.mode in {SYMLINK_MODE, SUBMODULE_MODE}


def _tests_of(
    input: CheckInput, file: FileDiff, options: TestOptions, side: Side
) -> list[DeclaredTest]:
    """The tests of one side, as far as a runner would look there."""
    path = file.name_on(side)
    return list(declared_tests(path, read_test_lines(input, file, options, side)))


def is_pytest_conftest(path: str) -> bool:
    """Whether pytest reads the file for the tests of its folder."""
    return path.rsplit("/", 1)[-1] == "conftest.py"


def read_test_lines(
    input: CheckInput,
    file: FileDiff,
    options: TestOptions,
    side: Side,
    *,
    with_conftest: bool = False,
) -> list[str]:
    """The lines of one side; none of what is no test file, no regular file or too large."""
    version, path = file.version_on(side), file.name_on(side)
    if version is None or version.mode & 0o170000 != REGULAR_MODE & 0o170000:
        return []
    is_wanted = _is_test_file(path, options) or (with_conftest and is_pytest_conftest(path))
    if version.size > MAX_TEST_FILE or not is_wanted:
        return []
    return [read_side_text(line) for line in input.read(version).split(b"\n")]


def _names(tests: list[DeclaredTest]) -> Counter[str]:
    return Counter(test.name for test in tests)


def _gained(input: CheckInput, options: TestOptions) -> Counter[str]:
    gained: Counter[str] = Counter()
    for file in input.change.files:
        after = _names(_tests_of(input, file, options, "after"))
        gained += after - _names(_tests_of(input, file, options, "before"))
    return gained


def _missing(
    before: list[DeclaredTest], after: list[DeclaredTest], gained: Counter[str]
) -> list[DeclaredTest]:
    """The tests without a namesake left, here or in `gained`, where each stands for one test only
    and is used up.
    """
    remaining = _names(after)
    missing = []
    for test in before:
        namesakes = remaining if remaining[test.name] > 0 else gained
        if namesakes[test.name] > 0:
            namesakes[test.name] -= 1
        else:
            missing.append(test)
    return missing
