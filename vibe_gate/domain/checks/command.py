"""The check that runs a program of the repository's own in an export of the head tree."""

from __future__ import annotations

from pydantic import Field

from vibe_gate.domain.checks import answer
from vibe_gate.domain.checks.contract import CheckInput, CheckResult
from vibe_gate.domain.model import Model

DEFAULT_TIMEOUT_S = 300.0


class CommandOptions(Model):
    """`timeout_s`: seconds of wall clock after which the command is killed."""

    timeout_s: float = Field(default=DEFAULT_TIMEOUT_S, gt=0, le=86_400)


def command(input: CheckInput, options: CommandOptions) -> CheckResult:
    """The command exits with 0. One that could not run or did not finish says nothing about the change: error."""
    argv = input.criterion.command
    if not argv:
        return CheckResult("error", 'The check "command" needs a command = ["program", "argument"].')
    if input.criterion.paths and not input.files:
        return answer.nothing_selected(input)
    ended = input.run_command(argv, options.timeout_s)
    shown = " ".join(argv)[:120]
    if ended.exit_code is None:
        return CheckResult("error", answer.sentence(f"{shown} gave no answer: {ended.failure}."))
    if ended.exit_code == 0:
        return answer.passed(f"{shown} exited with 0.")
    how = f"exited with {ended.exit_code}" if ended.exit_code > 0 else f"was ended by signal {-ended.exit_code}"
    last = next((line.strip() for line in reversed(ended.output.splitlines()) if line.strip()), "no output")
    return answer.failed(f"{shown} {how}.", [answer.finding(input, f"{shown} {how}: {last}")])
