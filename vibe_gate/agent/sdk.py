"""The Claude Agent SDK as it is installed: its version, its CLI, and how it is loaded without `mcp`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from vibe_gate.errors import AgentError

NO_SDK = (
    "claude-agent-sdk is not installed, so no judge or agent can run. "
    'Install it; in the Action, leave out `judge: "false"`.'
)

VERSION_S, MOST_CHARACTERS = 5.0, 64
"""How long Claude Code may take to tell its version (20 ms as a rule), and how much of that is kept."""

_NAMES = ("jsonschema", "mcp", "mcp.types", "mcp.server", "mcp.shared", "mcp.shared.memory", "mcp.shared.message")
"""The modules of `mcp` that the SDK takes names from while it is loaded, and what checks the input of such tools."""


class _Unused:
    """Whatever the SDK takes from them; it also derives a class from one, with arguments."""

    def __init_subclass__(cls, **_: object) -> None: ...


class _StandIn(ModuleType):
    """Has every name, as long as the SDK is being loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}") or type(name, (_Unused,), {})


def load_without_mcp() -> None:
    """Load the SDK now, in a fifth of the time: 0.15 s of 1.0.

    Whoever imports `mcp` afterwards gets the real one, but the SDK cannot offer tools of Python's.
    Only for a process that is ours alone: the SDK is shared by all of its code. If it is loaded already it stays as it
    is; a version that does more with `mcp` while it is loaded is loaded whole, by the first session.
    """
    if {"claude_agent_sdk", "mcp"} & sys.modules.keys():
        return
    sys.modules.update((name, _StandIn(name)) for name in _NAMES)
    try:
        import claude_agent_sdk  # noqa: F401
    except Exception:  # noqa: BLE001  whatever a stand-in leads to
        for name in [name for name in sys.modules if name.partition(".")[0] == "claude_agent_sdk"]:
            del sys.modules[name]
    finally:
        for name in _NAMES:
            del sys.modules[name]


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


def program_versions(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """Of claude-agent-sdk and of Claude Code, as far as they say; `home` is where the program may write.

    Started only to tell its version: a `claude` on PATH is not the one that the SDK names.
    """
    versions = {"claude-agent-sdk": sdk_version()}
    own = {"PATH": environ.get("PATH", os.defpath), "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
    with suppress(AgentError, OSError, subprocess.SubprocessError):
        told = subprocess.run(
            [find_cli(environ), "--version"], env=own, cwd=home, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=VERSION_S, check=False,
        )  # fmt: skip
        versions["claude-code"] = told.stdout.partition(" ")[0].strip()[:MOST_CHARACTERS]
    return {name: version for name, version in versions.items() if version}


def sdk_version() -> str:
    """Version of claude-agent-sdk; "" if it is not installed, which checks do not need."""
    from importlib.metadata import PackageNotFoundError, version  # checks do without its 20 ms

    try:
        return version("claude-agent-sdk")
    except PackageNotFoundError:
        return ""
