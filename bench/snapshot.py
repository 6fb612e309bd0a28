"""How long a snapshot takes, as a ratio to `git status --porcelain -uall`.

    python bench/snapshot.py [--files 100000] [--pairs 9]

Both are whole processes on the same generated tree, run in turn, A B A B ...; the figure is
the median of the pairs' ratios. Before anything is timed, the tree id is compared with
git's own (`add -A`, `write-tree` on an index of its own). Goal: at most 1.2, clean and with
50 dirty files. The tree is kept under bench/.work for the next time.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SNAPSHOT = """
import os, sys
from pathlib import Path
from vibe_gate.git import open_repository
with open_repository(Path("."), os.environ) as repository:
    sys.stdout.write(repository.snapshot())
"""
FILES_PER_FOLDER = 40
DIRTY = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=9)
    options = parser.parse_args()
    work = HERE / ".work"
    environ = environment(work)
    tree = work / f"tree-{options.files}"
    if not (tree / ".git" / "generated").exists():
        generate(tree, options.files, environ)
    print(f"snapshot against `git status --porcelain -uall`, {options.files:,} files, {options.pairs} pairs")
    for dirty in (0, DIRTY):
        touch(tree, dirty, environ)
        verify(tree, environ, work)
        report(f"{dirty} dirty" if dirty else "clean", tree, environ, options.pairs)
    touch(tree, 0, environ)


def environment(work: Path) -> dict[str, str]:
    """Nothing of the user's: no keys, no git configuration, a home of its own."""
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "TMPDIR", "LANG", "LC_ALL"}}
    who = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "Ada",
           "GIT_COMMITTER_EMAIL": "a@example.org"}  # fmt: skip
    return kept | who | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "PYTHONPATH": str(HERE.parent)}


def git(tree: Path, environ: dict[str, str], *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=tree, env=environ, check=True, capture_output=True, text=True
    ).stdout.strip()


def generate(tree: Path, files: int, environ: dict[str, str]) -> None:
    """Small files, 40 to a folder, folders three deep, the same ones every time."""
    print(f"generating {files:,} files ...")
    chance = random.Random(20260102)
    for start in range(0, files, FILES_PER_FOLDER):
        number = start // FILES_PER_FOLDER
        folder = tree / f"area{number % 13}" / f"part{number % 101}" / f"module{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for position in range(min(FILES_PER_FOLDER, files - start)):
            lines = (f"value_{chance.getrandbits(40)} = {line}\n" for line in range(chance.randint(1, 20)))
            (folder / f"file_{position}.py").write_text("".join(lines))
    git(tree, environ, "init", "-q")
    git(tree, environ, "config", "gc.auto", "0")
    git(tree, environ, "add", "-A")
    git(tree, environ, "commit", "-qm", "generated")
    git(tree, environ, "repack", "-adq")
    (tree / ".git" / "generated").touch()


def touch(tree: Path, dirty: int, environ: dict[str, str]) -> None:
    """Back to the commit, then `dirty` files: most edited, one in five new, one in ten deleted."""
    git(tree, environ, "checkout", "-q", "--", ".")
    git(tree, environ, "clean", "-fdq")
    chance = random.Random(7)
    files = sorted(tree.glob("area*/part*/module*/file_*.py"))
    for number, file in enumerate(chance.sample(files, dirty)):
        if number % 5 == 0:
            file.with_name(f"new_{file.name}").write_text(f"new = {number}\n")
        elif number % 10 == 1:
            file.unlink()
        else:
            with file.open("a") as out:
                out.write(f"edited = {number}\n")
    time.sleep(2.1)  # past the second in which an edit could look racy
    git(tree, environ, "update-index", "-q", "--refresh") if not dirty else None


def verify(tree: Path, environ: dict[str, str], work: Path) -> None:
    scratch = work / "index"
    scratch.unlink(missing_ok=True)
    own = environ | {"GIT_INDEX_FILE": str(scratch)}
    git(tree, own, "read-tree", "HEAD")
    git(tree, own, "add", "-A")
    expected = git(tree, own, "write-tree")
    found = subprocess.run(ours(), cwd=tree, env=environ, check=True, capture_output=True, text=True).stdout
    if found != expected:
        sys.exit(f"wrong: snapshot {found}, git {expected}")


def ours() -> list[str]:
    return [sys.executable, "-c", SNAPSHOT]


def report(state: str, tree: Path, environ: dict[str, str], pairs: int) -> None:
    status = ["git", "status", "--porcelain", "-uall"]
    timed(ours(), tree, environ), timed(status, tree, environ)  # warm
    rows = [(timed(ours(), tree, environ), timed(status, tree, environ)) for _ in range(pairs)]
    ratio = statistics.median(mine / theirs for mine, theirs in rows)
    mine, theirs = (statistics.median(column) * 1000 for column in zip(*rows, strict=True))
    print(f"{state:>9}: ratio {ratio:.2f}   snapshot {mine:.0f} ms, git status {theirs:.0f} ms")


def timed(command: list[str], tree: Path, environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=tree, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
