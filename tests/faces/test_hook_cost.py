"""What a commit costs that asks no judge, counted where time would be a matter of the machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from hooked import Hooked, started

NOT_NEEDED = {
    "asyncio",
    "claude_agent_sdk",
    "email",
    "github3",
    "importlib.metadata",
    "msgspec",
    "pygit2",
    "requests",
    "rich",
    "ssl",
    "tomli_w",
    "vibe_gate.agent",
    "vibe_gate.store.result",
    "vibe_gate.store.gc",
    "vibe_gate.store.runs",
    "vibe_gate.store.turn",
    "vibe_gate.gate.effective",
    "vibe_gate.gate.starters",
    "vibe_gate.gateway",
    "vibe_gate.git.libgit2",
    "vibe_gate.sandbox",
    "vibe_gate.judging.brief",
    "vibe_gate.checks.command",
    "vibe_gate.checks.conduct",
    "vibe_gate.domain.execution",
    "vibe_gate.judging.question",
    "vibe_gate.domain.turn",
    "vibe_gate.judging.ask",
    "vibe_gate.judging.votes",
    "vibe_gate.receipts.find",
    "vibe_gate.receipts.reuse",
}
"""What belongs to judges, their bundles, the forge, people's screens, cleaning and other checks; all of pygit2 but its
compiled part."""

MOST_MODULES = 350
"""All that is loaded, Python's own included: 326 when this was written, 416 before that."""

CALLS = [
    "rev-parse", "config", "cat-file", "write-tree", "diff-tree", "patch-id", "cat-file", "var", "var", "write-tree",
]  # fmt: skip
"""Where the repository is and its settings; objects; what is staged; what differs, its id and sizes; who signs;
whether it is still staged."""

WATCH = """\
#!/bin/sh
for word in "$@"; do
  case "$skip$word" in -c) skip=yes; continue;; yes*) skip=; continue;; -*) continue;; esac
  echo "$word" >>{calls}
  break
done
exec {real} "$@"
"""


@pytest.fixture
def here(tmp_path: Path, environ: dict[str, str]) -> Hooked:
    """A staged change of one file, and a `git` in front of git's own that writes down what it is called for."""
    made = started(tmp_path / "r", environ)
    real = shutil.which("git", path=environ["PATH"])
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "git").write_text(WATCH.format(calls=watch / "calls", real=real))
    (watch / "git").chmod(0o755)
    made.write(a="changed\n")
    made.git("add", "a")
    made.more["PATH"] = f"{watch}:{made.environ['PATH']}"
    return made


def test_a_commit_that_asks_no_judge_starts_seven_processes_of_git(here, tmp_path):
    calls = tmp_path / "watch" / "calls"
    for _ in "ab":  # the first of a day also cleans, and asks what is tracked
        calls.unlink(missing_ok=True)
        done = here.run(sys.executable, "-P", "-m", "vibe_gate", "hook", "pre-commit", "--")
        assert done.code == 0, done.text
    assert sorted(calls.read_text().split()) == sorted(CALLS)


def test_a_commit_that_asks_no_judge_loads_no_more_than_it_needs(here):
    for _ in "ab":  # the first of a day also cleans
        done = here.run(sys.executable, "-P", "-X", "importtime", "-m", "vibe_gate", "hook", "pre-commit", "--")
        assert done.code == 0, done.text
    loaded = {line.rpartition("|")[2].strip() for line in done.text.splitlines() if line.startswith("import time:")}
    assert "vibe_gate.review" in loaded
    assert not loaded & NOT_NEEDED
    assert len(loaded) <= MOST_MODULES
