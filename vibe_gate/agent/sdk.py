"""The Claude Agent SDK as it is installed: its version and its CLI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path

from vibe_gate.errors import AgentError

NO_SDK = (
    "claude-agent-sdk is not installed, so no judge or agent can run. "
    "`pip install vibe-gate` brings it."
)

VERSION_S = 5.0
"""How long Claude Code may take to tell its version (20 ms as a rule)."""

MOST_CHARACTERS = 64
"""Of a version."""


def find_cli(search_path: str) -> Path:
    """The CLI that ships with the SDK, else `claude` on the search path. AgentError if there is
    neither, or no SDK.
    """
    spec = require_sdk()
    for folder in spec.submodule_search_locations or []:
        bundled = Path(folder) / "_bundled" / "claude"
        if os.access(bundled, os.X_OK):
            return bundled
    on_path = shutil.which("claude", path=search_path)
    if on_path is None:
        raise AgentError(
            "Claude Code was not found: this claude-agent-sdk was installed without its bundled CLI and there is no "
            "`claude` on PATH. Reinstall claude-agent-sdk from its wheel, or install Claude Code."
        )
    return Path(on_path)


def require_sdk() -> ModuleSpec:
    """Where the SDK's package is. AgentError: it is not installed."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None:
        raise AgentError(NO_SDK)
    return spec


def program_versions(search_path: str, home: Path) -> dict[str, str]:
    """Of claude-agent-sdk and of Claude Code, as far as they say; `home` is where the program may
    write.

    Started only to tell its version: a `claude` on PATH is not the one that the SDK names.
    """
    versions = {"claude-agent-sdk": sdk_version()}
    variables = {"PATH": search_path, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
    with suppress(AgentError, OSError, subprocess.SubprocessError):
        process = subprocess.run(
            [find_cli(search_path), "--version"],
            env=variables,
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_S,
            check=False,
        )
        versions["claude-code"] = process.stdout.partition(" ")[0].strip()[:MOST_CHARACTERS]
    return {name: version for name, version in versions.items() if version}


@cache
def sdk_version() -> str:
    """Version of claude-agent-sdk; "" if it is not installed, which checks do not need.

    Read once: a review puts it into its questions, its receipt and its run.
    """
    from importlib.metadata import PackageNotFoundError, version  # checks do without its 20 ms

    try:
        return version("claude-agent-sdk")
    except PackageNotFoundError:
        return ""
