"""What a person's commit of one file costs with `vibe-gate install git`, beside pre-commit with an
empty hook.

    python bench/commit.py [--pairs 15]

Two repositories of 3,000 files, the same change in turn: ours reviews it by the built-in checks and
records it, the peer's only hook is `true`. The line without a goal is the same review by our hooks
under pre-commit. Processor time of git and of all that it starts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from _pairs import Side, compare, environment
from _peers import BIN, install_peers

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "bench" / ".work" / "commit"
OURS = Path(sys.executable).parent
FILES = 3_000
"""Of each repository: git looks at each of them at every commit, hook or not."""

LONG_AGO = 1_700_000_000
"""Time of the files, in seconds: git reads those that are as young as its index again at every
commit, hook or not.
"""

GOAL = 1.4
"""Half of what pre-commit takes for the same checks: 2.9 times its time for the empty hook."""

CHANGE = "echo $$ >folder0/file1.txt && git add folder0"
STAGES = ("pre-commit", "commit-msg", "post-commit")
"""What a commit runs of our manifest."""

EMPTY = """\
repos:
  - repo: local
    hooks:
      - {id: empty, name: empty, entry: "true", language: system, pass_filenames: false, always_run: true}
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    install_peers()
    shutil.rmtree(WORK, ignore_errors=True)
    environ = environment(WORK / "home", ROOT)
    environ |= {
        "PATH": f"{OURS}{os.pathsep}{BIN}{os.pathsep}{environ['PATH']}",
        "PRE_COMMIT_HOME": str(WORK / "cache"),
    }
    gated, empty, framed = (repository(name, environ) for name in ("gated", "empty", "framed"))
    run(gated, environ, OURS / "vibe-gate", "install", "git")
    install(empty, environ, EMPTY, STAGES[:1])
    install(framed, environ, manifest(), STAGES)
    ours, peer, both = (
        Side(["git", "commit", "-q", "-m", "change"], where, environ, before=CHANGE)
        for where in (gated, empty, framed)
    )
    reached = compare("install git / empty pre-commit", ours, peer, GOAL, pairs)
    compare("our hooks in pre-commit / empty", both, peer, None, pairs)
    return 0 if reached else 1


def repository(name: str, environ: dict[str, str]) -> Path:
    """A repository of many files, twenty to a folder."""
    where = WORK / name
    for number in range(FILES):
        file = where / f"folder{number // 20}" / f"file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"content {number}\n")
        os.utime(file, (LONG_AGO, LONG_AGO))
    for command in (
        ["init", "-q"],
        ["config", "gc.auto", "0"],
        ["add", "-A"],
        ["commit", "-q", "-m", "start"],
    ):
        run(where, environ, "git", *command)
    return where


def install(where: Path, environ: dict[str, str], config: str, stages: tuple[str, ...]) -> None:
    """Commit a configuration of pre-commit, and install its hooks at these stages."""
    (where / ".pre-commit-config.yaml").write_text(config)
    run(where, environ, "git", "add", "-A")
    run(where, environ, "git", "commit", "-q", "-m", "hooks")
    run(
        where,
        environ,
        BIN / "pre-commit",
        "install",
        *(word for stage in stages for word in ("-t", stage)),
    )


def manifest() -> str:
    """The hooks of our manifest, of the interpreter at hand."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    text = text[text.index("- id: ") :].replace("language: python", "language: system")
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and "minimum_pre_commit_version" not in line
    ]
    return "repos:\n  - repo: local\n    hooks:\n" + "".join(f"      {line}\n" for line in lines)


def run(where: Path, environ: dict[str, str], *argv: str | Path) -> None:
    subprocess.run(argv, cwd=where, check=True, env=environ, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
