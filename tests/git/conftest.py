"""Fixtures: repositories in odd states, and what git itself says is right."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import histories
import pytest
from gitbench import Bench, fingerprint


@pytest.fixture
def bench(tmp_path: Path, environ: dict[str, str]) -> Bench:
    """An empty repository."""
    repository = Bench(tmp_path / "repo", environ)
    repository.root.mkdir()
    repository.git("init", "-q")
    return repository


@pytest.fixture
def seeded(bench: Bench) -> Bench:
    """A repository with one commit of a few files, links and folders."""
    bench.write("a.txt", "one\n")
    bench.write("src/app.py", "print('hi')\n")
    bench.write("src/deep/er/file.txt", "deep\n")
    bench.write("tool.sh", "#!/bin/sh\n").chmod(0o755)
    (bench.root / "link").symlink_to("a.txt")
    bench.commit("first")
    return bench


@pytest.fixture
def oracle(tmp_path: Path) -> Callable[[Bench], str]:
    """The tree that `git add -A` and `git write-tree` make in a copy of the repository.

    In a copy every stat is new to the index, so git reads every file again; flags that
    would hide a file are taken off first, and names in other case are other files, as on this disk.
    """

    def ask(bench: Bench) -> str:
        copy = tmp_path / "oracle"
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-a", str(bench.root), str(copy)], check=True)
        copied = Bench(copy, bench.environ)
        for line in copied.git("ls-files", "-v", "-z").split("\0"):
            if line[:1].islower():
                copied.git("update-index", "--no-assume-unchanged", "--", line[2:])
            if line[:1] in "Ss" and line and os.path.lexists(copy / line[2:]):
                copied.git("update-index", "--no-skip-worktree", "--", line[2:])
        copied.git("-c", "core.ignoreCase=false", "add", "-A")
        return copied.git("write-tree")

    return ask


@pytest.fixture
def holds(oracle: Callable[[Bench], str]) -> Callable[[Bench], str]:
    """The snapshot is what the oracle says, and taking it left not a byte or time changed."""

    def check(bench: Bench) -> str:
        before = fingerprint(bench.root)
        taken = bench.snapshot()
        assert fingerprint(bench.root) == before
        assert taken == oracle(bench)
        return taken

    return check


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Histories and contents of every kind (`histories.py`), built once; tests only read it."""
    home = tmp_path_factory.mktemp("home")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    return histories.build(tmp_path_factory.mktemp("history") / "repo", environ)
