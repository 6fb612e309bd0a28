"""`vibe-gate install claude`: capture and guard into Claude Code's settings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vibe_gate.adapters.claude_settings import add_hooks, drop_hooks, read_settings, write_settings
from vibe_gate.adapters.git import open_repository
from vibe_gate.domain import paths
from vibe_gate.errors import PASS, UsageError
from vibe_gate.faces.claude_hook import capture, guard
from vibe_gate.faces.cli.output import complain, emit

SUMMARY = "Claude Code: capture its sessions, and refuse commits that go around the gate."

CAPTURED = (
    "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PermissionDenied", "Notification",
    "SubagentStart", "SubagentStop", "PreCompact", "Stop", "SessionEnd",
)  # fmt: skip
"""What is kept of a session. PostToolUse says all that PreToolUse does, and how long the call took."""

LAST = frozenset({"Stop", "SessionEnd"})
"""Claude Code may end right after them, and takes hooks in the background with it."""

GUARDED_TOOLS = "Bash|Edit|MultiEdit|Write|NotebookEdit"

CAPTURE_TIMEOUT_S = 10
GUARD_TIMEOUT_S = 5  # it takes a hundredth of a second; when time is up, Claude Code goes on without it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `install claude` and `uninstall claude` take."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--local", action="store_true", help="settings.local.json: for you alone, in this repository")
    where.add_argument("--user", action="store_true", help="your own settings: for every repository")


def install(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Merge our hooks into the settings; twice is once."""
    path, below = _place(args, environ)
    before = read_settings(path, below)
    after = add_hooks(before, hooks(), paths.quote(str(path)))
    if after == before:
        emit(f"unchanged  {paths.quote(str(path))} (capture and guard are there already)\n")
        return PASS
    write_settings(path, below, after)
    emit(f"{'wrote' if before is None else 'merged'}  capture and guard into {paths.quote(str(path))}\n")
    if args.user:
        return PASS
    if not args.local:
        complain("This file is shared, and the hooks name this machine's Python: `--local` is for you alone.")
        complain("It is a policy file, too: the next review shows its change as a warning.")
    complain("Running sessions of Claude Code read it when they start again.")
    return PASS


def uninstall(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Take our hooks out of the settings; a file that held nothing else goes."""
    path, below = _place(args, environ)
    before = read_settings(path, below)
    after = None if before is None else drop_hooks(before, paths.quote(str(path)))
    if after == before:
        emit(f"unchanged  {paths.quote(str(path))} (no hooks of vibe-gate there)\n")
        return PASS
    write_settings(path, below, after)
    emit(f"{'removed' if after is None else 'cleaned'}  {paths.quote(str(path))}\n")
    return PASS


def hooks() -> dict[str, list[dict[str, Any]]]:
    """Our groups by event. Exec form and a bare interpreter: no shell, no site, nothing from the repository."""
    groups: dict[str, list[dict[str, Any]]] = {
        event: [{"hooks": [_hook(capture.__file__, CAPTURE_TIMEOUT_S) | _in_background(event)]}] for event in CAPTURED
    }
    groups["PreToolUse"] = [{"matcher": GUARDED_TOOLS, "hooks": [_hook(guard.__file__, GUARD_TIMEOUT_S)]}]
    return groups


def _hook(script: str, timeout_s: int) -> dict[str, Any]:
    return {"type": "command", "command": sys.executable, "args": ["-I", "-S", script], "timeout": timeout_s}


def _in_background(event: str) -> dict[str, Any]:
    return {} if event in LAST else {"async": True}


def _place(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Path, Path]:
    """The settings file, and the folder from which on no link may lead to it."""
    if args.user:
        home = environ.get("CLAUDE_CONFIG_DIR") or (f"{environ['HOME']}/.claude" if environ.get("HOME") else "")
        if not home:
            raise UsageError("neither HOME nor CLAUDE_CONFIG_DIR is set: there is no place for your own settings.")
        folder = Path(os.path.abspath(home))  # noqa: PTH100
        return folder / "settings.json", folder
    with open_repository(Path.cwd(), environ) as repository:
        root = repository.root
    return root / ".claude" / ("settings.local.json" if args.local else "settings.json"), root
