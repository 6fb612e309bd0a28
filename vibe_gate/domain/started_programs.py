"""The program that a simple command runs in the end: behind assignments, and behind programs that
only start another one, as `env`, `timeout 60` or `uv run` do.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vibe_gate.domain.escape import expression

_ASSIGNMENT = expression(r"([A-Za-z_]\w*)\+?=")

_PYTHON = expression(r"(?:python|pypy)[\d.]*\Z|py\Z")
_PYTHON_VALUES = frozenset({"-X", "-W"})
"""Options of Python whose value is the next word."""

_PYTHON_FLAGS = expression(r"-(?:[bBdEIOPqsSuv]+|[XW].+)\Z")
_STARTING_MODULES = frozenset({"coverage", "uv", "poetry", "pdm", "pipenv", "hatch"})
"""What starts another program also as `python -m MODULE`."""


def word_set(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


class _Starter(Struct, frozen=True):
    """A program that starts another one. Options that are not named here may mean anything."""

    values: frozenset[str] = frozenset()
    """Options that take a value, as the next word or behind `=`."""

    flags: frozenset[str] = frozenset()
    """Options without one that change nothing of what is started."""

    positions: int = 0
    """How many words come before the started program."""


def _starter(values: str = "", flags: str = "", positions: int = 0) -> _Starter:
    return _Starter(word_set(values), word_set(flags), positions)


_PROJECT_STARTER = _starter(
    values="""
        --with --with-requirements --with-editable --extra --group --only-group --package
        -p --python -e --env --env-file -n --name --directory --project
    """,
    flags="""
        -q --quiet --frozen --locked --no-sync --isolated --offline --exact --active
        --all-extras --all-groups --dev --no-dev --no-project --no-capture-output --live-stream
    """,
)
_PROJECT_TOOLS = ("uv", "poetry", "pdm", "pipenv", "rye", "hatch", "conda", "micromamba")

_STARTERS = {
    "env": _starter(values="-u -C", flags="-i"),
    "sudo": _starter(values="-u -g", flags="-E -n"),
    "time": _starter(flags="-p"),
    "nice": _starter(values="-n"),
    "nohup": _starter(),
    "command": _starter(),
    "stdbuf": _starter(values="-i -o -e"),
    "timeout": _starter(
        values="-k -s --signal --kill-after",
        flags="--foreground --preserve-status -v --verbose",
        positions=1,
    ),
    "xvfb-run": _starter(values="-s -n", flags="-a --auto-servernum"),
    "npx": _starter(values="-p --package", flags="-y --yes --no-install"),
    "bunx": _starter(),
    **{f"{tool} run": _PROJECT_STARTER for tool in _PROJECT_TOOLS},
    "bundle exec": _starter(),
    "pnpm exec": _starter(),
    "npm exec": _starter(),
    "coverage run": _starter(
        values="--source --rcfile --omit --include",
        flags="--branch -p --parallel-mode -a --append",
    ),
}
"""By the one or two words with which the call begins."""


def started_words(words: Sequence[str]) -> tuple[str, ...]:
    """The started program, by its name without a folder, and its arguments.

    () if nothing is started, or if an option of a starter is not known.
    """
    remaining = list(words)
    while remaining:
        if _ASSIGNMENT.match(remaining[0]):
            del remaining[0]
            continue
        program = program_name(remaining[0])
        arguments = remaining[1:]
        if _PYTHON.match(program):
            return _words_that_python_runs(arguments)
        two_words = " ".join((program, *arguments[:1]))
        if two_words in _STARTERS:
            remaining = _behind_options(arguments[1:], _STARTERS[two_words])
        elif program in _STARTERS:
            remaining = _behind_options(arguments, _STARTERS[program])
        elif program == "-m":  # behind `coverage run`
            return tuple(arguments)
        else:
            return (program, *arguments)
    return ()


def started_program(words: Sequence[str]) -> str:
    """The name of the started program; "" as `started_words` gives ()."""
    return next(iter(started_words(words)), "")


def program_name(word: str) -> str:
    """The program's name without its folder."""
    return word.rpartition("/")[2]


def assigned_names(words: Sequence[str]) -> list[str]:
    """The variables that are set for the command alone: `A=1 B=2 command`, `env A=1 command`."""
    names = []
    for word in words:
        assignment = _ASSIGNMENT.match(word)
        if assignment:
            names.append(assignment[1])
        elif word != "env":
            break
    return names


def has_expansion(words: Sequence[str]) -> bool:
    """Whether a shell replaces a part of the words, so that they may be other options."""
    for word in words:
        is_expanded = "$" in word or "{" in word
        if is_expanded and not _ASSIGNMENT.match(word):
            return True
    return False


def _behind_options(words: Sequence[str], starter: _Starter) -> list[str]:
    """The words of the program that is started: behind options, their values and other words; []
    if an option is not known.

    `-m MODULE` of `coverage run` stays.
    """
    index = 0
    positions = starter.positions
    while index < len(words):
        word = words[index]
        if word == "-m":
            break
        option, _, value = word.partition("=")
        if word == "--" or word in starter.flags:
            index += 1
        elif option in starter.values:
            index += 1 if value else 2
        elif word.startswith("-"):
            return []
        elif positions:
            positions -= 1
            index += 1
        else:
            break
    return list(words[index:])


def _words_that_python_runs(words: Sequence[str]) -> tuple[str, ...]:
    """The module of `-m`, or the script, by its name, and its arguments; () if an option of Python
    is not known.
    """
    index = 0
    while index < len(words):
        word = words[index]
        if word.startswith("-m"):
            attached_module = [word[2:]] if word != "-m" else []
            return _words_of_module([*attached_module, *words[index + 1 :]])
        if not word.startswith("-"):
            return (program_name(word), *words[index + 1 :])
        if word in _PYTHON_VALUES:
            index += 2
        elif _PYTHON_FLAGS.match(word):
            index += 1
        else:
            return ()
    return ()


def _words_of_module(words: Sequence[str]) -> tuple[str, ...]:
    if words and words[0] in _STARTING_MODULES:
        return started_words(words)
    return tuple(words)
