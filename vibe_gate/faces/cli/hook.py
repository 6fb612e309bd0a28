"""`vibe-gate hook STAGE`: what git and hook frameworks call. Not for people."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from vibe_gate.domain.gate import HookName
from vibe_gate.errors import GateError, InfrastructureError, UsageError
from vibe_gate.faces.cli import dispatch
from vibe_gate.faces.cli.output import ASCII, emit
from vibe_gate.faces.git_hook.call import Hook, not_reviewed

SUMMARY = "Called by git at STAGE (vibe-gate install git, pre-commit, prek): holds what git is about to do to the gate."

FORM = "vibe-gate hook STAGE [--strict] [--] [ARGUMENTS OF GIT]"

STAGES = ("pre-commit", "pre-merge-commit", "manual", "commit-msg", "pre-push", "post-commit", "post-rewrite",
          "reference-transaction")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `hook` takes."""
    parser.add_argument("stage", choices=STAGES, metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="what git passes to the hook")
    parser.add_argument("--strict", action="store_true", help="block where the hook would only warn")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Carry the stage out; what comes back is for git: 0 lets it go on."""
    words, strict = _parted(args.words)
    stage = stage_of(args.stage, environ)
    plain = not _marks_are_read(environ)
    hook = Hook(
        stage=stage,
        words=words,
        environ=environ,
        start=Path.cwd(),
        clock=lambda: datetime.now(UTC),
        parent=os.getppid(),
        stdin=_stdin,
        say=lambda text: emit((text.translate(ASCII) if plain else text) + "\n"),
        strict=strict or args.strict,
        called=args.stage if stage == "pre-merge-commit" and stage != args.stage else None,
    )
    try:
        return _action(args.stage)(hook)
    except GateError as error:
        return not_reviewed(hook, error)
    except Exception as error:  # noqa: BLE001  a bug of ours must not keep people from committing; it is no review, too
        return not_reviewed(hook, InfrastructureError(dispatch.bug(error)))


def _action(stage: str) -> Callable[[Hook], int]:
    """What carries a stage out; each loads no more than it needs."""
    match stage:
        case "commit-msg":
            from vibe_gate.faces.git_hook.message import said as action
        case "pre-push":
            from vibe_gate.faces.git_hook.push import push as action
        case "post-commit":
            from vibe_gate.faces.git_hook.record import after_commit as action
        case "post-rewrite":
            from vibe_gate.faces.git_hook.record import after_rewrite as action
        case "reference-transaction":
            from vibe_gate.faces.git_hook.transaction import move as action
        case _:
            from vibe_gate.faces.git_hook.held import staged as action
    return action


def _marks_are_read(environ: Mapping[str, str]) -> bool:
    """Whether whoever shows this is known to read UTF-8: a terminal, or a framework. `git gui` takes it for Latin-1."""
    return "PRE_COMMIT" in environ or "PREK_HOOK_STAGE" in environ or (sys.stdout is not None and sys.stdout.isatty())


def _parted(words: list[str]) -> tuple[tuple[str, ...], bool]:
    """Git's own arguments, and whether `--strict` stands before them.

    By hand: argparse stumbles over an option before `--` with nothing behind it, as most hooks are called.
    """
    own, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    unknown = [word for word in own if word.startswith("-") and word != "--strict"]
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r} (`vibe-gate hook --help` shows what it takes)")
    return (*(word for word in own if word != "--strict"), *rest), "--strict" in own


def stage_of(name: HookName, environ: Mapping[str, str]) -> HookName:
    """The stage that is meant where a framework calls one hook at several: prek says it, git tells of its merges.

    Anybody can set the variables, so the stricter rule of both stages counts; by hand git names no index.
    """
    said = environ.get("PREK_HOOK_STAGE", "")
    if name == "pre-commit" and (said == "pre-merge-commit" or (said == "manual" and "GIT_INDEX_FILE" not in environ)):
        return cast(HookName, said)
    if name == "pre-commit" and environ.get("GIT_REFLOG_ACTION", "").split()[:1] in (["merge"], ["pull"]):
        return "pre-merge-commit"
    return name


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
