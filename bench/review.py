"""What a review by checks alone takes beside git's own look at the same change: processor time, as ratios.

    python bench/review.py [--pairs 7] [--only TEXT]

Self-contained: generates its repositories under bench/.work once. A change of commits is compared with
`git diff --stat -M` of the same two commits, one of the working tree with `git status --porcelain -uall`. `growth`
lines have no goal: they show what more files cost.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from pathlib import Path

from _pairs import Side, compare, environment
from snapshot import generate, touch

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work"
TREE_FILES = 100_000
GROWTH = (10, 100, 1_000, 10_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", default="", help="only the lines whose name holds this text")
    options = parser.parse_args()
    environ = environment(WORK / "home", ROOT)
    stat = ["git", "diff", "--stat", "-M", "HEAD~1", "HEAD"]
    commits = [("5,000 files", 5_000, 8.0), ("40,000 lines", -40_000, 8.0), ("1,550 renames", 1_550, 2.0)]
    commits += [(f"growth: {files:,} files", files, 0.0) for files in GROWTH]
    reached = []
    for name, size, goal in commits:
        if options.only in name:
            where = repository(name, size, environ)
            sides = review(where, environ, "--commit", "HEAD"), Side(stat, where, environ)
            reached.append(compare(name, *sides, goal or None, options.pairs))
    for dirty, goal in ((50, 1.8), (5_000, 8.0)):
        if options.only in (name := f"{TREE_FILES:,} files, {dirty:,} dirty"):
            where = WORK / f"tree-{TREE_FILES}"
            if not (where / ".git" / "generated").exists():
                generate(where, TREE_FILES, environ)
            touch(where, dirty, environ)
            status = Side(["git", "status", "--porcelain", "-uall"], where, environ)
            reached.append(compare(name, review(where, environ), status, goal, options.pairs))
            touch(where, 0, environ)
    # Not before each review: right after many files were deleted, a file system makes new ones slowly.
    for pattern in ("tree-*", "review/*"):
        for store in WORK.glob(f"{pattern}/.vibe-artifacts"):
            shutil.rmtree(store)
    return 0 if all(reached) else 1


def review(where: Path, environ: dict[str, str], *selection: str) -> Side:
    """A review by checks alone, which pass."""
    argv = [sys.executable, "-m", "vibe_gate", "review", "--no-judge", "--quiet", *selection]
    return Side(argv, where, environ)


def repository(name: str, size: int, environ: dict[str, str]) -> Path:
    """Two commits: so many files with one changed line each, or moved; below 0, so many new lines in twenty files."""
    where = WORK / "review" / name.replace(" ", "-").replace(":", "")
    if (where / ".git" / "generated").exists():
        return where
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    chance = random.Random(20260102)
    count = size if size > 0 else 20
    for number in range(count):
        file = where / f"area{number % 13}" / f"module{number // 40}" / f"file_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(line(chance, at) for at in range(chance.randint(20, 60))))
    commit(where, environ, "init", "-q")
    for file in sorted(where.glob("area*/*/*.py")):
        lines = file.read_text().splitlines(keepends=True)
        lines[len(lines) // 2] = line(chance, -1)
        if size < 0:
            lines += [line(chance, at) for at in range(-size // count)]
        file.write_text("".join(lines))
        if "renames" in name:
            (target := where / "moved" / file.relative_to(where)).parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
    commit(where, environ, "config", "gc.auto", "0")
    (where / ".git" / "generated").touch()
    return where


def line(chance: random.Random, at: int) -> str:
    return f"    value_{chance.getrandbits(40)} = compute(self.items[{at}], limit={chance.randint(1, 900)})  # why\n"


def commit(where: Path, environ: dict[str, str], *first: str) -> None:
    for arguments in (first, ("add", "-A"), ("commit", "-qm", "change"), ("repack", "-adq")):
        subprocess.run(["git", *arguments], cwd=where, env=environ, check=True)


if __name__ == "__main__":
    sys.exit(main())
