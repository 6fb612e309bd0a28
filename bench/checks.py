"""What a review by checks takes beside the programs that people use for it, on the same changed
Python files.

    python bench/checks.py [--sizes 1,100,1000] [--rounds 7]

One interleaved run a size. Ours is the whole command `vibe-gate review --no-judge --commit HEAD`:
git, checks, bundle, report. The peers get the names of the changed files, as a framework gives
them: detect-secrets together with four checks of pre-commit-hooks (merge conflicts, large files,
names that differ by case, private keys), and secretlint with its recommended rules (up to 1,000
files: more take it minutes); gitleaks, betterleaks and kingfisher scan the commit. What is not
installed is left out (_peers.py). Processor time of all processes is the figure; wall clock stands in
brackets.

The files are small ones of the interpreter's own library, two lines of each changed; more files
than it has are its files again.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

from _pairs import PROGRAMS, WORK, Side, environment, least_of_each
from _peers import PEERS, find_peer

GOALS = {1: 0.4, 10: None, 100: 0.2, 1_000: 0.1, 5_000: 0.1}
"""By changed files: the most of the first peer's processor time."""
GROWTH = 10_000
GROWTH_GOAL = 1.2
"""The most that a file of so many may take of what a file of a thousand takes."""
SMALL = range(500, 6_000)
"""Bytes of a file: 90 lines in the mean. Of a large one the peers read all, we what changed."""
MANY = 1_000
ROUNDS_OF_MANY = 2
CHANGED = "git diff -z --name-only HEAD~1 HEAD | xargs -0 -s 1500000 "
HOOKS = {
    "check-merge-conflict": "--assume-in-merge",
    "check-added-large-files": "--enforce-all",
    "check-case-conflict": "",
    "detect-private-key": "",
}
SCANNERS = {
    "gitleaks": "git --no-banner --log-opts=-1",
    "betterleaks": "git --no-banner --log-opts=-1",
    "kingfisher": "scan . --since-commit=HEAD~1 --no-validate --no-update-check --quiet",
}
"""Scanners of secrets, of the newest commit alone: what they do not look for is in
docs/reference/checks.md.
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", default=",".join(map(str, (*GOALS, GROWTH))), help="changed files, with commas"
    )
    parser.add_argument(
        "--rounds", type=int, default=7, help=f"rounds a size; of many files {ROUNDS_OF_MANY}"
    )
    options = parser.parse_args()
    environ = environment(WORK / "home")
    reached, each = [], {}
    for size in map(int, options.sizes.split(",")):
        where = repository(size, environ)
        sides = {"vibe-gate": ours(where, environ)} | (
            peers(size, where, environ) if size in GOALS else {}
        )
        rounds = min(options.rounds, ROUNDS_OF_MANY) if size >= MANY else options.rounds
        taken = least_of_each(sides, rounds)
        each[size] = taken["vibe-gate"][1] / size
        reached.append(tell(size, taken, GOALS.get(size)))
        shutil.rmtree(where / ".vibe-artifacts")
    if {MANY, GROWTH} <= each.keys():
        growth = each[GROWTH] / each[MANY]
        reached.append(growth <= GROWTH_GOAL)
        print(
            f"a file of {GROWTH:,}: {growth:.2f} of a file of {MANY:,}  goal <= {GROWTH_GOAL}: {said(reached[-1])}"
        )
    return 0 if all(reached) else 1


def tell(size: int, taken: Mapping[str, tuple[float, float]], goal: float | None) -> bool:
    """Print the sides of a size and their ratios; say whether the goal is reached."""
    print(f"{size:,} changed {'file' if size == 1 else 'files'}", flush=True)
    wall, cpu = taken["vibe-gate"]
    reached = True
    for number, (name, (peer_wall, peer_cpu)) in enumerate(taken.items()):
        line = f"  {name:<34} {peer_cpu:8.2f} s ({peer_wall:6.2f})"
        if number:
            line += f"   ratio {cpu / peer_cpu:5.2f} ({wall / peer_wall:5.2f})"
        if number == 1 and goal:
            reached = cpu / peer_cpu <= goal
            line += f"  goal <= {goal}: {said(reached)}"
        print(line, flush=True)
    return reached


def said(is_reached: bool) -> str:
    return "yes" if is_reached else "NO"


def ours(where: Path, environ: Mapping[str, str]) -> Side:
    argv = [str(PROGRAMS / "vibe-gate"), "review", "--no-judge", "--commit", "HEAD"]
    return Side(argv, where, environ, (0, 1))


def peers(size: int, where: Path, environ: Mapping[str, str]) -> dict[str, Side]:
    """The programs that are installed, by name, and what they scan: the changed files, or the lines
    that the commit adds.
    """
    hooks = {"detect-secrets-hook": "", **HOOKS}
    paths = {name: find_peer(name) for name in (*hooks, "secretlint", *SCANNERS)}
    sides = {}
    if all(paths[name] for name in hooks):
        commands = [f"{CHANGED} {paths[name]} {options}" for name, options in hooks.items()]
        sides["detect-secrets and pre-commit-hooks"] = shell("; ".join(commands), where, environ)
    if paths["secretlint"] and size <= MANY:
        lint = f"{paths['secretlint']} --secretlintrc {PEERS}/secretlintrc.json"
        sides["secretlint"] = shell(CHANGED + lint, where, environ)
    for name, options in SCANNERS.items():
        if paths[name]:
            sides[name] = shell(f"{paths[name]} {options}", where, environ)
    return sides


def shell(script: str, where: Path, environ: Mapping[str, str]) -> Side:
    """Findings are no failure: xargs ends with 123 then, kingfisher with 200 or more."""
    return Side(["sh", "-c", script], where, environ, (0, 1, 123, 200, 205))


def repository(size: int, environ: Mapping[str, str]) -> Path:
    """A repository whose newest commit changes so many Python files."""
    where = WORK / f"checks-{size}"
    if (where / ".git" / "generated").exists():
        return where
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    git(where, environ, "init", "-q", "-b", "main")
    git(where, environ, "config", "gc.auto", "0")
    written = [(where / path, text) for path, text in library(size)]
    for path, text in written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(where, environ, "add", "-A")
    git(where, environ, "commit", "-q", "-m", "Start")
    for number, (path, text) in enumerate(written):
        path.write_text(
            f"# Reviewed in round {number}.\n{text}\n\nLAST_CHANGE = compute({number}, limit=900)\n"
        )
    git(where, environ, "commit", "-qam", "Change")
    git(where, environ, "repack", "-adq")
    (where / ".git" / "generated").touch()
    return where


def library(size: int) -> Iterator[tuple[str, str]]:
    """So many modules of the standard library with paths, without its tests; the same ones again
    with another path.
    """
    root = Path(sysconfig.get_path("stdlib"))
    outside = {"test", "tests", "site-packages", "idlelib", "lib2to3", "__pycache__"}
    files = [
        path
        for path in sorted(root.rglob("*.py"))
        if outside.isdisjoint(path.relative_to(root).parts)
    ]
    files = [path for path in files if path.stat().st_size in SMALL]
    random.Random(20260102).shuffle(files)
    for number in range(size):
        path = files[number % len(files)]
        yield (
            f"copy{number // len(files)}/{path.relative_to(root)}",
            path.read_text("utf-8", "replace"),
        )


def git(where: Path, environ: Mapping[str, str], *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=where, env=dict(environ), check=True)


if __name__ == "__main__":
    sys.exit(main())
