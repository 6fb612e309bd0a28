"""`.git/info/exclude`: git shows no commit the settings that name programs of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError
from vibe_gate.faces.claude_hook.settings import write_file

LOCAL_SETTINGS = ".claude/settings.local.json"

_ADDED = f"# vibe-gate install claude\n/{LOCAL_SETTINGS}\n".encode()
"""At the top of the file, so that what is the user's stays byte for byte, and has the last word."""


def exclude(common_dir: Path) -> bool:
    """Have git ignore the settings in all working trees; whether that was to do. UsageError, StorageError."""
    file = _file(common_dir)
    content = _content(file)
    if _ADDED in content:
        return False
    write_file(file, _ADDED + content)
    return True


def take_back(common_dir: Path, other_worktrees: Iterable[Path]) -> bool:
    """Remove what `exclude` added, unless another working tree still has such settings; whether it was removed."""
    file = _file(common_dir)
    content = _content(file)
    if _ADDED not in content or any(os.path.lexists(root / LOCAL_SETTINGS) for root in other_worktrees):
        return False
    write_file(file, content.replace(_ADDED, b"", 1) or None)
    return True


def _file(common_dir: Path) -> Path:
    """With links resolved: what is in `.git` is the user's."""
    return Path(os.path.realpath(common_dir / "info" / "exclude"))


def _content(file: Path) -> bytes:
    try:
        if file.exists() and not file.is_file():
            raise OSError("it is no ordinary file")
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(f"{paths.quote(str(file))} cannot be read: {error.strerror or error}.") from error
