"""What the runs of a fail's test mean. Pure: text and exit codes in, a `Proof` out.

The reviewed code runs in the test's own process and can print and exit as it likes. So nothing that
a run says makes a pass: a failing test can only add to a fail, and a passing one turns a fail into
an abstention at most.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import CounterexampleRule
from vibe_gate.domain.verdict import CheckedEvidence, Defect, ProofStatus, short
from vibe_gate.judging.brief import ObligingLine, QuotedLine
from vibe_gate.judging.evidence import MIN_RELOCATED, quote_in_tree, visible_length

MAX_TEST = 12_000
"""Characters of a test: some 300 lines. It stands in the finding, so a longer one would drown a
comment.
"""

MAX_OBLIGATIONS = 5
RUNS = 3
"""Runs after the change: two agree by chance half of the time if a test fails every other time,
three one in four.
"""

FILE = "{file}"
TEST_FOLDERS = ("tests", "test")
STEERS_TESTS = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "pytest.py",
    "unittest.py",
    "**/_pytest/**",
    "**/unittest/**",
    "**/*.dist-info/**",
    "**/*.egg-info/**",
)
"""Files that decide what a test's run says; a change of one makes a passing run worth nothing."""

Runner = Literal["pytest", "unittest", "other"]
RunEnd = Literal["passed", "failed", "broken", "unfinished"]
"""Of one run: `broken` could not be loaded or set up, so that no line of the test ran; `unfinished`
says nothing.
"""


class RunReading(Struct, frozen=True):
    """How one run ended."""

    end: RunEnd

    reason: str = ""
    """Why it says nothing, or what went wrong."""

    missing: bool = False
    """Whether it failed only for want of a name."""

    @property
    def fails(self) -> bool:
        """Whether the test, or its import, failed."""
        return self.end in ("failed", "broken")


# The output is the reviewed code's: every repetition has an end, so that no text takes long.
_KINDS = "passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?|rerun"
_TALLY = re.compile(rf"(\d{{1,9}}) ({_KINDS})\b")
_TALLY_LINE = re.compile(rf"=*[ ]?\d{{1,9}} (?:{_KINDS})\b.{{0,200}} in [\d.]{{1,12}}s")
_UNITTEST = re.compile(r"^(?:OK|FAILED|NO TESTS RAN)(?: \(([^)\n]{0,200})\))?$", re.M)
_SKIPPED = re.compile(r"skipped=(\d{1,9})")
_RAN = re.compile(r"^Ran (\d{1,9}) tests? in ", re.M)
_ERROR = re.compile(r"^(?:E {1,20})?([\w.]{0,100}(?:Error|Exception|Failure)\b.*)$", re.M)
_ERROR_LINE = re.compile(r"^E {1,20}(\S.*)$", re.M)
_SETUP_ERROR = re.compile(r"^ERROR: setUp(?:Module|Class) ", re.M)
_CAPTURED = re.compile(r"^-+ Captured .*\n(?:(?![=_]{3,} )(?!-+ Captured ).*\n)*", re.M)
_MISSING = re.compile(
    r"(?:ImportError|ModuleNotFoundError|AttributeError|NameError): |TypeError: .*unexpected keyword argument"
    r"|TypeError: .*positional arguments? but"
)
_LIMITS = (
    (
        re.compile(r"Network is down|name resolution|ENETDOWN|EAI_AGAIN"),
        "it needs the network or a socket",
    ),
    (
        re.compile(r"_multiprocessing\.SemLock\([^\x00]{,300}?PermissionError"),
        "it needs shared memory",
    ),
    (re.compile(r"\bMemoryError\b|Cannot allocate memory"), "it needs more memory"),
    (re.compile(r"File too large|No space left on device"), "it writes too much"),
    (
        re.compile(r"can't start new thread|\[Errno 11\] Resource temporarily unavailable"),
        "it starts too many processes",
    ),
)


def find_runner(command: Sequence[str]) -> Runner:
    """Whose output and exit codes the command has."""
    words = {word.rpartition("/")[2] for word in command}
    if words & {"pytest", "py.test"}:
        return "pytest"
    if "unittest" in words:
        return "unittest"
    return "other"


def read_run(runner: Runner, code: int | None, output: str, failure: str) -> RunReading:
    """What one run says. `code` is None if it was not finished, and `failure` then says why."""
    if code is None:
        return RunReading("unfinished", failure)
    if code < 0:
        return RunReading("unfinished", f"it was ended by signal {-code}")
    if code in (126, 127):
        return RunReading("unfinished", "its command was not found")
    reading = _READERS[runner](code, output)
    if not reading.fails:
        return reading
    report = _failure_report(runner, output)
    for pattern, reason in _LIMITS:
        if pattern.search(report):
            return RunReading("unfinished", reason)
    errors = _ERROR.findall(report)[-1:] or _ERROR_LINE.findall(report)
    reason = short(errors[0]) if errors else reading.reason
    return replace(reading, reason=reason, missing=bool(_MISSING.match(reason)))


def _failure_report(runner: Runner, output: str) -> str:
    """What the runner says of the failures, without what the code printed meanwhile."""
    if runner == "pytest":
        return _CAPTURED.sub("", output)
    if runner == "unittest":
        _, line, report = output.partition(f"\n{'=' * 70}\n")
        if line:
            return report.partition("\nRan ")[0]
    return output


def _read_pytest(code: int, output: str) -> RunReading:
    """Exit codes: 0 passed, 1 failed or an error in a fixture, 2 not collected, 5 nothing to
    run.
    """
    tally_lines = [line for line in output.splitlines() if _TALLY_LINE.match(line)]
    if "No module named pytest" in output and not tally_lines:
        return RunReading("unfinished", "pytest is not in the environment")
    counts = {}
    for number, kind in _TALLY.findall(tally_lines[-1] if tally_lines else ""):
        counts[kind.removesuffix("s")] = int(number)
    if code == 0 and counts.get("passed"):
        return RunReading("passed")
    if code == 0:
        return RunReading("unfinished", "every test in it was skipped")
    if code == 1 and counts.get("failed"):
        return RunReading("failed")
    if code in (1, 2) and counts.get("error"):
        return RunReading("broken")
    if code == 5:
        return RunReading("unfinished", "there is no test in it")
    error_lines = [line.strip() for line in output.splitlines() if _ERROR.search(line)]
    last_error = f": {error_lines[-1]}" if error_lines else ""
    return RunReading("unfinished", f"pytest ended with exit code {code}{last_error}")


def _read_unittest(code: int, output: str) -> RunReading:
    results = _UNITTEST.findall(output)
    test_counts = _RAN.findall(output)
    if not test_counts:
        return RunReading("unfinished", f"unittest ended with exit code {code}")
    test_count = int(test_counts[-1])
    if not test_count or not results:
        return RunReading("unfinished", "there is no test in it")
    if code == 0:
        skipped = _SKIPPED.search(results[-1])
        if skipped and int(skipped[1]) >= test_count:
            return RunReading("unfinished", "every test in it was skipped")
        return RunReading("passed")
    if "unittest.loader._FailedTest" in output or _SETUP_ERROR.search(output):
        return RunReading("broken")
    return RunReading("failed")


def _read_other(code: int, output: str) -> RunReading:
    if code == 0:
        return RunReading("passed")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return RunReading("failed", short(lines[-1] if lines else ""))


_READERS: dict[Runner, Callable[[int, str], RunReading]] = {
    "pytest": _read_pytest,
    "unittest": _read_unittest,
    "other": _read_other,
}
"""Of a finished run: its exit code and its output."""


def could_not_run(reason: str) -> tuple[ProofStatus, str]:
    """The status and sentence of a test whose runs say nothing."""
    return "could_not_run", f"Could not run: {reason}."


def compare_runs(
    runs_after: Sequence[RunReading], run_before: RunReading | None
) -> tuple[ProofStatus, str]:
    """What the runs show without any obligation, and a sentence.

    "proven" stands for what an obligation would prove although nothing is shown: a failure of
    something new.

    Args:
        runs_after: The runs after the change.
        run_before: None if it was not run: then the runs after the change do not all fail.
    """
    for run in runs_after:
        if run.end == "unfinished":
            return could_not_run(run.reason)
    failures = sum(run.fails for run in runs_after)
    if not failures:
        return "void", "Its own test passes after the change."
    if failures < len(runs_after):
        return "flaky", f"Its test is flaky: of {len(runs_after)} runs, {failures} failed."
    if run_before is None:
        return could_not_run("before the change, no time was left")
    if run_before.end == "unfinished":
        return could_not_run(f"before the change, {run_before.reason}")
    return _compare_failure(runs_after[0], run_before)


def _compare_failure(run_after: RunReading, run_before: RunReading) -> tuple[ProofStatus, str]:
    """What a failure after the change shows, beside a finished run before it."""
    error = f": {run_after.reason}" if run_after.reason else ""
    if run_before.end == "passed":
        return "shown", f"Its test fails after the change and passed before{error}"
    if run_before.missing and not run_after.missing and run_after.end == "failed":
        return "proven", f"Its test fails; before the change, what it tests was not there{error}"
    if run_after.end == "broken":
        return could_not_run(f"the test cannot be loaded{error}".rstrip("."))
    return "unchanged", "Its test fails before the change, too."


def weigh_obligation(
    status: ProofStatus, reason: str, obligation: Sequence[CheckedEvidence]
) -> tuple[ProofStatus, str]:
    """The status with what obliges the code taken into account, and the sentence."""
    if status not in ("shown", "proven"):
        return status, short(reason)
    clause = reason.rstrip(".")
    for line in obligation:
        if line.standing != "void":
            return "proven", short(f"{clause} (obliged by {line.path}:{line.line}).")
    if status == "proven":
        return "unchanged", short(f"{clause}. No quoted line obliges the code.")
    return "shown", short(f"{clause}. This may be intended: no quoted line obliges the code.")


def find_doubt(change: Change) -> str:
    """Why a passing run would say nothing about this change; "" if it says something."""
    for file in change.files:
        if file.touches(STEERS_TESTS):
            return (
                f"it passes, but the change edits {file.shown_path}, which decides what tests say"
            )
    return ""


def make_control(test: str, *, python: bool) -> str:
    """A text that must not pass where the test stands: the test and a failure, or what no language
    takes.
    """
    if not python:
        return f")]}}{{[( \x00 {test[:100]}"
    return f"""{test}

import unittest as _unittest


class Test_{_digest(test)}(_unittest.TestCase):
    def test_it(self):
        self.assertEqual(1, 2)
"""


def choose_test_path(test: str, rule: CounterexampleRule, folders: Sequence[str]) -> str:
    """Where the test is put: a name of ours in the first of TEST_FOLDERS that is among `folders`,
    else at the root.
    """
    if rule.file:
        return rule.file
    file_name = f"test_counterexample_{_digest(test)}.py"
    for folder in TEST_FOLDERS:
        if folder in folders:
            return f"{folder}/{file_name}"
    return file_name


def name_test_file(path: str, test: str) -> str:
    """The name of the test's file in the bundle: that of its place, and which test it is."""
    file_name = path.rpartition("/")[2]
    safe_name = re.sub(r"[^A-Za-z0-9._-]", "-", file_name)[-80:]
    digest = _digest(test)
    if digest in safe_name:
        return safe_name
    return f"{digest}-{safe_name}"


def _digest(test: str) -> str:
    content = test.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:8]


def build_test_command(
    rule: CounterexampleRule, python: str, *, has_pytest: bool
) -> tuple[str, ...]:
    """The command that runs one test, with `{file}` in it; the rule's own, or that of `python`."""
    if rule.command:
        return rule.command
    if not has_pytest:
        return (python, "-m", "unittest", FILE)
    options = ("-q", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts=")
    return (python, "-m", "pytest", *options, FILE)


def fill_in_file(command: Sequence[str], path: str) -> tuple[str, ...]:
    """The command for the test at that path."""
    return tuple(word.replace(FILE, path) for word in command)


def format_test_command(command: Sequence[str], path: str) -> str:
    """The command as a user pastes it."""
    return shlex.join(fill_in_file(command, path))


def check_obligation(
    quoted_lines: Sequence[ObligingLine], defect: Defect, read: Callable[[str], bytes | None]
) -> tuple[CheckedEvidence, ...]:
    """Each quoted line looked up in the tree after the change, which `read` gives by path."""
    accused_lines = {(line.path, line.line) for line in defect.evidence if line.side == "after"}
    return tuple(
        _check_obliging_line(line, accused_lines, read) for line in quoted_lines[:MAX_OBLIGATIONS]
    )


def _check_obliging_line(
    line: ObligingLine,
    accused_lines: set[tuple[str, int]],
    read: Callable[[str], bytes | None],
) -> CheckedEvidence:
    path = paths.unquote(line.path).removeprefix("./").removeprefix("after/")
    quoted_line = QuotedLine(path=paths.quote(path), line=line.line, quote=line.quote, side="after")
    evidence = quote_in_tree(quoted_line, read(path))
    if evidence.standing == "void":
        return evidence
    if visible_length(evidence.quote) < MIN_RELOCATED:
        return replace(evidence, standing="void", why="the quote is too short to oblige anything")
    if (evidence.path, evidence.line) in accused_lines:
        return replace(evidence, standing="void", why="it is the line that is objected to")
    return evidence
