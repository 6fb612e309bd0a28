"""How a benchmark times two commands: whole processes in turn, A B B A, and the ratio of the least
of each side.

Processor time, of a command and of all that it started, is what other work on the machine disturbs
least.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WORK = Path(os.environ.get("BENCH_WORK") or Path(__file__).resolve().parent / ".work")
"""The folder in which benchmarks make what they measure."""

PROGRAMS = Path(os.environ.get("BENCH_PROGRAMS") or Path(sys.executable).parent)
"""The folder with the `python` and the `vibe-gate` that are measured."""

VIBE_GATE = (str(PROGRAMS / "python"), "-I", "-m", "vibe_gate")
"""The command that is measured; -I: never the package of a folder in which it runs."""


@dataclass(frozen=True)
class Side:
    """A command, where it runs and with which environment; `codes`: its exit codes if it has done
    what it should.

    `before`: shell commands that make everything ready ahead of each round, untimed.
    """

    argv: Sequence[str]
    where: Path
    environ: Mapping[str, str]
    codes: tuple[int, ...] = (0,)
    before: str = ""


def spend(side: Side) -> tuple[float, float]:
    """Seconds of wall clock, and of processors, of a command that must succeed."""
    subprocess.run(
        ["sh", "-c", side.before],
        cwd=side.where,
        env=dict(side.environ),
        capture_output=True,
        check=True,
    )
    began, start = time.perf_counter(), processor_seconds()
    done = subprocess.run(
        side.argv, cwd=side.where, env=dict(side.environ), capture_output=True, check=False
    )
    took, used = time.perf_counter() - began, processor_seconds() - start
    if done.returncode not in side.codes or b"Traceback" in done.stderr:
        said = os.fsdecode(done.stderr or done.stdout)[-500:]
        raise SystemExit(
            f"{' '.join(side.argv)[:200]} ended with {done.returncode} in {side.where}: {said}"
        )
    return took, used


def processor_seconds() -> float:
    """What all commands that ended so far, and what they started, took of processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(name: str, ours: Side, theirs: Side, goal: float | None, pairs: int) -> bool:
    """Time both sides in turn, print one line, and say whether the ratio of processor time reaches
    the goal.
    """
    spent: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for number in range(-1, pairs):  # one round to warm up
        for at in (0, 1) if number % 2 else (1, 0):
            took = spend((ours, theirs)[at])
            if number >= 0:
                spent[at].append(took)
    (wall, cpu), (peer_wall, peer_cpu) = (map(min, zip(*spent[at], strict=True)) for at in (0, 1))
    ratio = cpu / peer_cpu
    wanted = "" if goal is None else f"  goal <= {goal}: {'yes' if ratio <= goal else 'NO'}"
    print(
        f"{name:<34} {cpu * 1e3:8.0f} ms   {' '.join(theirs.argv[:4]):<24} {peer_cpu * 1e3:8.0f} ms   "
        f"ratio {ratio:6.2f} (wall {wall / peer_wall:6.2f}){wanted}",
        flush=True,
    )
    return goal is None or ratio <= goal


def least_of_each(sides: Mapping[str, Side], rounds: int) -> dict[str, tuple[float, float]]:
    """The least wall clock and the least processor time of each side, in seconds, run in turn after
    a round to warm up; of no rounds: what the one to warm up took.
    """
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(-1, rounds):
        for name in list(sides) if number % 2 else reversed(list(sides)):
            took = spend(sides[name])
            if number >= 0 or rounds == 0:
                spent[name].append(took)
    least = {}
    for name, times in spent.items():
        least[name] = (min(wall for wall, _ in times), min(cpu for _, cpu in times))
    return least


def environment(home: Path) -> dict[str, str]:
    """Nothing of the user's: no keys, no git configuration, no CI, a home of its own."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in {"PATH", "TMPDIR", "LANG", "LC_ALL"}
    }
    who = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Ada"), ("EMAIL", "a@example.org"))}  # fmt: skip
    return kept | who | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
