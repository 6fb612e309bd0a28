"""Test runners that are known by name, and which commands call one.

`RUNNERS` and the tables behind it are what to add to when a runner is missing.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import expression
from vibe_gate.domain.started_programs import (
    assigned_names,
    program_name,
    started_words,
    word_set,
)

_CHECKS = ("check", "test", "tests", "test[-:_.]*")
_TEST = ("test",)
_BUILDS = ("check", "test", "verify")

RUNNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(word_set("pytest py.test unittest nose2 nox tox"), ()),
    **dict.fromkeys(word_set("jest vitest mocha rspec phpunit ctest"), ()),
    **dict.fromkeys(word_set("pnpm yarn bun make just task"), _CHECKS),
    **dict.fromkeys(("npm run", "pnpm run", "yarn run", "bun run"), _CHECKS),
    "npm": (*_CHECKS, "t"),
    **dict.fromkeys(word_set("go cargo dotnet mix swift bazel sbt"), _TEST),
    **dict.fromkeys(word_set("deno hatch composer rails manage.py"), _TEST),
    **dict.fromkeys(word_set("mvn mvnw gradle gradlew"), _BUILDS),
    "cargo nextest": ("run",),
    "rake": ("spec", "test"),
    "node": ("--test",),
}
"""The words with which a call begins -> the words of which one comes next (globs); () for any."""

_SEVERAL_TARGETS = frozenset({"make", "mvn", "mvnw", "gradle", "gradlew"})
"""Runners that take targets in any order."""

_RUNS_NOTHING = word_set(
    """
    --version --help -h --markers --fixtures --fixtures-per-test --funcargs
    --list --list-tests --listTests --list-suites --list-groups --list-sessions
    --co --collect-only --collectonly --dry-run --dry --no-run --setup-plan --setup-only
    --show-only --showconfig --showConfig --cache-show --clearCache --if-present
    -DskipTests -Dmaven.test.skip
    """
)
"""Options by which a runner runs no test."""

_RUNS_NOTHING_IN = {
    "nox": word_set("-l"),
    "tox": word_set("-l -a"),
    "make": word_set("--just-print --recon --question --touch"),
    "go": word_set("-list -c -n"),
    "ctest": word_set("-N"),
    "dotnet": word_set("-t"),
    "just": word_set("-n -s -l --show --summary --evaluate"),
    "task": word_set("-n -l --summary"),
    "rake": word_set("-n -T -P -V --tasks --prereqs"),
    "swift": word_set("-l"),
    **dict.fromkeys(word_set("jest vitest rspec npm pnpm yarn bun node mvn mvnw"), word_set("-v")),
    **dict.fromkeys(word_set("mocha cargo"), word_set("-V")),
    **dict.fromkeys(word_set("gradle gradlew"), word_set("-v -m")),
}
"""Such options of one runner."""

_FLAGS_OF_NOTHING = {
    "pytest": expression(r"-[^-kmpcornW]*[hV]"),
    "py.test": expression(r"-[^-kmpcornW]*[hV]"),
    "unittest": expression(r"-[vqfcb]*h"),
    "make": expression(r"-[^-CfIojlWE]*[nqtvh]"),
}
"""Such options that are single letters, several in one word; what follows a letter that takes a
value is no option.
"""

_SUBCOMMANDS_OF_NOTHING = {
    "tox": word_set("list l config c devenv d depends de exec e"),
    "vitest": word_set("list"),
}
"""What comes first behind the name of a runner that runs no test then."""

_ALTERING_VARIABLES = ("PYTEST_ADDOPTS", "NOX", "TOX", "MAKEFLAGS", "GOFLAGS", "NODE_OPTIONS")
"""How variables begin that change what a runner does."""

_SESSION_OPTIONS = frozenset({"-s", "-e", "--session", "--sessions"})
"""Options of nox and tox that select what runs."""

_TEST_SESSION = expression(r"test|spec|unit|py\d")


def _mention_pattern() -> str:
    """The name of a runner anywhere in a line, with a target if it needs one."""
    runners_alone = ["nextest"]
    runners_with_target = set()
    for call, targets in RUNNERS.items():
        program = re.escape(call.split()[0])
        if targets:
            runners_with_target.add(program)
        else:
            runners_alone.append(program)
    alone = "|".join(runners_alone)
    with_target = "|".join(sorted(runners_with_target))
    return (
        rf"(?<![\w./-])(?:[\w./-]*/)?(?:{alone})(?![\w-])"
        rf"|(?<![\w-])(?:{with_target})\s[^\n]*?\b(?:tests?|check|verify|spec)\b"
    )


_MENTION = expression(_mention_pattern())


class KnownRunner(Struct, frozen=True):
    """How the call of a test runner begins."""

    words: tuple[str, ...]
    """The words with which it begins, as globs; at least one."""

    targets: tuple[str, ...] = ()
    """Globs for the word that comes next; () for any."""


def find_runners(commands: Sequence[str] = ()) -> list[KnownRunner]:
    """The known runners, or instead of them those that these words begin (globs)."""
    if commands:
        return [KnownRunner(tuple(command.split())) for command in commands if command.strip()]
    return [KnownRunner(tuple(call.split()), targets) for call, targets in RUNNERS.items()]


def mentions_runner(text: str, commands: Sequence[str] = ()) -> bool:
    """Whether the text has the name of a known runner anywhere, or instead one of these globs."""
    if not commands:
        return _MENTION.search(text) is not None
    return any(fnmatch.fnmatchcase(text, f"*{command}*") for command in commands)


def runner_words(words: Sequence[str], runners: Sequence[KnownRunner]) -> tuple[str, ...]:
    """The words of a simple command from the runner's name on; () if it runs no tests."""
    for variable in assigned_names(words):
        if variable.startswith(_ALTERING_VARIABLES):
            return ()
    call_words = started_words(words)
    if not call_words or runs_nothing(call_words):
        return ()
    for runner in runners:
        if _is_call_of(runner, call_words):
            return call_words
    return ()


def runs_nothing(words: Sequence[str]) -> bool:
    """Whether there is no runner, or its options say that no test is to run."""
    if not words:
        return True
    program = program_name(words[0])
    arguments = words[1:]
    if any(_is_option_of_nothing(program, argument) for argument in arguments):
        return True
    if arguments and arguments[0] in _SUBCOMMANDS_OF_NOTHING.get(program, ()):
        return True
    if program not in ("nox", "tox"):
        return False
    sessions = list(_selected_sessions(arguments))
    has_tests = any(_TEST_SESSION.search(session) for session in sessions)
    return sessions != [] and not has_tests


def _is_option_of_nothing(program: str, argument: str) -> bool:
    option = argument.partition("=")[0]
    if option in _RUNS_NOTHING or option in _RUNS_NOTHING_IN.get(program, ()):
        return True
    flags = _FLAGS_OF_NOTHING.get(program)
    return flags is not None and flags.match(argument) is not None


def _selected_sessions(arguments: Sequence[str]) -> Iterator[str]:
    """The sessions of nox, or environments of tox, that a call selects."""
    for index, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option in _SESSION_OPTIONS:
            yield value or "".join(arguments[index + 1 : index + 2])


def _is_call_of(runner: KnownRunner, words: Sequence[str]) -> bool:
    """Whether the command begins with the runner's words, options between them aside, and then
    with one of its targets.
    """
    program, *arguments = words
    program_glob, *next_globs = runner.words
    if not fnmatch.fnmatchcase(program, program_glob):
        return False
    positions = [word for word in arguments if not word.startswith("-") or word == "--test"]
    if not runner.targets:
        return _begin_with(arguments, next_globs) or _begin_with(positions, next_globs)
    if not _begin_with(positions, next_globs):
        return False
    target_words = positions[len(next_globs) :]
    if program not in _SEVERAL_TARGETS:
        target_words = target_words[:1]
    return any(_matches_some(word, runner.targets) for word in target_words)


def _begin_with(words: Sequence[str], globs: Sequence[str]) -> bool:
    """Whether the first words match the globs, each its own."""
    if len(words) < len(globs):
        return False
    pairs = zip(words, globs, strict=False)
    return all(fnmatch.fnmatchcase(word, glob) for word, glob in pairs)


def _matches_some(word: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(word, glob) for glob in globs)
