"""The figures of commits, rewrites, checks, judged reviews and histories in one go: old beside new,
peers beside both.

    python bench/table.py [--program OLD/.venv/bin --program NEW/.venv/bin] [--smallest] [--only NAME ...]

Runs the other benchmarks one after the other, each at sizes that fit into a quarter of an hour on a
quiet machine, and prints what they print. Programs are handed to those that can measure two
(`--program` in their help); the others measure this checkout. Exit code 1: one of them missed a
goal or failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _peers import LEFT_OUT

BENCH = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Part:
    """One part of the table."""

    title: str
    bench: str
    """The benchmark's name."""
    sizes: str
    """Its arguments."""
    smallest: str = ""
    """Those by which tests see that it runs; "": another part's are for this one, too."""


PARTS = (
    Part(
        "commit of a person and of an agent",
        "commit",
        "--pairs 7 --files 3000",
        "--pairs 0 --files 20 --direct --framework pre-commit",
    ),
    Part(
        "rebase and cherry-pick of 1 to 40",
        "rewrites",
        "--commits 1,20,40 --rounds 1",
        "--commits 1 --rounds 0 --files 20 --direct --framework prek",
    ),
    Part(
        "checks of 1 to 10,000 files",
        "checks",
        "--sizes 1,10,100,1000,10000 --rounds 3",
        "--sizes 1 --rounds 0",
    ),
    Part(
        "hunks 10 to 40,000 in one file",
        "growth",
        "--only hunks --sizes 10,100,1000,10000,40000",
        "--only hunks,verify,notes,sessions,nodes,turns --sizes 1",
    ),
    Part(
        "repository of 10 to 30,000 files judged",
        "judged",
        "--pairs 2 --files 10,30000",
        "--pairs 0",
    ),
    Part(
        "`verify` of 100 to 100,000 commits",
        "growth",
        "--only verify --sizes 100,1000,10000,100000",
    ),
    Part(
        "`verify --from-notes` of 100 to 10,000 commits with a receipt each",
        "growth",
        "--only notes --sizes 100,1000,10000",
    ),
    Part(
        "10 to 1,000 captured sessions, nodes and turns",
        "growth",
        "--only sessions,nodes,turns --sizes 10,100,1000",
    ),
    Part(
        "blame of 8,000 lines",
        "blame",
        "--lines 8000 --commits 800 --rounds 3",
        "--lines 10 --commits 2 --rounds 1",
    ),
    Part("archive of 300 runs", "archive", "--runs 300", "--runs 1"),
)
"""A part for each benchmark that belongs in the table; add yours with sizes of a minute or two."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", action="append", default=[], metavar="BIN")
    parser.add_argument("--smallest", action="store_true", help="only see that all of it runs")
    parser.add_argument("--only", action="append", default=[], help="names of benchmarks")
    options = parser.parse_args()
    is_reached = True
    absent_peers: set[str] = set()
    for part in PARTS:
        sizes = part.smallest if options.smallest else part.sizes
        if not sizes or (options.only and part.bench not in options.only):
            continue
        print(f"\n## {part.title}\n", flush=True)
        argv = [sys.executable, str(BENCH / f"{part.bench}.py")]
        argv += sizes.split()
        if takes_programs(part.bench):
            for program in options.program:
                argv += ["--program", program]
        start = time.perf_counter()
        is_reached &= run_part(argv, absent_peers)
        print(f"\n({time.perf_counter() - start:.0f} s)", flush=True)
    return 0 if is_reached else 1


def run_part(argv: Sequence[str], absent_peers: set[str]) -> bool:
    """Run a benchmark and print its lines, but for those on peers in `absent_peers`, to which it
    adds; whether it ended with 0.
    """
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line in absent_peers:
                continue
            if LEFT_OUT in line:
                absent_peers.add(line)
            print(line, end="", flush=True)
    return process.returncode == 0


def takes_programs(bench: str) -> bool:
    """Whether a benchmark can measure several programs."""
    return '"--program"' in (BENCH / f"{bench}.py").read_text()


if __name__ == "__main__":
    sys.exit(main())
