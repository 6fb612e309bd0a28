"""Every benchmark still runs: at its smallest size, so that a form of the product that changed
breaks it here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forked
import pytest
from clean_environ import clean_environ

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"

SMALLEST = {
    "capture": "--pairs 0 --sessions 0 --calls 3",
    "earning": "--histories 2",
    "report": "--files 2 --lines 10 --calls 5 --parts 1 --pairs 0",
    "scale": "--commits 1 --workers 1",
    "secret_programs": "--own",
    "shared_store": "--sizes 10",
    "table": "--smallest",
    "timeline": "--megabytes 1",
    "turns": "--turns 3",
    "voting": "--trials 20",
}
"""Its arguments, for each benchmark that needs nothing but this checkout and the extra `test`."""

ELSEWHERE = {
    "action": "installs packages for whole jobs: tests/faces/test_action_yml_run.py",
    "archive": "part of table",
    "blame": "part of table",
    "checks": "part of table",
    "commit": "part of table",
    "each": "reviews 25 commits twice: scale runs the same command",
    "enclosing": "needs clones of other projects",
    "ground_truth": "tests/test_ground_truth.py",
    "growth": "part of table",
    "judged": "part of table",
    "public_secrets": "needs a public list",
    "redaction": "tests/secrets assert the same with one seed",
    "rewrites": "part of table",
}
"""Why a benchmark is not run here."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_at_its_smallest_size(name: str, tmp_path: Path) -> None:
    """Exit code 1 says that a goal is missed, which at this size means nothing. What is measured is
    forked: the benchmark is the subject, not the time.
    """
    argv = [sys.executable, BENCH / f"{name}.py", *SMALLEST[name].split()]
    environ = clean_environ(tmp_path) | {
        "BENCH_WORK": str(tmp_path / "work"),
        "BENCH_PROGRAMS": str(forked.programs()),
    }
    result = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    log_of_moto = "127.0.0.1"  # which answers for S3 and names each request there
    faults = [line for line in result.stderr.splitlines() if not line.startswith(log_of_moto)]
    assert (result.returncode in (0, 1), faults) == (True, []), result.stdout
    assert result.stdout


def test_every_benchmark_is_run_or_says_why_not() -> None:
    names = {path.stem for path in BENCH.glob("[!_]*.py")}
    assert names == {*SMALLEST, *ELSEWHERE}
