"""What the runs of a fail's test mean, and what that does to a verdict. Pure."""

from __future__ import annotations

import time

import pytest
from fail_votes import fail_vote
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain import paths
from vibe_gate.domain.gate import CounterexampleRule
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CheckedEvidence, CriterionResult, Defect, Proof, ProofStatus
from vibe_gate.judging.brief import ObligingLine
from vibe_gate.judging.counterexample import (
    STEERS_TESTS,
    Runner,
    RunReading,
    check_obligation,
    choose_test_path,
    compare_runs,
    find_runner,
    make_control,
    read_run,
    weigh_obligation,
)
from vibe_gate.judging.decide import levels_of
from vibe_gate.judging.findings import findings_of, name_findings
from vibe_gate.judging.rubric_tally import decide, tally_rubric
from vibe_gate.judging.vote_counting import check_vote

FAILED = "E       assert [1] == [1, 2]\n=== short test summary info ===\nFAILED tests/test_a.py\n1 failed in 0.01s\n"
UNLOADED = (
    "ERROR: test_a (unittest.loader._FailedTest.test_a)\nImportError: cannot import name 'first'\n"
)
OFFLINE = "OSError: [Errno 100] Network is down\n\nRan 1 test in 0.01s\n\nFAILED (errors=1)\n"
SEMAPHORE = "    sl = self._semlock = _multiprocessing.SemLock(\nE   PermissionError: [Errno 13]\n1 failed in 0.5s\n"

LINE, DASHES = f"{'=' * 70}\n", f"{'-' * 70}\n"
LOUD = f"FakeError: Network is down\nF\n{LINE}FAIL: test_a (t.T)\n{DASHES}Traceback (most recent call last):\n"
LOUD += (
    f"AssertionError: 1 != 2\n\n{DASHES}Ran 1 test in 0.01s\n\nFAILED (failures=1)\nMemoryError\n"
)
CAPTURED = "----- Captured stdout call -----\nOSError: [Errno 28] No space left on device\nImportError: x\n"
CAPTURED = f"____ test_a ____\nE   assert [1] == [1, 2]\n{CAPTURED}{CAPTURED}=== summary ===\n1 failed in 0.1s\n"

RUNS: list[tuple[Runner, int | None, str, str, str]] = [
    ("pytest", 0, "1 passed in 0.01s", "passed", ""),
    ("pytest", 0, "1 skipped in 0.01s", "unfinished", "every test in it was skipped"),
    ("pytest", 0, "all good, 3 passed in 0.1s says the code under test", "unfinished", "skipped"),
    ("pytest", 1, FAILED, "failed", "assert [1] == [1, 2]"),
    ("pytest", 1, "E  fixture 'db' not found\n1 error in 0.01s", "broken", ""),
    ("pytest", 2, "E   ImportError: cannot import name 'x'\n1 error in 0.05s", "broken", "ImportError: cannot import"),
    ("pytest", 5, "no tests ran in 0.00s", "unfinished", "there is no test in it"),
    ("pytest", 4, "ERROR: unrecognized arguments", "unfinished", "exit code 4"),
    ("pytest", 1, "/usr/bin/python: No module named pytest", "unfinished", "pytest is not in the environment"),
    ("pytest", 1, "E   MemoryError\n1 failed in 0.01s", "unfinished", "more memory"),
    ("pytest", 1, SEMAPHORE, "unfinished", "shared memory"),
    ("pytest", 1, CAPTURED, "failed", "assert [1] == [1, 2]"),
    ("unittest", 1, LOUD, "failed", "AssertionError: 1 != 2"),
    ("unittest", 0, "Ran 2 tests in 0.0s\n\nOK (skipped=1)\n", "passed", ""),
    ("unittest", 0, "Ran 1 test in 0.0s\n\nOK (skipped=1)\n", "unfinished", "skipped"),
    ("unittest", 0, "Ran 0 tests in 0.0s\n\nOK\n", "unfinished", "no test in it"),
    ("unittest", 1, "AssertionError: 1 != 2\nRan 1 test in 0.0s\n\nFAILED (failures=1)\n", "failed", "1 != 2"),
    ("unittest", 1, f"{UNLOADED}Ran 1 test in 0.0s\n\nFAILED (errors=1)\n", "broken", "ImportError"),
    ("unittest", 1, OFFLINE, "unfinished", "network"),
    ("other", 0, "", "passed", ""),
    ("other", 3, "FAIL a_test.go:3\n", "failed", "FAIL a_test.go:3"),
    ("other", 127, "", "unfinished", "not found"),
    ("other", -9, "", "unfinished", "signal 9"),
    ("pytest", None, "", "unfinished", "timed out after 10 s"),
]  # fmt: skip


@pytest.mark.parametrize(("runner", "code", "output", "end", "reason"), RUNS)
def test_a_run_says_whether_the_test_failed_or_could_not_run(
    runner: Runner, code: int | None, output: str, end: str, reason: str
) -> None:
    read = read_run(runner, code, output, "timed out after 10 s" if code is None else "")
    assert read.end == end
    assert reason in read.reason


PIECES = (
    "11 ",
    "1 passed",
    " in 0.1s",
    "OK (",
    "skipped=",
    "FAILED",
    ")",
    "Ran ",
    " tests in ",
    "E ",
    "Error: ",
    "\n",
    "9" * 5000,
)


@given(
    st.sampled_from(["pytest", "unittest", "other"]),
    st.sampled_from([0, 1, 2, 5]),
    st.lists(st.sampled_from(PIECES)),
)
def test_nothing_that_the_reviewed_code_prints_stops_the_reading(
    runner: Runner, code: int, pieces: list[str]
) -> None:
    assert read_run(runner, code, "".join(pieces), "").end in (
        "passed",
        "failed",
        "broken",
        "unfinished",
    )


def test_no_output_takes_long_to_read() -> None:
    began = time.monotonic()
    for piece in (
        "11 11 ",
        "OK (",
        "E E",
        "1 passed, ",
        "Error",
        "\nE  Error",
        "Ran 1",
        LINE,
        "-- Captured \n",
        "-",
    ):
        for runner in ("pytest", "unittest"):
            read_run(runner, 1, piece * (64_000 // len(piece)), "")
    assert time.monotonic() - began < 2


def test_the_runner_is_known_by_its_command() -> None:
    commands = (
        ["pytest", "-q", "{file}"],
        [".venv/bin/python", "-m", "unittest", "{file}"],
        ["go", "test", "{file}"],
    )
    assert [find_runner(command) for command in commands] == ["pytest", "unittest", "other"]


PASSED, FAILS, BROKEN = (
    RunReading("passed"),
    RunReading("failed", "1 != 2"),
    RunReading("broken", "SyntaxError: x"),
)
ABSENT = RunReading("broken", "ImportError: no name", missing=True)
LATE = RunReading("unfinished", "timed out after 10 s")
HOLDS = (CheckedEvidence(path="a.py", line=2, end_line=2, quote="first", standing="holds"),)
VOID = (replace(HOLDS[0], standing="void", why="the quoted text is not in the file"),)

CASES: list[
    tuple[tuple[RunReading, ...], RunReading | None, tuple[CheckedEvidence, ...], ProofStatus]
] = [
    ((FAILS,) * 3, PASSED, (), "shown"),
    ((FAILS,) * 3, PASSED, VOID, "shown"),
    ((FAILS,) * 3, PASSED, HOLDS, "proven"),
    ((BROKEN,) * 3, PASSED, HOLDS, "proven"),  # what the change took away
    ((FAILS,) * 3, ABSENT, HOLDS, "proven"),  # what the change brings
    ((FAILS,) * 3, ABSENT, (), "unchanged"),
    (
        (ABSENT,) * 3,
        ABSENT,
        HOLDS,
        "could_not_run",
    ),  # a test that imports what is nowhere proves nothing
    ((FAILS,) * 3, FAILS, HOLDS, "unchanged"),
    ((FAILS,) * 3, LATE, HOLDS, "could_not_run"),
    ((PASSED,) * 3, None, HOLDS, "void"),
    ((FAILS, PASSED, FAILS), None, HOLDS, "flaky"),
    ((FAILS, LATE), None, HOLDS, "could_not_run"),
]


@pytest.mark.parametrize(("after", "before", "obligation", "status"), CASES)
def test_runs_and_obligations_make_a_status(
    after: tuple[RunReading, ...],
    before: RunReading | None,
    obligation: tuple[CheckedEvidence, ...],
    status: str,
) -> None:
    assert weigh_obligation(*compare_runs(after, before), obligation)[0] == status


def test_a_line_obliges_if_it_stands_in_the_tree_and_is_not_the_one_objected_to() -> None:
    tree = {"src/a.py": b'def first(n):\n    """The first n."""\n    return items[:n - 1]\n'}
    accused = CheckedEvidence(path="src/a.py", line=3, end_line=3, quote="x", standing="holds")
    defect = Defect(reason="So.", evidence=(accused,))
    quotes = ('"""The first n."""', "return items[:n - 1]", "n.", "The last n.")
    lines = [ObligingLine(path="after/src/a.py", line=2, quote=quote) for quote in quotes]
    lines += [ObligingLine(path="src/b.py", line=1, quote="def first(n):")]
    checked = check_obligation(lines, defect, tree.get)
    assert [line.standing for line in checked] == ["holds", "void", "void", "void", "void"]


def test_a_test_has_a_path_of_ours_and_its_control_fails_in_every_runner() -> None:
    assert (
        choose_test_path("x", CounterexampleRule(), ["test"])
        == "test/test_counterexample_2d711642.py"
    )
    assert choose_test_path("x", CounterexampleRule(file="a/b_test.go"), ["test"]) == "a/b_test.go"
    control = make_control("def test_it():\n    pass\n", python=True)
    compile(control, "control", "exec")
    assert "def test_it():" in control
    with pytest.raises(SyntaxError):
        compile(make_control("let x;", python=False).replace("\0", ""), "control", "exec")


def test_what_python_or_a_runner_loads_by_itself_decides_what_tests_say() -> None:
    own_names = ("a/conftest.py", "unittest.py", "src/pytest.py", "src/unittest/__main__.py", "_pytest/main.py", "x.pth",
           "src/sitecustomize.py", "e-1.dist-info/entry_points.txt", "src/e.egg-info/entry_points.txt")  # fmt: skip
    assert [path for path in own_names if not paths.matches_any_glob(path, STEERS_TESTS)] == []
    assert [
        path
        for path in ("src/things.py", "tests/test_it.py")
        if paths.matches_any_glob(path, STEERS_TESTS)
    ] == []


def result(
    outcome: str,
    status: ProofStatus | None = None,
    *,
    must: bool = True,
    name: str = "works",
    obligation: tuple[CheckedEvidence, ...] = (),
) -> CriterionResult:
    line = CheckedEvidence(path="a.py", line=3, end_line=3, quote="x", standing="holds")
    proof = Proof(status=status, obligation=obligation) if status else UNSET
    vote = check_vote(fail_vote("So.", line, outcome=outcome, proof=proof))
    return CriterionResult(
        id=name,
        kind="judge",
        must=must,
        weight=1.0,
        outcome=vote.outcome,
        decided_by="unanimous",
        votes=(vote,),
    )


def rubric(proof: str | None = None, *, must: bool = True, threshold: float = 0.7) -> Rubric:
    criterion = Criterion(id="works", kind="judge", must=must, question="Does it?", proof=proof)
    other = Criterion(id="other", kind="judge", question="And this?")
    return Rubric(schema=1, id="r", pass_threshold=threshold, criterion=(criterion, other))


@pytest.mark.parametrize("status", ["proven", "shown", "flaky", "unchanged", "could_not_run", None])
@pytest.mark.parametrize("threshold", [0.0, 0.7])
def test_where_proof_is_required_only_a_proven_fail_blocks(
    status: ProofStatus | None, threshold: float
) -> None:
    proving_rubric = rubric("required", threshold=threshold)
    results = (result("fail", status), result("pass", name="other", must=False))
    tally = tally_rubric(proving_rubric, results)
    assert tally.outcome == ("fail" if status == "proven" else "pass")
    [raw_finding] = findings_of(proving_rubric.criterion[0], results[0])
    [level] = levels_of(
        (tally,), (proving_rubric,), name_findings([raw_finding], {raw_finding: {"r"}})
    )
    assert level == ("failure" if status == "proven" else "warning")
    assert raw_finding.basis == ("executed" if status in ("proven", "shown") else "inferred")
    assert decide(rubric(threshold=threshold), results).outcome == "fail"


def test_a_fail_that_its_own_test_voids_is_never_green() -> None:
    voided_must, voided_other = result("fail", "void"), result("fail", "void", must=False)
    passed = result("pass", name="other", must=False)
    assert voided_must.outcome == "abstain"
    assert decide(rubric(), (voided_must, passed)).outcome == "inconclusive"
    assert (
        decide(rubric(must=False), (voided_other, passed)).outcome == "inconclusive"
    )  # 0.5 is under the threshold
    assert (
        decide(rubric(must=False, threshold=0.5), (voided_other, passed)).outcome == "pass"
    )  # as with the fail


@pytest.mark.parametrize(
    ("obligation", "outcome"), [(HOLDS, "inconclusive"), (VOID, "pass"), ((), "pass")]
)
def test_a_void_test_that_could_have_proven_its_fail_is_never_green(
    obligation: tuple[CheckedEvidence, ...], outcome: str
) -> None:
    """Of a question that need not pass, where proof is required: what no line obliges would only
    have warned.
    """
    void, passed = (
        result("fail", "void", must=False, obligation=obligation),
        result("pass", name="other", must=False),
    )
    assert decide(rubric("required", must=False), (void, passed)).outcome == outcome
    assert decide(rubric("required", must=False, threshold=0.5), (void, passed)).outcome == "pass"
    assert decide(rubric("required"), (replace(void, must=True), passed)).outcome == "inconclusive"
