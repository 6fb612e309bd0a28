"""The command `vibe-gate`: what can be answered at once, else on to the dispatcher.

Only `sys` and `os` are imported here, because every start passes through: `--version` and `--help` are answered in
the time of a bare interpreter; everything else costs the imports of its own command.
"""

import os
import sys

from vibe_gate import __version__

COMMANDS = {
    "review": "review a change: checks first, then the judge",
    "run": "run a workflow of agents and rubrics, or one agent",
    "resume": "go on with a workflow's run that died or waits for approval",
    "init": "write starter definitions to .vibe-gate/; never overwrites",
    "doctor": "check what a review needs here, and say how to fix what is missing",
    "demo": "review a small example repository with recorded model answers",
    "config": "show the gate in force, or check its definitions",
    "test": "run the labelled cases of your rubrics",
    "completion": "print a completion script for bash, zsh or fish",
    "bundles": "list, show, verify, repair, keep, clean, export or import runs",
    "stats": "add up stored runs: outcomes, cost, findings, what the cache saved",
    "sessions": "list, show, copy or go on with your agents' conversations",
    "viz": "draw the graph of a run",
    "report": "write a run as one HTML page",
    "verify": "check which commits of a range were reviewed",
    "override": "temporarily accept a finding (this clone)",
    "suppress": "permanently ignore a finding (shared)",
    "install": "add the gate to git's hooks (git) or to Claude Code (claude)",
    "uninstall": "remove what install added",
    "post": "post a recorded run to its pull request",
}
"""Commands for people, and what `--help` says of them."""

HELP = """\
vibe-gate: a git-native gate for agent-written code

  vibe-gate review HEAD~1     review everything since HEAD~1, including
                              uncommitted work
  vibe-gate review --staged   review what the next commit would record
  vibe-gate demo              see a whole review in seconds: offline and free

Commands
{commands}

  vibe-gate COMMAND --help    options and examples of one command
  vibe-gate --version

Exit codes
  0  pass, or nothing to review    3  inconclusive, or the review could not run
  1  fail                          4  the change edits the gate: needs approval
  2  usage, or definitions that    5  integrity: what was reviewed is not what
     do not parse                     is there, or a bundle is corrupt
                                 130  interrupted
""".format(commands="\n".join(f"  {name:<10} {what}" for name, what in COMMANDS.items()))


def main() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        code = _answer(sys.argv[1:])
    except KeyboardInterrupt:  # before the dispatcher could take over
        sys.stderr.write("vibe-gate: interrupted; nothing was decided.\n")
        return 130
    if sys.argv[1:2] == ["hook"]:
        # Git need not wait until hundreds of modules are taken apart; of what the end does only this is needed.
        os._exit(_print("") or code)
    return code


def _answer(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):
        return _print(f"vibe-gate {__version__}\n")
    if not argv or argv in (["--help"], ["-h"], ["help"]):
        return _print(HELP)
    from vibe_gate.faces.cli import dispatch

    return dispatch.run(argv)


def _print(text: str) -> int:
    try:
        if sys.stdout is not None:  # None: started with stdout closed
            sys.stdout.write(text)
            sys.stdout.flush()
    except OSError as error:
        from vibe_gate.faces.cli.output import drop_stdout

        drop_stdout()
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"vibe-gate: cannot write to stdout: {error.strerror}.\n")
            return 3
    return 0
