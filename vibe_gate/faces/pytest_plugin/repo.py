"""The repository of the fixture `vibe_repo`."""

from __future__ import annotations

import os
from pathlib import Path

from vibe_gate.faces.pytest_plugin.plugin_wire import read_test_environment
from vibe_gate.git import run_as_user

_CONFIG = f"""\
[user]
\tname = vibe
\temail = vibe@vibe-gate.invalid
[commit]
\tgpgSign = false
[core]
\thooksPath = {os.devnull}
\tautocrlf = false
"""
"""Written at once: git starts anew for each value that it is told to set."""


class VibeRepo(os.PathLike[str]):
    """A git repository for one test. The user's own hooks, templates and signing do not reach
    it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--template=", "--initial-branch=main")
        with (path / ".git" / "config").open("a", encoding="utf-8", newline="\n") as config:
            config.write(_CONFIG)
        self.git("commit", "--quiet", "--allow-empty", "--message", "Begin")

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        return f"<VibeRepo {str(self.path)!r}>"

    def write(self, path: str, text: str) -> Path:
        """Write a file, its folders included; where it is."""
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
        return target

    def commit(self, message: str) -> str:
        """Commit all files as they are; the commit's id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def git(self, *args: str) -> str:
        """Run git here; its output without the last newline. AssertionError, with its complaint, if
        it fails.
        """
        answer = run_as_user(self.path, read_test_environment().variables, *args)
        assert answer.code == 0, f"git {' '.join(args)}: {answer.err}"
        return answer.line
