"""`vibe-gate install` and `uninstall`: the gate in git's hooks (`git`) or in Claude Code's settings (`claude`)."""

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
from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.errors import PASS, GateError, UsageError
from vibe_gate.faces.claude_hook import capture, guard
from vibe_gate.faces.claude_hook.settings import add_hooks, drop_hooks, read_settings, write_settings
from vibe_gate.faces.cli.dispatch import Command, group
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.faces.git_hook import install as git_hooks
from vibe_gate.faces.git_hook.install import TRANSACTION
from vibe_gate.git import open_repository

GIT = "git's own hooks, for repositories without a hook framework; those that are there are kept and run first."

CLAUDE = "Claude Code: capture its sessions, and refuse commits that go around the gate."

CAPTURED = (
    "SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PermissionDenied", "Notification",
    "SubagentStart", "SubagentStop", "PreCompact", "Stop", "SessionEnd",
)  # fmt: skip
"""What is kept of a session. PostToolUse says all that PreToolUse does, and how long the call took."""

LAST = frozenset({"Stop", "SessionEnd"})
"""Claude Code may end right after them, and takes hooks in the background with it."""

GUARDED_TOOLS = "Bash|Edit|MultiEdit|Write|NotebookEdit"
"""A matcher. Names alone are compared whole; in a pattern "Edit" would stand for other tools as well."""

CAPTURE_TIMEOUT_S = 10
GUARD_TIMEOUT_S = 5  # it takes a hundredth of a second; when time is up, Claude Code goes on without it


def _add_place(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--shared", action="store_true", help="settings.json: for everyone who works here")
    where.add_argument("--user", action="store_true", help="your own settings: for every repository")


def _install_claude(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Merge our hooks into the settings, and add git's hook that refuses an agent's bypass; twice is once."""
    place = _place(args, environ)
    path, shown = place.path, paths.quote(str(place.path))
    before = read_settings(path, place.below)
    after = add_hooks(before, hooks(shared=args.shared), shown)
    if after == before:
        emit(f"unchanged  {shown} (capture and guard are there already)\n")
    else:
        write_settings(path, place.below, after)
        emit(f"{'wrote' if before is None else 'merged'}  capture and guard into {shown}\n")
        if args.shared:
            complain("Its hooks run `vibe-gate`, so everyone who works here needs it on PATH.")
            complain("It affects agents: where .vibe-gate/ is in force, a review shows its change as a warning.")
        elif before is None and not args.user:
            complain("Its hooks name programs of this machine: list the file in .gitignore, so that no commit has it.")
        complain("Restart running sessions of Claude Code to load it.")
    _install_transaction(environ, user=args.user)
    return PASS


def _install_transaction(environ: Mapping[str, str], *, user: bool) -> None:
    """Add git's reference-transaction hook: what the guard cannot see, git refuses."""
    if user:
        return complain("Run `vibe-gate install git` in each repository: git then refuses commits past its hooks.")
    with open_repository(Path.cwd(), environ) as repository:
        try:
            emit("\n".join(git_hooks.install(repository, __version__, (TRANSACTION,))) + "\n")
        except GateError as error:
            complain(f"git's {TRANSACTION} hook was not installed: {error}")
        if not git_hooks.has_gate(repository):
            complain("No gate at commits yet: run `vibe-gate install git`, or use pre-commit or prek.")
    return None


def _uninstall_transaction(environ: Mapping[str, str]) -> None:
    """Remove it again, unless it belongs to `install git`."""
    with open_repository(Path.cwd(), environ) as repository:
        ours = git_hooks.owner(repository.hooks_folder() / TRANSACTION) == "vibe-gate"
        if ours and not git_hooks.has_gate(repository):
            emit("\n".join(git_hooks.uninstall(repository, (TRANSACTION,))) + "\n")


def _uninstall_claude(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Take our hooks out of the settings; a file that holds nothing else goes, and its folder if it is empty then."""
    place = _place(args, environ)
    path, shown = place.path, paths.quote(str(place.path))
    text = read_settings(path, place.below)
    if text is None or (after := drop_hooks(text, shown)) == text:
        emit(f"unchanged  {shown} (no hooks of vibe-gate there; --shared and --user mean other files)\n")
    else:
        write_settings(path, place.below, after)
        emit(f"{'removed' if after is None else 'cleaned'}  {shown}\n")
    if not args.user:
        _uninstall_transaction(environ)
    return PASS


def hooks(*, shared: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Our groups by event, in exec form: no shell. `shared`: what every machine has, `vibe-gate` on PATH.

    Otherwise a bare interpreter, which starts in a tenth of the time: no site, nothing from the repository.
    """
    seen = _hook("capture" if shared else capture.__file__, CAPTURE_TIMEOUT_S)
    guarded = _hook("guard" if shared else guard.__file__, GUARD_TIMEOUT_S)
    groups: dict[str, list[dict[str, Any]]] = {
        event: [{"hooks": [seen if event in LAST else seen | {"async": True}]}] for event in CAPTURED
    }
    return groups | {"PreToolUse": [{"matcher": GUARDED_TOOLS, "hooks": [guarded]}]}


def _hook(script: str, timeout_s: int) -> dict[str, Any]:
    """`script`: a file for a bare interpreter, or a command of `vibe-gate`."""
    own = [sys.executable, "-I", "-S", script] if script.endswith(".py") else ["vibe-gate", script]
    return {"type": "command", "command": own[0], "args": own[1:], "timeout": timeout_s}


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
    name = "settings.json" if args.shared else "settings.local.json"
    return _Place(root / ".claude" / name, root)


def _install(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with open_repository(Path.cwd(), environ) as repository:
        emit("\n".join(git_hooks.install(repository, __version__)) + "\n")
    return PASS


def _uninstall(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """UsageError for an agent: a person decides about the gate."""
    if name := next((name for name in AGENT_COMMANDS if environ.get(name)), ""):
        raise UsageError(f"{name} is set: an agent may not remove the gate. Ask the user to run `vibe-gate uninstall`.")
    if args.subcommand == "claude":
        return _uninstall_claude(args, environ)
    with open_repository(Path.cwd(), environ) as repository:
        lines = git_hooks.uninstall(repository)
        records = repository.common_dir / "vibe-gate"
    if records.is_dir() and any(records.iterdir()):
        kept = "Review records, overrides, paid answers and spending"
        lines.append(f"{kept} stay in {paths.quote(str(records))} (safe to delete).")
    emit("\n".join(lines) + "\n")
    return PASS


INSTALL = group(
    "Put the gate where work happens: into git's hooks, or into Claude Code's.",
    """\
examples:
  vibe-gate install git               hooks for commit, merge and push
  vibe-gate install claude            for you, in .claude/settings.local.json
  vibe-gate install claude --shared   for everyone, in .claude/settings.json
""",
    {
        "git": Command(GIT, (), _install),
        "claude": Command(CLAUDE, (_add_place,), _install_claude),
    },
)

UNINSTALL = group(
    "Take the gate away again from where `install` put it; everything else stays as it is.",
    """\
examples:
  vibe-gate uninstall git             git's hooks as they were before
  vibe-gate uninstall claude          our hooks out of Claude Code's settings
""",
    {
        "git": Command(GIT, (), _uninstall),
        "claude": Command(CLAUDE, (_add_place,), _uninstall),
    },
)
