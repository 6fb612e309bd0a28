"""What the hooks cost a person at what git does all day, beside the same without them.

    python bench/hooks.py [--pairs 9] [--only rebase]

Self-contained: makes repositories under bench/.work/commit. A rebase of 20 commits, a cherry-pick of 10, an amended
message and a commit of one file, by `install git` and without hooks; that commit with the hooks of the manifest at
every stage of a commit, under pre-commit and prek, beside empty hooks at the same stages. Processor time of git and of
all that it starts; ahead of each round the branch is put back, untimed. The lines with `exit 0` are the floor: hooks
that do nothing. The interpreter that runs it must have vibe-gate; of the frameworks those that are there are compared.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import commit
from _pairs import Side, compare

FILES = 100
AGAIN = "git -c core.hooksPath=/dev/null checkout -q -B work "
CHANGE = "echo $$ >folder0/file1.txt && git add folder0"
WAYS = (
    ("rebase of 20 commits", AGAIN + "topic", "git rebase -q other", 6.0),
    ("cherry-pick of 10", AGAIN + "other", "git cherry-pick topic~10..topic", 6.0),
    ("commit --amend -m", AGAIN + "topic", "git commit -q --amend -m reworded", 4.0),
    ("commit of one file", f"{AGAIN} topic && {CHANGE}", "git commit -q -m change", 7.0),
)
"""What it is, a shell command that prepares it, the command that is timed, and its goal."""

FRAMEWORK_GOALS = {"pre-commit": 1.4, "prek": 3.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--only", default="", help="only the lines that begin so")
    options = parser.parse_args()
    shutil.rmtree(commit.WORK, ignore_errors=True)
    bare, gated, empty = (
        branched(make(name, FILES))
        for name, make in (("bare", commit.repository), ("gated", commit.gate), ("empty", commit.no_ops))
    )
    missed = []
    for name, before, command, goal in WAYS:
        if name.startswith(options.only):
            ours, floor, theirs = (side(where, before, command) for where in (gated, empty, bare))
            compare("  the same, hooks that `exit 0`", floor, theirs, None, options.pairs)
            missed += [] if compare(name, ours, theirs, goal, options.pairs) else [name]
    for name, goal in FRAMEWORK_GOALS.items():
        if not (commit.BIN / name).exists():
            print(f"{name} is not beside this interpreter; left out")
        elif name.startswith(options.only):
            ours = commit.framework(name, "gate", commit.manifest(4), commit.STAGES)
            theirs = commit.framework(name, "empty", commit.EMPTY_AT_ALL, commit.STAGES)
            both = (side(where, CHANGE, "git commit -q -m change") for where in (ours, theirs))
            missed += [] if compare(f"{name}, empty hooks", *both, goal, options.pairs) else [name]
    print("all goals reached" if not missed else f"goal missed: {', '.join(missed)}")
    return 1 if missed else 0


def side(where: Path, before: str, command: str) -> Side:
    return Side(command.split(), where, commit.environ(), before=before)


def branched(where: Path) -> Path:
    """The repository with a branch `topic` of 20 commits, and a branch `other` of one, which touches another file."""
    numbers = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"
    makes = (
        "git config core.hooksPath /dev/null; git branch other; git checkout -q -b topic;"
        f"for n in {numbers}; do echo x >>folder1/file$((n + 19)).txt; git commit -qam $n; done;"
        "git checkout -q other; echo x >>folder2/file40.txt; git commit -qam other; git config --unset core.hooksPath"
    )
    subprocess.run(["sh", "-c", makes], cwd=where, check=True, env=commit.environ())
    return where


if __name__ == "__main__":
    sys.exit(main())
