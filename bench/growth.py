"""How the product's commands grow with what they are given: hunks of one file, files, findings,
commits, runs and captured sessions.

    python bench/growth.py [--sizes 10,100,1000] [--only hunks,files]

Each command runs by checks alone, in a repository made for it. Processor seconds of it and of all
that it started, the slope between the last two sizes less what a start takes (1: twice as much
costs twice as much), and the largest process. A slope over 1.1, or more than 500 MB, is marked.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import _pairs

ROOT = Path(__file__).resolve().parents[1]
WORK = _pairs.WORK / "growth"
STEEPEST = 1.1
LARGEST_MB = 500
VERDICTS = (0, 1, 3, 4)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10,100,1000", help="with commas (default: 10,100,1000)")
    parser.add_argument("--only", default=",".join(SUBJECTS), help=f"of {', '.join(SUBJECTS)}")
    options = parser.parse_args()
    environ = _pairs.environment(WORK / "home", ROOT)
    sizes = [int(size) for size in options.sizes.split(",")]
    code = 0
    for subject in options.only.split(","):
        make, commands = SUBJECTS[subject]
        spent: dict[str, list[tuple[float, float]]] = {command: [] for command in commands}
        for size in sizes:
            folder = WORK / f"{subject}-{size}"
            shutil.rmtree(folder, ignore_errors=True)
            git(environ, WORK, "init", "-q", "-b", "main", str(folder))
            make(folder, environ, size)
            for command in commands:
                spent[command].append(spend(command, folder, environ))
        for command, figures in spent.items():
            code |= show(subject, command, sizes, figures)
    return code


def show(subject: str, command: str, sizes: list[int], figures: list[tuple[float, float]]) -> int:
    """Print a row; 1 if it is too steep or too large."""
    start = figures[0][0] * 0.9
    slope = 0.0
    if len(sizes) > 1:
        last, before = (max(0.001, seconds - start) for seconds, _ in (figures[-1], figures[-2]))
        slope = math.log(last / before) / math.log(sizes[-1] / sizes[-2])
    peak = max(megabytes for _, megabytes in figures)
    # Less than twice the start is no measure of a slope.
    is_steep = slope > STEEPEST and figures[-1][0] > 2 * figures[0][0]
    is_bad = is_steep or peak > LARGEST_MB
    seconds = "  ".join(
        f"{size:,}: {taken:.2f} s" for size, (taken, _) in zip(sizes, figures, strict=True)
    )
    print(
        f"{subject:<9} {command:<44} {seconds}  slope {slope:.2f}  {peak:.0f} MB"
        f"{'  TOO MUCH' if is_bad else ''}",
        flush=True,
    )
    return int(is_bad)


def spend(command: str, folder: Path, environ: Mapping[str, str]) -> tuple[float, float]:
    """Processor seconds of a command of vibe-gate, and megabytes of its largest process."""
    return measure([sys.executable, "-m", "vibe_gate", *command.split()], folder, environ)


def measure(argv: Sequence[str], folder: Path, environ: Mapping[str, str]) -> tuple[float, float]:
    """Processor seconds of a command and of all that it started, and megabytes of the largest
    process.
    """
    with (folder.parent / "output").open("wb") as output:
        process = subprocess.Popen(
            argv, cwd=folder, env=dict(environ), stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in VERDICTS:
        text = (folder.parent / "output").read_text("utf-8", "replace")[-500:]
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode} in {folder}: {text}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def git(environ: Mapping[str, str], folder: Path, *argv: str, stdin: bytes = b"") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *argv], cwd=folder, env=dict(environ), input=stdin, check=True)


def commit(folder: Path, environ: Mapping[str, str], files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(environ, folder, "add", "-A")
    git(environ, folder, "commit", "-q", "--no-verify", "-m", "Change")


def make_hunks(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """Scattered changes of lines that all stand twice."""
    lines = [f"value_{number // 2} = {number // 2}\n" for number in range(size * 10)]
    commit(folder, environ, {"a.py": "".join(lines)})
    for number in range(4, len(lines), 10):
        lines[number] = f"new_{number} = 1\n"
    commit(folder, environ, {"a.py": "".join(lines)})


def make_files(folder: Path, environ: Mapping[str, str], size: int) -> None:
    commit(folder, environ, {"README": "x\n"})
    commit(folder, environ, {f"d{number % 100}/f{number}.py": "x = 1\n" for number in range(size)})


def make_findings(folder: Path, environ: Mapping[str, str], size: int) -> None:
    """Markers of conflicts, each a finding."""
    commit(folder, environ, {"a.py": "x\n"})
    commit(folder, environ, {"a.py": "".join(f"<<<<<<< ours\nx = {n}\n" for n in range(size))})


def make_commits(folder: Path, environ: Mapping[str, str], size: int) -> None:
    stream = b""
    parts = []
    for number in range(size + 1):
        parent = b"from :%d\n" % number if number else b""
        text = b"value = %d\n" % number
        parts.append(
            b"commit refs/heads/main\nmark :%d\ncommitter Ada <a@example.org> %d +0000\ndata 7\n"
            b"Change\n%sM 100644 inline m%d.py\ndata %d\n%s\n"
            % (number + 1, 1_700_000_000 + number, parent, number % 50, len(text), text)
        )
    stream = b"".join(parts)
    git(environ, folder, "fast-import", "--quiet", stdin=stream)
    git(environ, folder, "tag", "first", "main~" + str(size))
    git(environ, folder, "reset", "-q", "--hard")


def make_runs(folder: Path, environ: Mapping[str, str], size: int) -> None:
    make_commits(folder, environ, size)
    spend("review first..main --each --no-judge --jobs 1", folder, environ)


Make = Callable[[Path, Mapping[str, str], int], None]
REVIEW = "review --commit HEAD --no-judge --force"
SUBJECTS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "hunks": (make_hunks, (REVIEW,)),
    "files": (make_files, (REVIEW,)),
    "findings": (make_findings, (REVIEW,)),
    "verify": (make_commits, ("verify first..main",)),
    "commits": (make_commits, ("review first..main --each --table --no-judge",)),
    "runs": (
        make_runs,
        (
            "verify first..main",
            "review first..main --each --table --no-judge",
            "bundles list",
            "stats",
            "bundles verify",
            "bundles du",
            "report --all -o ../site",
        ),
    ),
}


if __name__ == "__main__":
    sys.exit(main())
