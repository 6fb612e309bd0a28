"""`vibe-gate install claude`: capture and guard into Claude Code's settings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vibe_gate import __version__
from vibe_gate.domain import paths
from vibe_gate.errors import PASS, GateError, UsageError
from vibe_gate.faces.claude_hook import capture, guard
from vibe_gate.faces.claude_hook.settings import add_hooks, drop_hooks, read_settings, write_settings
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.faces.git_hook.install import TRANSACTION, has_gate, owner
from vibe_gate.faces.git_hook.install import install as install_hooks
from vibe_gate.faces.git_hook.install import uninstall as uninstall_hooks
from vibe_gate.git import open_repository

SUMMARY = "Claude Code: capture its sessions, and refuse commits that go around the gate."

CAPTURED = (
    "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PermissionDenied", "Notification",
    "SubagentStart", "SubagentStop", "PreCompact", "Stop", "SessionEnd",
)  # fmt: skip
"""What is kept of a session. PostToolUse says all that PreToolUse does, and how long the call took."""

LAST = frozenset({"Stop", "SessionEnd"})
"""Claude Code may end right after them, and takes hooks in the background with it."""

GUARDED_TOOLS = ("Bash|Edit|MultiEdit|Write|NotebookEdit",)
"""Matchers. Names alone are compared whole; in a pattern "Edit" would stand for other tools as well."""

CAPTURE_TIMEOUT_S = 10
GUARD_TIMEOUT_S = 5  # it takes a hundredth of a second; when time is up, Claude Code goes on without it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `install claude` and `uninstall claude` take."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--local", action="store_true", help="settings.local.json: for you alone, in this repository")
    where.add_argument("--user", action="store_true", help="your own settings: for every repository")


def install(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Merge our hooks into the settings, and add git's hook that refuses an agent's bypass; twice is once."""
    place = _place(args, environ)
    path, shown = place.path, paths.quote(str(place.path))
    before = read_settings(path, place.below)
    after = add_hooks(before, hooks(), shown)
    if after == before:
        emit(f"unchanged  {shown} (capture and guard are there already)\n")
    else:
        write_settings(path, place.below, after)
        emit(f"{'wrote' if before is None else 'merged'}  capture and guard into {shown}\n")
        if not args.user and not args.local:
            complain("This file is shared and names this machine's Python; `--local` installs for you alone.")
            complain("It affects agents: the next review shows its change as a warning.")
        complain("Restart running sessions of Claude Code to load it.")
    _install_transaction(environ, user=args.user)
    return PASS


def _install_transaction(environ: Mapping[str, str], *, user: bool) -> None:
    """Add git's reference-transaction hook: what the guard cannot see, git refuses."""
    if user:
        return complain("Run `vibe-gate install git` in each repository: git then refuses commits past its hooks.")
    with open_repository(Path.cwd(), environ) as repository:
        try:
            emit("\n".join(install_hooks(repository, __version__, (TRANSACTION,))) + "\n")
        except GateError as error:
            complain(f"git's {TRANSACTION} hook was not installed: {error}")
        if not has_gate(repository):
            complain("No gate at commits yet: run `vibe-gate install git`, or use pre-commit or prek.")
    return None


def _uninstall_transaction(environ: Mapping[str, str], *, user: bool) -> None:
    """Remove it again, unless it belongs to `install git`."""
    if user:
        return
    with open_repository(Path.cwd(), environ) as repository:
        if not has_gate(repository) and owner(repository.hooks_folder() / TRANSACTION) == "vibe-gate":
            emit("\n".join(uninstall_hooks(repository, (TRANSACTION,))) + "\n")


def uninstall(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Take our hooks out of the settings; a file that holds nothing else goes, and its folder if it is empty then."""
    place = _place(args, environ)
    path, shown = place.path, paths.quote(str(place.path))
    text = read_settings(path, place.below)
    if text is None or (after := drop_hooks(text, shown)) == text:
        emit(f"unchanged  {shown} (no hooks of vibe-gate there)\n")
    else:
        write_settings(path, place.below, after)
        emit(f"{'removed' if after is None else 'cleaned'}  {shown}\n")
    _uninstall_transaction(environ, user=args.user)
    return PASS


def hooks() -> dict[str, list[dict[str, Any]]]:
    """Our groups by event. Exec form and a bare interpreter: no shell, no site, nothing from the repository."""
    groups: dict[str, list[dict[str, Any]]] = {
        event: [{"hooks": [_hook(capture.__file__, CAPTURE_TIMEOUT_S) | _in_background(event)]}] for event in CAPTURED
    }
    groups["PreToolUse"] = [
        {"matcher": matcher, "hooks": [_hook(guard.__file__, GUARD_TIMEOUT_S)]} for matcher in GUARDED_TOOLS
    ]
    return groups


def _hook(script: str, timeout_s: int) -> dict[str, Any]:
    return {"type": "command", "command": sys.executable, "args": ["-I", "-S", script], "timeout": timeout_s}


def _in_background(event: str) -> dict[str, Any]:
    return {} if event in LAST else {"async": True}


@dataclass(frozen=True, slots=True)
class _Place:
    """The settings file, and the folder from which on no link may lead to it."""

    path: Path
    below: Path


def _place(args: argparse.Namespace, environ: Mapping[str, str]) -> _Place:
    if args.user:
        home = environ.get("CLAUDE_CONFIG_DIR") or (f"{environ['HOME']}/.claude" if environ.get("HOME") else "")
        if not home:
            raise UsageError("neither HOME nor CLAUDE_CONFIG_DIR is set: there is no place for your own settings.")
        folder = Path(os.path.abspath(home))  # noqa: PTH100
        return _Place(folder / "settings.json", folder)
    with open_repository(Path.cwd(), environ) as repository:
        root = repository.root
    name = "settings.local.json" if args.local else "settings.json"
    return _Place(root / ".claude" / name, root)
