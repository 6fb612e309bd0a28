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
from vibe_gate.domain.verdict import CheckedEvidence, Proof, ProofStatus, Vote, short
from vibe_gate.judging.brief import ObligingLine, QuotedLine
from vibe_gate.judging.evidence import MIN_RELOCATED, quote_in_tree

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
    """How one run ended. `reason`: why it says nothing, or what went wrong; `missing`: only for
    want of a name.
    """

    end: RunEnd
    reason: str = ""
    missing: bool = False

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
_SAID = re.compile(r"^E {1,20}(\S.*)$", re.M)
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


def runner_of(command: Sequence[str]) -> Runner:
    """Whose output and exit codes the command has."""
    words = {word.rpartition("/")[2] for word in command}
    return (
        "pytest"
        if words & {"pytest", "py.test"}
        else "unittest"
        if "unittest" in words
        else "other"
    )


def read_run(runner: Runner, code: int | None, output: str, failure: str) -> RunReading:
    """What one run says. `code` is None if it was not finished, and `failure` then says why."""
    if code is None:
        return RunReading("unfinished", failure)
    if code < 0 or code in (126, 127):
        return RunReading(
            "unfinished",
            f"it was ended by signal {-code}" if code < 0 else "its command was not found",
        )
    read = {"pytest": _of_pytest, "unittest": _of_unittest, "other": _of_other}[runner](
        code, output
    )
    if not read.fails:
        return read
    said = _reported(runner, output)
    if over := next((why for pattern, why in _LIMITS if pattern.search(said)), ""):
        return RunReading("unfinished", over)
    errors = _ERROR.findall(said)[-1:] or _SAID.findall(said)
    reason = short(errors[0]) if errors else read.reason
    return replace(read, reason=reason, missing=bool(_MISSING.match(reason)))


def _reported(runner: Runner, output: str) -> str:
    """What the runner says of the failures, without what the code printed meanwhile."""
    if runner == "pytest":
        return _CAPTURED.sub("", output)
    _, line, report = output.partition(f"\n{'=' * 70}\n") if runner == "unittest" else ("", "", "")
    return report.partition("\nRan ")[0] if line else output


def _of_pytest(code: int, output: str) -> RunReading:
    """Exit codes: 0 passed, 1 failed or an error in a fixture, 2 not collected, 5 nothing to
    run.
    """
    lines = [line for line in output.splitlines() if _TALLY_LINE.match(line)]
    counts = {
        kind.removesuffix("s"): int(number)
        for number, kind in _TALLY.findall(lines[-1] if lines else "")
    }
    if "No module named pytest" in output and not lines:
        return RunReading("unfinished", "pytest is not in the environment")
    if code == 0:
        return (
            RunReading("passed")
            if counts.get("passed")
            else RunReading("unfinished", "every test in it was skipped")
        )
    if code == 1 and counts.get("failed"):
        return RunReading("failed")
    if code in (1, 2) and counts.get("error"):
        return RunReading("broken")
    said = [line.strip() for line in output.splitlines() if _ERROR.search(line)]
    why = f"pytest ended with exit code {code}" + (f": {said[-1]}" if said else "")
    return RunReading("unfinished", "there is no test in it" if code == 5 else why)


def _of_unittest(code: int, output: str) -> RunReading:
    ends, ran = _UNITTEST.findall(output), _RAN.findall(output)
    if not ran or not int(ran[-1]) or not ends:
        return RunReading(
            "unfinished",
            "there is no test in it" if ran else f"unittest ended with exit code {code}",
        )
    if code == 0:
        skipped = _SKIPPED.search(ends[-1])
        if skipped and int(skipped[1]) >= int(ran[-1]):
            return RunReading("unfinished", "every test in it was skipped")
        return RunReading("passed")
    unloaded = "unittest.loader._FailedTest" in output or re.search(
        r"^ERROR: setUp(?:Module|Class) ", output, re.M
    )
    return RunReading("broken" if unloaded else "failed")


def _of_other(code: int, output: str) -> RunReading:
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return RunReading("passed") if code == 0 else RunReading("failed", short(last))


def not_run(why: str) -> tuple[ProofStatus, str]:
    """The status and sentence of a test whose runs say nothing."""
    return "could_not_run", f"Could not run: {why}."


def compared(after: Sequence[RunReading], before: RunReading | None) -> tuple[ProofStatus, str]:
    """What the runs show without any obligation, and a sentence. `before` is None if it was not
    run: then the runs after the change do not all fail.

    "proven" stands for what an obligation would prove although nothing is shown: a failure of
    something new.
    """
    if unfinished := next((run for run in after if run.end == "unfinished"), None):
        return not_run(unfinished.reason)
    if all(run.end == "passed" for run in after):
        return "void", "Its own test passes after the change."
    if not all(run.fails for run in after):
        return (
            "flaky",
            f"Its test is flaky: of {len(after)} runs, {sum(run.fails for run in after)} failed.",
        )
    said = f": {after[0].reason}" if after[0].reason else ""
    if before is None or before.end == "unfinished":
        return not_run(f"before the change, {before.reason if before else 'no time was left'}")
    if before.end == "passed":
        return "shown", f"Its test fails after the change and passed before{said}"
    if before.missing and not after[0].missing and after[0].end == "failed":
        return "proven", f"Its test fails; before the change, what it tests was not there{said}"
    if after[0].end == "broken":
        return not_run(f"the test cannot be loaded{said}".rstrip("."))
    return "unchanged", "Its test fails before the change, too."


def weighed(
    status: ProofStatus, reason: str, obligation: Sequence[CheckedEvidence]
) -> tuple[ProofStatus, str]:
    """The status with what obliges the code taken into account, and the sentence."""
    if status not in ("shown", "proven"):
        return status, short(reason)
    holding = [line for line in obligation if line.standing != "void"]
    if holding:
        return "proven", short(
            f"{reason.rstrip('.')} (obliged by {holding[0].path}:{holding[0].line})."
        )
    if status == "proven":
        return "unchanged", short(f"{reason.rstrip('.')}. No quoted line obliges the code.")
    return "shown", short(
        f"{reason.rstrip('.')}. This may be intended: no quoted line obliges the code."
    )


def voided(vote: Vote, proof: Proof) -> Vote:
    """The vote with its proof; a fail whose own test passes counts as an abstention."""
    if proof.status != "void":
        return replace(vote, proof=proof)
    reason = short(f'answered "fail", but its own test passes after the change: {vote.reason}')
    return replace(vote, outcome="abstain", reason=reason, proof=proof)


def doubt(change: Change) -> str:
    """Why a passing run would say nothing about this change; "" if it says something."""
    steering = [file.shown_path for file in change.files if file.touches(STEERS_TESTS)]
    return (
        f"it passes, but the change edits {steering[0]}, which decides what tests say"
        if steering
        else ""
    )


def control_of(test: str, *, python: bool) -> str:
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


def path_of(test: str, rule: CounterexampleRule, folders: Sequence[str]) -> str:
    """Where the test is put: a name of ours in the first of TEST_FOLDERS that is among `folders`,
    else at the root.
    """
    if rule.file:
        return rule.file
    folder = next((f"{name}/" for name in TEST_FOLDERS if name in folders), "")
    return f"{folder}test_counterexample_{_digest(test)}.py"


def name_of(path: str, test: str) -> str:
    """The name of the test's file in the bundle: that of its place, and which test it is."""
    base = re.sub(r"[^A-Za-z0-9._-]", "-", path.rpartition("/")[2])[-80:]
    return base if _digest(test) in base else f"{_digest(test)}-{base}"


def _digest(test: str) -> str:
    return hashlib.sha256(test.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def command_of(rule: CounterexampleRule, python: str, *, has_pytest: bool) -> tuple[str, ...]:
    """The command that runs one test, with `{file}` in it; the rule's own, or that of `python`."""
    if rule.command:
        return rule.command
    pytest = (
        python,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        FILE,
    )
    return pytest if has_pytest else (python, "-m", "unittest", FILE)


def with_file(command: Sequence[str], path: str) -> tuple[str, ...]:
    """The command for the test at that path."""
    return tuple(word.replace(FILE, path) for word in command)


def repeated_by(command: Sequence[str], path: str) -> str:
    """The command as a user pastes it."""
    return shlex.join(with_file(command, path))


def obliging(
    quoted: Sequence[ObligingLine], vote: Vote, read: Callable[[str], bytes | None]
) -> tuple[CheckedEvidence, ...]:
    """Each quoted line looked up in the tree after the change, which `read` gives by path."""
    accused = {(line.path, line.line) for line in vote.evidence if line.side == "after"}
    return tuple(_obliging(line, accused, read) for line in quoted[:MAX_OBLIGATIONS])


def _obliging(
    line: ObligingLine, accused: set[tuple[str, int]], read: Callable[[str], bytes | None]
) -> CheckedEvidence:
    path = paths.unquote(line.path).removeprefix("./").removeprefix("after/")
    quoted = QuotedLine(path=paths.quote(path), line=line.line, quote=line.quote, side="after")
    found = quote_in_tree(quoted, read(path))
    if found.standing == "void":
        return found
    if len("".join(found.quote.split())) < MIN_RELOCATED:
        return replace(found, standing="void", why="the quote is too short to oblige anything")
    if (found.path, found.line) in accused:
        return replace(found, standing="void", why="it is the line that is objected to")
    return found
