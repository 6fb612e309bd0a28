"""From argv to one command, and the one boundary where errors become sentences and exit codes."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from types import FrameType, ModuleType
from typing import Any, NamedTuple, NoReturn

from vibe_gate import __version__
from vibe_gate.domain import in_ci, nearest
from vibe_gate.domain.escape import safe
from vibe_gate.errors import INCONCLUSIVE, INTERRUPTED, PASS, USAGE, GateError, StorageError, UsageError
from vibe_gate.faces.cli import COMMANDS
from vibe_gate.faces.cli.output import complain, drop_stdout, emit, wrapped

MACHINE_COMMANDS = ("hook", "capture", "guard", "action")
"""Commands that git, Claude Code and the GitHub Action call."""

PLANNED = ("replay", "calibrate")
"""Commands that the product names and a later version brings."""

PIPE_CLOSED = 141
"""What a shell reports for a process that SIGPIPE ended: the reader left before the result was out."""

NEW_OBJECTS = 50_000
"""Objects made before Python looks for garbage cycles. It would do so hundreds of times while classes are built, which
are never garbage, and once more when it ends: together a sixth of the processor time of a review at a commit."""

PLUGINS = "pydantic.plugin._loader"
"""Where pydantic looks for plugins: it would read the record of every installed package to find none, which costs a
twentieth of a review at a commit; and a plugin could change what definitions mean. In this process there are none."""

NO_FOLDER = "the current directory no longer exists; change to another one."

MAX_OPTIONS = 8
"""Options that the complaint about an unknown one lists."""

HELP_COLUMNS = 80
"""The widest line of a `--help` text."""


class Command(NamedTuple):
    """A command, or a subcommand: `run` returns the exit code or raises GateError. `form` is its usage line.

    `arguments` are declared by `argument`, or are functions that declare several on the parser.
    """

    summary: str
    arguments: Sequence[Callable[[argparse.ArgumentParser], object]]
    run: Callable[[argparse.Namespace, Mapping[str, str]], int]
    form: str | None = None
    examples: str | None = None


argument: Callable[..., Callable[[argparse.ArgumentParser], object]] = partial(methodcaller, "add_argument")
"""Declares an argument, with the words of `ArgumentParser.add_argument`."""

JSON = argument("--json", action="store_true", help="print one JSON document")


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are UsageErrors and name the nearest word that is right."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (whatever argparse takes)
        kwargs |= {"allow_abbrev": False, "formatter_class": _Help}
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line; of a missing word say which there are."""
        for action in self._actions:
            if action.required and action.choices and message.startswith("the following arguments are required"):
                message += f": {', '.join(map(str, action.choices))}"
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 (as argparse has it)
        """Parse; an option that the command does not have is an error here, not in the parser around it."""
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            wrong = next((word for word in rest if word.startswith("-")), rest[0])
            what = "unknown option" if wrong.startswith("-") else "unexpected argument"
            known = [option for option in self._option_string_actions if option not in {"-h", "--help"}]
            hint = did_you_mean(wrong.partition("=")[0], known)
            if not hint and 0 < len(known) <= MAX_OPTIONS:
                hint = f"; options are {', '.join(known)}"
            self.error(f"{what} {wrong}{hint}")
        return parsed, rest

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), words)
            named = action if action.option_strings else None  # "argument SHELL: " says no more than the words do
            raise argparse.ArgumentError(named, f"'{value}' is not one of {', '.join(words)}{hint}")


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=HELP_COLUMNS - 1)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return wrapped(text, HELP_COLUMNS, "")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'X'?` for the most similar of the words, "" if none is."""
    near = nearest(word, words)
    return f"; did you mean '{near}'?" if near else ""


def command(name: str) -> Command:
    """The command of that name. Each loads no more than it needs. UsageError with the nearest name for any other."""
    match name:
        case "review":
            from vibe_gate.faces.cli.review import REVIEW as found
        case "run":
            from vibe_gate.faces.cli.run import RUN as found
        case "resume":
            from vibe_gate.faces.cli.resume import RESUME as found
        case "bundles":
            from vibe_gate.faces.cli.bundles import BUNDLES as found
        case "stats":
            from vibe_gate.faces.cli.stats import STATS as found
        case "viz":
            from vibe_gate.faces.cli.viz import VIZ as found
        case "report":
            from vibe_gate.faces.cli.report import REPORT as found
        case "init":
            from vibe_gate.faces.cli.definitions import INIT as found
        case "config":
            from vibe_gate.faces.cli.definitions import CONFIG as found
        case "test":
            from vibe_gate.faces.cli.test import TEST as found
        case "completion":
            from vibe_gate.faces.cli.completion import COMPLETION as found
        case "override":
            from vibe_gate.faces.cli.verdicts import OVERRIDE as found
        case "suppress":
            from vibe_gate.faces.cli.verdicts import SUPPRESS as found
        case "verify":
            from vibe_gate.faces.cli.verdicts import VERIFY as found
        case "doctor":
            from vibe_gate.faces.cli.doctor import DOCTOR as found
        case "demo":
            from vibe_gate.faces.cli.demo import DEMO as found
        case "post":
            from vibe_gate.faces.cli.post import POST as found
        case "sessions":
            from vibe_gate.faces.cli.sessions import SESSIONS as found
        case "action":
            from vibe_gate.faces.cli.post import ACTION as found
        case "install":
            from vibe_gate.faces.cli.install import INSTALL as found
        case "uninstall":
            from vibe_gate.faces.cli.install import UNINSTALL as found
        case "hook":
            from vibe_gate.faces.cli.hook import HOOK as found
        case "capture":
            from vibe_gate.faces.claude_hook import capture

            summary = "Keep the hook event of Claude Code that comes on stdin. Says nothing, always exits 0."
            found = Command(f"For machines: {summary}", (), lambda args, environ: capture.main())
        case "guard":
            from vibe_gate.faces.claude_hook import guard

            summary = "Refuse, before a tool of Claude Code runs, what would go around the gate. Always exits 0."
            found = Command(f"For machines: {summary}", (), lambda args, environ: guard.main())
        case _:
            raise _unknown(name)
    return found


def _unknown(name: str) -> UsageError:
    if name in PLANNED:
        return UsageError(f"'{name}' is not part of this version yet ({__version__}).")
    what, words = "a command", [*COMMANDS, *MACHINE_COMMANDS]
    if name.startswith("-"):
        what, words = "an option of vibe-gate itself", ["--help", "--version"]
    return UsageError(f"'{name}' is not {what}{did_you_mean(name, words) or '; see `vibe-gate --help`.'}")


def run(argv: Sequence[str], find: Callable[[str], Command] = command) -> int:
    """Run one command line to its exit code. Never raises: an error becomes one sentence, or one JSON document."""
    as_json = "--json" in argv
    gc.set_threshold(NEW_OBJECTS)
    sys.modules.setdefault(PLUGINS, _no_plugins())
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # asyncio would wait for the next await
    try:
        return _run(argv, find)
    except GateError as error:
        return _report(str(error), error.exit_code, as_json)
    except KeyboardInterrupt as stop:
        return _report(str(stop) or "interrupted; nothing was decided.", INTERRUPTED, as_json)
    except BrokenPipeError:
        drop_stdout()
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001  a bug, whatever it is, must not look like a verdict
        code = _report(NO_FOLDER, USAGE, as_json) if _has_no_folder() else _report(bug(error), INCONCLUSIVE, as_json)
        if argv[0] != "hook" or "--strict" in argv or in_ci(os.environ):
            return code
        complain("vibe-gate: NOT REVIEWED. The commit goes through; CI will block it.")
        return PASS
    finally:
        gc.freeze()  # nothing is left to be freed: the process ends


def _has_no_folder() -> bool:
    """Whether the current directory was deleted: every command that looks around fails there."""
    try:
        os.getcwd()  # noqa: PTH109  pathlib's would do the same
    except OSError:
        return True
    return False


def _run(argv: Sequence[str], find: Callable[[str], Command]) -> int:
    name, *rest = argv
    if name in {"help", "--help", "-h"} and rest:
        name, rest = rest[0], ["--help"]
    found = find(name)
    try:
        args = parser(name, found).parse_args(rest)
    except SystemExit as stop:  # --help has printed
        return int(stop.code or 0)
    return found.run(args, os.environ)


def parser(name: str, found: Command) -> Parser:
    """The argument parser of one command; of all of them ("") for their group."""
    program = f"vibe-gate {name}".rstrip()
    made = Parser(prog=program, usage=found.form, description=found.summary, epilog=found.examples)
    for declare in found.arguments:
        declare(made)
    return made


def group(summary: str, examples: str, subcommands: Mapping[str, Command]) -> Command:
    """A command that consists of subcommands."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
        for name, one in subcommands.items():
            made = actions.add_parser(name, help=one.summary, description=one.summary)
            for declare in one.arguments:
                declare(made)

    def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
        return subcommands[args.subcommand].run(args, environ)

    return Command(summary, (add_arguments,), run, None, examples)


def whole_number(text: str) -> int:
    """The value of an option that counts something."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above zero")
    return int(text)


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


def bug(error: Exception) -> str:
    """The sentence about an unexpected exception; VIBE_GATE_TRACEBACK=1 also prints its traceback."""
    if isinstance(error, ImportError) and not (error.name or "vibe_gate").startswith("vibe_gate"):
        return f"the Python package '{error.name}' is missing or broken; reinstall vibe-gate."
    import traceback  # with what it imports, a hundredth of a review at a commit

    if os.environ.get("VIBE_GATE_TRACEBACK") == "1":
        complain("".join(traceback.format_exception(error)).rstrip("\n"))
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119  text only
    what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return f"this is a bug, please report it: {what} ({line}). VIBE_GATE_TRACEBACK=1 shows the traceback."
