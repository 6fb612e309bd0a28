"""The call of a test runner in a shell's command line, and what the line's status says of it.

What cannot be read without running it (substitutions, groups, loops) is never said to have passed
or failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.escape import shorten_text
from vibe_gate.domain.known_runners import (
    find_runners,
    mentions_runner,
    runner_words,
    runs_nothing,
)
from vibe_gate.domain.shell_line import SimpleCommand, split_line
from vibe_gate.domain.started_programs import has_expansion, started_program, word_set

RunEnd = Literal["passed", "failed", "unknown"]

_OTHER_PROGRAMS = word_set(
    """
    echo printf grep egrep rg ag cat head tail less more sed awk ls find fd git gh
    pip pip3 pipx apt brew which type whereis man cd pushd popd true false : test
    touch mkdir rm mv cp ln wc diff sort uniq tee cut export set unset alias source .
    pwd sleep kill pkill ps pgrep ruff black mypy vibe-gate
    """
)
"""Programs that run no test, whatever their words are."""

_SAFE_PROGRAMS = word_set("cd pushd export set source . true : mkdir echo")
"""Programs that hardly fail: what fails after them is what comes next."""

_OPTIONS_BEFORE_NAME = ("-o", "-eo", "-euo")

MAX_SHOWN = 80
"""Characters of a call that people are shown."""


class RunnerCall(Struct, frozen=True):
    """One call of a test runner in a command line."""

    command: str
    """The call on one line, without what stands around it."""

    end: RunEnd


def find_runner_call(
    line: str, exit_status: int | None, commands: Sequence[str] = ()
) -> RunnerCall | None:
    """The last call of a test runner in a shell's command line, and how it ended; None: it has none.

    Args:
        line: As a shell gets it.
        exit_status: That of the whole line; None if it is not known.
        commands: Words with which a call begins, as globs, instead of the known runners.
    """
    try:
        steps = split_line(line)
    except ValueError:
        if mentions_runner(line, commands):
            return RunnerCall(_shorten(line), "unknown")
        return None
    runners = find_runners(commands)
    for index in reversed(range(len(steps))):
        call_words = runner_words(steps[index].words, runners)
        if call_words:
            end = _end_of_step(steps, index, exit_status)
            return RunnerCall(_shorten(" ".join(call_words)), end)
    return _find_mention(steps, commands)


def _find_mention(steps: Sequence[SimpleCommand], commands: Sequence[str]) -> RunnerCall | None:
    """The last command that names a runner and may have called it."""
    for step in reversed(steps):
        text = " ".join(step.words)
        if started_program(step.words) in _OTHER_PROGRAMS or not mentions_runner(text, commands):
            continue
        if runs_nothing(step.words):
            return None
        return RunnerCall(_shorten(text), "unknown")
    return None


def _shorten(text: str) -> str:
    return shorten_text(" ".join(text.split()), MAX_SHOWN)


def _end_of_step(steps: Sequence[SimpleCommand], index: int, exit_status: int | None) -> RunEnd:
    """What the status of the whole line says of one command."""
    if exit_status is None or has_expansion(steps[index].words):
        return "unknown"
    has_pipefail = _sets_pipefail(steps)
    if _may_change_options(steps[1:] if has_pipefail else steps):
        return "unknown"
    operators = [step.operator or ";" for step in steps]
    next_operators = operators[index + 1 :]
    chain_start = _start_of_chain(operators, index)
    is_hidden = ";" in next_operators or "||" in operators[chain_start + 1 :]
    is_piped = next_operators[:1] == ["|"] and not has_pipefail
    if is_hidden or is_piped:
        return "unknown"
    if exit_status == 0:
        return "passed"
    earlier_programs = {started_program(step.words) for step in steps[chain_start:index]}
    if not next_operators and earlier_programs <= _SAFE_PROGRAMS:
        return "failed"
    return "unknown"


def _start_of_chain(operators: Sequence[str], index: int) -> int:
    """The index of the first command that is joined to this one without `;`."""
    while index > 0 and operators[index] != ";":
        index -= 1
    return index


def _may_change_options(steps: Sequence[SimpleCommand]) -> bool:
    """Whether a command may change how the shell itself goes on, as `set -e` does."""
    programs = [started_program(step.words) for step in steps]
    return any(program == "set" or program.startswith("$") for program in programs)


def _sets_pipefail(steps: Sequence[SimpleCommand]) -> bool:
    """Whether the line begins with `set -o pipefail`, and nothing else of it."""
    words = steps[0].words
    if len(words) != 3 or words[0] != "set" or words[2] != "pipefail":
        return False
    is_followed = len(steps) > 1 and steps[1].operator in (";", "&&")
    return words[1] in _OPTIONS_BEFORE_NAME and is_followed
