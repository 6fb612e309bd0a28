"""Repositories with agents and workflows, and models that make them work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from command import CommandResult, vibe_gate
from repos import Repo
from scripted_messages_api import StepOrFunction, Text, ToolUse, Turn

FIXER = """\
schema = 1
id = "fixer"
system_prompt = "You repair."
tools = ["Read", "Write", "Edit", "Bash", "TaskCreate", "TaskUpdate"]
"""
REVIEWER = 'schema = 1\nid = "reviewer"\nsystem_prompt = "You review."\n'

CHECKED = """\
schema = 1
id = "clean"
[[criterion]]
id = "no-todo"
kind = "check"
check = "forbidden-pattern"
options = { pattern = "TODO" }
must = true
"""
"""A rubric that needs no model."""


FIXED = "def load(path):\n    return open(path).read()\n"
WORSE = "def load(path):\n    return open(path).read()  # TODO: {}\n"


class WorkingRepo(Repo):
    """A repository with a gate, two agents, and an uncommitted file with a TODO."""

    def __init__(self, path: Path, environ: Mapping[str, str], **workflows: str) -> None:
        super().__init__(path, environ)
        self.write(
            ".vibe-gate/gate.toml", 'schema = 1\nrubrics = ["clean"]\n[budget]\nmax_cost_usd = 5\n'
        )
        self.write(".vibe-gate/rubrics/clean.toml", CHECKED)
        self.write(".vibe-gate/agents/fixer.toml", FIXER)
        self.write(".vibe-gate/agents/reviewer.toml", REVIEWER)
        for name, text in workflows.items():
            suffix = "toml" if text.startswith("schema") else "py"
            self.write(f".vibe-gate/workflows/{name}.{suffix}", text)
        self.write("src/load.py", FIXED)
        self.commit("First")
        self.write("src/load.py", "def load(path):\n    return open(path).read()  # TODO\n")

    def run(self, *argv: str, model: Mapping[str, str] | None = None) -> CommandResult:
        """`vibe-gate run ARGV`."""
        return vibe_gate("run", *argv, cwd=self.path, environ={**self.environ, **(model or {})})

    def state(self) -> tuple[str, ...]:
        """What no run may change: HEAD, refs, index, files."""
        index = (self.path / ".git/index").read_bytes().hex()
        files = self.git("ls-files", "-s", "-o", "-c", "--exclude-standard")
        texts = "".join(
            path.read_text() for path in sorted(self.path.glob("src/**/*")) if path.is_file()
        )
        return (self.git("rev-parse", "HEAD"), self.git("for-each-ref"), index, files, texts)


def pid_of_agents(repo: Repo) -> int:
    """The process of ours whose agent was the last one to begin."""
    locks = repo.path.glob(".vibe-artifacts/sessions/*/.lock")
    newest_lock = max(locks, key=lambda lock: lock.stat().st_mtime_ns)
    return int(newest_lock.read_text())


def writes(path: str, content: str, last_message: str = "Done.") -> tuple[StepOrFunction, ...]:
    """An agent that writes one file, wherever it works, and ends."""
    return (Turn(ToolUse("Write", {"file_path": path, "content": content})), says(last_message))


def says(text: str) -> Turn:
    """An agent that says something and ends."""
    return Turn(Text(text))
