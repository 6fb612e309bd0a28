"""An agent's whole program behind the wall: the real CLI with its own tools, in a workspace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from processes import pid_in, process_ends
from repos import Repo
from scripted_messages_api import Text, ToolUse, Turn
from wire import answering, hold, session_in

from vibe_gate import sandbox
from vibe_gate.domain.environment import read_environment
from vibe_gate.errors import InfrastructureError
from vibe_gate.git import open_repository
from vibe_gate.sandbox import agent_wall, command_environment_from

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wall is Linux's")

SCRIPT = """
echo inside > made.txt
git add -A && git commit -qm "by the agent" && echo committed
echo x > "$HOME/x" && echo x > "$TMPDIR/x" && echo own home
cat {secret} || echo secret closed
echo x > {repo}/a.txt || echo repository closed
echo x > {repo}/.git/config || echo configuration closed
ls {kept} || echo kept closed
echo 1 > "$HOME/../pid" || echo launcher closed
setsid sleep 300 > /dev/null 2>&1 & echo $! > daemon
"""


@pytest.mark.slow
def test_an_agent_reads_and_writes_its_workspace_and_nothing_else(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = Repo(tmp_path / "repo", environ)
    repo.commit("first", **{"a.txt": "one\n"})
    (tmp_path / "secret").write_text("a secret of the user\n")
    with open_repository(repo.path, read_environment(environ)) as repository:
        workspace = repository.workspace(repository.workspaces / "run", repository.snapshot())
        command = SCRIPT.format(
            secret=tmp_path / "secret", repo=repo.path, kept=workspace.folder / "kept.git"
        )
        calls = (
            Turn(ToolUse("Read", {"file_path": str(workspace.root / "a.txt")})),
            Turn(
                ToolUse(
                    "Edit",
                    {
                        "file_path": str(workspace.root / "a.txt"),
                        "old_string": "one",
                        "new_string": "two",
                    },
                )
            ),
            Turn(ToolUse("Bash", {"command": command})),
            Turn(Text("done")),
        )
        with answering(*calls) as model:
            ending, _ = hold(
                session_in(
                    tmp_path, model.base_url, environ, schema=None, folder=workspace.root, working=True,
                    wall=agent_wall(workspace.root, workspace.borrowed, command_environment_from(environ)),
                    tools=("Bash", "Edit", "Read"),
                )
            )  # fmt: skip
            results = [result.text for result in model.script.requests[-1].tool_results]
        assert (ending.status, ending.text) == ("done", "done")
        closed = [
            line
            for line in results[-1].splitlines()
            if line.endswith(("closed", "home", "committed"))
        ]
        assert closed == ["committed", "own home", "secret closed", "repository closed", "configuration closed",
                          "kept closed", "launcher closed"]  # fmt: skip
        assert "a secret of the user" not in results[-1]
        changed = workspace.change(repository.snapshot(), workspace.tree())
        assert [file.path for file in changed.files] == ["a.txt", "daemon", "made.txt"]
        assert repo.git("status", "--porcelain") == ""
        assert process_ends(int((workspace.root / "daemon").read_text()))
        workspace.remove()


@pytest.mark.slow
def test_what_kills_the_gate_leaves_no_process_behind_the_wall(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    code = f"import os, subprocess; subprocess.run({list(wall_command(tmp_path, environ))!r} + ['/bin/sh', '-c', {LEFT!r}])"
    gate = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    pid = pid_in(tmp_path)
    gate.kill()
    gate.wait()
    assert process_ends(pid)


LEFT = "setsid sleep 300 & echo $! > pid; sleep 300"


def wall_command(folder: Path, environ: dict[str, str]) -> tuple[str, ...]:
    for name in ("home", "config", "tmp"):
        (folder / name).mkdir()
    wall = agent_wall(folder, (), command_environment_from(environ))
    assert wall is not None
    return tuple(wall(folder, Path("/bin/sh")))


@pytest.mark.slow
def test_the_exit_code_and_the_streams_are_the_programs(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    prefix = wall_command(tmp_path, environ)
    result = subprocess.run(
        [*prefix, "/bin/sh", "-c", "cat; echo err >&2; exit 7"], input=b"in", capture_output=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (7, b"in", b"err\n")
    missing = subprocess.run([*prefix, "/no/such/program"], capture_output=True)
    assert (missing.returncode, missing.stdout) == (127, b"")
    assert b"could not be started" in missing.stderr


def test_a_system_without_a_wall_is_refused(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "LEAST_ABI", 1000)
    with pytest.raises(
        InfrastructureError, match=r"cannot put an agent behind a wall .*allow_unwalled = true"
    ):
        agent_wall(tmp_path, (), command_environment_from(environ))
