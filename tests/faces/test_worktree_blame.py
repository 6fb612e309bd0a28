"""Who wrote a line in a linked worktree is known after the worktree is gone, wherever it was."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import vibe_gate
from program import git, repository

from vibe_gate.faces.agent_hook import spool

SESSION = "11111111-2222-3333-4444-555555555555"
KEEP = "import sys; from vibe_gate.faces.agent_hook import spool; sys.exit(spool.main())"


def capture(place: Path, **event: object) -> None:
    """What Claude Code's hook does with an event of the session in a folder."""
    line = {"session_id": SESSION, "cwd": str(place), **event}
    command = [sys.executable, "-c", KEEP]
    subprocess.run(
        command, cwd=place, input=json.dumps(line, separators=(",", ":")).encode(), check=True
    )


def wrote(place: Path, name: str, text: str) -> None:
    file = place / name
    file.write_text(text)
    answer = {
        "type": "create",
        "filePath": str(file),
        "content": text,
        "structuredPatch": [],
        "originalFile": None,
    }
    call = {"hook_event_name": "PostToolUse", "tool_name": "Write", "tool_use_id": "toolu_1"}
    capture(
        place, **call, tool_input={"file_path": str(file), "content": text}, tool_response=answer
    )


@pytest.mark.parametrize(
    "place", [".worktrees/one", "wt/a b/one", ".claude/worktrees/one", "../elsewhere", "../é"]
)
def test_blame_names_the_session_after_the_worktree_is_gone(
    tmp_path: Path, environ: dict[str, str], place: str
) -> None:
    main = repository(tmp_path / "repo")
    git(main, "worktree", "add", "-q", "-b", "one", place)
    worktree = main / place
    capture(worktree, hook_event_name="UserPromptSubmit", prompt="Write it.")
    wrote(worktree, "new.py", "total = price * count\n")
    now = f"@{int(time.time()) + 1} +0000"
    git(worktree, "add", "new.py")
    git(worktree, "commit", "-qm", "new", GIT_AUTHOR_DATE=now, GIT_COMMITTER_DATE=now)
    git(main, "merge", "-q", "one")
    shutil.rmtree(worktree)  # no command of vibe-gate ran while it was there
    git(main, "worktree", "prune")
    output = vibe_gate("blame", "new.py", cwd=main, environ=environ).stdout
    assert "Claude Code session 11111111, turn 1, Write" in output, output


def test_only_a_linked_worktree_of_the_same_repository_is_noted(tmp_path: Path) -> None:
    main, other = repository(tmp_path / "repo"), repository(tmp_path / "other")
    git(main, "worktree", "add", "-q", "../one")
    git(other, "worktree", "add", "-q", "../foreign")
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    (tmp_path / "one/deep").mkdir()
    folder = bytes(main / ".git/vibe-gate/captures")
    noted = {
        str(place): spool.linked_top(bytes(tmp_path / place), folder)
        for place in ("one", "one/deep", "repo", "repo/sub", "foreign", "nowhere")
    }
    top = bytes(tmp_path / "one")
    assert noted == {
        "one": top,
        "one/deep": top,
        "repo": b"",
        "repo/sub": b"",
        "foreign": b"",
        "nowhere": b"",
    }
