"""How `review A..B --each` grows with commits and with workers, by checks alone:
docs/explanation/scale.md.

    python bench/scale.py [--repository DIR] [--commits 10,100,1000] [--workers 1,2,4]

Workers are the processes of `--jobs`, and of `--cluster local`, which need the extra `cluster`. The
history is that of a clone of DIR (default: this project), its newest commits. Every size is
reviewed by each way in turn, from an empty store. Seconds by the wall clock and, in brackets, of
processors; then what the runs take on the disk and as archive.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import each
from _pairs import VIBE_GATE, Side, environment, spend


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", type=Path, default=each.ROOT, metavar="DIR")
    parser.add_argument(
        "--commits", default="10,100,1000", help="with commas (default: 10,100,1000)"
    )
    parser.add_argument("--workers", default="1,2,4", help="with commas (default: 1,2,4)")
    options = parser.parse_args()
    environ = environment(each.PLACE / "home")
    where = each.clone(options.repository, environ)
    command = shlex.join(VIBE_GATE)
    for wanted in map(int, options.commits.split(",")):
        span = newest(where, environ, wanted)
        commits = len(each.git(where, environ, "rev-list", span).split())
        for name, option in ways(options.workers):
            argv = f"{command} review {span} --each --no-judge {option}"
            wall, cpu = spend(Side(["sh", "-c", argv], where, environ, each.VERDICTS, each.FORGET))
            print(
                f"{commits:6,} commits  {name:<24} {wall:7.1f} s ({cpu:.1f} s)  {commits / wall:6.1f}/s",
                flush=True,
            )
        runs = [
            path for path in where.glob(".vibe-artifacts/*/*") if (path / "summary.json").exists()
        ]
        size = sum(path.stat().st_size for run in runs for path in run.rglob("*") if path.is_file())
        each.git(
            where, environ, "-c", f"alias.x=!{command} bundles export --all -o ../runs.tar.xz", "x"
        )
        archive = where.with_name("runs.tar.xz")
        print(f"{commits:6,} commits  {len(runs):,} runs: {size / len(runs) / 1024:.1f} KiB a run on the disk, "
              f"{archive.stat().st_size / len(runs) / 1024:.1f} KiB in an archive", flush=True)  # fmt: skip
        archive.unlink()
    return 0


def newest(where: Path, environ: dict[str, str], wanted: int) -> str:
    """The range of the newest commits that has `wanted` of them, or a few more."""
    heads = each.git(where, environ, "rev-list", "--first-parent", "HEAD").split()
    low, high = 0, len(heads) - 1
    while low < high:
        middle = (low + high) // 2
        if int(each.git(where, environ, "rev-list", "--count", f"{heads[middle]}..HEAD")) < wanted:
            low = middle + 1
        else:
            high = middle
    return f"{heads[low]}..HEAD"


def ways(workers: str) -> Iterator[tuple[str, str]]:
    """Names, and the options that are meant."""
    for number in workers.split(","):
        yield f"--jobs {number}", f"--jobs {number}"
    for number in workers.split(","):
        yield f"--cluster local, {number}", f"--jobs {number} --cluster local"


if __name__ == "__main__":
    sys.exit(main())
