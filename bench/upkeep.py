"""What it takes to check and to clean a store of many runs, and what runs take on the disk.

    python bench/upkeep.py [--runs 2000] [--pairs 5]

Self-contained: records the runs under bench/.work once, four contents each. `bundles verify` is compared with
`sha256sum` of every file of the store, `bundles clean` of a copy with `rm -rf` of another one: processor time. Blocks
are those of the newest 30 commits of each project (this one if none is given), a review without a judge each, beside
copies of the files that they changed. What has a place in the format whatever the change (folders, run.json, events,
receipt, summary) takes 80 to 100 blocks a review, so a project of small commits cannot reach the goal.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

from _pairs import Side, compare, environment, spend
from storage import START, Commit, Version, history, record
from verify import reviewed

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work" / "upkeep"
BLOCKS_GOAL = 0.6
REVIEWS = 30
GATE = (sys.executable, "-m", "vibe_gate", "bundles")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--repository", action="append", type=Path, default=[], help="a git repository; repeatable")
    options = parser.parse_args()
    environ = environment(WORK / "home", ROOT)
    where = store(options.runs, environ)
    hashed = Side(["sh", "-c", "find .vibe-artifacts -type f -exec sha256sum {} +"], where, environ)
    compare(f"verify, {options.runs:,} runs", Side([*GATE, "verify"], where, environ), hashed, None, options.pairs)
    ours, theirs = (
        min(emptied(where, command, environ) for _ in range(options.pairs))
        for command in ([*GATE, "clean"], ["rm", "-rf", ".vibe-artifacts"])
    )
    print(
        f"clean, {options.runs:,} runs {ours * 1e3:8.0f} ms   rm -rf {theirs * 1e3:8.0f} ms   ratio {ours / theirs:.2f}"
    )
    shares = [blocks(repository, environ) for repository in options.repository or [ROOT]]
    return 0 if max(shares) <= BLOCKS_GOAL else 1


def store(runs: int, environ: dict[str, str]) -> Path:
    """A repository's folder with so many sealed runs, long ago."""
    where = WORK / f"store-{runs}"
    if not (where / "complete").exists():
        shutil.rmtree(where, ignore_errors=True)
        subprocess.run(["git", "init", "-q", where], env=environ, check=True)
        chance = random.Random(20260102)
        for number in range(runs):
            versions = tuple(Version(f"src/a{at}.py", text(chance), text(chance)) for at in range(2))
            record(where, Commit(f"{chance.getrandbits(160):040x}", versions), START + timedelta(minutes=number))
        (where / "complete").touch()
    return where


def text(chance: random.Random) -> bytes:
    return b"".join(b"value_%d = %d\n" % (chance.getrandbits(40), line) for line in range(100))


def emptied(where: Path, command: list[str], environ: dict[str, str]) -> float:
    """Seconds of processor time of a command that deletes a copy's runs."""
    copy = WORK / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(where, copy)
    return spend(Side(command, copy, environ))[1]


def blocks(repository: Path, environ: dict[str, str]) -> float:
    """What reviews take on the disk, as a share of what the files take that they are about."""
    kept, raw = WORK / "kept", WORK / "raw"
    for folder in (kept, raw):
        shutil.rmtree(folder, ignore_errors=True)
    raw.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", "--shared", repository, kept], env=environ, check=True)
    for commit in history(kept, REVIEWS, 0)[:REVIEWS]:
        reviewed(kept, commit.id, environ)
        for at, version in enumerate(commit.versions):
            for side, data in (("before", version.before), ("after", version.after)):
                if data:
                    (raw / f"{commit.id}-{at}-{side}").write_bytes(data)
    taken: Counter[str] = Counter()
    for path in (kept / ".vibe-artifacts").rglob("*"):
        is_content = path.is_file() and "files" in path.parts
        taken["folders" if path.is_dir() else "contents" if is_content else path.name] += path.lstat().st_blocks
    naive = sum(path.lstat().st_blocks for path in raw.iterdir())
    share = taken.total() / naive
    each = ", ".join(f"{name} {blocks / naive:.0%}" for name, blocks in taken.most_common() if blocks * 100 > naive)
    reached = "yes" if share <= BLOCKS_GOAL else "NO"
    print(f"{REVIEWS} reviews of {repository.name} take {share:.0%} of raw copies  goal <= 60%: {reached}  ({each})")
    return share


if __name__ == "__main__":
    sys.exit(main())
