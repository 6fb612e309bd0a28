"""The command `vibe-gate`: what can be answered at once, else on to the dispatcher.

Only `sys` and `os` are imported here, because every start passes through:
`--version`, `--help` and a review with nothing to do are answered in the time of
a bare interpreter; everything else costs the imports of its own command.
"""

import os
import sys

from vibe_gate import __version__

HELP = """\
vibe-gate: a gate for agent-written code, with verdicts you can check

  vibe-gate review HEAD~1        review everything since HEAD~1, uncommitted work included
  vibe-gate review --staged      review what the next commit would record
  vibe-gate demo                 see a whole review in seconds: offline, free, a recording

Commands
  review     hold a change against the repository's rubrics: checks first, then the judge
  init       write starter definitions into .vibe-gate/ (never overwrites)
  doctor     what works here, what does not, and what to do about it
  demo       a small repository and a recorded conversation, reviewed before your eyes
  config     show the gate in force, or check its definitions
  bundles    what was recorded: list, show, keep, clean, du
  verify     which commits of a range have a verdict that can be relied on
  override   let a finding pass here for a while, with a reason; people only
  suppress   write into .vibe-gate what the repository decides to live with
  install    git: hooks for commit, merge and push; claude: capture and guard for Claude Code
  uninstall  what install put there; what was there before is back
  hook       called by git and by hook frameworks, not by people
  capture    called by Claude Code: keeps what its session does
  guard      called by Claude Code: refuses what would go around the gate
  post       a recorded run to its pull request
  action     called by the GitHub Action: reviews a pull request and says so there

  vibe-gate COMMAND --help       options and examples of one command
  vibe-gate --version

Exit codes
  0  pass, or nothing to review        3  inconclusive, or the review could not be carried out
  1  fail                              4  the gate's own definitions changed: a human must approve
  2  usage, or definitions that        5  integrity: what was reviewed is not what is there
     do not parse                    130  interrupted
"""


def main() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        code = _answer(sys.argv[1:])
    except KeyboardInterrupt:  # before the dispatcher could take over
        sys.stderr.write("vibe-gate: interrupted; nothing was decided.\n")
        return 130
    if sys.argv[1:2] == ["hook"]:
        # Git need not wait until hundreds of modules are taken apart; of what the end does only this is needed.
        os._exit(_say("") or code)
    return code


def _answer(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):
        return _say(f"vibe-gate {__version__}\n")
    if not argv or argv in (["--help"], ["-h"], ["help"]):
        return _say(HELP)
    if argv[0] == "review":
        sentence = _load("vibe_gate.faces.cli.idle").nothing_to_review(argv[1:])
        if sentence is not None:
            return _say(sentence + "\n")
    code: int = _load("vibe_gate.faces.cli.dispatch").run(argv)
    return code


# What an import statement inside a function would do; written as a call it says
# that the delay is meant.
def _load(module: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return __import__(module, fromlist=["_"])


def _say(text: str) -> int:
    try:
        if sys.stdout is not None:  # None: started with stdout closed
            if os.environ.get("GITHUB_ACTIONS"):
                text = _load("vibe_gate.faces.cli.output").disarmed(text)
            sys.stdout.write(text)
            sys.stdout.flush()
    except OSError as error:
        _load("vibe_gate.faces.cli.output").drop_stdout()
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"vibe-gate: the result could not be written to stdout: {error.strerror}.\n")
            return 3
    return 0
