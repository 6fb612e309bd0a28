"""What `vibe-gate --help` and an interrupted command print. It imports nothing, because `--version` and `--help` are answered
at once.
"""

COMMANDS = {
    "review": "review a change: checks first, then the judge",
    "run": "run a workflow of agents and rubrics, or one agent",
    "resume": "go on with a workflow's run that died or waits for approval",
    "init": "write starter definitions to .vibe-gate/; never overwrites",
    "doctor": "check what a review needs here, and say how to fix what is missing",
    "demo": "review a small example repository with recorded model answers",
    "config": "show the gate in force, or check its definitions",
    "test": "run the labelled cases of your rubrics",
    "cases": "make a labelled case of a finding or a run",
    "calibrate": "measure your rubrics' judges on labelled cases",
    "replay": "judge stored runs again by other rubrics, or repeat an agent's run",
    "completion": "print a completion script for bash, zsh or fish",
    "bundles": "list, show, verify, repair, keep, clean, export or import runs",
    "stats": "add up stored runs: outcomes, cost, findings, how many are right",
    "sessions": "list, show, copy or go on with your agents' conversations",
    "viz": "draw the graph of a run",
    "report": "write a run as one HTML page",
    "blame": "tell which session, turn and prompt wrote a line",
    "verify": "check which commits of a range were reviewed",
    "trace": "write Agent Trace records of what captured sessions wrote",
    "explain": "show one finding: why it was raised, and what to do about it",
    "dispute": "say why a finding is wrong; a second look decides",
    "override": "temporarily accept a finding (this clone)",
    "suppress": "permanently ignore a finding (shared)",
    "label": "say whether a finding is right or wrong, to measure the judge",
    "install": "add the gate to git's hooks (git) or to a coding agent",
    "uninstall": "remove what install added",
    "post": "post a recorded run to its pull request",
}
"""Commands for people, and what `--help` says of them."""

DECIDING_COMMANDS = (
    "review", "run", "resume", "demo", "test", "replay", "dispute", "hook", "stop", "action",
)  # fmt: skip
"""Commands that come to a verdict."""


def describe_interruption(command: str) -> str:
    """What is said of a command that a signal ended, and that has no sentence of its own."""
    if command in DECIDING_COMMANDS:
        return "interrupted; nothing was decided."
    return "interrupted."


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
""".format(commands="\n".join(f"  {name:<10} {summary}" for name, summary in COMMANDS.items()))
