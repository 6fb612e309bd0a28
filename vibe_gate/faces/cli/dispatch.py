"""From argv to one command, and the one boundary where errors become sentences and exit codes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NoReturn

from vibe_gate.domain import in_ci
from vibe_gate.domain.escape import safe
from vibe_gate.errors import (
    INCONCLUSIVE,
    INTERRUPTED,
    PASS,
    USAGE,
    GateError,
    StorageError,
    UsageError,
)
from vibe_gate.faces.cli.command import Command, did_you_mean, parser
from vibe_gate.faces.cli.help import COMMANDS, describe_interruption
from vibe_gate.faces.cli.output import bug, complain, drop_stdout, emit

MACHINE_COMMANDS = ("hook", "capture", "guard", "stop", "action")
"""Commands that git, Claude Code and the GitHub Action call."""

PIPE_CLOSED = 141
"""What a shell reports for a process that SIGPIPE ended: the reader left before the result was
out.
"""

NO_FOLDER = "the current directory no longer exists; change to another one."


def find_command(name: str) -> Command[Any]:
    """The command of that name; no module but its own is loaded.

    UsageError with the nearest name for any other.
    """
    match name:
        case "review":
            from vibe_gate.faces.cli.review import REVIEW

            return REVIEW
        case "run":
            from vibe_gate.faces.cli.run import RUN

            return RUN
        case "resume":
            from vibe_gate.faces.cli.resume import RESUME

            return RESUME
        case "bundles":
            from vibe_gate.faces.cli.bundles import BUNDLES

            return BUNDLES
        case "stats":
            from vibe_gate.faces.cli.stats import STATS

            return STATS
        case "viz":
            from vibe_gate.faces.cli.viz import VIZ

            return VIZ
        case "report":
            from vibe_gate.faces.cli.report import REPORT

            return REPORT
        case "init":
            from vibe_gate.faces.cli.definitions import INIT

            return INIT
        case "config":
            from vibe_gate.faces.cli.definitions import CONFIG

            return CONFIG
        case "test":
            from vibe_gate.faces.cli.test import TEST

            return TEST
        case "cases":
            from vibe_gate.faces.cli.cases import CASES

            return CASES
        case "calibrate":
            from vibe_gate.faces.cli.calibrate import CALIBRATE

            return CALIBRATE
        case "replay":
            from vibe_gate.faces.cli.replay import REPLAY

            return REPLAY
        case "explain":
            from vibe_gate.faces.cli.explain import EXPLAIN

            return EXPLAIN
        case "dispute":
            from vibe_gate.faces.cli.dispute import DISPUTE

            return DISPUTE
        case "override":
            from vibe_gate.faces.cli.verdicts import OVERRIDE

            return OVERRIDE
        case "suppress":
            from vibe_gate.faces.cli.verdicts import SUPPRESS

            return SUPPRESS
        case "label":
            from vibe_gate.faces.cli.label import LABEL

            return LABEL
        case "verify":
            from vibe_gate.faces.cli.verdicts import VERIFY

            return VERIFY
        case "blame":
            from vibe_gate.faces.cli.blame import BLAME

            return BLAME
        case "doctor":
            from vibe_gate.faces.cli.doctor import DOCTOR

            return DOCTOR
        case "demo":
            from vibe_gate.faces.cli.demo import DEMO

            return DEMO
        case "post":
            from vibe_gate.faces.cli.post import POST

            return POST
        case "sessions":
            from vibe_gate.faces.cli.sessions import SESSIONS

            return SESSIONS
        case "action":
            from vibe_gate.faces.cli.post import ACTION

            return ACTION
        case "trace":
            from vibe_gate.faces.cli.trace import TRACE

            return TRACE
        case "install":
            from vibe_gate.faces.cli.install import INSTALL

            return INSTALL
        case "uninstall":
            from vibe_gate.faces.cli.install import UNINSTALL

            return UNINSTALL
        case "hook":
            from vibe_gate.faces.cli.hook import HOOK

            return HOOK
        case "capture":
            from vibe_gate.faces.cli.agent_hook import CAPTURE

            return CAPTURE
        case "guard":
            from vibe_gate.faces.cli.agent_hook import GUARD

            return GUARD
        case "stop":
            from vibe_gate.faces.cli.agent_hook import STOP

            return STOP
        case "completion":
            from vibe_gate.faces.cli.completion import completion

            return completion(lambda: {name: find_command(name) for name in COMMANDS})
        case _:
            raise _unknown(name)


def _unknown(name: str) -> UsageError:
    kind, words = "a command", [*COMMANDS, *MACHINE_COMMANDS]
    if name.startswith("-"):
        kind, words = "an option of vibe-gate itself", ["--help", "--version"]
    return UsageError(
        f"'{name}' is not {kind}{did_you_mean(name, words) or '; see `vibe-gate --help`.'}"
    )


def run(argv: Sequence[str], find: Callable[[str], Command[Any]] = find_command) -> int:
    """Run one command line to its exit code. Never raises: an error becomes one sentence, or one
    JSON document.
    """
    as_json = "--json" in argv
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # asyncio would wait for the next await
    try:
        return _run(argv, find)
    except GateError as error:
        return _report(str(error), error.exit_code, as_json)
    except KeyboardInterrupt as stop:
        return _report(str(stop) or describe_interruption(argv[0]), INTERRUPTED, as_json)
    except BrokenPipeError:
        drop_stdout()
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001  a bug, whatever it is, must not look like a verdict
        if _has_no_folder():
            code = _report(NO_FOLDER, USAGE, as_json)
        else:
            code = _report(bug(error), INCONCLUSIVE, as_json)
        # As little as possible is loaded here: what reads the environment may be what is broken.
        if argv[0] != "hook" or "--strict" in argv or in_ci(os.environ):
            return code
        return _hook_without_modules(argv[1] if len(argv) > 1 else "", code)


def _hook_without_modules(stage: str, code: int) -> int:
    """The exit code of a hook whose own modules could not be loaded; nothing can be recorded."""
    from pathlib import Path

    from vibe_gate.faces.git_hook.unreviewed import (
        STOPPABLE,
        files_want_block,
        goes_through,
        is_stopped,
        loud,
    )

    can_block = code == INCONCLUSIVE and stage in STOPPABLE
    if can_block and files_want_block(Path.cwd()):
        complain(loud(is_stopped(stage)))
        return code
    complain(loud(goes_through(stage)))
    return PASS


def _has_no_folder() -> bool:
    """Whether the current directory was deleted: every command that looks around fails there."""
    try:
        os.getcwd()  # noqa: PTH109  pathlib's would do the same
    except OSError:
        return True
    return False


def _run(argv: Sequence[str], find: Callable[[str], Command[Any]]) -> int:
    name, *words = argv
    if name in {"help", "--help", "-h"} and words:
        name, words = words[0], ["--help"]
    command = find(name)
    try:
        namespace = parser(name, command).parse_args(words)
    except SystemExit as stop:  # --help has printed
        return int(stop.code or 0)
    return command.run(command.parse(namespace))


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt  # SIGTERM ends a run as Ctrl-C does: agents stopped, the bundle marked incomplete


def _report(message: str, exit_code: int, as_json: bool) -> int:
    lines = [safe(line) for line in message.splitlines()] or ["stopped."]
    try:
        if as_json:
            emit(
                json.dumps(
                    {"schema": 1, "error": {"exit_code": exit_code, "message": "\n".join(lines)}}
                )
                + "\n"
            )
            return exit_code
    except StorageError as error:
        lines.append(str(error))
    complain("\n".join(f"vibe-gate: {line}" for line in lines))
    return exit_code
