"""What a rebase and a cherry-pick of many commits take with hooks, beside hooks that do nothing.

    python bench/rewrites.py [--commits 1,20,40] [--rounds 3] [--files 300] [--program BIN ...]

A branch of so many commits, each of one file, is rebased and picked onto a commit beside it: without
hooks, with `install git`, and under pre-commit and prek with README's four hooks, which the
framework installs from the last commit of the checkout, and with `true` at the same stages, as a
hook of `language: system` and of `language: python`. All sides in turn. Processor seconds of git and
of all that it starts, the least of each; in brackets wall clock, and the ratio to the framework's
empty hooks of either language. `--program` is the `bin` folder of an environment with a vibe-gate to
measure, may stand several times, and is by default that of the interpreter. `--direct` spares the
environments that pip builds: README's hooks are then hooks of `language: system`.
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

PLACE = WORK / "rewrites"
GOAL = 2.0
"""The most of the time that the framework takes with its empty hooks."""

FORGET = "rm -rf .vibe-artifacts .git/vibe-gate/unrecorded; git checkout -q -f topic"
COMMANDS = {
    "rebase": (f"{FORGET}; git reset -q --hard source", "git rebase -q main"),
    "cherry-pick": (f"{FORGET}; git reset -q --hard main", "git cherry-pick start..source"),
}
"""What makes ready, and what is measured."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", default="1,20,40", help="with commas (default: 1,20,40)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=300, help="of each repository")
    parser.add_argument("--program", type=Path, action="append", default=[], metavar="BIN")
    parser.add_argument("--framework", action="append", default=[], choices=FRAMEWORKS)
    parser.add_argument("--direct", action="store_true", help="have pip build no environments")
    options = parser.parse_args()
    programs = programs_of(options.program, direct=options.direct)
    shutil.rmtree(PLACE, ignore_errors=True)
    ways = ("no hooks", "install git")
    ways += tuple(framework_ways(options.framework, direct=options.direct))
    is_reached = True
    for commits in map(int, options.commits.split(",")):
        places = dict(make_places(ways, commits, options.files, programs))
        for command in COMMANDS:
            sides = {name: side_of(command, *place) for name, place in places.items()}
            is_reached &= report(f"{command} of {commits}", least_of_each(sides, options.rounds))
    return 0 if is_reached else 1


def make_places(
    ways: Sequence[str], commits: int, files: int, programs: Sequence[Program]
) -> Iterator[tuple[str, tuple[Path, dict[str, str]]]]:
    """A repository for each way, and its environment."""
    for way in ways:
        has_gate = way == "install git" or way.endswith(", ours")
        for program in programs if has_gate else programs[:1]:
            name = way + (program.label if has_gate else "")
            where = PLACE / f"{commits}" / name.replace("/", "-")
            environ = hooked_environment(PLACE, program)
            make_repository(where, environ, files)
            if install_hooks(where, environ, way, program):
                make_branches(where, environ, commits)
                yield name, (where, environ)


def make_branches(where: Path, environ: Mapping[str, str], commits: int) -> None:
    """The branch `topic` of `commits` commits, and `main` with one beside them, past the hooks."""
    git = ("git", "-c", "core.hooksPath=/dev/null")
    run(where, environ, *git, "tag", "start")
    run(where, environ, *git, "checkout", "-q", "-b", "topic")
    for number in range(commits):
        (where / f"new{number}.txt").write_text(f"new {number}\n" * 20)
        run(where, environ, *git, "add", "-A")
        run(where, environ, *git, "commit", "-q", "-m", f"new {number}")
    run(where, environ, *git, "tag", "source")
    run(where, environ, *git, "checkout", "-q", "main")
    (where / "beside.txt").write_text("beside\n")
    run(where, environ, *git, "add", "-A")
    run(where, environ, *git, "commit", "-q", "-m", "beside")


def side_of(command: str, where: Path, environ: Mapping[str, str]) -> Side:
    before, argv = COMMANDS[command]
    return Side(argv.split(), where, environ, before=before)


def report(title: str, spent: Mapping[str, tuple[float, float]]) -> bool:
    """Print a line for each way; whether the goal is reached by each that has one."""
    print(title, flush=True)
    is_reached = True
    for name, (wall, cpu) in spent.items():
        line = f"  {name:<40} {cpu:7.2f} s ({wall:6.2f})"
        framework, _, hooks = name.partition(", ")
        empty = spent.get(f"{framework}, empty")
        empty_python = spent.get(f"{framework}, empty python")
        if empty and hooks.startswith("ours"):
            ratio = cpu / empty[1]
            if empty_python:
                line += f"   of empty python {cpu / empty_python[1]:5.2f}"
            line += f"   ratio {ratio:5.2f}  goal <= {GOAL}: {'yes' if ratio <= GOAL else 'NO'}"
            is_reached &= ratio <= GOAL
        print(line, flush=True)
    return is_reached


if __name__ == "__main__":
    sys.exit(main())
