"""`.git/info/exclude`: git shows no commit the settings that name programs of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from vibe_gate.faces.agent_hook.hooked_agents import HookedAgent
from vibe_gate.faces.agent_hook.settings import read_file, write_file


def exclude(common_dir: Path, agent: HookedAgent) -> bool:
    """Have git ignore the settings in all working trees; whether that was to do. UsageError,
    StorageError.
    """
    added = _added(agent)
    file = common_dir / "info" / "exclude"
    content = read_file(file, common_dir) or b""
    if added in content:
        return False
    write_file(file, common_dir, added + content)
    return True


def remove_exclusion(common_dir: Path, agent: HookedAgent, other_worktrees: Iterable[Path]) -> bool:
    """Remove what `exclude` added, unless another working tree still has such settings; whether it
    was removed.
    """
    added = _added(agent)
    file = common_dir / "info" / "exclude"
    content = read_file(file, common_dir) or b""
    if added not in content or any(os.path.lexists(root / agent.local) for root in other_worktrees):
        return False
    write_file(file, common_dir, content.replace(added, b"", 1) or None)
    return True


def _added(agent: HookedAgent) -> bytes:
    """At the top of the file, so that what is the user's stays byte for byte, and has the last
    word.
    """
    return f"# vibe-gate install {agent.name}\n/{agent.local}\n".encode()
