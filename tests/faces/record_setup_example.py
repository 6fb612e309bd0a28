"""Records the cassettes of examples/claude-setup anew: `python tests/faces/record_setup_example.py`,
after a change there.

There is no model behind them: the answers stand here, in the form a model gives them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

from record_pytest_example import NEW, OLD, record
from scripted_messages_api import Block, MessagesRequest, Text, ToolUse, Turn, Usage

EXAMPLE = Path(__file__).parents[2] / "examples/claude-setup"
READ = ToolUse("Read", {"file_path": "src/ledger.py"})
FIX: tuple[Block, ...] = (
    READ,
    ToolUse(
        "Edit", {"file_path": "src/ledger.py", "old_string": OLD, "new_string": NEW["not there"]}
    ),
    ToolUse("Skill", {"skill": "changelog"}),
    ToolUse("Read", {"file_path": "CHANGELOG.md"}),
    ToolUse(
        "Edit",
        {
            "file_path": "CHANGELOG.md",
            "old_string": "## Unreleased\n",
            "new_string": "## Unreleased\n\n- load: a file that is not there is an empty ledger\n",
        },
    ),
    Text("load returns an empty list if the file is not there."),
)
REVIEW: tuple[Block, ...] = (
    ToolUse(
        "Agent",
        {
            "subagent_type": "reviewer",
            "description": "Review the ledger",
            "prompt": "Read src/ledger.py.",
        },
    ),
    Text("The reviewer found one error: load fails if the file is not there."),
)
REVIEWER: tuple[Block, ...] = (READ, Text("load fails if the file is not there."))


def agent(request: MessagesRequest) -> Turn:
    """Do what the command says, or what the reviewer is for."""
    if "Name the errors that a caller would see" in request.system_text:
        blocks = REVIEWER
    elif "Have the subagent" in request.all_text:
        blocks = REVIEW
    elif "Repair src/ledger.py" in request.all_text:
        blocks = FIX
    else:
        blocks = (Text("Which file?"),)
    step = sum(message["role"] == "assistant" for message in request.messages)
    return Turn(blocks[step], usage=Usage(1_600 + 150 * step, 60))


if __name__ == "__main__":
    sys.exit(record(EXAMPLE, agent))
