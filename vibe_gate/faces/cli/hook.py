"""`vibe-gate hook STAGE`: what git and hook frameworks call. Not for people."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from vibe_gate.domain.gate import HookName
from vibe_gate.errors import GateError, InfrastructureError, UsageError
from vibe_gate.faces.cli import dispatch
from vibe_gate.faces.cli.output import emit
from vibe_gate.faces.git_hook.call import Hook, not_reviewed

SUMMARY = "Called by git at STAGE (vibe-gate install git, pre-commit, prek): holds what git is about to do to the gate."

FORM = "vibe-gate hook STAGE [--strict] [--] [ARGUMENTS OF GIT]"

STAGES = {
    "pre-commit": "stages:staged",
    "pre-merge-commit": "stages:staged",
    "manual": "stages:staged",
    "commit-msg": "message:said",
    "pre-push": "push:push",
    "post-commit": "record:after_commit",
    "post-rewrite": "record:after_rewrite",
}
"""Stage of git -> module and function of `faces.git_hook`; each loads no more than it needs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `hook` takes."""
    parser.add_argument("stage", choices=tuple(STAGES), metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="what git passes to the hook")
    parser.add_argument("--strict", action="store_true", help="block where the hook would only warn")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Carry the stage out; what comes back is for git: 0 lets it go on."""
    words, strict = _parted(args.words)
    hook = Hook(
        stage=stage_of(args.stage, environ),
        words=words,
        environ=environ,
        start=Path.cwd(),
        clock=lambda: datetime.now(UTC),
        parent=os.getppid(),
        stdin=_stdin,
        say=lambda text: emit(text + "\n"),
        strict=strict or args.strict,
    )
    module, _, name = STAGES[args.stage].partition(":")
    try:
        carry_out: Callable[[Hook], int] = getattr(importlib.import_module(f"vibe_gate.faces.git_hook.{module}"), name)
        return carry_out(hook)
    except GateError as error:
        return not_reviewed(hook, error)
    except Exception as error:  # noqa: BLE001  a bug of ours must not keep people from committing; it is no review, too
        return not_reviewed(hook, InfrastructureError(dispatch.bug(error)))


def _parted(words: list[str]) -> tuple[tuple[str, ...], bool]:
    """Git's own arguments, and whether `--strict` stands before them.

    By hand: argparse stumbles over an option before `--` with nothing behind it, as most hooks are called.
    """
    own, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    unknown = [word for word in own if word.startswith("-") and word != "--strict"]
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r} (`vibe-gate hook --help` shows what it takes)")
    return (*(word for word in own if word != "--strict"), *rest), "--strict" in own


def stage_of(name: str, environ: Mapping[str, str]) -> HookName:
    """The stage that is meant where a framework calls one hook at several: prek says it, git tells of its merges."""
    said = environ.get("PREK_HOOK_STAGE", "")
    if name == "pre-commit" and said in ("pre-merge-commit", "manual"):
        name = said
    elif name == "pre-commit" and environ.get("GIT_REFLOG_ACTION", "").split()[:1] in (["merge"], ["pull"]):
        name = "pre-merge-commit"
    return cast(HookName, name)


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
