"""How long it takes to list ten thousand bundles: interleaved runs, medians, ratios.

    python bench/listing.py [--bundles 10000] [--pairs 15] [--fresh]

The first run makes a store of that many sealed bundles under bench/.work/listing;
`--fresh` makes it anew. Every command is a whole process; a full JSON scan is what
a list without an index does: scandir, read and parse every summary.json, sort.

Goals: the list of 10,000 <= 0.3 x a full JSON scan; the newest 20 <= 1.7 x `python -c pass`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work" / "listing"
GOLDEN = ROOT / "tests" / "golden" / "bundle-1" / "summary.json"
LIST_GOAL = 0.3
NEWEST_GOAL = 1.7
SETTLE_S = 0.5  # until a change of the store is old enough to be believed

ENTRY = "import sys; from vibe_gate.faces.cli import main; sys.exit(main())"  # what an installer's script does

SCAN = """
import json, os, sys
runs = []
for key in os.scandir(".vibe-artifacts"):
    if key.is_dir() and key.name not in ("objects", "quarantine", "sessions", "index", "trash"):
        for run in os.scandir(key):
            with open(run.path + "/summary.json", "rb") as file:
                summary = json.load(file)
            runs.append((summary["run_id"], summary["outcome"], summary["key"], len(summary["findings"])))
runs.sort(reverse=True)
sys.stdout.write("".join(f"{run} {outcome} {key} {findings}\\n" for run, outcome, key, findings in runs))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--fresh", action="store_true", help="make the store anew")
    args = parser.parse_args()
    where = store(args.bundles, args.fresh)
    python = bare_python()
    gate = [python, "-c", ENTRY, "bundles", "list"]
    full = [sys.executable, *gate[1:]]  # what mends the index needs pydantic; what reads it must do without
    scan, bare = [python, "-c", SCAN], [python, "-c", "pass"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(WORK / "pycache")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code
    shutil.rmtree(where / ".git" / "vibe-gate", ignore_errors=True)
    print(f"{args.bundles:,} bundles, {args.pairs} interleaved pairs each; Python {sys.version.split()[0]}")
    print(f"without an index                 {spend(full, where, environ) * 1e3:8.1f} ms (once)")
    time.sleep(SETTLE_S)
    print(f"the index is there, not believed {spend(full, where, environ) * 1e3:8.1f} ms (once)")
    reached = [
        compare("list, all", gate, scan, LIST_GOAL, args.pairs, where, environ),
        compare("list --json, all", [*gate, "--json"], scan, None, args.pairs, where, environ),
        compare("list --limit 20", [*gate, "--limit", "20"], bare, NEWEST_GOAL, args.pairs, where, environ),
        compare("list --limit 20", [*gate, "--limit", "20"], scan, None, args.pairs, where, environ),
    ]
    return 0 if all(reached) else 1


def bare_python() -> str:
    """The interpreter of a virtual environment without any package: what both sides start."""
    if not (WORK / "venv").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", WORK / "venv"], check=True)
    return str(WORK / "venv" / "bin" / "python")


def store(bundles: int, fresh: bool) -> Path:
    """A repository's folder with that many sealed bundles in its store."""
    where = WORK / f"store-{bundles}"
    if fresh:
        shutil.rmtree(where, ignore_errors=True)
    if not (where / "complete").exists():
        shutil.rmtree(where, ignore_errors=True)
        print(f"making {bundles:,} bundles ...", flush=True)
        subprocess.run(["git", "init", "-q", where], check=True)
        template = json.loads(GOLDEN.read_bytes())
        for number in range(bundles):
            write_bundle(where / ".vibe-artifacts", template, number)
        (where / "complete").touch()
        time.sleep(SETTLE_S)
    return where


def write_bundle(artifacts: Path, template: dict[str, object], number: int) -> None:
    """One sealed bundle, as far as a list looks: folder names and summary.json."""
    digest = hashlib.sha1(b"%d" % number).hexdigest()
    began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number * 7)
    run = f"{began:%Y%m%dT%H%M%S}{number % 1000:03d}Z-{digest[:8]}"
    directory = artifacts / digest / run
    directory.mkdir(parents=True)
    outcome = ("pass", "pass", "fail", "inconclusive")[number % 4]
    own = {"run_id": run, "key": digest, "outcome": outcome, "bundle": f".vibe-artifacts/{digest}/{run}"}
    (directory / "summary.json").write_text(json.dumps({**template, **own}, indent=2) + "\n")


def compare(
    name: str, ours: list[str], theirs: list[str], goal: float | None, pairs: int, where: Path, environ: dict[str, str]
) -> bool:
    """Time both in turn, print one line, and say whether the goal is reached."""
    for command in (ours, theirs):
        spend(command, where, environ)
    mine, other = [], []
    for index in range(pairs):
        sides = [(mine, ours), (other, theirs)]
        for times, command in sides if index % 2 else reversed(sides):
            times.append(spend(command, where, environ))
    ratio = statistics.median(a / b for a, b in zip(mine, other, strict=True))
    wanted = "" if goal is None else f"  goal <= {goal}: {'yes' if ratio <= goal else 'NO'}"
    against = "full JSON scan" if theirs[-1] == SCAN else "python -c pass"
    left, right = statistics.median(mine) * 1e3, statistics.median(other) * 1e3
    print(f"{name:<20} {left:8.2f} ms   {against:<16} {right:8.2f} ms   ratio {ratio:5.2f}{wanted}", flush=True)
    return goal is None or ratio <= goal


def spend(command: list[str], where: Path, environ: dict[str, str]) -> float:
    """Seconds of wall clock of a whole process; it must succeed."""
    began = time.perf_counter()
    subprocess.run(command, cwd=where, env=environ, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
