"""`vibe-gate completion bash|zsh|fish`: print the script that a shell completes `vibe-gate` with."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from vibe_gate.errors import PASS
from vibe_gate.faces.cli import COMMANDS, dispatch
from vibe_gate.faces.cli.output import emit


def _completion(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    import shtab

    commands = {name: dispatch.command(name) for name in COMMANDS}
    whole = dispatch.parser("", dispatch.group("", "", commands))
    emit(shtab.complete(whole, args.shell))
    return PASS


COMPLETION = dispatch.Command(
    "Print a completion script for a shell.",
    (dispatch.argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script"),),
    _completion,
    examples="""\
examples:
  eval "$(vibe-gate completion bash)"     in ~/.bashrc
  vibe-gate completion zsh > ~/.zfunc/_vibe-gate
                                          in a folder of $fpath
  vibe-gate completion fish > ~/.config/fish/completions/vibe-gate.fish
""",
)
