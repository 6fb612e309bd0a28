"""`vibe-gate completion bash|zsh|fish`: print the script that a shell completes `vibe-gate` with."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import shtab

from vibe_gate.errors import PASS
from vibe_gate.faces.cli.command import Command, argument, group, parser
from vibe_gate.faces.cli.output import emit

EXAMPLES = """\
examples:
  eval "$(vibe-gate completion bash)"     in ~/.bashrc
  vibe-gate completion zsh > ~/.zfunc/_vibe-gate
                                          in a folder of $fpath
  vibe-gate completion fish > ~/.config/fish/completions/vibe-gate.fish
"""


def completion(commands: Callable[[], Mapping[str, Command]]) -> Command:
    """The command that prints the script; `commands` are those that the shell completes, by name."""

    def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
        emit(shtab.complete(parser("", group("", "", commands())), args.shell))
        return PASS

    shell = argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")
    return Command("Print a completion script for a shell.", (shell,), run, examples=EXAMPLES)
