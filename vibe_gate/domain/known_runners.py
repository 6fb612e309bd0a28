"""Test runners that are known by name, and what the status of a shell's command line says of them.

A line is read as far as a shell would read it without running anything. What cannot be read so
(substitutions, groups, loops) is never said to have passed or failed.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.escape import expression

RunEnd = Literal["passed", "failed", "unknown"]

_CHECK_TARGETS = ("check", "test", "tests", "test[-:_.]*")

RUNNERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    *((name, ()) for name in ("pytest", "py.test", "unittest", "nose2", "nox", "tox")),
    *((name, ()) for name in ("jest", "vitest", "mocha", "rspec", "phpunit", "ctest")),
    *((name, _CHECK_TARGETS) for name in ("npm", "pnpm", "yarn", "bun", "make", "just", "task")),
    *((name, _CHECK_TARGETS) for name in ("npm run", "pnpm run", "yarn run", "bun run")),
    ("npm", ("t",)),
    *((name, ("test",)) for name in ("go", "cargo", "dotnet", "mix", "swift", "bazel", "sbt")),
    *((name, ("test",)) for name in ("deno", "hatch", "composer", "rails", "manage.py")),
    *((name, ("check", "test", "verify")) for name in ("mvn", "mvnw", "gradle", "gradlew")),
    ("cargo nextest", ("run",)),
    ("rake", ("spec", "test")),
    ("node", ("--test",)),
)
"""The words with which a call begins, and the words of which one comes next (globs); () for any."""

_RUNS_NOTHING = frozenset(
    {
        *("--version", "--help", "-h", "--list", "--list-tests", "--listTests", "--no-run"),
        *("--dry-run", "--dry", "--co", "--collect-only", "--collectonly", "--markers"),
        *("--fixtures", "--fixtures-per-test", "--funcargs", "--setup-plan", "--setup-only"),
        *("--show-only", "--showconfig", "--showConfig", "--cache-show", "--if-present"),
        *("--list-suites", "--list-groups", "--list-sessions", "--clearCache"),
        *("-DskipTests", "-Dmaven.test.skip"),
    }
)
_RUNS_NOTHING_IN = {
    "nox": frozenset({"-l"}),
    "tox": frozenset({"-l", "-a"}),
    "make": frozenset({"--just-print", "--recon", "--question", "--touch"}),
    "go": frozenset({"-list", "-c", "-n"}),
    "ctest": frozenset({"-N"}),
    "dotnet": frozenset({"-t"}),
    "just": frozenset({"-n", "-s", "-l", "--show", "--summary", "--evaluate"}),
    "task": frozenset({"-n", "-l", "--summary"}),
    "rake": frozenset({"-n", "-T", "-P", "-V", "--tasks", "--prereqs"}),
    "swift": frozenset({"-l"}),
    **{name: frozenset({"-v"}) for name in ("jest", "vitest", "rspec", "npm", "pnpm", "yarn")},
    **{name: frozenset({"-v"}) for name in ("bun", "node", "mvn", "mvnw")},
    **{name: frozenset({"-V"}) for name in ("mocha", "cargo")},
    **{name: frozenset({"-v", "-m"}) for name in ("gradle", "gradlew")},
}
"""Options by which a runner runs no test."""

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
    "tox": frozenset({"list", "l", "config", "c", "devenv", "d", "depends", "de", "exec", "e"}),
    "vitest": frozenset({"list"}),
}
"""What comes first behind the name of a runner that runs no test then."""

_ALTERING = ("PYTEST_ADDOPTS", "NOX", "TOX", "MAKEFLAGS", "GOFLAGS", "NODE_OPTIONS")
"""How variables begin that change what a runner does."""

_SESSIONS = ("-s", "-e", "--session", "--sessions")
_TEST_SESSION = expression(r"test|spec|unit|py\d")

_MENTION = expression(
    r"(?<![\w./-])(?:[\w./-]*/)?(?:pytest|py\.test|unittest|nose2|nox|tox|jest|vitest|mocha|rspec"
    r"|phpunit|ctest|nextest)(?![\w-])"
    r"|(?<![\w-])(?:npm|pnpm|yarn|bun|make|just|task|go|cargo|dotnet|mix|swift|bazel|sbt|deno|hatch"
    r"|composer|rails|manage\.py|mvnw?|gradlew?|rake|node)\s[^\n]*?\b(?:tests?|check|verify|spec)\b"
)
"""The name of a runner anywhere in a line."""

_TALKS = frozenset(
    {
        *("echo", "printf", "grep", "egrep", "rg", "ag", "cat", "head", "tail", "less", "more"),
        *("sed", "awk", "ls", "find", "fd", "git", "gh", "pip", "pip3", "pipx", "apt", "brew"),
        *("which", "type", "whereis", "man", "cd", "pushd", "popd", "true", "false", ":", "test"),
        *("touch", "mkdir", "rm", "mv", "cp", "ln", "wc", "diff", "sort", "uniq", "tee", "cut"),
        *("export", "set", "unset", "alias", "source", ".", "pwd", "sleep", "kill", "pkill"),
        *("ps", "pgrep", "ruff", "black", "mypy", "vibe-gate"),
    }
)
"""Programs that run no test, whatever their words are."""

_SETS_UP = frozenset({"cd", "pushd", "export", "set", "source", ".", "true", ":", "mkdir", "echo"})
"""Programs that hardly fail: what fails after them is what comes next."""


class _Starter(Struct, frozen=True):
    """A program that starts another one. Its other options may mean anything."""

    values: frozenset[str] = frozenset()
    """Options that take a value, as the next word or behind `=`."""

    flags: frozenset[str] = frozenset()
    """Options without one that change nothing of what is started."""

    positions: int = 0
    """How many words come before the started program."""


_PROJECT_STARTER = _Starter(
    frozenset(
        {
            *("--with", "--extra", "--group", "-p", "--python", "--package", "--env-file"),
            *("--directory", "--project", "--with-requirements", "--with-editable"),
            *("--only-group", "-e", "--env", "-n", "--name"),
        }
    ),
    frozenset(
        {
            *("-q", "--quiet", "--frozen", "--locked", "--no-sync", "--isolated", "--offline"),
            *("--all-extras", "--all-groups", "--dev", "--no-dev", "--no-project", "--active"),
            *("--exact", "--no-capture-output", "--live-stream"),
        }
    ),
)

_STARTERS = {
    "env": _Starter(frozenset({"-u", "-C"}), frozenset({"-i"})),
    "sudo": _Starter(frozenset({"-u", "-g"}), frozenset({"-E", "-n"})),
    "time": _Starter(flags=frozenset({"-p"})),
    "nice": _Starter(frozenset({"-n"})),
    "nohup": _Starter(),
    "command": _Starter(),
    "stdbuf": _Starter(frozenset({"-i", "-o", "-e"})),
    "timeout": _Starter(
        frozenset({"-k", "-s", "--signal", "--kill-after"}),
        frozenset({"--foreground", "--preserve-status", "-v", "--verbose"}),
        positions=1,
    ),
    "xvfb-run": _Starter(frozenset({"-s", "-n"}), frozenset({"-a", "--auto-servernum"})),
    "npx": _Starter(frozenset({"-p", "--package"}), frozenset({"-y", "--yes", "--no-install"})),
    "bunx": _Starter(),
    **{
        f"{name} run": _PROJECT_STARTER
        for name in ("uv", "poetry", "pdm", "pipenv", "rye", "hatch", "conda", "micromamba")
    },
    "bundle exec": _Starter(),
    "pnpm exec": _Starter(),
    "npm exec": _Starter(),
    "coverage run": _Starter(
        frozenset({"--source", "--rcfile", "--omit", "--include"}),
        frozenset({"--branch", "-p", "--parallel-mode", "-a", "--append"}),
    ),
}
"""Programs that start another."""

_PYTHON = expression(r"(?:python|pypy)[\d.]*\Z|py\Z")
_PYTHON_VALUES = frozenset({"-X", "-W"})
_PYTHON_FLAGS = expression(r"-(?:[bBdEIOPqsSuv]+|[XW].+)\Z")
_STARTING_MODULES = frozenset({"coverage", "uv", "poetry", "pdm", "pipenv", "hatch"})
_BARE_OPTIONS = ("-o", "-eo", "-euo")
_ASSIGNMENT = expression(r"([A-Za-z_]\w*)\+?=")

_RESERVED = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "case", "esac"),
        *("function", "select", "coproc", "!", "[[", "{", "}", "eval", "exec", "exit", "return"),
        *("trap", "alias", "unalias", "enable", "builtin", "shopt", "hash"),
    }
)
"""First words by which a line means something else than its simple commands say; `done` comes with
`do`.
"""

_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\r]|\\\n)+)"
    r"|(?P<comment>(?<![^\s;&|])\#[^\n]*)"
    r"|(?P<document><<(?!<)-?[ \t]*['\"\\]?\w+['\"]?)"
    r"|(?P<redirection>(?:\d*|&)(?:<<<|>>|>\||>|<)(?:&\d*-?)?)"
    r"|(?P<operator>&&|\|\||\|&|[;&|\n])"
    r"|(?P<word>(?:'[^']*'|\"(?:[^\"\\$`]|\\.|\$(?!\())*\"|\\[^\n]|\$(?![(']|\{[^}]*[^\w}])"
    r"|[^\s'\"\\$`;&|<>()])+)",
    re.DOTALL,
)
_QUOTING = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)

MAX_SHOWN = 80
"""Characters of a call that people are shown."""


class RunnerCall(Struct, frozen=True):
    """One call of a test runner in a command line."""

    command: str
    """The call on one line, without what stands around it."""

    end: RunEnd


class _Step(Struct, frozen=True):
    """A simple command of a line."""

    operator: str
    """What stands before it: "", ";", "&&", "||", "|" or "&"."""

    words: tuple[str, ...]


def find_runner_call(
    line: str, exit_status: int | None, commands: Sequence[str] = ()
) -> RunnerCall | None:
    """The last call of a test runner in a shell's command line, and how it ended; None: it has none.

    Args:
        line: As a shell gets it.
        exit_status: That of the whole line; None if it is not known.
        commands: Words with which a call begins, as globs, instead of the known runners.
    """
    runners = _wanted_runners(commands)
    steps = _split_steps(line)
    if steps is None:
        return _unread_call(line, commands)
    for index in reversed(range(len(steps))):
        call_words = _runner_words(steps[index].words, runners)
        if call_words:
            end = _end_of_step(steps, index, exit_status)
            if _is_expanded(steps[index].words):
                end = "unknown"
            return RunnerCall(_shorten_words(call_words), end)
    for step in reversed(steps):
        text = " ".join(step.words)
        if _program_of(step.words) not in _TALKS and _mentions_runner(text, commands):
            return None if _runs_nothing(step.words) else RunnerCall(_shorten(text), "unknown")
    return None


def _wanted_runners(commands: Sequence[str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The words with which a call begins, and the words of which one comes next."""
    runners = [(tuple(words.split()), targets) for words, targets in RUNNERS]
    if commands:
        runners = [(tuple(command.split()), ()) for command in commands if command.strip()]
    return runners


def _unread_call(line: str, commands: Sequence[str]) -> RunnerCall | None:
    """A line that cannot be read, if it names a runner."""
    return RunnerCall(_shorten(line), "unknown") if _mentions_runner(line, commands) else None


def _mentions_runner(text: str, commands: Sequence[str]) -> bool:
    if not commands:
        return bool(_MENTION.search(text))
    return any(fnmatch.fnmatchcase(text, f"*{command}*") for command in commands)


def _shorten_words(words: Sequence[str]) -> str:
    return _shorten(" ".join(words))


def _shorten(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= MAX_SHOWN else folded[: MAX_SHOWN - 1] + "…"


# Reading a line


def _split_steps(line: str) -> list[_Step] | None:
    """The simple commands of a line; None if it has more than simple commands."""
    steps: list[_Step] = []
    words: list[str] = []
    operator = ""
    for kind, text in _tokens(line):
        if kind == "unreadable":
            return None
        if kind == "word":
            words.append(text)
        elif kind == "operator":
            if words:
                steps.append(_Step(operator, tuple(words)))
                operator = ""
            words = []
            operator = _join_operators(operator, text)
    if words:
        steps.append(_Step(operator, tuple(words)))
    elif operator == "&" and steps:  # the last command goes on in the background
        return None
    for step in steps:
        first_words = {step.words[0], _program_of(step.words)}
        if step.operator == "&" or first_words & _RESERVED:
            return None
    return steps


def _join_operators(operator: str, text: str) -> str:
    """The operator before the next command; line breaks after another one change nothing."""
    mark = {"\n": ";", "|&": "|"}.get(text, text)
    return operator if mark == ";" and operator not in ("", ";") else mark


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each token: word, operator, or what cannot be read. Redirections are left
    out, with the files that they name and the text of here-documents.
    """
    position = 0
    is_target = False
    ends: list[str] = []
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None or match.end() == position:
            yield "unreadable", line[position:]
            return
        position = match.end()
        kind = str(match.lastgroup)
        if kind == "document":
            ends.append(match[0].lstrip("<- \t'\"\\").rstrip("'\""))
        elif kind == "redirection":
            is_target = not match[0].endswith(tuple("0123456789-")) or match[0][-1] == ">"
        elif kind == "word" and is_target:
            is_target = False
        elif kind in ("word", "operator"):
            is_target = False
            yield kind, _unquote(match[0]) if kind == "word" else match[0]
        if match[0] == "\n":
            position = _after_documents(line, position, ends)
            ends = []
    if ends:
        yield "unreadable", line


def _after_documents(line: str, position: int, ends: Sequence[str]) -> int:
    """Where the line goes on behind the text of here-documents that end with these words."""
    for end in ends:
        while position < len(line):
            row, _, _ = line[position:].partition("\n")
            position += len(row) + 1
            if row.strip("\t") == end:
                break
    return min(position, len(line))


def _unquote(word: str) -> str:
    return _QUOTING.sub(lambda match: match[1] or match[2] or match[3] or "", word)


# What a simple command runs


def _runner_words(
    words: Sequence[str], runners: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
) -> tuple[str, ...]:
    """The words from the runner's name on; () if the command runs no tests."""
    for name, _ in _assignments(words):
        if name.startswith(_ALTERING):
            return ()
    started_words = _started_words(words)
    if not started_words or _runs_nothing(started_words):
        return ()
    for prefix, targets in runners:
        if _begins_with(started_words, prefix, targets):
            return started_words
    return ()


def _is_expanded(words: Sequence[str]) -> bool:
    """Whether a shell replaces a part of the words, so that they may be other options."""
    return any(not _ASSIGNMENT.match(word) and ("$" in word or "{" in word) for word in words)


def _assignments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        match = _ASSIGNMENT.match(word)
        if match is None and word != "env":
            return
        if match is not None:
            yield match[1], word


def _started_words(words: Sequence[str]) -> tuple[str, ...]:
    """The command without assignments, and without programs that only start another; () if an
    option of one of these is not known.
    """
    remaining = list(words)
    while remaining:
        if _ASSIGNMENT.match(remaining[0]):
            remaining.pop(0)
            continue
        program = remaining[0].rpartition("/")[2]
        if _PYTHON.match(program):
            return _python_words(remaining[1:])
        two_words = " ".join((program, *remaining[1:2]))
        if two_words in _STARTERS:
            remaining = _without_options(remaining[2:], _STARTERS[two_words])
        elif program in _STARTERS:
            remaining = _without_options(remaining[1:], _STARTERS[program])
        elif program == "-m":
            return tuple(remaining[1:])
        else:
            return (program, *remaining[1:])
    return ()


def _without_options(words: Sequence[str], starter: _Starter) -> list[str]:
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
        name, _, value = word.partition("=")
        if word == "--" or word in starter.flags:
            index += 1
        elif name in starter.values:
            index += 1 if value else 2
        elif word.startswith("-"):
            return []
        elif positions:
            positions -= 1
            index += 1
        else:
            break
    return list(words[index:])


def _python_words(words: Sequence[str]) -> tuple[str, ...]:
    """What Python runs: the module of `-m`, or the script, by its name; () if an option is not
    known.
    """
    index = 0
    while index < len(words):
        word = words[index]
        if word.startswith("-m"):
            module_words = [*filter(None, [word[2:]]), *words[index + 1 :]]
            if module_words[:1] and module_words[0] in _STARTING_MODULES:
                return _started_words(module_words)
            return tuple(module_words)
        if not word.startswith("-"):
            return (word.rpartition("/")[2], *words[index + 1 :])
        if word in _PYTHON_VALUES:
            index += 2
        elif _PYTHON_FLAGS.match(word):
            index += 1
        else:
            return ()
    return ()


def _begins_with(words: Sequence[str], prefix: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether the command begins with these words, options between them aside, and then with one
    of the targets.
    """
    if not fnmatch.fnmatchcase(words[0], prefix[0]):
        return False
    positions = [word for word in words[1:] if not word.startswith("-") or word == "--test"]
    next_words = list(prefix[1:])
    if not targets:
        return _match_all(words[1:], next_words) or _match_all(positions, next_words)
    if not _match_all(positions, next_words):
        return False
    target_words = positions[len(next_words) : len(next_words) + 1]
    if words[0] in ("make", "mvn", "mvnw", "gradle", "gradlew"):  # several targets in any order
        target_words = positions
    return any(_matches_some(word, targets) for word in target_words)


def _matches_some(word: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(word, glob) for glob in globs)


def _match_all(words: Sequence[str], globs: Sequence[str]) -> bool:
    if len(words) < len(globs):
        return False
    return all(fnmatch.fnmatchcase(*pair) for pair in zip(words, globs, strict=False))


def _runs_nothing(words: Sequence[str]) -> bool:
    """Whether options say that no test is to run."""
    if not words:
        return True
    program = words[0].rpartition("/")[2]
    options = _RUNS_NOTHING | _RUNS_NOTHING_IN.get(program, frozenset())
    flags = _FLAGS_OF_NOTHING.get(program)
    for word in words[1:]:
        if word.partition("=")[0] in options or (flags is not None and flags.match(word)):
            return True
    if words[1:2] and words[1] in _SUBCOMMANDS_OF_NOTHING.get(program, ()):
        return True
    if program not in ("nox", "tox"):
        return False
    sessions = list(_selected_sessions(words))
    return bool(sessions) and not any(map(_TEST_SESSION.search, sessions))


def _selected_sessions(words: Sequence[str]) -> Iterator[str]:
    """The sessions of nox, or environments of tox, that a call selects."""
    for index, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in _SESSIONS:
            yield value or "".join(words[index + 1 : index + 2])


def _program_of(words: Sequence[str]) -> str:
    started_words = _started_words(words)
    return started_words[0] if started_words else ""


# How a call ended


def _end_of_step(steps: Sequence[_Step], index: int, exit_status: int | None) -> RunEnd:
    """What the status of the whole line says of one command."""
    if exit_status is None:
        return "unknown"
    has_pipefail = _sets_pipefail(steps)
    other_steps = steps[1:] if has_pipefail else steps
    for step in other_steps:
        program = _program_of(step.words)
        if program == "set" or program.startswith("$"):  # it may change the shell's options
            return "unknown"
    operators = [";" if step.operator == "" else step.operator for step in steps]
    ends_later = any(operator == ";" for operator in operators[index + 1 :])
    if ends_later or "||" in operators[_first_of_chain(operators, index) + 1 :]:
        return "unknown"
    is_piped = operators[index + 1 : index + 2] == ["|"]
    if is_piped and not has_pipefail:
        return "unknown"
    if exit_status == 0:
        return "passed"
    first = _first_of_chain(operators, index)
    earlier_programs = {_program_of(step.words) for step in steps[first:index]}
    is_last = index == len(steps) - 1
    return "failed" if is_last and earlier_programs <= _SETS_UP else "unknown"


def _first_of_chain(operators: Sequence[str], index: int) -> int:
    """Where the list of commands begins that the command at the index is one of."""
    while index > 0 and operators[index] != ";":
        index -= 1
    return index


def _sets_pipefail(steps: Sequence[_Step]) -> bool:
    """Whether the line begins with `set -o pipefail`, and nothing else of it."""
    words = steps[0].words
    if len(words) != 3 or words[0] != "set" or words[2] != "pipefail":
        return False
    is_bare = words[1] in _BARE_OPTIONS
    return is_bare and len(steps) > 1 and steps[1].operator in (";", "&&")
