"""What a command is made of: its arguments, its parser, its subcommands. Every module of a command builds on this."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, NoReturn

from msgspec import Struct

from vibe_gate.domain import nearest
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.output import wrapped

MAX_OPTIONS = 8
"""Options that the complaint about an unknown one lists."""

HELP_COLUMNS = 80
"""The widest line of a `--help` text."""


class Command(Struct, frozen=True):
    """A command, or a subcommand: `run` returns the exit code or raises GateError. `form` is its usage line.

    `arguments` are declared by `argument`, or are functions that declare several on the parser.
    """

    summary: str
    arguments: Sequence[Callable[[argparse.ArgumentParser], object]]
    run: Callable[[argparse.Namespace, Mapping[str, str]], int]
    form: str | None = None
    examples: str | None = None


argument: Callable[..., Callable[[argparse._ActionsContainer], object]] = partial(methodcaller, "add_argument")
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
        if rest and (flags_first := self._flags_first(args)) != args:
            parsed, rest = super().parse_known_args(flags_first, namespace)
        if rest:
            wrong = next((word for word in rest if word.startswith("-")), rest[0])
            what = "unknown option" if wrong.startswith("-") else "unexpected argument"
            known = [option for option in self._option_string_actions if option not in {"-h", "--help"}]
            hint = did_you_mean(wrong.partition("=")[0], known)
            if not hint and 0 < len(known) <= MAX_OPTIONS:
                hint = f"; options are {', '.join(known)}"
            self.error(f"{what} {wrong}{hint}")
        return parsed, rest

    def _flags_first(self, words: Sequence[str]) -> Sequence[str]:
        """The words with options that take no value first: before Python 3.12.8 `FILE --json REV` is a FILE alone.

        As they are if an option of the command may take the words that follow it.
        """
        options = self._get_optional_actions()
        if any(option.nargs not in {None, 0} for option in options):
            return words
        flags = {name for option in options if option.nargs == 0 for name in option.option_strings}
        end = words.index("--") if "--" in words else len(words)
        return [*sorted(words[:end], key=lambda word: word not in flags), *words[end:]]

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
            made = actions.add_parser(name, help=one.summary, description=one.summary, epilog=one.examples)
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
