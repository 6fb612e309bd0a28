"""Repositories with a gate at their commits: by `install git`, by pre-commit and by prek, each for
real.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
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
class ProgramResult:
    """How a command ended; its two outputs as one text."""

    code: int
    text: str


@dataclass
class Hooked:
    """A working tree, and the environment that git is run in there."""

    path: Path
    environ: dict[str, str]
    more: dict[str, str] = field(default_factory=dict)

    def run(self, *argv: str, stdin: str = "", **environ: str) -> ProgramResult:
        process = subprocess.run(
            argv,
            cwd=self.path,
            env={**self.environ, **self.more, **environ},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=250,
        )
        return ProgramResult(process.returncode, process.stdout)

    def git(self, *argv: str, stdin: str = "", **environ: str) -> str:
        """Run git, which must succeed; what it and its hooks said."""
        result = self.run("git", *argv, stdin=stdin, **environ)
        assert result.code == 0, result.text
        return result.text.rstrip("\n")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.path / name.replace("__", ".")).write_text(text)

    def tree(self, revision: str = "HEAD") -> str:
        return self.git("rev-parse", f"{revision}^{{tree}}")

    def judged_trees(self) -> set[str]:
        """The ids of the trees that have a bundle in this repository."""
        folder = self.path / ".vibe-artifacts"
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return {name.removeprefix("tree-") for name in names if name.startswith("tree-")}

    def records(self) -> list[dict[str, Any]]:
        """What the hooks wrote down."""
        common = self.path / self.git("rev-parse", "--git-common-dir")
        return [json.loads(record.to_line()) for record in open_state(common).hook_records.all()]

    def last_review(self) -> dict[str, Any]:
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


def open_hooked(path: Path, environ: dict[str, str]) -> Hooked:
    """The working tree at `path`, with this installation's programs on the search path; `vibe-gate`
    is forked.
    """
    programs = os.pathsep.join([str(forked.programs()), str(BIN), environ["PATH"]])
    repository = Hooked(path, {**environ, "PATH": programs, "GIT_EDITOR": "true"})
    repository.more["PRE_COMMIT_HOME"] = repository.more["PREK_HOME"] = str(
        path.parent / "frameworks"
    )
    return repository


def start_repository(path: Path, environ: dict[str, str]) -> Hooked:
    """A repository with one commit of three files, and no hooks yet."""
    path.mkdir(parents=True)
    repository = open_hooked(path, environ)
    repository.git("init", "-q")
    repository.write(a="".join(f"line {n}\n" for n in range(30)), b="b\n", c="c\n")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "start")
    return repository


def copy_template(
    template: Path, path: Path, environ: dict[str, str], finish: Callable[[Hooked], object]
) -> Hooked:
    """A copy of what `finish` makes of a started repository; that is made at `template` once, for
    hundreds of tests.
    """
    if not template.exists():
        finish(start_repository(template, environ))
    shutil.copytree(template, path, symlinks=True)
    repository = open_hooked(path, environ)
    # The copies have other inodes than the index knows.
    repository.git("update-index", "-q", "--refresh")
    return repository


def add_judged_gate(repository: Hooked, rubric: str = JUDGED) -> Hooked:
    """Commit a gate with this rubric alone."""
    (repository.path / ".vibe-gate" / "rubrics").mkdir(parents=True)
    (repository.path / ".vibe-gate" / "gate.toml").write_text(GATE)
    (repository.path / ".vibe-gate" / "rubrics" / "quality.toml").write_text(rubric)
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "gate")
    return repository


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


def install_gate(repository: Hooked, way_in: str) -> Hooked:
    """Put the gate at this repository's commits."""
    if way_in == "install git":
        result = vibe_gate(
            "install", "git", cwd=repository.path, environ=repository.environ | repository.more
        )
        assert result.code == 0, result.err
        return repository
    (repository.path / ".pre-commit-config.yaml").write_text(local_config())
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "hooks")
    types = [word for stage in STAGES for word in ("-t", stage)]
    result = repository.run(str(BIN / way_in), "install", *types)
    assert result.code == 0, result.text
    return repository


def commit_on_terminal(repository: Hooked, *words: str, **variables: str) -> str:
    """What `git commit WORDS`, which must succeed, shows on a terminal of its own. `vibe-gate` is
    started, not forked from another session.
    """
    master, slave = pty.openpty()
    environ = {
        **repository.environ,
        **repository.more,
        **variables,
        "TERM": "dumb",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    process = subprocess.Popen(
        ["git", "commit", *words],
        cwd=repository.path,
        env=environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    screen = b""
    try:
        while block := os.read(master, 65536):
            screen += block
    except OSError:  # Linux: the last writer has closed its side
        pass
    os.close(master)
    assert process.wait() == 0, screen
    return screen.decode()
