"""The Claude Agent SDK as it is installed: its version, and its CLI."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from vibe_gate.errors import AgentError

NO_SDK = (
    "claude-agent-sdk is not installed, so no judge or agent can run. "
    'Install it; in the Action, leave out `judge: "false"`.'
)


def find_cli(environ: Mapping[str, str]) -> Path:
    """The CLI that ships with the SDK, else `claude` on PATH. AgentError if there is neither, or no SDK."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None:
        raise AgentError(NO_SDK)
    for folder in spec.submodule_search_locations or []:
        bundled = Path(folder) / "_bundled" / "claude"
        if os.access(bundled, os.X_OK):
            return bundled
    on_path = shutil.which("claude", path=environ.get("PATH", os.defpath))
    if on_path is None:
        raise AgentError(
            "Claude Code was not found: this claude-agent-sdk was installed without its bundled CLI and there is no "
            "`claude` on PATH. Reinstall claude-agent-sdk from its wheel, or install Claude Code."
        )
    return Path(on_path)


def sdk_version() -> str:
    """Version of claude-agent-sdk; "" if it is not installed, which checks do not need."""
    from importlib.metadata import PackageNotFoundError, version  # checks do without its 20 ms

    try:
        return version("claude-agent-sdk")
    except PackageNotFoundError:
        return ""
