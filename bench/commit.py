"""What a commit of one file costs a person and an agent with each way to have hooks.

    python bench/commit.py [--pairs 15] [--files 3000] [--program BIN ...]

Repositories of many files, the same change in turn: without hooks, with `install git` (which reviews
by the built-in checks and records), under pre-commit and prek with README's four hooks as it installs
them, with `true` at the same stages (`language: system`, and `python`), and under pre-commit with
other programs that look for some of the same things (`OTHERS` of _ways.py). Beside a framework an
agent has the `reference-transaction` hook, too. Processor time of git and of all that it starts, the
least of each side; wall clock in brackets. `--program` and `--direct` as of rewrites.py.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from _pairs import WORK, Side, least_of_each
from _ways import (
    FRAMEWORKS,
    Program,
    framework_ways,
    hooked_environment,
    install_hooks,
    make_repository,
    programs_of,
    run,
)

PLACE = WORK / "commit"
CHANGE = "echo $$ >folder0/file1.txt && git add folder0"
PEER = "pre-commit, others"
GOAL = 0.5
"""The most that a person's commit with `install git` takes of pre-commit with other programs."""

AGENT = {"CLAUDECODE": "1"}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument("--files", type=int, default=3_000, help="of each repository")
    parser.add_argument("--program", type=Path, action="append", default=[], metavar="BIN")
    parser.add_argument("--framework", action="append", default=[], choices=FRAMEWORKS)
    parser.add_argument("--direct", action="store_true", help="have pip build no environments")
    options = parser.parse_args()
    shutil.rmtree(PLACE, ignore_errors=True)
    programs = programs_of(options.program, direct=options.direct)
    ways = ("no hooks", "install git", PEER)
    ways += tuple(framework_ways(options.framework, direct=options.direct))
    sides = dict(make_sides(ways, options.files, programs))
    return 0 if report(least_of_each(sides, options.pairs)) else 1


def make_sides(
    ways: Sequence[str], files: int, programs: Sequence[Program]
) -> Iterator[tuple[str, Side]]:
    """A commit by a person, and one by an agent where it is another, for each way."""
    for way in ways:
        has_gate = way == "install git" or way.endswith(", ours")
        for program in programs if has_gate else programs[:1]:
            name = way + (program.label if has_gate else "")
            where = PLACE / name.replace("/", "-")
            environ = hooked_environment(PLACE, program)
            make_repository(where, environ, files)
            if not install_hooks(where, environ, way, program):
                continue
            yield f"person, {name}", make_side(where, environ)
            if has_gate:
                # What holds an agent back, which costs a person one start of sh.
                run(where, environ, program.path, "install", "claude")
                yield f"agent, {name}", make_side(where, {**environ, **AGENT})


def make_side(where: Path, environ: Mapping[str, str]) -> Side:
    return Side(["git", "commit", "-q", "-m", "change"], where, environ, before=CHANGE)


def report(spent: Mapping[str, tuple[float, float]]) -> bool:
    """Print a line for each side; whether the goal is reached, or cannot be measured."""
    peer = spent.get(f"person, {PEER}")
    is_reached = True
    for name, (wall, cpu) in spent.items():
        line = f"  {name:<50} {cpu * 1e3:6.0f} ms ({wall * 1e3:6.0f})"
        if peer:
            line += f"  of {PEER} {cpu / peer[1]:5.2f}"
        if peer and name.startswith("person, install git"):
            is_reached &= cpu / peer[1] <= GOAL
            line += f"  goal <= {GOAL}: {'yes' if cpu / peer[1] <= GOAL else 'NO'}"
        print(line, flush=True)
    return is_reached


if __name__ == "__main__":
    sys.exit(main())
