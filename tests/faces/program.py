"""Real repositories to run commands in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


NOBODYS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}
"""For fixtures that live longer than one test: those are made before a test's own environment
is.
"""


def git(folder: Path, *arguments: str, **environ: str) -> str:
    """Run git in a folder; its output without the last newline."""
    variables = {**NOBODYS, **os.environ, **environ}
    process = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, env=variables
    )
    return process.stdout.rstrip("\n")


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit of `a.txt`, or of the files given."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in (files or {"a.txt": "one\n"}).items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder
