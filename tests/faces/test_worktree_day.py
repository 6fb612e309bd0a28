"""A day of agents in linked worktrees, with Claude Code itself: what its end knows in the main
working tree.
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from claude_cli import claude
from command import vibe_gate
from hooked import GATE, JUDGED, PASSES, Hooked, open_hooked
from program import repository
from scripted_messages_api import Text, ToolUse, Turn
from wire import answer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_agents")]  # of judges

AGENTS = {"one": "worktree-one", "two": "two"}
"""By the name of the worktree, its branch."""


@pytest.fixture
def main(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Hooked:
    """A repository whose judge looks at agents' commits, with git's hooks and Claude Code's
    installed.
    """
    for name in (
        "GIT_AUTHOR_DATE",
        "GIT_COMMITTER_DATE",
    ):  # commits come after what was captured before them
        monkeypatch.delenv(name, raising=False)
        environ.pop(name, None)
    working_tree = open_hooked(repository(tmp_path / "repo"), environ)
    (working_tree.path / ".vibe-gate/rubrics").mkdir(parents=True)
    working_tree.write(
        **{"__vibe-gate/gate.toml": GATE, "__vibe-gate/rubrics/quality.toml": JUDGED}
    )
    working_tree.git("add", "-A")
    working_tree.git("commit", "-q", "-m", "gate")
    for target in ("git", "claude"):
        assert vibe_gate("install", target, cwd=working_tree.path, environ=environ).returncode == 0
    return working_tree


def work(main: Hooked, name: str, home: Path) -> None:
    """An agent in its own worktree: it writes a file and commits it, which a judge reads.

    Claude Code makes the worktree `one` by itself; git has made `two`.
    """
    top = main.path / ".claude/worktrees" / name
    place, options = (main.path, ("--worktree", "one")) if name == "one" else (top, ())
    command = f"git add {name}.py && git commit -q -m 'Add {name}'"
    turns = [
        Turn(ToolUse("Write", {"file_path": str(top / f"{name}.py"), "content": f"{name} = 1\n"})),
        Turn(ToolUse("Bash", {"command": command})),
        answer(PASSES),
        Turn(Text("done")),
    ]
    variables = {**main.more, "PATH": main.environ["PATH"]}
    messages = claude(place, home, turns, prompt=f"Write {name}.", options=options, **variables)
    assert messages[-1]["result"] == "done"


def test_nothing_is_lost_or_paid_twice_when_agents_worktrees_are_merged_and_removed(
    main: Hooked, tmp_path: Path, environ: dict[str, str]
) -> None:
    main.git("worktree", "add", "-q", "-b", "two", ".claude/worktrees/two")
    two = main.path / ".claude/worktrees/two"
    assert vibe_gate("install", "claude", cwd=two, environ=environ).returncode == 0
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: work(main, name, tmp_path / f"home-{name}"), AGENTS))
    before = costs(main, environ)
    assert before == 2
    main.git("merge", "-q", "--ff-only", AGENTS["one"])
    main.git("merge", "-q", "--no-edit", AGENTS["two"])
    for name, branch in AGENTS.items():
        main.git(
            "worktree", "remove", "--force", "--force", f".claude/worktrees/{name}"
        )  # one of them is locked
        main.git("branch", "-q", "-d", branch)

    table = vibe_gate("verify", "HEAD~2..HEAD", cwd=main.path, environ=environ).stdout
    assert "missing" not in table, table
    for name in AGENTS:
        blamed = vibe_gate("blame", f"{name}.py", cwd=main.path, environ=environ).stdout
        assert "Claude Code session" in blamed, blamed
        assert f'"Write {name}."' in blamed
    sessions = json.loads(
        vibe_gate("sessions", "list", "--json", cwd=main.path, environ=environ).stdout
    )
    assert sorted(head["asked"] for head in sessions["captured"]) == ["Write one.", "Write two."]
    runs = json.loads(
        vibe_gate("bundles", "list", "--json", cwd=main.path, environ=environ).stdout
    )["bundles"]
    assert len(runs) >= 2
    assert vibe_gate("bundles", "verify", cwd=main.path, environ=environ).returncode == 0
    for run in runs:
        page = vibe_gate("report", run["run_id"], "-o", "-", cwd=main.path, environ=environ)
        assert page.returncode == 0, page.stderr
    second_review = vibe_gate("review", "HEAD~2..HEAD", "--each", cwd=main.path, environ=environ)
    assert costs(main, environ) == before, second_review.stdout
    assert (
        subprocess.run(["git", "status", "--short"], cwd=main.path, capture_output=True).stdout
        == b""
    )


def costs(main: Hooked, environ: dict[str, str]) -> int:
    """Runs for which a model was paid."""
    runs = json.loads(
        vibe_gate("bundles", "list", "--json", cwd=main.path, environ=environ).stdout
    )["bundles"]
    return sum(run["cost"]["usd"] > 0 for run in runs)
