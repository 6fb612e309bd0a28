"""Checks that tests stay: not deleted, not moved out of the runner's sight, not switched off."""

from __future__ import annotations

import re
from collections import Counter

from pydantic import field_validator

from vibe_gate.checks import answer
from vibe_gate.checks.answer import Excluding, counted, listed, non_empty_globs
from vibe_gate.checks.contract import CheckInput, CheckResult
from vibe_gate.checks.lines import MAX_SCANNED_LINE, added_lines, text_of
from vibe_gate.checks.suites import INLINE_TESTS, TEST_FILES, DeclaredTest, declared_tests, switched_off
from vibe_gate.checks.text import regular_expression
from vibe_gate.domain import paths
from vibe_gate.domain.change import REGULAR_MODE, SUBMODULE_MODE, SYMLINK_MODE, FileChange, Side
from vibe_gate.domain.verdict import MAX_FINDINGS, Finding

MAX_TEST_FILE = 5_000_000
"""Bytes of a file that is searched for tests; nobody writes a larger one by hand."""


class TestOptions(Excluding):
    """`tests`: globs of the files that are tests (default: the names that common runners look for)."""

    __test__ = False  # pytest would collect the name

    tests: tuple[str, ...] = TEST_FILES

    @field_validator("tests")
    @classmethod
    def _tests_are_not_empty(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        return non_empty_globs(globs)


class SkipOptions(TestOptions):
    """`allow`: regular expressions; a line that one of them matches may skip (`sys\\.platform`)."""

    allow: tuple[str, ...] = ()

    @field_validator("allow")
    @classmethod
    def _allow_compiles(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(regular_expression(source) for source in sources)


def no_deleted_tests(input: CheckInput, options: TestOptions) -> CheckResult:
    """No test file and no test goes, unless the test stands elsewhere in the change's test files."""
    files = [file for file in answer.selected(input, options) if _held_tests(file, options)]
    if not files:
        return answer.not_applicable("No test file changed.")
    gained = _gained(input, options)
    findings: list[Finding] = []
    gone = 0
    for file in files:
        before = _tests_of(input, file, options, "before")
        missing = _missing(before, _tests_of(input, file, options, "after"), gained)
        if _left_the_tests(file, options) and (missing or not before):
            findings.append(_file_finding(input, file, len(before)))
            gone += len(missing)
        else:
            findings += [_test_finding(input, file, test) for test in missing[:MAX_FINDINGS]]
            gone += len(missing)
    if not findings:
        return answer.passed(f"Every test of {counted(len(files), 'changed test file')} is still there.")
    lost = listed(dict.fromkeys(found.path for found in findings))
    return answer.failed(input, f"{counted(gone, 'test')} gone from {lost}.", findings)


def _is_test_file(path: str, options: TestOptions) -> bool:
    return paths.matches(path, options.tests) or (options.tests == TEST_FILES and paths.matches(path, INLINE_TESTS))


def _held_tests(file: FileChange, options: TestOptions) -> bool:
    return file.before is not None and _is_test_file(file.old_path or file.path, options)


def _left_the_tests(file: FileChange, options: TestOptions) -> bool:
    """Whether the file is no longer where a runner looks. A file with tests beside code counts by its tests alone."""
    old = file.old_path or file.path
    if not paths.matches(old, options.tests):
        return False
    return (
        file.after is None or not _is_test_file(file.path, options) or file.after.mode in {SYMLINK_MODE, SUBMODULE_MODE}
    )


def _tests_of(input: CheckInput, file: FileChange, options: TestOptions, side: Side) -> list[DeclaredTest]:
    """The tests of one side, as far as a runner would look there."""
    version, path = (file.before, file.old_path or file.path) if side == "before" else (file.after, file.path)
    if version is None or version.mode & 0o170000 != REGULAR_MODE & 0o170000 or version.size > MAX_TEST_FILE:
        return []
    if not _is_test_file(path, options):
        return []
    return list(declared_tests(path, [text_of(line) for line in input.read(version).split(b"\n")]))


def _names(tests: list[DeclaredTest]) -> Counter[str]:
    return Counter(test.name for test in tests)


def _gained(input: CheckInput, options: TestOptions) -> Counter[str]:
    """How many tests of each name the change's files gained, file by file."""
    gained: Counter[str] = Counter()
    for file in input.change.files:
        after = _names(_tests_of(input, file, options, "after"))
        gained += after - _names(_tests_of(input, file, options, "before"))
    return gained


def _missing(before: list[DeclaredTest], after: list[DeclaredTest], gained: Counter[str]) -> list[DeclaredTest]:
    """The tests without a namesake left, here or in `gained`, where each stands for one test only and is used up."""
    kept = _names(after)
    missing = []
    for test in before:
        namesakes = kept if kept[test.name] > 0 else gained
        if namesakes[test.name] > 0:
            namesakes[test.name] -= 1
        else:
            missing.append(test)
    return missing


def _file_finding(input: CheckInput, file: FileChange, tests: int) -> Finding:
    shown = paths.quote(file.old_path or file.path)
    held = f" with {counted(tests, 'test')}" if tests else ""
    if file.after is None:
        return answer.finding(input, f"This test file is deleted{held}.", path=shown)
    return answer.finding(input, f"This test file{held} is moved out of the tests, to {file.shown_path}.", path=shown)


def _test_finding(input: CheckInput, file: FileChange, test: DeclaredTest) -> Finding:
    shown = paths.quote(file.old_path or file.path)
    return answer.finding(
        input, f"The test {test.name} is gone.", path=shown, line=test.line, quote=test.text, side="before"
    )


def no_skipped_tests(input: CheckInput, options: SkipOptions) -> CheckResult:
    """No added line skips a test or narrows the run to some."""
    files = [file for file in answer.selected(input, options) if file.after and _is_test_file(file.path, options)]
    if not files:
        return answer.not_applicable("No test file was added or changed.")
    allowed = [re.compile(source) for source in options.allow]
    hits = 0
    touched: dict[str, None] = {}
    findings: list[Finding] = []
    for line in added_lines(files):
        seen = line.text[:MAX_SCANNED_LINE]
        marker = switched_off(line.file.path, seen)
        if not marker or any(pattern.search(seen) for pattern in allowed):
            continue
        hits += 1
        touched[line.file.shown_path] = None
        if len(findings) < MAX_FINDINGS:
            message = f"This line switches tests off ({marker})."
            findings.append(
                answer.finding(input, message, path=line.file.shown_path, line=line.number, quote=line.text)
            )
    if not hits:
        return answer.passed(f"No test is switched off in {counted(len(files), 'changed test file')}.")
    return answer.failed(
        input, f"Tests are switched off by {counted(hits, 'added line')}, in {listed(touched)}.", findings
    )
