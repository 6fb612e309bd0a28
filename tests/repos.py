"""Real repositories for tests: a folder, git, and a line for each step."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

RUBRIC = """\
schema = 1
id = "quality"
pass_threshold = 0.7
second_look = "never"
[[criterion]]
id = "errors-not-swallowed"
kind = "judge"
must = true
weight = 2
question = "Does every new handler that catches an exception log it, re-raise it or say why not?"
[[criterion]]
id = "names-are-clear"
kind = "judge"
question = "Do new names say what they stand for?"
"""
"""Without second looks, which most tests have no answer for."""

GATE = 'schema = 1\nrubrics = ["quality"]\n'

GOOD = "def load(path):\n    return open(path).read()\n"
SWALLOWS = """\
def load(path):
    try:
        return open(path).read()
    except OSError:
        pass
"""


_COMMITTED = re.compile(r"\[.*?([0-9a-f]{40})\] ")


class Repo:
    """A repository at `path`; every git call runs with the test's own environment."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self.environ = dict(environ)
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q")

    def git(self, *argv: str, stdin: bytes | None = None) -> str:
        """Run git here; its output, without the last newline. Fails the test if git fails."""
        process = subprocess.run(
            ["git", *argv], cwd=self.path, env=self.environ, input=stdin, capture_output=True
        )
        assert process.returncode == 0, (
            f"git {' '.join(argv)}: {process.stderr.decode(errors='replace')}"
        )
        return process.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def write(self, path: str, content: str | bytes) -> Path:
        """Write one file, its folders included."""
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def commit(self, message: str = "Change", **files: str | bytes) -> str:
        """Commit everything there is; returns the commit's id."""
        for path, content in files.items():
            self.write(path, content)
        self.git("add", "-A")
        report = self.git("-c", "core.abbrev=40", "commit", "--allow-empty", "-m", message)
        return committed_id(report)


def committed_id(report: str) -> str:
    """The id in what `git -c core.abbrev=40 commit` prints: `[main ID] message`."""
    match = _COMMITTED.match(report)
    assert match, report
    return match[1]


def allow_store(url: str, environ: Mapping[str, str]) -> None:
    """Allow a folder as the shared store of all clones of this user."""
    subprocess.run(["git", "config", "--global", "vibe-gate.store", url], env=environ, check=True)


def gated(path: Path, environ: Mapping[str, str], gate: str = GATE, rubric: str = RUBRIC) -> Repo:
    """A repository whose first commit holds a gate with one rubric and a good file."""
    repo = Repo(path, environ)
    repo.write(".vibe-gate/gate.toml", gate)
    repo.write(".vibe-gate/rubrics/quality.toml", rubric)
    repo.write("src/load.py", GOOD)
    repo.commit("First")
    return repo


def swallowing(path: Path, environ: Mapping[str, str]) -> Repo:
    """A repository as `gated` makes it, with a second commit whose handler swallows the error."""
    repo = gated(path, environ)
    repo.write("src/load.py", SWALLOWS)
    repo.commit("Load robustly")
    return repo
