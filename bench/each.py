"""What `review A..B --each` takes of a history beside a loop of single reviews, by checks alone.

    python bench/each.py [--repository DIR] [--commits 150] [--jobs 1,2]

The history is that of a clone of DIR (default: this project), its newest commits along the first
parents and what they bring, in stretches. Every stretch is reviewed by each side in turn, from an
empty store, so that all have the same machine. Seconds are sums over the stretches: of processors,
of git and all that is started; wall clock in brackets.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from _pairs import VIBE_GATE, WORK, Side, environment, spend

ROOT = Path(__file__).resolve().parents[1]
PLACE = WORK / "each"
STRETCH = 25
"""Commits of a stretch along the first parents."""

GOAL = 0.5
"""The most of the loop's processor time, with one job: a start and its imports are paid once."""

VERDICTS = (0, 1, 3, 4)
FORGET = "rm -rf .vibe-artifacts .git/vibe-gate"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", type=Path, default=ROOT, metavar="DIR")
    parser.add_argument("--commits", type=int, default=150, help="at least so many (default: 150)")
    parser.add_argument("--jobs", default="1,2", help="with commas (default: 1,2)")
    options = parser.parse_args()
    environ = environment(PLACE / "home")
    where = clone(options.repository, environ)
    command = f"{shlex.join(VIBE_GATE)} review --no-judge"
    ways = {
        "a loop": "for commit in $(git rev-list --reverse {0}); do "
        + command
        + " --commit $commit; done; true"
    }
    for jobs in options.jobs.split(","):
        ways[f"--each --jobs {jobs}"] = f"{command} {{0}} --each --jobs {jobs}"
    taken = {name: [0.0, 0.0] for name in ways}
    commits = 0
    for number, stretch in enumerate(stretches(where, environ, options.commits)):
        commits += len(git(where, environ, "rev-list", stretch).split())
        for name in list(ways) if number % 2 else reversed(list(ways)):
            side = Side(["sh", "-c", ways[name].format(stretch)], where, environ, VERDICTS, FORGET)
            taken[name] = [sum(both) for both in zip(taken[name], spend(side), strict=True)]
        print(
            f"{commits:5,} commits",
            *(f"{name}: {cpu:.1f} s" for name, (_, cpu) in taken.items()),
            sep="   ",
            flush=True,
        )
    return tell(taken, commits)


def clone(source: Path, environ: dict[str, str]) -> Path:
    """A clone without a remote, in which the gate of a commit is that of its parent."""
    where = PLACE / "history"
    shutil.rmtree(where, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", source, where], env=environ, check=True)
    git(where, environ, "remote", "remove", "origin")
    return where


def stretches(where: Path, environ: dict[str, str], wanted: int) -> list[str]:
    """Ranges of the newest commits, oldest first, that have `wanted` commits together if there are
    so many.
    """
    heads = git(where, environ, "rev-list", "--first-parent", "HEAD").split()[::STRETCH]
    found, commits = [], 0
    for head, base in pairwise(heads):
        if commits >= wanted:
            break
        found.append(f"{base}..{head}")
        commits += len(git(where, environ, "rev-list", found[-1]).split())
    if not found:
        raise SystemExit(
            f"{where} has fewer than {STRETCH + 1} commits: fetch more of its history."
        )
    return found[::-1]


def git(where: Path, environ: dict[str, str], *argv: str) -> str:
    return subprocess.run(
        ["git", *argv], cwd=where, env=environ, check=True, capture_output=True, text=True
    ).stdout


def tell(taken: dict[str, list[float]], commits: int) -> int:
    loop_wall, loop_cpu = taken["a loop"]
    for name, (wall, cpu) in taken.items():
        goal = (
            f"  goal <= {GOAL}: {'yes' if cpu / loop_cpu <= GOAL else 'NO'}"
            if name == "--each --jobs 1"
            else ""
        )
        each = f"{cpu / commits * 1e3:6.0f} ms ({wall / commits * 1e3:6.0f}) a commit"
        print(
            f"{name:<18} {each}   of the loop {cpu / loop_cpu:5.2f} ({wall / loop_wall:5.2f}){goal}"
        )
    return (
        0 if "--each --jobs 1" not in taken or taken["--each --jobs 1"][1] / loop_cpu <= GOAL else 1
    )


if __name__ == "__main__":
    sys.exit(main())
