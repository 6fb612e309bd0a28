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
from vibe_gate.faces.cli.output import ASCII, emit
from vibe_gate.faces.git_hook.call import Hook, not_reviewed
from vibe_gate.faces.git_hook.edition import EDITION, OPTION

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
    "reference-transaction": "transaction:move",
}
"""Stage of git -> module and function of `faces.git_hook`; each loads no more than it needs."""

SAYING = ("pre-commit", "pre-merge-commit", "pre-push")
"""Stages that say that a script is an old one: one of them in a commit, or a push, is enough."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `hook` takes."""
    parser.add_argument("stage", choices=tuple(STAGES), metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="what git passes to the hook")
    parser.add_argument("--strict", action="store_true", help="block where the hook would only warn")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Carry the stage out; what comes back is for git: 0 lets it go on."""
    words, strict = _parted(args.words)
    if args.stage in SAYING and _edition(args.words) not in ("", EDITION):
        emit("vibe-gate: the hooks of this repository are of another version: `vibe-gate install git` renews them.\n")
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
    module, _, name = STAGES[args.stage].partition(":")
    try:
        carry_out: Callable[[Hook], int] = getattr(importlib.import_module(f"vibe_gate.faces.git_hook.{module}"), name)
        return carry_out(hook)
    except GateError as error:
        return not_reviewed(hook, error)
    except Exception as error:  # noqa: BLE001  a bug of ours must not keep people from committing; it is no review, too
        return not_reviewed(hook, InfrastructureError(dispatch.bug(error)))


def _marks_are_read(environ: Mapping[str, str]) -> bool:
    """Whether whoever shows this is known to read UTF-8: a terminal, or a framework. `git gui` takes it for Latin-1."""
    return "PRE_COMMIT" in environ or "PREK_HOOK_STAGE" in environ or (sys.stdout is not None and sys.stdout.isatty())


def _parted(words: list[str]) -> tuple[tuple[str, ...], bool]:
    """Git's own arguments, and whether `--strict` stands before them.

    By hand: argparse stumbles over an option before `--` with nothing behind it, as most hooks are called.
    """
    own, rest = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    own = [word for word in own if not word.startswith(OPTION)] if "--" in words else own
    unknown = [word for word in own if word.startswith("-") and word != "--strict"]
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r} (`vibe-gate hook --help` shows what it takes)")
    return (*(word for word in own if word != "--strict"), *rest), "--strict" in own


def _edition(words: list[str]) -> str:
    """Which edition of the scripts calls; "" of a framework, or somebody's own line."""
    return words[0].removeprefix(OPTION) if "--" in words[1:] and words[0].startswith(OPTION) else ""


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
