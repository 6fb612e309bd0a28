"""What a command is made of: its arguments, its parser, its subcommands.

Every module of a command declares its arguments, and makes a value of them; nothing behind it sees
argparse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, Generic, NoReturn, TypeVar

from msgspec import Struct

from vibe_gate.domain import nearest
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.output import wrapped

MAX_OPTIONS = 8
"""Options that the complaint about an unknown one lists."""

LIKENESS = 0.7
"""The least that two words have in common for one to be suggested for the other: options are alike
by their dashes alone.
"""

HELP_COLUMNS = 80
"""The widest line of a `--help` text."""


Arguments = TypeVar("Arguments")
"""The arguments of one command, as a value of its own."""

Declaration = Callable[[argparse.ArgumentParser], object]
"""Declares an argument, or several, on a parser."""


class Command(Struct, Generic[Arguments], frozen=True):
    """A command, or a subcommand."""

    summary: str
    """What it does, in a sentence."""
    declarations: Sequence[Declaration]
    """What declares its arguments, in the order of its help."""
    parse: Callable[[argparse.Namespace], Arguments]
    """Makes its arguments of what argparse read. UsageError if they contradict each other."""
    run: Callable[[Arguments], int]
    """Carries it out and returns the exit code. GateError."""
    form: str | None = None
    """Its usage line, if argparse's own says too little."""
    examples: str | None = None
    """What stands below its help."""


argument: Callable[..., Callable[[argparse._ActionsContainer], object]] = partial(
    methodcaller, "add_argument"
)
"""Declares an argument, with the words of `ArgumentParser.add_argument`."""

JSON = argument("--json", action="store_true", help="print one JSON document")


def parse_nothing(args: argparse.Namespace) -> None:
    """The arguments of a command that takes none."""


def parse_json(args: argparse.Namespace) -> bool:
    """The arguments of a command that takes `--json` alone."""
    return bool(args.json)


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are UsageErrors and name the nearest word that is right."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (whatever argparse takes)
        kwargs |= {"allow_abbrev": False, "formatter_class": _Help}
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line; of a missing word say which there are."""
        if message.startswith("the following arguments are required"):
            for action in self._actions:
                if action.required and action.choices:
                    message += f": {', '.join(map(str, action.choices))}"
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 (as argparse has it)
        """Parse; an option that the command does not have is an error here, not in the parser
        around it.
        """
        parsed, unread = super().parse_known_args(args, namespace)
        if unread:
            flags_first = self._flags_first(args)
            if flags_first != args:
                parsed, unread = super().parse_known_args(flags_first, namespace)
        if unread:
            self._refuse_words(unread)
        return parsed, unread

    def _refuse_words(self, words: Sequence[str]) -> NoReturn:
        """Name the first option that the command does not have, else the first word."""
        unknown_options = [word for word in words if word.startswith("-")]
        word = unknown_options[0] if unknown_options else words[0]
        problem = "unknown option" if unknown_options else "unexpected argument"
        options = [name for name in self._option_string_actions if name not in {"-h", "--help"}]
        hint = did_you_mean(word.partition("=")[0], options)
        if not hint and 0 < len(options) <= MAX_OPTIONS:
            hint = f"; options are {', '.join(options)}"
        self.error(f"{problem} {word}{hint}")

    def _flags_first(self, words: Sequence[str]) -> Sequence[str]:
        """The words with options that take no value first: before Python 3.12.8 `FILE --json REV`
        is a FILE alone.

        As they are if an option of the command may take the words that follow it.
        """
        flags: set[str] = set()
        for option in self._get_optional_actions():
            if option.nargs not in {None, 0}:
                return words
            if option.nargs == 0:
                flags.update(option.option_strings)
        end = words.index("--") if "--" in words else len(words)
        return [*sorted(words[:end], key=lambda word: word not in flags), *words[end:]]

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), words)
            # "argument SHELL: " says no more than the words do.
            option = action if action.option_strings else None
            raise argparse.ArgumentError(
                option, f"'{value}' is not one of {', '.join(words)}{hint}"
            )


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=HELP_COLUMNS - 1)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return wrapped(text, HELP_COLUMNS, "")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'X'?` for the most similar of the words, "" if none is."""
    near = nearest(word, words, likeness=LIKENESS)
    return f"; did you mean '{near}'?" if near else ""


def parser(name: str, command: Command[Any]) -> Parser:
    """The argument parser of one command; of all of them ("") for their group."""
    program = f"vibe-gate {name}".rstrip()
    new_parser = Parser(
        prog=program, usage=command.form, description=command.summary, epilog=command.examples
    )
    for declare in command.declarations:
        declare(new_parser)
    return new_parser


class Chosen(Struct, frozen=True):
    """A subcommand with its arguments."""

    command: Command[Any]
    arguments: object


def group(summary: str, examples: str, subcommands: Mapping[str, Command[Any]]) -> Command[Chosen]:
    """A command that consists of subcommands."""

    def add_subcommands(parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
        for name, command in subcommands.items():
            subparser = actions.add_parser(
                name, help=command.summary, description=command.summary, epilog=command.examples
            )
            for declare in command.declarations:
                declare(subparser)

    def parse(args: argparse.Namespace) -> Chosen:
        command = subcommands[args.subcommand]
        return Chosen(command, command.parse(args))

    def run(chosen: Chosen) -> int:
        return chosen.command.run(chosen.arguments)

    return Command(summary, (add_subcommands,), parse, run, examples=examples)


def whole_number(text: str) -> int:
    """The value of an option that counts something."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above zero")
    return int(text)
