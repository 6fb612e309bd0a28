"""Claude Code itself, as a user would run it: project settings on, a scripted model, a home of its
own.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forked
from scripted_messages_api import Text, ToolUse, Turn
from wire import answering

from vibe_gate.agent import find_cli

TOOLS = ("Bash", "Write", "Edit", "Read", "TaskCreate", "TaskUpdate", "NotebookEdit")


def calls(*tools: ToolUse) -> list[Turn]:
    """A conversation that makes these calls one after the other, and ends."""
    return [*(Turn(tool) for tool in tools), Turn(Text("done"))]


def claude(
    root: Path,
    home: Path,
    turns: list[Turn],
    sources: str = "project,local",
    prompt: str = "go",
    options: tuple[str, ...] = (),
    **environ: str,
) -> list[dict[str, Any]]:
    """Run the conversation in `root`; the messages that the CLI prints. Fails the test if the CLI
    fails.
    """
    with answering(*turns) as model:
        process = subprocess.run(
            [
                *(
                    str(find_cli(os.environ["PATH"])),
                    "-p",
                    prompt,
                    "--output-format",
                    "stream-json",
                    "--verbose",
                ),
                *(
                    "--permission-mode",
                    "acceptEdits",
                    "--allowedTools",
                    *TOOLS,
                    "--setting-sources",
                    sources,
                    *options,
                ),
            ],
            cwd=root,
            env=cli_environ(home) | model.environ | environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=250,
        )
    assert process.returncode == 0, process.stderr + process.stdout[-2000:]
    return [json.loads(line) for line in process.stdout.splitlines()]


def fork_stop_hook(folder: Path) -> None:
    """Have Claude Code's settings there start the stop hook as a fork. An interpreter of its own
    loads for two seconds until it asks a judge.
    """
    settings = folder / ".claude" / "settings.local.json"
    document = json.loads(settings.read_text())
    (hook,) = (
        hook
        for group in document["hooks"]["Stop"]
        for hook in group["hooks"]
        if hook["args"][2].endswith("stop.py")
    )
    hook["command"] = str(forked.programs() / "hook-script")
    hook["args"] = hook["args"][2:]
    settings.write_text(json.dumps(document))


def cli_environ(home: Path) -> dict[str, str]:
    """What the CLI needs and nothing that this machine would tell it."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")
    }
    return variables | {
        **{name: value for name, value in os.environ.items() if name.startswith("GIT_")},
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "NO_PROXY": "127.0.0.1",
    }


def tool_results(messages: list[dict[str, Any]]) -> list[tuple[bool, str]]:
    """Of each tool call in turn: whether it failed, and what the agent was told."""
    blocks = [
        block
        for message in messages
        if message["type"] == "user"
        for block in message["message"]["content"]
        if isinstance(block, Mapping) and block.get("type") == "tool_result"
    ]
    return [(bool(block.get("is_error")), str(block["content"])) for block in blocks]
