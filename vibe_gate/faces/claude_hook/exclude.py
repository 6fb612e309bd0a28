"""`.git/info/exclude`: git shows no commit the settings that name programs of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from vibe_gate.faces.claude_hook.settings import read_file, write_file

LOCAL_SETTINGS = ".claude/settings.local.json"

_ADDED = f"# vibe-gate install claude\n/{LOCAL_SETTINGS}\n".encode()
"""At the top of the file, so that what is the user's stays byte for byte, and has the last word."""


def exclude(common_dir: Path) -> bool:
    """Have git ignore the settings in all working trees; whether that was to do. UsageError, StorageError."""
    file = common_dir / "info" / "exclude"
    content = read_file(file, common_dir) or b""
    if _ADDED in content:
        return False
    write_file(file, common_dir, _ADDED + content)
    return True


def take_back(common_dir: Path, other_worktrees: Iterable[Path]) -> bool:
    """Remove what `exclude` added, unless another working tree still has such settings; whether it was removed."""
    file = common_dir / "info" / "exclude"
    content = read_file(file, common_dir) or b""
    if _ADDED not in content or any(os.path.lexists(root / LOCAL_SETTINGS) for root in other_worktrees):
        return False
    write_file(file, common_dir, content.replace(_ADDED, b"", 1) or None)
    return True
