"""`vibe-gate hook STAGE`: what git and hook frameworks call. Not for people."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

from msgspec import Struct

from vibe_gate.domain.gate import HookName
from vibe_gate.errors import GateError, InfrastructureError, UsageError
from vibe_gate.faces.cli.command import Command, argument
from vibe_gate.faces.cli.output import ASCII, bug, emit, is_terminal, now
from vibe_gate.faces.git_hook import message, record
from vibe_gate.faces.git_hook.call import Hook, not_reviewed
from vibe_gate.faces.git_hook.framework_call import read_framework_call
from vibe_gate.faces.process_environment import read_process_environment
from vibe_gate.store.clone_state import open_state

STAGES = (
    "pre-commit",
    "pre-merge-commit",
    "commit-msg",
    "pre-push",
    "post-commit",
    "post-rewrite",
    "reference-transaction",
)


class HookArguments(Struct, frozen=True):
    """The arguments of `vibe-gate hook`."""

    stage: str
    """The git hook that calls, one of `STAGES`."""
    words: tuple[str, ...]
    """What git passes to the hook."""
    strict: bool
    """Block where the hook would only warn."""


def _parse(args: argparse.Namespace) -> HookArguments:
    words, is_strict = _words_of_git(args.words)
    return HookArguments(args.stage, words, args.strict or is_strict)


def _run(arguments: HookArguments) -> int:
    environment = read_process_environment()
    framework = read_framework_call(environment.variables)
    plain = not (framework.is_running or is_terminal())  # `git gui` reads UTF-8 as Latin-1
    output: list[str] = []

    def show(text: str) -> None:
        emit((text.translate(ASCII) if plain else text) + "\n")

    def say(text: str) -> None:
        output.append(text)
        show(text)

    hook = Hook(
        stage=cast(HookName, arguments.stage),  # what only records never looks for its rule
        words=arguments.words,
        environment=environment,
        framework=framework,
        start=Path.cwd(),
        clock=now,
        parent=os.getppid(),
        stdin=_stdin,
        say=say,
        state=cache(open_state),
        strict=arguments.strict,
        progress=show,
        is_on_terminal=is_terminal(),
    )
    code = _run_stage(arguments.stage, hook)
    if not output:
        return code
    from vibe_gate.faces.cli.program_note import program_note
    from vibe_gate.faces.git_hook.hidden_output import show_hidden_output

    if note := program_note(environment, "\n".join(output)):
        say(note)
    return show_hidden_output(hook, code, "\n".join(output))


def _run_stage(stage: str, hook: Hook) -> int:
    """The exit code of a hook; a failure of vibe-gate itself is reported and recorded."""
    try:
        return _action(stage)(hook)
    except GateError as error:
        return not_reviewed(hook, error)
    except Exception as error:  # noqa: BLE001  a bug must not stop a commit; it is recorded as not reviewed
        return not_reviewed(hook, InfrastructureError(bug(error)))


def _action(stage: str) -> Callable[[Hook], int]:
    match stage:
        case "commit-msg":
            return message.review_message
        case "post-commit":
            return record.after_commit
        case "post-rewrite":
            return record.after_rewrite
        case "reference-transaction":
            return record.move
    # What a review needs (60 ms), for the stages that review.
    if stage == "pre-push":
        from vibe_gate.faces.git_hook.pushing import review_push

        return review_push
    from vibe_gate.faces.git_hook.reviewing import review_staged

    return review_staged


def _words_of_git(words: list[str]) -> tuple[tuple[str, ...], bool]:
    """Git's own arguments, and whether `--strict` stands before them.

    By hand: argparse stumbles over an option before `--` with nothing behind it, as most hooks are
    called.
    """
    end = words.index("--") if "--" in words else len(words)
    before, after = words[:end], words[end + 1 :]
    unknown = [word for word in before if word.startswith("-") and word != "--strict"]
    if unknown:
        raise UsageError(
            f"unknown option {unknown[0]!r} (`vibe-gate hook --help` shows what it takes)"
        )
    words_of_git = [word for word in before if word != "--strict"]
    return (*words_of_git, *after), "--strict" in before


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


HOOK = Command(
    "Called by git at STAGE (vibe-gate install git, pre-commit, prek): reviews what git is about to do.",
    (
        argument("stage", choices=STAGES, metavar="STAGE", help=", ".join(STAGES)),
        argument(
            "words",
            nargs=argparse.REMAINDER,
            metavar="ARGUMENT",
            help="what git passes to the hook",
        ),
        argument("--strict", action="store_true", help="block where the hook would only warn"),
    ),
    _parse,
    _run,
    "vibe-gate hook STAGE [--strict] [--] [ARGUMENTS OF GIT]",
)
