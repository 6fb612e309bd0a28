"""Repositories with a gate at their commits: by `install git`, by pre-commit and by prek, each for
real.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked
from answers import passes
from command import vibe_gate

from vibe_gate.store.clone_state import open_state

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
STAGES = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "post-commit", "post-rewrite")
WAYS_IN = ("install git", "pre-commit", "prek")
GATE = 'schema = 1\nrubrics = ["quality"]\n'
JUDGED = """\
schema = 1
id = "quality"
[[criterion]]
id = "clear"
kind = "judge"
must = true
question = "Is every new line clear?"
"""
"""A rubric whose only criterion is a judge's."""
PASSES = passes("clear")
ASKING = "vibe-gate: asking about quality ..."
"""All that a hook prints of a judge who lets the change pass."""


@dataclass(frozen=True)
class Done:
    """How a command ended; its two outputs as one text."""

    code: int
    text: str


@dataclass
class Hooked:
    """A working tree, and the environment that git is run in there."""

    path: Path
    environ: dict[str, str]
    more: dict[str, str] = field(default_factory=dict)

    def run(self, *argv: str, stdin: str = "", **environ: str) -> Done:
        done = subprocess.run(
            argv,
            cwd=self.path,
            env={**self.environ, **self.more, **environ},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=250,
        )
        return Done(done.returncode, done.stdout)

    def git(self, *argv: str, stdin: str = "", **environ: str) -> str:
        """Run git, which must succeed; what it and its hooks said."""
        done = self.run("git", *argv, stdin=stdin, **environ)
        assert done.code == 0, done.text
        return done.text.rstrip("\n")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.path / name.replace("__", ".")).write_text(text)

    def tree(self, revision: str = "HEAD") -> str:
        return self.git("rev-parse", f"{revision}^{{tree}}")

    def judged(self) -> set[str]:
        """Trees that have a bundle here."""
        folder = self.path / ".vibe-artifacts"
        names = [found.name for found in folder.iterdir()] if folder.is_dir() else []
        return {name.removeprefix("tree-") for name in names if name.startswith("tree-")}

    def records(self) -> list[dict[str, Any]]:
        """What the hooks wrote down."""
        common = self.path / self.git("rev-parse", "--git-common-dir")
        return [json.loads(record.to_line()) for record in open_state(common).hook_records.all()]

    def reviewed(self) -> dict[str, Any]:
        """The summary of the review that a hook recorded last."""
        (file,) = self.path.glob(f".vibe-artifacts/*/{self.records()[-1]['run']}/summary.json")
        summary: dict[str, Any] = json.loads(file.read_text())
        return summary

    def share(self, remote: Path) -> Hooked:
        """Add an empty remote, push past the hooks all that is here, and fetch; the working tree
        itself comes back.
        """
        self.git("init", "-q", "--bare", str(remote))
        self.git("remote", "add", "origin", str(remote))
        self.git("push", "-q", "--no-verify", "origin", "main")
        self.git("fetch", "-q", "origin")
        return self

    def forget_records(self) -> None:
        """Delete everything that this clone remembers."""
        for path in (self.path / ".git" / "vibe-gate").iterdir():
            if path.name.startswith(("state.db", "records.ndjson")):
                path.unlink()


def at(path: Path, environ: dict[str, str]) -> Hooked:
    """The working tree at `path`, with this installation's programs on the search path; `vibe-gate`
    is forked.
    """
    programs = os.pathsep.join([str(forked.programs()), str(BIN), environ["PATH"]])
    here = Hooked(path, {**environ, "PATH": programs, "GIT_EDITOR": "true"})
    here.more["PRE_COMMIT_HOME"] = here.more["PREK_HOME"] = str(path.parent / "frameworks")
    return here


def started(path: Path, environ: dict[str, str]) -> Hooked:
    """A repository with one commit of three files, and no hooks yet."""
    path.mkdir(parents=True)
    here = at(path, environ)
    here.git("init", "-q")
    here.write(a="".join(f"line {n}\n" for n in range(30)), b="b\n", c="c\n")
    here.git("add", "-A")
    here.git("commit", "-q", "-m", "start")
    return here


def again(
    made: Path, path: Path, environ: dict[str, str], finish: Callable[[Hooked], object]
) -> Hooked:
    """A copy of what `finish` makes of a started repository; it is made at `made` once, for
    hundreds of tests.
    """
    if not made.exists():
        finish(started(made, environ))
    shutil.copytree(made, path, symlinks=True)
    here = at(path, environ)
    here.git("update-index", "-q", "--refresh")  # the copies have other inodes than the index knows
    return here


def judged_by(here: Hooked, rubric: str = JUDGED) -> Hooked:
    """Commit a gate with this rubric alone."""
    (here.path / ".vibe-gate" / "rubrics").mkdir(parents=True)
    (here.path / ".vibe-gate" / "gate.toml").write_text(GATE)
    (here.path / ".vibe-gate" / "rubrics" / "quality.toml").write_text(rubric)
    here.git("add", "-A")
    here.git("commit", "-q", "-m", "gate")
    return here


def local_config() -> str:
    """The manifest's hooks as a `repo: local` of the interpreter at hand: the same entries, without
    an installation.
    """
    text = (
        (ROOT / ".pre-commit-hooks.yaml")
        .read_text()
        .replace("language: python", "language: system")
    )
    hooks = re.sub(r"^  minimum_pre_commit_version.*\n", "", text, flags=re.M)
    indented = "".join(
        f"      {line}\n" for line in hooks.splitlines() if line and not line.startswith("#")
    )
    return f"repos:\n  - repo: local\n    hooks:\n{indented}"


def put_in(here: Hooked, way_in: str) -> Hooked:
    """Put the gate at this repository's commits."""
    if way_in == "install git":
        done = vibe_gate("install", "git", cwd=here.path, environ=here.environ | here.more)
        assert done.code == 0, done.err
        return here
    (here.path / ".pre-commit-config.yaml").write_text(local_config())
    here.git("add", "-A")
    here.git("commit", "-q", "-m", "hooks")
    types = [word for stage in STAGES for word in ("-t", stage)]
    done = here.run(str(BIN / way_in), "install", *types)
    assert done.code == 0, done.text
    return here
