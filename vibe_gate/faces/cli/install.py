"""`vibe-gate install` and `uninstall`: the gate in git's hooks, or in the settings of a coding
agent.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.escape import safe
from vibe_gate.domain.provenance import AGENT_COMMANDS
from vibe_gate.errors import PASS, USAGE, GateError, UsageError
from vibe_gate.faces.agent_hook import turn_switch
from vibe_gate.faces.agent_hook.exclude import exclude, remove_exclusion
from vibe_gate.faces.agent_hook.hooked_agents import AGENTS, Groups, HookedAgent
from vibe_gate.faces.agent_hook.plugin_settings import find_plugin
from vibe_gate.faces.agent_hook.settings import (
    add_hooks,
    drop_hooks,
    has_script,
    hooks_of,
    read_settings,
    write_file,
    write_settings,
)
from vibe_gate.faces.cli.command import Command, argument, group, parse_nothing
from vibe_gate.faces.cli.output import complain, emit, is_terminal, open_repository_here
from vibe_gate.faces.git_hook import install as git_hooks
from vibe_gate.faces.git_hook.frameworks import TRANSACTION, owner
from vibe_gate.faces.git_hook.gate_start import forget_gate_start, record_gate_start
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.git import Repository
from vibe_gate.store.clone_state import open_state
from vibe_gate.version import __version__

GIT = "git's own hooks; those that are there are kept and run first. Beside a framework: what to add to its settings."

CAPTURED = "{0}: capture its sessions, and refuse commits that go around the gate."

TRACED = argument(
    "--trace",
    action="store_true",
    help="also keep Agent Trace records of captured sessions in git notes",
)

SHARED = argument(
    "--shared", action="store_true", help="settings.json: for everyone who works here"
)
USER = argument(
    "--user", action="store_true", help="your own settings: for every repository with a gate"
)
STOP = argument(
    "--stop",
    action="store_true",
    help="review at the end of each turn what the agent wrote; a fail goes back to it",
)
NO_STOP = argument(
    "--no-stop", action="store_true", help="do not review at the end of a turn (people only)"
)

STOP_QUESTION = """\
vibe-gate can review what {0} wrote whenever it ends its turn: by checks, offline,
in half a second ([hooks.stop] in .vibe-gate/gate.toml says more). If they fail, {0}
gets the findings and goes on, at most three times a prompt.
Do that? [Y/n] """

STOP_ADVICE = "The end of a turn is not reviewed: `vibe-gate install {0} --stop` adds that."

SWITCHED_OFF = (
    "The end of a turn is not reviewed in this clone, nor by hooks of other settings or of a plugin: "
    "`vibe-gate install {0} --stop` adds that."
)

PLUGIN_STAYS = (
    "The plugin {1} for {0} is enabled, and its hooks act as before: "
    "`/plugin disable {1}` in {0}{2}."
)

NO_STOP_HERE = ", or `vibe-gate install {0} --no-stop` in a clone, ends the reviews of turns"
"""What else ends a review by the plugin."""

PLUGIN_REMAINS = " ends that"

Place = Literal["local", "shared", "user"]
"""Whose settings of an agent: of this machine in a repository, of everyone in it, or a person's."""


def _parse_place(args: argparse.Namespace) -> Place:
    if args.shared and args.user:
        raise UsageError("--shared and --user mean different files; give one of them.")
    if args.shared:
        return "shared"
    if args.user:
        return "user"
    return "local"


def _parse_own_place(args: argparse.Namespace) -> Place:
    """Of an agent with one file in a repository: that one, or a person's own."""
    return "user" if args.user else "local"


class AgentInstallation(Struct, frozen=True):
    """The arguments of `vibe-gate install AGENT`."""

    place: Place
    stop_gate: bool | None
    """Whether turns are reviewed when they end; None: as it is, or as the person answers."""


def _parse_installation(args: argparse.Namespace) -> AgentInstallation:
    if args.stop and args.no_stop:
        raise UsageError("--stop and --no-stop contradict each other; give one of them.")
    stop_gate = True if args.stop else None
    return AgentInstallation(_parse_place(args), False if args.no_stop else stop_gate)


def _settle_wish(agent: HookedAgent, wish: bool | None, hooks: Groups) -> bool | None:
    """Whether the end of a turn is to be reviewed, as the command says or the person at the terminal
    answers; None: as it is. UsageError for an agent that takes it away.
    """
    if wish is False:
        _refuse_agents()
    if wish is not None or hooks or not _can_ask():
        return wish
    emit(STOP_QUESTION.format(agent.title))
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _hooks_at(path: Path, below: Path) -> Groups:
    """Our hooks in the settings at `path`."""
    return hooks_of(read_settings(path, below) or "{}", paths.quote(str(path)))


def _switch_file(repository: Repository, agent: HookedAgent) -> Path:
    """The file that is there if turns of the agent are not reviewed in this clone."""
    common_dir = os.fsencode(repository.common_dir)
    return Path(os.fsdecode(turn_switch.switch_file(common_dir, agent.name)))


def _record_wish(repository: Repository, agent: HookedAgent, wish: bool) -> None:
    """Keep for all hooks of the agent in this clone, a plugin's too, whether turns are reviewed."""
    file = _switch_file(repository, agent)
    if not wish:
        write_file(file, repository.common_dir, b"")
    elif file.exists():
        write_file(file, repository.common_dir, None)


def _plugin_note(agent: HookedAgent, root: Path | None, remedy: str) -> None:
    """Say that a plugin brings the same hooks, whatever the settings have; nothing without one."""
    plugin = find_plugin(agent, root, read_process_environment().variables)
    if plugin:
        complain(PLUGIN_STAYS.format(agent.title, safe(plugin), remedy))


def _can_ask() -> bool:
    """Whether a person is at the terminal."""
    is_agent = any(read_process_environment().variables.get(name) for name in AGENT_COMMANDS)
    return not is_agent and sys.stdin is not None and sys.stdin.isatty() and is_terminal()


STOP_EXAMPLES = """\
at the end of a turn (--stop):
  A fail in a file that the session wrote goes back to the agent: the findings,
  and how to repair them. With unchanged files, or after three rounds, it may
  stop. Findings elsewhere, and reviews that could not be made, are told to you.
  .vibe-gate/gate.toml, [hooks.stop]:  review = "never" | "checks" | "judge",
  max_rounds = 3, deadline_s = 120
"""


def _install_agent(agent: HookedAgent, installation: AgentInstallation) -> int:
    """Merge our hooks into the settings, and add git's hook that refuses an agent's bypass.

    Twice is once.
    """
    if installation.place == "user":
        _install_for_user(agent, installation)
        return PASS
    with open_repository_here() as repository:
        is_shared = installation.place == "shared"
        _install_in_repository(agent, installation, repository, is_shared=is_shared)
        if not is_shared:
            for note in _worktree_notes(agent):
                complain(note)
            _exclude(repository, agent)
        elif agent.has_one_file:
            _take_back(repository, agent)
        _install_git_guard(repository)
    return PASS


def _restart_note(agent: HookedAgent) -> str:
    return f"Restart running sessions of {agent.title} to load it.\n"


def _install_for_user(agent: HookedAgent, installation: AgentInstallation) -> None:
    """Merge our hooks into the settings of all repositories."""
    path = agent.user_settings(read_process_environment().variables)
    hooks = _hooks_at(path, path.parent)
    wish = _settle_wish(agent, installation.stop_gate, hooks)
    stop_gate = has_script(hooks, "stop") if wish is None else wish
    if _add(path, path.parent, agent.hooks(user=True, stop_gate=stop_gate)):
        emit(_restart_note(agent))
        complain(
            "Its hooks work in repositories that use vibe-gate (.vibe-gate/, its git hooks or its records)."
        )
        complain(
            "Elsewhere they do nothing. If a project's settings have these hooks too, events are kept once."
        )
        complain(
            "Run `vibe-gate install git` in each repository: git then refuses commits past its hooks."
        )
    if not stop_gate:
        complain(STOP_ADVICE.format(f"{agent.name} --user"))
        _plugin_note(agent, None, NO_STOP_HERE.format(agent.name))


def _install_in_repository(
    agent: HookedAgent,
    installation: AgentInstallation,
    repository: Repository,
    *,
    is_shared: bool,
) -> None:
    """Merge our hooks into the settings of the working tree, or of everyone who works in it."""
    _require_own_file(agent, repository, is_shared=is_shared)
    path = _settings(repository, agent, is_shared=is_shared)
    hooks = _hooks_at(path, repository.root)
    wish = _settle_wish(agent, installation.stop_gate, hooks)
    stop_gate = has_script(hooks, "stop") if wish is None else wish
    if wish is not None:
        _record_wish(repository, agent, wish)
    if _add(path, repository.root, agent.hooks(shared=is_shared, stop_gate=stop_gate)):
        emit(_restart_note(agent))
        if is_shared:
            complain("Its hooks run `vibe-gate`, so everyone who works here needs it on PATH.")
            complain(
                "It affects agents: where .vibe-gate/ is in force, a review shows its change as a warning."
            )
        for note in agent.notes:
            complain(note)
    option = " --shared" if is_shared else ""
    if wish is False:
        complain(SWITCHED_OFF.format(agent.name + option))
        return
    is_switched_off = _switch_file(repository, agent).exists()
    if is_switched_off or not stop_gate:
        complain(STOP_ADVICE.format(agent.name + option))
    if not is_switched_off and not stop_gate:
        _plugin_note(agent, repository.root, NO_STOP_HERE.format(agent.name))


def _install_git_guard(repository: Repository) -> None:
    """Add git's hook for what the guard of an agent cannot see, and say what else is missing."""
    try:
        installed = git_hooks.install(repository, __version__, (TRANSACTION,))
        emit("\n".join(installed.lines) + "\n")
    except GateError as error:
        complain(f"git's {TRANSACTION} hook was not installed: {error}")
    if not git_hooks.has_gate(repository):
        complain(
            "No gate at commits yet, and git refuses nothing until there is: run `vibe-gate install git`."
        )
        complain(
            "If a framework manages the hooks, it prints what to add to the framework's settings."
        )


def _worktree_notes(agent: HookedAgent) -> tuple[str, ...]:
    """What settings of one working tree mean for sessions in the others, a line each."""
    remedy = f"run `vibe-gate install {agent.name}` in each, or use --user."
    if agent.copies_settings:
        copied = f"{agent.title} copies this file into worktrees that it makes itself (--worktree)."
        return (copied, f"Those of `git worktree add` are without it: {remedy}")
    return (f"Other worktrees of this repository are without it: {remedy}",)


def _require_own_file(agent: HookedAgent, repository: Repository, *, is_shared: bool) -> None:
    """UsageError if this machine's hooks would go into a file that git tracks and that is the only
    one.
    """
    if agent.has_one_file and not is_shared and repository.tracked(agent.local):
        raise UsageError(
            f"git tracks {agent.local}, and {agent.title} has no settings for one machine in a repository: "
            f"use `install {agent.name} --shared` or `--user`. Nothing was changed."
        )


def _exclude(repository: Repository, agent: HookedAgent) -> None:
    """Keep the settings out of commits: their hooks name programs of this machine."""
    local = agent.local
    try:
        if exclude(repository.common_dir, agent):
            emit(f"added  {local} to {paths.quote(str(repository.common_dir))}/info/exclude\n")
    except GateError as error:
        complain(
            f"{local} names programs of this machine, and git was not told to ignore it: {error}"
        )
    if repository.tracked(local):
        complain(
            f"git tracks {local}, whose hooks name programs of this machine: "
            f"run `git rm --cached {local}`, so that no commit has it."
        )


def _add(path: Path, below: Path, hooks: Groups) -> bool:
    """Put our hooks into the settings at `path` and say so; whether that changed them."""
    quoted_path = paths.quote(str(path))
    before = read_settings(path, below)
    after = add_hooks(before, hooks, quoted_path)
    scripts = "capture, guard and stop" if has_script(hooks, "stop") else "capture and guard"
    if after == before:
        emit(f"unchanged  {quoted_path} ({scripts} are there already)\n")
        return False
    write_settings(path, below, after)
    emit(f"{'wrote' if before is None else 'merged'}  {scripts} into {quoted_path}\n")
    return True


def _uninstall_agent(agent: HookedAgent, place: Place) -> int:
    """Take our hooks out of the settings.

    git's hook goes with those of a project, unless it belongs to `install git`. UsageError for an
    agent: a person decides about the gate.
    """
    _refuse_agents()
    if place == "user":
        path = agent.user_settings(read_process_environment().variables)
        _drop(agent, path, path.parent)
        _plugin_note(agent, None, PLUGIN_REMAINS)
        return PASS
    with open_repository_here() as repository:
        is_shared = place == "shared"
        _drop(agent, _settings(repository, agent, is_shared=is_shared), repository.root)
        if not is_shared:
            _take_back(repository, agent)
        ours = owner(repository.hooks_folder() / TRANSACTION) == "vibe-gate"
        if ours and not git_hooks.is_written_whole(repository):
            emit("\n".join(git_hooks.uninstall(repository, (TRANSACTION,))) + "\n")
        _plugin_note(agent, repository.root, PLUGIN_REMAINS)
    return PASS


def _take_back(repository: Repository, agent: HookedAgent) -> None:
    """Undo `_exclude`; where that cannot be done, what else there is to do is still done."""
    try:
        if remove_exclusion(repository.common_dir, agent, repository.other_worktrees()):
            emit(
                f"removed  {agent.local} from {paths.quote(str(repository.common_dir))}/info/exclude\n"
            )
    except GateError as error:
        complain(f"Whether git ignores {agent.local} was not looked at: {error}")


def _drop(agent: HookedAgent, path: Path, below: Path) -> None:
    """Take our hooks out of the agent's settings at `path`; a file with nothing else goes, and its
    folder if it is empty.
    """
    other_files = "--shared and --user mean other files"
    if agent.has_one_file:
        other_files = "--user means another file"
    quoted_path = paths.quote(str(path))
    text = read_settings(path, below)
    if text is None or (after := drop_hooks(text, quoted_path)) == text:
        emit(f"unchanged  {quoted_path} (no hooks of vibe-gate there; {other_files})\n")
    else:
        write_settings(path, below, after)
        emit(f"{'removed' if after is None else 'cleaned'}  {quoted_path}\n")


def _settings(repository: Repository, agent: HookedAgent, *, is_shared: bool) -> Path:
    """The file of the agent's settings in a repository."""
    return repository.root / (agent.shared if is_shared else agent.local)


def _parse_trace(args: argparse.Namespace) -> bool:
    """Whether Agent Trace records are kept."""
    return bool(args.trace)


def _install(keeps_traces: bool) -> int:
    with open_repository_here() as repository:
        has_hook_records = bool(open_state(repository.common_dir).hook_records.all())
        record_gate_start(repository, int(time.time()), has_hook_records=has_hook_records)
        installation = git_hooks.install(repository, __version__)
        lines = [*installation.lines, *(git_hooks.trace(repository) if keeps_traces else ())]
    emit("\n".join(lines) + "\n")
    if installation.advice:
        complain(installation.advice)
        return USAGE
    return PASS


def _refuse_agents() -> None:
    """UsageError for an agent: a person decides about the gate."""
    for name in AGENT_COMMANDS:
        if read_process_environment().variables.get(name):
            raise UsageError(
                f"{name} is set: an agent may not remove the gate. Ask the user to run `vibe-gate uninstall`."
            )


def _uninstall(arguments: None) -> int:
    _refuse_agents()
    with open_repository_here() as repository:
        forget_gate_start(repository)
        lines = [*git_hooks.uninstall(repository), *git_hooks.untrace(repository)]
        records = repository.common_dir / "vibe-gate"
    if records.is_dir() and any(records.iterdir()):
        records_kept = "Review records, overrides, paid answers and spending"
        lines.append(f"{records_kept} stay in {paths.quote(str(records))} (safe to delete).")
    emit("\n".join(lines) + "\n")
    return PASS


def _install_commands() -> dict[str, Command[Any]]:
    """A subcommand for each agent."""
    commands: dict[str, Command[Any]] = {}
    for name, agent in AGENTS.items():
        options = (SHARED, USER, STOP, NO_STOP)
        run = partial(_install_agent, agent)
        commands[name] = Command(
            CAPTURED.format(agent.title), options, _parse_installation, run, examples=STOP_EXAMPLES
        )
    return commands


def _uninstall_commands() -> dict[str, Command[Any]]:
    """A subcommand for each agent."""
    commands: dict[str, Command[Any]] = {}
    for name, agent in AGENTS.items():
        summary = CAPTURED.format(agent.title)
        run = partial(_uninstall_agent, agent)
        if agent.has_one_file:
            commands[name] = Command(summary, (USER,), _parse_own_place, run)
        else:
            commands[name] = Command(summary, (SHARED, USER), _parse_place, run)
    return commands


INSTALL = group(
    "Put the gate where work happens: into git's hooks, or into those of a coding agent.",
    """\
examples:
  vibe-gate install git               hooks for commit, merge and push
  vibe-gate install git --trace       and records of who wrote which lines
  vibe-gate install claude            for you, in .claude/settings.local.json
  vibe-gate install claude --stop     and review at the end of each turn
  vibe-gate install claude --shared   for everyone, in .claude/settings.json
  vibe-gate install claude --user     in your own settings, for every repository
  vibe-gate install gemini            for you, in .gemini/settings.json
  vibe-gate install codex             for you, in .codex/hooks.json
""",
    {
        "git": Command(GIT, (TRACED,), _parse_trace, _install),
        **_install_commands(),
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
        "git": Command(GIT, (), parse_nothing, _uninstall),
        **_uninstall_commands(),
    },
)
