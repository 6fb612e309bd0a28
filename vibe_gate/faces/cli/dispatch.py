"""From argv to one command module, and the one boundary where errors become sentences and exit codes."""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import FrameType, ModuleType
from typing import NoReturn, Protocol, cast

from vibe_gate import __version__
from vibe_gate.errors import INCONCLUSIVE, INTERRUPTED, GateError, StorageError, UsageError
from vibe_gate.faces.cli.output import complain, drop_stdout, emit
from vibe_gate.report.text import safe

COMMANDS = {
    "review": "vibe_gate.faces.cli.review",
    "init": "vibe_gate.faces.cli.init",
    "doctor": "vibe_gate.faces.cli.doctor",
    "demo": "vibe_gate.faces.cli.demo",
    "config": "vibe_gate.faces.cli.config",
    "bundles": "vibe_gate.faces.cli.bundles.command",
    "verify": "vibe_gate.faces.cli.verify",
    "override": "vibe_gate.faces.cli.override",
    "suppress": "vibe_gate.faces.cli.suppress",
    "install": "vibe_gate.faces.cli.install",
    "uninstall": "vibe_gate.faces.cli.uninstall",
    "hook": "vibe_gate.faces.cli.hook",
    "capture": "vibe_gate.faces.cli.capture",
    "guard": "vibe_gate.faces.cli.guard",
    "post": "vibe_gate.faces.cli.post",
    "action": "vibe_gate.faces.cli.action",
}
"""What this version can do: name -> module with SUMMARY, add_arguments(parser) and run(args, environ).

It may also have FORM, its form in one line, and EXAMPLES."""

PLANNED = (
    "run", "resume", "viz", "report", "stats", "replay", "calibrate", "test", "sessions",
)  # fmt: skip
"""Commands that the product names and a later version brings."""

PIPE_CLOSED = 141
"""What a shell reports for a process that SIGPIPE ended: the reader left before the result was out."""

NEW_OBJECTS = 50_000
"""Objects made before Python looks for garbage cycles. It would do so hundreds of times while classes are built, which
are never garbage, and once more when it ends: together a sixth of the processor time of a review at a commit."""


PLUGINS = "pydantic.plugin._loader"
"""Where pydantic looks for plugins: it would read the record of every installed package to find none, which costs a
twentieth of a review at a commit; and a plugin could change what definitions mean. In this process there are none."""


class Command(Protocol):
    """What a command module offers."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, args: argparse.Namespace, environ: Mapping[str, str]) -> int:
        """Do it; the exit code comes back. Raises GateError."""


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are our own errors, so that they leave by the one boundary."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise UsageError(f"{message} (`{self.prog} --help` shows what it takes)")


def run(argv: Sequence[str]) -> int:
    """Run one command line to its exit code. Never raises: errors become one sentence, or one JSON document."""
    as_json = "--json" in argv
    gc.set_threshold(NEW_OBJECTS)
    sys.modules.setdefault(PLUGINS, _no_plugins())
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # asyncio would wait for the next await
    try:
        return _run(argv)
    except GateError as error:
        return _report(str(error), error.exit_code, as_json)
    except KeyboardInterrupt:
        return _report("interrupted; nothing was decided.", INTERRUPTED, as_json)
    except BrokenPipeError:
        drop_stdout()
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001  a bug, whatever it is, must not look like a verdict
        code = _report(bug(error), INCONCLUSIVE, as_json)
        return _goes_on() if argv[0] == "hook" and "--strict" not in argv and "CI" not in os.environ else code
    finally:
        gc.freeze()  # nothing is left to be freed: the process ends


def command(name: str) -> Command:
    """The module of a command; UsageError for one that is not there, with the nearest that is."""
    if name in COMMANDS:
        return cast(Command, importlib.import_module(COMMANDS[name]))
    if name in PLANNED:
        raise UsageError(f"'{name}' is not part of this version yet ({__version__}).")
    if name.startswith("-"):
        raise UsageError(f"'{name}' is no option of vibe-gate itself; `vibe-gate --help` lists the commands.")
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "`vibe-gate --help` lists them."
    raise UsageError(f"'{name}' is not a command; {hint}")


def parser(name: str, module: Command) -> Parser:
    """The argument parser of one command."""
    made = Parser(
        prog=f"vibe-gate {name}",
        usage=getattr(module, "FORM", None),
        description=module.SUMMARY,
        epilog=getattr(module, "EXAMPLES", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(made)
    return made


def _run(argv: Sequence[str]) -> int:
    name, *rest = argv
    if name in {"help", "--help", "-h"} and rest:
        name, rest = rest[0], ["--help"]
    module = command(name)
    try:
        args = parser(name, module).parse_args(rest)
    except SystemExit as stop:  # --help has printed
        return int(stop.code or 0)
    return module.run(args, os.environ)


def _no_plugins() -> ModuleType:
    made = ModuleType(PLUGINS)
    made.__dict__["get_plugins"] = tuple
    return made


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt  # SIGTERM ends a run as Ctrl-C does: agents stopped, the bundle marked incomplete


def _report(message: str, exit_code: int, as_json: bool) -> int:
    lines = [safe(line) for line in message.splitlines()] or ["stopped."]
    try:
        if as_json:
            emit(json.dumps({"schema": 1, "error": {"exit_code": exit_code, "message": "\n".join(lines)}}) + "\n")
            return exit_code
    except StorageError as error:
        lines.append(str(error))
    complain("\n".join(f"vibe-gate: {line}" for line in lines))
    return exit_code


def _goes_on() -> int:
    complain("vibe-gate: NOT REVIEWED. Git goes on all the same; CI will not.")
    return 0


def bug(error: Exception) -> str:
    """What to say of an exception that is none of ours; its traceback is printed if that was asked for."""
    if isinstance(error, ImportError) and not (error.name or "vibe_gate").startswith("vibe_gate"):
        return f"the Python package '{error.name}' is missing or broken here; reinstall vibe-gate."
    if os.environ.get("VIBE_GATE_TRACEBACK") == "1":
        complain("".join(traceback.format_exception(error)).rstrip("\n"))
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119  text only
    what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return f"this is a bug, please report it: {what} ({where}). VIBE_GATE_TRACEBACK=1 shows where it came from."


__all__ = ["COMMANDS", "PLANNED", "Command", "Parser", "bug", "command", "parser", "run"]
