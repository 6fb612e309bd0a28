"""What `bundles export` and `bundles import` take, beside tar and zstd at its highest usual level.

    python bench/archive.py [--repository DIR] [--runs 10,100,300]

The runs are reviews by checks alone of the newest commits of a clone of DIR (default: this
project). tar and zstd pack what `tar xf` takes out of our archive, so both pack the same bytes, in
the same order; `zstd -19 --long=27` looks for what repeats in 128 MiB. Seconds of processors. The
goal is of bytes alone: zstd takes six times our time for what it saves.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import each
from _pairs import VIBE_GATE, Side, environment, spend
from scale import newest

GOAL = 2.0
"""Our bytes to those of zstd, at most."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", type=Path, default=each.ROOT, metavar="DIR")
    parser.add_argument("--runs", default="10,100,300", help="with commas (default: 10,100,300)")
    options = parser.parse_args()
    if shutil.which("zstd") is None:
        print("zstd is not installed, so nothing is compared: apt-get install zstd")
        return 0
    environ = environment(each.WORK / "home")
    repository = each.clone(options.repository, environ)
    reached = True
    for run_count in map(int, options.runs.split(",")):
        reached &= compare_archives(repository, environ, run_count)
    return 0 if reached else 1


def compare_archives(repository: Path, environ: dict[str, str], run_count: int) -> bool:
    """Export and import the newest runs, let the peer pack them, print a line for each; whether the
    goal is reached.
    """
    span = newest(repository, environ, run_count)
    review = [*VIBE_GATE, "review", span, "--each", "--no-judge"]
    spend(Side(review, repository, environ, each.VERDICTS, each.FORGET))
    stored = [path.parent for path in repository.glob(".vibe-artifacts/*/*/summary.json")]
    stored_size = sum(size_of(run) for run in stored)

    work = repository.with_name("archives")
    shutil.rmtree(work, ignore_errors=True)
    (work / "plain").mkdir(parents=True)
    archive, peer_archive = work / "runs.tar.xz", work / "runs.tar.zst"
    export = [*VIBE_GATE, "bundles", "export", "--all", "-o", str(archive)]
    _, export_seconds = spend(Side(export, repository, environ))
    unpack = ["tar", "xf", str(archive), "-C", str(work / "plain")]
    spend(Side(unpack, work, environ))
    pack = f"tar -tf {archive} | tar -C plain -cf - --no-recursion -T - | zstd -q -19 --long=27 -o {peer_archive}"
    _, peer_seconds = spend(Side(["sh", "-c", pack], work, environ))

    new_clone = work / "clone"
    spend(Side(["git", "init", "-q", str(new_clone)], work, environ))
    _, import_seconds = spend(
        Side([*VIBE_GATE, "bundles", "import", str(archive)], new_clone, environ)
    )
    size, peer_size = archive.stat().st_size, peer_archive.stat().st_size
    ratio = size / peer_size
    goal = f"goal <= {GOAL}: {'yes' if ratio <= GOAL else 'NO'}"
    runs = f"{len(stored):5,} {'run' if len(stored) == 1 else 'runs'}"
    print(f"{runs}  in the store  {stored_size / 1e6:8.2f} MB")
    print(f"{runs}  export        {size / 1e6:8.2f} MB  {export_seconds:6.1f} s   of zstd {ratio:.2f}  {goal}")  # fmt: skip
    print(f"{runs}  tar | zstd    {peer_size / 1e6:8.2f} MB  {peer_seconds:6.1f} s")
    print(f"{runs}  import        {'':11}  {import_seconds:6.1f} s", flush=True)
    return ratio <= GOAL


def size_of(run: Path) -> int:
    """Bytes of a run's files."""
    return sum(path.stat().st_size for path in run.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
