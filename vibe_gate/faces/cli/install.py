"""`vibe-gate install` and `uninstall`: the gate in git's hooks (`git`) or in Claude Code's settings (`claude`)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from vibe_gate import __version__
from vibe_gate.domain import paths
from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.errors import PASS, GateError, UsageError
from vibe_gate.faces.claude_hook.settings import add_hooks, drop_hooks, own_hooks, read_settings, write_settings
from vibe_gate.faces.cli.command import Command, argument, group
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.faces.git_hook import install as git_hooks
from vibe_gate.faces.git_hook.install import TRANSACTION
from vibe_gate.git import Repository, open_repository

GIT = "git's own hooks, for repositories without a hook framework; those that are there are kept and run first."

CLAUDE = "Claude Code: capture its sessions, and refuse commits that go around the gate."

SHARED = argument("--shared", action="store_true", help="settings.json: for everyone who works here")


def _install_claude(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Merge our hooks into the settings, and add git's hook that refuses an agent's bypass; twice is once."""
    with open_repository(Path.cwd(), environ) as repository:
        path, shown = _settings(repository, args)
        before = read_settings(path, repository.root)
        after = add_hooks(before, own_hooks(shared=args.shared), shown)
        if after == before:
            emit(f"unchanged  {shown} (capture and guard are there already)\n")
        else:
            write_settings(path, repository.root, after)
            emit(f"{'wrote' if before is None else 'merged'}  capture and guard into {shown}\n")
            if args.shared:
                complain("Its hooks run `vibe-gate`, so everyone who works here needs it on PATH.")
                complain("It affects agents: where .vibe-gate/ is in force, a review shows its change as a warning.")
            elif before is None:
                complain(
                    "Its hooks name programs of this machine: list the file in .gitignore, so that no commit has it."
                )
            complain("Restart running sessions of Claude Code to load it.")
        try:  # what the guard cannot see, git refuses
            emit("\n".join(git_hooks.install(repository, __version__, (TRANSACTION,))) + "\n")
        except GateError as error:
            complain(f"git's {TRANSACTION} hook was not installed: {error}")
        if not git_hooks.has_gate(repository):
            complain("No gate at commits yet: run `vibe-gate install git`, or use pre-commit or prek.")
    return PASS


def _uninstall_claude(args: argparse.Namespace, repository: Repository) -> None:
    """Take our hooks out of the settings; a file that holds nothing else goes, and its folder if it is empty then.

    Git's hook goes with them, unless it belongs to `install git`.
    """
    path, shown = _settings(repository, args)
    text = read_settings(path, repository.root)
    if text is None or (after := drop_hooks(text, shown)) == text:
        emit(f"unchanged  {shown} (no hooks of vibe-gate there; --shared means another file)\n")
    else:
        write_settings(path, repository.root, after)
        emit(f"{'removed' if after is None else 'cleaned'}  {shown}\n")
    ours = git_hooks.owner(repository.hooks_folder() / TRANSACTION) == "vibe-gate"
    if ours and not git_hooks.has_gate(repository):
        emit("\n".join(git_hooks.uninstall(repository, (TRANSACTION,))) + "\n")


def _settings(repository: Repository, args: argparse.Namespace) -> tuple[Path, str]:
    """The file of Claude Code's settings, and how it is shown."""
    path = repository.root / ".claude" / ("settings.json" if args.shared else "settings.local.json")
    return path, paths.quote(str(path))


def _install(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    with open_repository(Path.cwd(), environ) as repository:
        emit("\n".join(git_hooks.install(repository, __version__)) + "\n")
    return PASS


def _uninstall(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """UsageError for an agent: a person decides about the gate."""
    if name := next((name for name in AGENT_COMMANDS if environ.get(name)), ""):
        raise UsageError(f"{name} is set: an agent may not remove the gate. Ask the user to run `vibe-gate uninstall`.")
    with open_repository(Path.cwd(), environ) as repository:
        if args.subcommand == "claude":
            _uninstall_claude(args, repository)
            return PASS
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
        "claude": Command(CLAUDE, (SHARED,), _install_claude),
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
        "claude": Command(CLAUDE, (SHARED,), _uninstall),
    },
)
