"""Which tool calls a session may make: listed tools, inside its directory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from vibe_gate.domain.wire import ANSWER_TOOL

_PATH_KEYS = ("file_path", "path", "notebook_path")
_PATTERN_KEYS = {"Glob": ("pattern",), "Grep": ("glob",)}
_WILDCARD = re.compile(r"[*?\[{]")


def refusal(name: str, tool_input: Mapping[str, Any], tools: tuple[str, ...], cwd: Path) -> str | None:
    """Why this call must not run, or None if it may.

    Paths are followed through symlinks, as the tool would; a call whose input is not
    understood is refused.
    """
    if name == ANSWER_TOOL:
        return None
    if name not in tools:
        return f"The tool {name} is not available in this session."
    root = Path(os.path.realpath(cwd))
    for value in _paths(name, tool_input):
        if not isinstance(value, str) or "\0" in value or not _inside(value, root):
            return "Only files below the working directory can be read."
    return None


def _paths(name: str, tool_input: Mapping[str, Any]) -> list[object]:
    """Every path that the call reaches for, with patterns up to their first wildcard."""
    found = [tool_input[key] for key in _PATH_KEYS if tool_input.get(key) is not None]
    base = tool_input.get("path") or "."
    for key in _PATTERN_KEYS.get(name, ()):
        pattern = tool_input.get(key)
        if pattern is None:
            continue
        if not isinstance(pattern, str) or not isinstance(base, str):
            found.append(None)
        else:
            found.append(str(PurePosixPath(base) / _literal_part(pattern)))
    return found


def _literal_part(pattern: str) -> str:
    """The folder that a pattern starts from; all of it where ".." could climb out behind a wildcard."""
    if ".." in PurePosixPath(pattern).parts and _WILDCARD.search(pattern):
        return "/"
    start = _WILDCARD.split(pattern, maxsplit=1)[0]
    return start if start == pattern else start.rpartition("/")[0] or ("/" if start.startswith("/") else ".")


def _inside(value: str, root: Path) -> bool:
    if value.startswith("~"):
        return False  # the tool would expand it
    target = Path(os.path.realpath(root / value))
    return target == root or root in target.parents
