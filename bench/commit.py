"""What the gate costs at `git commit`: interleaved pairs, medians, and ratios to the same commit without it.

    python bench/commit.py [--pairs 25]

Self-contained: makes repositories of 10, 100 and 3,000 files under bench/.work and commits in
them. The interpreter that runs it must have vibe-gate, and pre-commit and prek to be compared.

*Nothing for the gate to do* is a commit whose tree is its parent's: here `--allow-empty`; an
amended message is the other one. Sh has git look once in pre-commit and once in commit-msg. Any
other commit is held against the checks, however few its paths concern, so it is never nothing.
All hooks run that git runs at such a commit.

Goals: nothing to do, by `install git`, against no hook (at 3,000 files; the floor below it is
sh scripts that only `exit 0`, which no gate in those hooks can be cheaper than);
nothing to do under each framework against an empty hook of it (`true`); a human-only change of
one file, which costs the checks, under each framework against the same empty hook.

Lines without a goal are there to be compared. The ratio of processor time (`cpu`) is disturbed
less by other work on the machine. The hooks of every stage together: bench/hooks.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work" / "commit"
BIN = Path(sys.executable).parent
FRAMEWORKS = ("pre-commit", "prek")

FILES = 3_000
"""Of each repository: git looks at each of them at every commit, hook or not."""

SMALL = (10, 100)

LONG_AGO = 1_700_000_000
"""Time of the files, in seconds: git reads those that are as young as its index again at every commit, hook or not."""

NO_OP = "#!/bin/sh\nexit 0\n"

IDLE_GOAL = 1.6
FRAMEWORK_GOAL = 1.1
CHECKS_GOAL = 3.0

STAGES = ("pre-commit", "commit-msg", "post-commit")
"""What a commit runs of the manifest."""

EMPTY = """\
repos:
  - repo: local
    hooks:
      - {id: empty, name: empty, entry: "true", language: system, pass_filenames: false, always_run: true}
"""
EMPTY_AT_ALL = EMPTY.replace("true}", "true, stages: [pre-commit]}") + "".join(
    f'      - {{id: empty-{stage}, name: empty, entry: "true", language: system, pass_filenames: false, '
    f"always_run: true, stages: [{stage}]}}\n"
    for stage in STAGES[1:]
)


Act = Callable[[Path, int], list[str]]
Line = tuple[str, Act, Path, str, Path, float | None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=25, help="pairs a line (at least 15 for a median worth the name)")
    pairs = parser.parse_args().pairs
    shutil.rmtree(WORK, ignore_errors=True)
    print(f"{pairs} interleaved pairs each; {sys.platform}, {_said(sys.executable, '--version')}")
    bare, gated = repository("bare"), gate("gated")
    lines: list[Line] = [
        ("nothing to do: install git", idle, gated, "no hook", bare, IDLE_GOAL),
        ("  the floor: no-op hooks", idle, no_ops("no-ops"), "no hook", bare, None),
    ]
    for files in SMALL:
        small = repository(f"bare-{files}", files)
        lines.append((f"  the same, {files} files", idle, gate(f"gated-{files}", files), "no hook", small, None))
        lines.append((f"  the floor, {files} files", idle, no_ops(f"no-ops-{files}", files), "no hook", small, None))
    for name in FRAMEWORKS:
        if not (BIN / name).exists():
            print(f"{name} is not beside this interpreter; left out")
            continue
        ours, empty = framework(name, "gate", manifest(1)), framework(name, "empty", EMPTY)
        peer = f"{name}, an empty hook"
        lines.append((f"nothing to do: {name}", idle, ours, peer, empty, FRAMEWORK_GOAL))
        lines.append((f"human change: {name}", change, ours, peer, empty, CHECKS_GOAL))
    missed = [line[0] for line in lines if not compare(*line, pairs)]
    print("all goals reached" if not missed else f"goal missed: {', '.join(missed)}")
    return 1 if missed else 0


def environ() -> dict[str, str]:
    hidden = ("CI", "PYTHONDONTWRITEBYTECODE")  # the latter would have Python compile at every commit what is new
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "CLAUDE", "ANTHROPIC_")) and k not in hidden
    }
    person = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
              (("NAME", "Bench"), ("EMAIL", "bench@example.org"))}  # fmt: skip
    return kept | person | {
        "PATH": f"{BIN}{os.pathsep}{kept['PATH']}",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PRE_COMMIT_HOME": str(WORK / "pre-commit"),
        "PREK_HOME": str(WORK / "prek"),
    }  # fmt: skip


def repository(name: str, files: int = FILES) -> Path:
    """A repository of so many files, twenty to a folder."""
    where = WORK / name
    for number in range(files):
        file = where / f"folder{number // 20}" / f"file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"content {number}\n")
        os.utime(file, (LONG_AGO, LONG_AGO))
    for command in (["init", "-q"], ["config", "gc.auto", "0"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run(["git", *command], cwd=where, check=True, env=environ())
    return where


def gate(name: str, files: int = FILES) -> Path:
    """A repository with the hooks of `install git`."""
    where = repository(name, files)
    command = [sys.executable, "-I", "-m", "vibe_gate", "install", "git"]
    subprocess.run(command, cwd=where, check=True, capture_output=True)
    return where


def no_ops(name: str, files: int = FILES) -> Path:
    """A repository whose hooks are scripts that do nothing."""
    where = repository(name, files)
    for hook in ("pre-commit", "commit-msg", "post-commit", "post-rewrite", "reference-transaction"):
        (where / ".git" / "hooks" / hook).write_text(NO_OP)
        (where / ".git" / "hooks" / hook).chmod(0o755)
    return where


def framework(name: str, kind: str, config: str, stages: tuple[str, ...] = STAGES[:1]) -> Path:
    """A repository with a framework's hooks at these stages."""
    where = repository(f"{name}-{kind}")
    (where / ".pre-commit-config.yaml").write_text(config)
    install = [str(BIN / name), "install", *(word for stage in stages for word in ("-t", stage))]
    for command in (["git", "add", "-A"], ["git", "commit", "-q", "-m", "hooks"], install):
        subprocess.run(command, cwd=where, check=True, env=environ(), capture_output=True)
    return where


def manifest(hooks: int) -> str:
    """So many hooks of our manifest, of the interpreter at hand."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    text = text[text.index("- id: ") :].replace("language: python", "language: system")
    blocks = "".join(f"- id: {block}" for block in text.split("- id: ")[1 : hooks + 1])
    lines = [line for line in blocks.splitlines() if line.strip() and "minimum_pre_commit_version" not in line]
    return "repos:\n  - repo: local\n    hooks:\n" + "".join(f"      {line}\n" for line in lines)


def idle(where: Path, number: int) -> list[str]:
    """A commit with nothing staged."""
    return ["git", "commit", "-q", "--allow-empty", "-m", "idle"]


def change(where: Path, number: int) -> list[str]:
    """A commit of one changed file."""
    (where / "folder0" / "file1.txt").write_text(f"changed {number}\n")
    subprocess.run(["git", "add", "folder0/file1.txt"], cwd=where, check=True, env=environ())
    return ["git", "commit", "-q", "-m", "change"]


def compare(
    name: str,
    act: Act,
    ours: Path,
    peer: str,
    theirs: Path,
    goal: float | None,
    pairs: int,
) -> bool:
    """Time both sides in turn, print one line, and say whether the goal is reached."""
    spent: dict[Path, list[tuple[float, float]]] = {ours: [], theirs: []}
    for number in range(-2, pairs):  # two rounds to warm up
        for where in (ours, theirs) if number % 2 else (theirs, ours):
            command = act(where, number)
            took = spend(command, where)
            if number >= 0:
                spent[where].append(took)
    pairs_of = list(zip(spent[ours], spent[theirs], strict=True))
    ratio, cpu = (statistics.median(a[kind] / b[kind] for a, b in pairs_of) for kind in (0, 1))
    left, right = (statistics.median(wall for wall, _ in spent[where]) * 1e3 for where in (ours, theirs))
    wanted = "" if goal is None else f"  goal <= {goal}: {'yes' if ratio <= goal else 'NO'}"
    print(
        f"{name:<28} {left:7.1f} ms   {peer:<26} {right:7.1f} ms   ratio {ratio:6.2f} (cpu {cpu:5.2f}){wanted}",
        flush=True,
    )
    return goal is None or ratio <= goal


def spend(command: list[str], where: Path) -> tuple[float, float]:
    """Seconds of wall clock, and of processors, of a command that must succeed."""
    os.chdir(where)
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    environment = environ()
    began = time.perf_counter()
    _, status, used = os.wait4(os.posix_spawnp(command[0], command, environment, file_actions=silence), 0)
    took = time.perf_counter() - began
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {status} in {where}")
    return took, used.ru_utime + used.ru_stime


def _said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
