"""Records the cassettes of examples/pytest anew: `python tests/faces/record_pytest_example.py`,
after a change there.

There is no model behind them: the answers stand here, in the form a model gives them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from answers import passes
from clean_environ import clean_environ
from scripted_messages_api import MessagesRequest, Text, ToolUse, Turn, Usage
from wire import answering

EXAMPLE = Path(__file__).parents[2] / "examples/pytest"
OLD = "    with open(path) as file:\n        return json.load(file)\n"
NEW = {
    "not there": """\
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return []  # nothing was booked yet
""",
    "empty file": """\
    with open(path) as file:
        text = file.read()
    return json.loads(text) if text else []
""",
}


def agent(request: MessagesRequest) -> Turn:
    """Read, edit, say it; or judge."""
    if "StructuredOutput" in request.tool_names:
        if '"criterion"' in json.dumps(request.body["tools"]):
            return Turn(
                ToolUse(
                    "StructuredOutput",
                    passes(
                        "errors-not-swallowed",
                        changes="load returns an empty list for a missing ledger.",
                    ),
                ),
                usage=Usage(2_310, 96),
            )
        answer = {
            "passed": True,
            "risk": "low",
            "why": "A missing file is a new ledger; every other error is raised.",
        }
        return Turn(ToolUse("StructuredOutput", answer), usage=Usage(1_204, 61))
    new = next(
        text
        for word, text in NEW.items()
        if word.replace("not there", "is not there") in request.all_text
    )
    step = sum(message["role"] == "assistant" for message in request.messages)
    turns = (
        Turn(ToolUse("Read", {"file_path": "src/ledger.py"}), usage=Usage(1_310, 58)),
        Turn(
            ToolUse("Edit", {"file_path": "src/ledger.py", "old_string": OLD, "new_string": new}),
            usage=Usage(1_480, 171),
        ),
        Turn(Text("load returns an empty list now."), usage=Usage(1_702, 22)),
    )
    return turns[step]


def record(example: Path, agent: Callable[[MessagesRequest], Turn]) -> int:
    """Run the example with a scripted model behind the real CLI, and keep its cassettes; pytest's
    exit code.
    """
    with tempfile.TemporaryDirectory() as folder:
        suite, home = Path(folder) / "suite", Path(folder) / "home"
        home.mkdir()
        shutil.copytree(example, suite, ignore=shutil.ignore_patterns("cassettes"))
        with answering(agent, repeat_last=True) as model:
            environ = clean_environ(home) | model.environ
            subprocess.run(["git", "init", "-q", suite], check=True, env=environ)
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                "--vibe-wire=record",
            ]
            code = subprocess.run(command, cwd=suite, env=environ).returncode
        shutil.rmtree(example / "cassettes", ignore_errors=True)
        shutil.copytree(suite / "cassettes", example / "cassettes")
    return code


if __name__ == "__main__":
    sys.exit(record(EXAMPLE, agent))
