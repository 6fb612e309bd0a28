"""What a person said in this clone of the end of an agent's turns: a file if they are not reviewed.

It stands in git's folder, where every hook of the agent finds it: those of its settings, and those
that a plugin brings. Read by a bare interpreter, so nothing of weight is imported.
"""

import os

from vibe_gate.faces.agent_hook import spool


def switch_file(common_dir: bytes, agent: str) -> bytes:
    """The file that is there if turns of the agent are not reviewed; `agent`: as `install` has it."""
    return common_dir + b"/vibe-gate/no-stop-" + agent.encode()


def is_switched_off(project: bytes, agent: str) -> bool:
    """Whether turns of the agent ("": Claude Code) are not reviewed in the repository around
    `project`.
    """
    common_dir = spool.common_dir(project)
    if common_dir is None:
        return False
    return os.path.lexists(switch_file(common_dir, agent or "claude"))
