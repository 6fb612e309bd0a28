"""`vibe-gate install` and `uninstall`: the gate in git's hooks (`git`) or in Claude Code's settings (`claude`)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from vibe_gate import __version__
from vibe_gate.domain import paths
from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.errors import PASS, GateError, UsageError
from vibe_gate.faces.claude_hook.exclude import LOCAL_SETTINGS, exclude, take_back
from vibe_gate.faces.claude_hook.settings import (
    Groups,
    add_hooks,
    drop_hooks,
    own_hooks,
    read_settings,
    user_settings,
    write_settings,
)
from vibe_gate.faces.cli.command import Command, argument, group
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.faces.git_hook import install as git_hooks
from vibe_gate.faces.git_hook.install import TRANSACTION
from vibe_gate.git import Repository, open_repository

GIT = "git's own hooks, for repositories without a hook framework; those that are there are kept and run first."

RESTART = "Restart running sessions of Claude Code to load it."

CLAUDE = "Claude Code: capture its sessions, and refuse commits that go around the gate."

SHARED = argument("--shared", action="store_true", help="settings.json: for everyone who works here")


USER = argument("--user", action="store_true", help="your own settings: for every repository with a gate")


def _install_claude(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Merge our hooks into the settings, and add git's hook that refuses an agent's bypass; twice is once."""
    _require_one_place(args)
    if args.user:
        path = user_settings(environ)
        if _add(path, path.parent, own_hooks(user=True)):
            complain("Its hooks work in repositories that use vibe-gate (.vibe-gate/, its git hooks or its records).")
            complain("Elsewhere they do nothing. If a project's settings have these hooks too, events are kept once.")
            complain("Run `vibe-gate install git` in each repository: git then refuses commits past its hooks.")
            complain(RESTART)
        return PASS
    with open_repository(Path.cwd(), environ) as repository:
        path = _settings(repository, args)
        if _add(path, repository.root, own_hooks(shared=args.shared)):
            if args.shared:
                complain("Its hooks run `vibe-gate`, so everyone who works here needs it on PATH.")
                complain("It affects agents: where .vibe-gate/ is in force, a review shows its change as a warning.")
            complain(RESTART)
        if not args.shared:
            _exclude(repository)
        try:  # what the guard cannot see, git refuses
            emit("\n".join(git_hooks.install(repository, __version__, (TRANSACTION,))) + "\n")
        except GateError as error:
            complain(f"git's {TRANSACTION} hook was not installed: {error}")
        if not git_hooks.has_gate(repository):
            complain("No gate at commits yet: run `vibe-gate install git`, or use pre-commit or prek.")
    return PASS


def _exclude(repository: Repository) -> None:
    """Keep the settings out of commits: their hooks name programs of this machine."""
    try:
        if exclude(repository.common_dir):
            emit(f"added  {LOCAL_SETTINGS} to {paths.quote(str(repository.common_dir))}/info/exclude\n")
    except GateError as error:
        complain(f"{LOCAL_SETTINGS} names programs of this machine, and git was not told to ignore it: {error}")
    if repository.tracked(LOCAL_SETTINGS):
        complain(
            f"git tracks {LOCAL_SETTINGS}, whose hooks name programs of this machine: "
            f"run `git rm --cached {LOCAL_SETTINGS}`, so that no commit has it."
        )


def _add(path: Path, below: Path, hooks: Groups) -> bool:
    """Put our hooks into the settings at `path` and say so; whether that changed them."""
    shown = paths.quote(str(path))
    before = read_settings(path, below)
    after = add_hooks(before, hooks, shown)
    if after == before:
        emit(f"unchanged  {shown} (capture and guard are there already)\n")
        return False
    write_settings(path, below, after)
    emit(f"{'wrote' if before is None else 'merged'}  capture and guard into {shown}\n")
    return True


def _uninstall_claude(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Take our hooks out of the settings; git's hook goes with a project's, unless it belongs to `install git`."""
    _require_one_place(args)
    if args.user:
        path = user_settings(environ)
        _drop(path, path.parent)
        return PASS
    with open_repository(Path.cwd(), environ) as repository:
        _drop(_settings(repository, args), repository.root)
        if not args.shared:
            _take_back(repository)
        ours = git_hooks.owner(repository.hooks_folder() / TRANSACTION) == "vibe-gate"
        if ours and not git_hooks.has_gate(repository):
            emit("\n".join(git_hooks.uninstall(repository, (TRANSACTION,))) + "\n")
    return PASS


def _take_back(repository: Repository) -> None:
    """Undo `_exclude`; where that cannot be done, what else there is to uninstall is still uninstalled."""
    try:
        if take_back(repository.common_dir, repository.other_worktrees()):
            emit(f"removed  {LOCAL_SETTINGS} from {paths.quote(str(repository.common_dir))}/info/exclude\n")
    except GateError as error:
        complain(f"Whether git ignores {LOCAL_SETTINGS} was not looked at: {error}")


def _drop(path: Path, below: Path) -> None:
    """Take our hooks out of the settings at `path`; a file with nothing else goes, and its folder if it is empty."""
    shown = paths.quote(str(path))
    text = read_settings(path, below)
    if text is None or (after := drop_hooks(text, shown)) == text:
        emit(f"unchanged  {shown} (no hooks of vibe-gate there; --shared and --user mean other files)\n")
    else:
        write_settings(path, below, after)
        emit(f"{'removed' if after is None else 'cleaned'}  {shown}\n")


def _require_one_place(args: argparse.Namespace) -> None:
    if args.shared and args.user:
        raise UsageError("--shared and --user mean different files; give one of them.")


def _settings(repository: Repository, args: argparse.Namespace) -> Path:
    """The file of Claude Code's settings in a repository."""
    return repository.root / (".claude/settings.json" if args.shared else LOCAL_SETTINGS)


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
  vibe-gate install claude --user     in your own settings, for every repository
""",
    {
        "git": Command(GIT, (), _install),
        "claude": Command(CLAUDE, (SHARED, USER), _install_claude),
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
        "claude": Command(CLAUDE, (SHARED, USER), _uninstall),
    },
)
