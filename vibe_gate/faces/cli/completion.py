"""`vibe-gate completion bash|zsh|fish`: print the script that a shell completes `vibe-gate`
with.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

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


def _parse(args: argparse.Namespace) -> str:
    """The name of the shell."""
    return str(args.shell)


def completion(commands: Callable[[], Mapping[str, Command[Any]]]) -> Command[str]:
    """The command that prints the script; `commands` are those that the shell completes, by
    name.
    """

    def run(shell: str) -> int:
        emit(shtab.complete(parser("", group("", "", commands())), shell))
        return PASS

    shell_argument = argument(
        "shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script"
    )
    summary = "Print a completion script for a shell."
    return Command(summary, (shell_argument,), _parse, run, examples=EXAMPLES)
