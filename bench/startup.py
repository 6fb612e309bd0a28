"""How long the start takes: interleaved pairs, medians, and ratios to a bare interpreter.

    python bench/startup.py [--pairs 25] [--fresh]

Self-contained: the first run makes a virtual environment under bench/.work, installs
this checkout and the peers into it, and makes a small repository with nothing staged
and nothing changed. `--fresh` makes the environment again (do so after a change).

Goals: `--version` <= 1.15 x `python -c pass`; a review with nothing to do
<= 1.5 x (`python -c pass` + what git itself needs to say so); `import vibe_gate.run.review`, most of what
a git hook takes that asks no judge, <= 9 x `python -c pass`; a suite that does not use
the pytest plugin <= 1.05 x the same without it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work" / "startup"
PEERS = ("pre-commit", "pytest")
VERSION_GOAL = 1.15
IDLE_GOAL = 1.5
REVIEW_GOAL = 9
PLUGIN_GOAL = 1.05  # what repeated measurements of the same command differ by

QUIET_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=25, help="pairs a line (at least 15 for a median worth the name)")
    parser.add_argument("--fresh", action="store_true", help="make the environment again")
    args = parser.parse_args()
    if args.fresh:
        shutil.rmtree(WORK, ignore_errors=True)
    bin_dir = environment()
    repository = idle_repository()
    python, gate = str(bin_dir / "python"), str(bin_dir / "vibe-gate")
    bare = [[python, "-c", "pass"]]
    staged = [*bare, ["git", "diff", "--cached", "--quiet"]]
    status = [*bare, ["git", "status", "--porcelain", "-uall"]]
    print(f"{args.pairs} interleaved pairs each; {sys.platform}, {version_of(python)}")
    lines = [
        ("vibe-gate --version", [[gate, "--version"]], bare, VERSION_GOAL),
        ("vibe-gate --help", [[gate, "--help"]], bare, None),
        ("review --staged, nothing staged", [[gate, "review", "--staged"]], staged, IDLE_GOAL),
        ("review, nothing changed", [[gate, "review"]], status, IDLE_GOAL),
        ("import vibe_gate.run.review", [[python, "-c", "import vibe_gate.run.review"]], bare, REVIEW_GOAL),
    ]
    if (bin_dir / "pytest").exists():
        suite = [str(bin_dir / "pytest"), "-q", "-p", "no:cacheprovider", "test_one.py"]
        lines.append(("pytest, a suite without agents", [suite], [[*suite, "-p", "no:vibe_gate"]], PLUGIN_GOAL))
    for peer in PEERS:
        if (bin_dir / peer).exists():
            lines.append((f"peer: {peer} --version", [[str(bin_dir / peer), "--version"]], bare, None))
    missed = [
        name for name, ours, theirs, goal in lines if not compare(name, ours, theirs, goal, args.pairs, repository)
    ]
    print("all goals reached" if not missed else f"goal missed: {', '.join(missed)}")
    return 1 if missed else 0


def environment() -> Path:
    """The virtual environment's bin folder, made at the first run."""
    bin_dir = WORK / "venv" / "bin"
    if not (bin_dir / "vibe-gate").exists():
        shutil.rmtree(WORK / "venv", ignore_errors=True)
        print(f"making {WORK / 'venv'} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", WORK / "venv"], check=True)
        pip = [bin_dir / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # pip before 24.3 writes a wrapper that imports `re`: half an interpreter's start (docs/decisions/0003).
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        subprocess.run([*pip, ROOT], check=True)
        for peer in PEERS:
            if subprocess.run([*pip, peer], check=False).returncode != 0:
                print(f"peer {peer} could not be installed; left out")
    return bin_dir


def idle_repository() -> Path:
    """A repository of a hundred files in which nothing is to review."""
    where = WORK / "repository"
    if not where.exists():
        where.mkdir(parents=True)
        for number in range(100):
            (where / f"file{number}.txt").write_text(f"content {number}\n")
        (where / "test_one.py").write_text("def test_one(): assert 1 + 1 == 2\n")
        (where / "pytest.ini").write_text("[pytest]\n")  # else this checkout's own settings hold
        environ = {**os.environ, **QUIET_GIT}
        identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
        for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "start"]):
            subprocess.run(["git", *command], cwd=where, check=True, env=environ)
    return where


def compare(
    name: str,
    ours: Sequence[list[str]],
    theirs: Sequence[list[str]],
    goal: float | None,
    pairs: int,
    where: Path,
) -> bool:
    """Time both sides in turn, print one line, and say whether the goal is reached."""
    os.chdir(where)
    for command in (*ours, *theirs):
        spend(command)  # warm: the files are in the cache, the byte code is written
    mine, other = [], []
    for index in range(pairs):
        sides: list[tuple[list[float], Sequence[list[str]]]] = [(mine, ours), (other, theirs)]
        for times, commands in sides if index % 2 else reversed(sides):
            times.append(sum(spend(command) for command in commands))
    ratio = statistics.median(a / b for a, b in zip(mine, other, strict=True))
    wanted = "" if goal is None else f"  goal <= {goal}: {'yes' if ratio <= goal else 'NO'}"
    left, right = statistics.median(mine) * 1e3, statistics.median(other) * 1e3
    against = " + ".join(" ".join([Path(command[0]).name, *command[1:]]) for command in theirs)
    print(f"{name:<34} {left:7.2f} ms   {against:<60} {right:7.2f} ms   ratio {ratio:5.2f}{wanted}", flush=True)
    return goal is None or ratio <= goal


def spend(command: list[str]) -> float:
    """Seconds of wall clock from the start of the process until it has ended; it must succeed."""
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    spawn: Callable[..., int] = os.posix_spawnp
    environ = {**os.environ, **QUIET_GIT}
    began = time.perf_counter()
    _, status = os.waitpid(spawn(command[0], command, environ, file_actions=silence), 0)
    took = time.perf_counter() - began
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    return took


def version_of(python: str) -> str:
    return subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
