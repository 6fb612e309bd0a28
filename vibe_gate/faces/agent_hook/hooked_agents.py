"""The agents into whose settings hooks are installed: their files, and what their hooks look like
there.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError
from vibe_gate.faces.agent_hook import capture, guard, spool, stop

Groups = Mapping[str, Sequence[Mapping[str, Any]]]
"""Event -> groups of hooks, as the settings hold them."""

CAPTURE_TIMEOUT_S = 10
GUARD_TIMEOUT_S = 5
"""It takes a hundredth of a second; when time is up, the agent goes on without it."""

STOP_TIMEOUT_S = 660
"""Longer than any `[hooks.stop] deadline_s`, with what a review may take beyond it."""


class HookedAgent(Struct, frozen=True):
    """An agent, its files of settings, and the events to which our hooks are bound."""

    name: str
    title: str
    local: str
    """The repository's settings of this machine alone, from the root."""
    shared: str
    """The repository's settings that are committed, from the root."""
    user_folder: Callable[[Mapping[str, str]], str]
    """Gives the folder of the user's own settings, by the environment's variables."""
    captured: tuple[str, ...]
    """The events that are recorded of a session."""
    guarding: str
    """The event before a tool runs."""
    guarded: str
    """The matcher of the tools that the guard looks at."""
    hook: Callable[[str, tuple[str, ...], int], dict[str, Any]]
    """Makes a hook of a script, its arguments and its seconds."""
    stopping: str
    """The event at the end of a turn."""
    background: frozenset[str] = frozenset()
    """The recorded events that the agent does not wait for."""
    user_file: str = "settings.json"
    """The name of the user's own settings."""
    notes: tuple[str, ...] = ()
    """What a person has to know after the installation."""
    copies_settings: bool = False
    """Whether it copies `local` into linked worktrees that it makes."""
    plugin: str = ""
    """The plugin for it that brings the same hooks, by its name before "@"; "" without one."""

    @property
    def has_one_file(self) -> bool:
        """Whether a repository has one file of its settings, of this machine or committed."""
        return self.local == self.shared

    @property
    def argument(self) -> tuple[str, ...]:
        """How its hooks name it to the scripts; Claude Code's, which are older, do not."""
        if self.name not in spool.PROJECT_SETTINGS:
            return ()
        return (self.name,)

    def hooks(
        self, *, shared: bool = False, user: bool = False, stop_gate: bool = False
    ) -> dict[str, list[dict[str, Any]]]:
        """Our groups by event. `shared`: what every machine has, `vibe-gate` on PATH.

        Otherwise a bare interpreter, which starts in a tenth of the time: no site, nothing from the
        repository.
        `user`: they do nothing where vibe-gate is not used. `stop_gate`: with the one that reviews
        at the end of a turn.
        """
        arguments = (*self.argument, spool.USER) if user else self.argument
        capture_script = "capture" if shared else capture.__file__
        guard_script = "guard" if shared else guard.__file__
        stop_script = "stop" if shared else stop.__file__

        groups: dict[str, list[dict[str, Any]]] = {}
        for event in self.captured:
            capture_hook = self.hook(capture_script, arguments, CAPTURE_TIMEOUT_S)
            if event in self.background:
                capture_hook["async"] = True
            groups[event] = [{"hooks": [capture_hook]}]
        if stop_gate:
            stop_hook = self.hook(stop_script, arguments, STOP_TIMEOUT_S)
            groups[self.stopping].append({"hooks": [stop_hook]})
        guard_hook = self.hook(guard_script, arguments, GUARD_TIMEOUT_S)
        groups[self.guarding] = [{"matcher": self.guarded, "hooks": [guard_hook]}]
        return groups

    def user_settings(self, environ: Mapping[str, str]) -> Path:
        """The settings that are the user's own, with links resolved: they are the user's.
        UsageError.
        """
        return Path(os.path.realpath(f"{self.user_folder(environ)}/{self.user_file}"))


def _words(script: str, arguments: tuple[str, ...]) -> list[str]:
    """`script`: a file for a bare interpreter, or a command of `vibe-gate`."""
    if script.endswith(".py"):
        return [sys.executable, "-I", "-S", script, *arguments]
    return ["vibe-gate", script, *arguments]


def _claude_hook(script: str, arguments: tuple[str, ...], timeout_s: int) -> dict[str, Any]:
    """In exec form: no shell."""
    program, *words = _words(script, arguments)
    return {"type": "command", "command": program, "args": words, "timeout": timeout_s}


def _gemini_hook(script: str, arguments: tuple[str, ...], timeout_s: int) -> dict[str, Any]:
    """Gemini CLI knows lines for a shell only, counts milliseconds, and shows the name.

    Exit code 2 would refuse the prompt or call; Python exits so if the script is gone.
    """
    return {
        "name": f"vibe-gate {Path(script).stem}",
        "type": "command",
        "command": _shell_line(script, arguments),
        "timeout": timeout_s * 1000,
    }


def _codex_hook(script: str, arguments: tuple[str, ...], timeout_s: int) -> dict[str, Any]:
    """A line for a shell, as Gemini CLI's."""
    line = _shell_line(script, arguments)
    return {"type": "command", "command": line, "timeout": timeout_s}


def _shell_line(script: str, arguments: tuple[str, ...]) -> str:
    """A line that never fails."""
    return f"{shlex.join(_words(script, arguments))} || true"


def _claude_folder(environ: Mapping[str, str]) -> str:
    folder = environ.get("CLAUDE_CONFIG_DIR") or _below_home(environ, ".claude")
    return _require_absolute("CLAUDE_CONFIG_DIR", folder)


def _gemini_folder(environ: Mapping[str, str]) -> str:
    home = environ.get("GEMINI_CLI_HOME")
    folder = f"{home}/.gemini" if home else _below_home(environ, ".gemini")
    return _require_absolute("GEMINI_CLI_HOME", folder)


def _codex_folder(environ: Mapping[str, str]) -> str:
    folder = environ.get("CODEX_HOME") or _below_home(environ, ".codex")
    return _require_absolute("CODEX_HOME", folder)


def _below_home(environ: Mapping[str, str], name: str) -> str:
    home = environ.get("HOME")
    return f"{home}/{name}" if home else ""


def _require_absolute(variable: str, folder: str) -> str:
    if not folder:
        raise UsageError(
            f"neither HOME nor {variable} is set, so there is no place for settings of your own."
        )
    if not folder.startswith("/"):
        quoted_folder = paths.quote(str(Path(folder)))
        raise UsageError(
            f"{quoted_folder} is a relative path: set HOME or {variable} to an absolute one."
        )
    return folder


_CLAUDE_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionDenied",
    "Notification",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Stop",
    "SessionEnd",
)
"""PostToolUse says all that PreToolUse does, and how long the call took."""

CLAUDE = HookedAgent(
    name="claude",
    title="Claude Code",
    local=".claude/settings.local.json",
    shared=".claude/settings.json",
    user_folder=_claude_folder,
    captured=_CLAUDE_EVENTS,
    # It may end right after these, and takes hooks in the background with it.
    background=frozenset(_CLAUDE_EVENTS) - {"Stop", "SessionEnd"},
    guarding="PreToolUse",
    # Names alone are compared whole; in a pattern "Edit" would stand for other tools as well.
    guarded="Bash|Edit|MultiEdit|Write|NotebookEdit",
    hook=_claude_hook,
    stopping="Stop",
    copies_settings=True,
    plugin="vibe-gate",
)

GEMINI = HookedAgent(
    name="gemini",
    title="Gemini CLI",
    local=".gemini/settings.json",
    shared=".gemini/settings.json",
    user_folder=_gemini_folder,
    captured=("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"),
    guarding="BeforeTool",
    guarded=f"^({'|'.join(guard.GEMINI_TOOLS)})$",  # an expression
    hook=_gemini_hook,
    stopping="AfterAgent",
    notes=(
        "Gemini CLI runs these hooks only when it is started in this folder, and only if you trust the folder.",
    ),
)

CODEX = HookedAgent(
    name="codex",
    title="Codex",
    local=".codex/hooks.json",
    shared=".codex/hooks.json",
    user_folder=_codex_folder,
    user_file="hooks.json",
    captured=("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"),
    guarding="PreToolUse",
    guarded="^(Bash|apply_patch)$",
    hook=_codex_hook,
    stopping="Stop",
    notes=(
        "Codex runs these hooks only after a person has trusted them: start `codex` here and review them with /hooks.",
    ),
)

AGENTS = {agent.name: agent for agent in (CLAUDE, GEMINI, CODEX)}
"""By the name that `vibe-gate install` has for them."""
