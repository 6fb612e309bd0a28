"""What `verify` of a range costs beside `git log` of the same commits: processor time, as ratios, and its processes.

    python bench/verify.py [--pairs 7]

Self-contained: generates histories of 10, 100 and 1,000 commits under bench/.work once, each commit with a change of
three files. The same is measured with a receipt of each commit in a bundle, and with all of them in git notes; no goal
is set for these. Processes are those that strace sees; without strace they are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from _pairs import Side, compare, environment

from vibe_gate.domain.change import Selection
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.run.review import review

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work"
COMMITS = 1_000
GOAL = 40.0
PROCESSES_GOAL = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    options = parser.parse_args()
    environ = environment(WORK / "home", ROOT)
    where = history(environ)
    bundled, noted = with_receipts(where, environ)
    reached = True
    for folder, what, also in ((where, "", ()), (bundled, ", bundles", ()), (noted, ", notes", ("--from-notes",))):
        for commits in (10, 100, COMMITS):
            span = f"HEAD~{commits}..HEAD"
            ours = Side([sys.executable, "-m", "vibe_gate", "verify", span, *also], folder, environ, (0, 1))
            log = Side(["git", "log", span], folder, environ)
            goal = GOAL if commits == COMMITS and not what else None
            reached &= compare(f"verify, {commits:,} commits{what}", ours, log, goal, options.pairs)
            if shutil.which("strace"):
                started = processes(ours)
                is_few = started <= PROCESSES_GOAL
                print(f"  {started} processes of git  goal <= {PROCESSES_GOAL}: {'yes' if is_few else 'NO'}")
                reached &= is_few
    return 0 if reached else 1


def processes(side: Side) -> int:
    """How many git processes the command starts."""
    traced = ["strace", "-f", "-e", "trace=execve", *side.argv]
    done = subprocess.run(traced, cwd=side.where, env=dict(side.environ), capture_output=True, text=True, check=False)
    return sum('/git", [' in line and line.endswith("= 0") for line in done.stderr.splitlines())


def history(environ: dict[str, str]) -> Path:
    """A repository with one commit more than are verified."""
    where = WORK / "verify"
    if (where / ".git" / "generated").exists():
        return where
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=where, env=environ, check=True)
    chance = random.Random(20260102)
    files = {f"src/module{number}.py": [f"value_{at} = {at}\n" for at in range(50)] for number in range(100)}
    stream = []
    for number in range(COMMITS + 1):
        message = f"Change {number}"
        stream.append(f"commit refs/heads/main\ncommitter Ada <a@example.org> {1_700_000_000 + number} +0000\n")
        stream.append(f"data {len(message)}\n{message}\n")
        for path in sorted(files) if not number else chance.sample(sorted(files), 3):
            files[path][chance.randrange(50)] = f"value = {chance.getrandbits(40)}\n"
            content = "".join(files[path])
            stream.append(f"M 100644 inline {path}\ndata {len(content)}\n{content}\n")
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=where, env=environ, check=True, input="".join(stream).encode()
    )
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=where, env=environ, check=True)
    (where / ".git" / "generated").touch()
    return where


def reviewed(where: Path, commit: str, environ: dict[str, str]) -> None:
    """Review one commit without a judge."""
    request = ReviewRequest(Selection("commit", commit))
    walk = review(request, start=where, environ=environ, clock=lambda: datetime.now(UTC), progress=lambda *_: None)
    asyncio.run(walk)


def with_receipts(where: Path, environ: dict[str, str]) -> tuple[Path, Path]:
    """Copies of the repository: one with a bundle of each commit, one with the same receipts in git notes alone."""
    bundled, noted = WORK / "verify-bundles", WORK / "verify-notes"
    if not (noted / ".git" / "generated").exists():
        for folder in (bundled, noted):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(where, bundled)
        subprocess.run(["git", "config", "vibe-gate.receipts", "notes"], cwd=bundled, env=environ, check=True)
        listed = subprocess.run(
            ["git", "rev-list", f"-{COMMITS}", "HEAD"], cwd=bundled, env=environ, check=True, capture_output=True
        )
        for commit in listed.stdout.decode().split():
            reviewed(bundled, commit, environ)
        shutil.copytree(bundled, noted, ignore=shutil.ignore_patterns(".vibe-artifacts"))
        shutil.rmtree(noted / ".git" / "vibe-gate", ignore_errors=True)
    return bundled, noted


if __name__ == "__main__":
    sys.exit(main())
