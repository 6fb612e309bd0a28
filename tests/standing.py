"""Words of the tests about verify: a repository with a gate of checks, reviewed and verified by the
real command.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from command import CommandResult, vibe_gate
from repos import Repo

GATE = 'schema = 1\nrubrics = ["tidy"]\n'
TIDY = """\
schema = 1
id = "tidy"
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
must = true
paths = ["src/**"]
options = { pattern = "TODO" }
[[criterion]]
id = "no-tabs"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "\\t" }
"""
CODE = "def pay(amount):\n    if amount > 0:\n        charge(amount)\n        log(amount)\n    return amount\n"


class Gated:
    """A repository whose first commit holds the gate, and what people do in it."""

    def __init__(self, path: Path, environ: Mapping[str, str], **files: str) -> None:
        self.environ = dict(environ)
        self.repo = Repo(path, environ)
        self.git = self.repo.git
        self.path = path
        self.write = self.repo.write
        self.commit = self.repo.commit
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")
        self.write(".vibe-gate/gate.toml", GATE)
        self.write(".vibe-gate/rubrics/tidy.toml", TIDY)
        self.write("src/pay.py", CODE)
        self.write("src/log.py", "def log(amount):\n    print(amount)\n")
        for name, text in files.items():
            self.write(name, text)
        self.first = self.commit("First")

    def at(self, path: Path) -> Gated:
        """These commands for another working tree or clone, at `path`."""
        other = copy.copy(self)
        other.path = path
        return other

    def run(self, *argv: str, **environ: str) -> CommandResult:
        return vibe_gate(*argv, cwd=self.path, environ={**self.environ, **environ})

    def review(self, *argv: str, **environ: str) -> dict[str, Any]:
        """The summary of a review."""
        result = self.run("review", "--json", *argv, **environ)
        assert result.out, result.err
        return result.json

    def reviewed(self, message: str = "Change", **files: str) -> str:
        """A commit that was reviewed before it was made."""
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "-A")
        self.review("--staged")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def verify(self, *argv: str, **environ: str) -> tuple[int, list[dict[str, Any]]]:
        """The exit code, and each commit's standing, newest first."""
        result = self.run("verify", "--json", *argv, **environ)
        assert result.out, result.err
        assert "commits" in result.json, result.out
        return result.code, result.json["commits"]

    def stand(self, *argv: str, **environ: str) -> tuple[int, str, str | None]:
        """Exit code, status and match of the one commit."""
        code, [row] = self.verify(*argv, **environ)
        return code, row["status"], row["match"]

    def bundles(self) -> list[Path]:
        """The folders of the runs, oldest first."""
        return sorted(self.path.glob(".vibe-artifacts/*/2*"), key=lambda path: path.name)


def predicate(bundle: Path) -> dict[str, Any]:
    """What the receipt in a bundle says."""
    return statement(bundle)["predicate"]


def statement(bundle: Path) -> dict[str, Any]:
    return json.loads(
        base64.b64decode(json.loads((bundle / "receipt.json").read_bytes())["payload"])
    )
