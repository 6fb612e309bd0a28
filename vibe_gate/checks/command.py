"""The check that runs a program of the repository's own in an export of the head tree."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from vibe_gate.checks import answer
from vibe_gate.checks.contract import CheckInput, CheckResult
from vibe_gate.checks.lines import text_of
from vibe_gate.domain import paths
from vibe_gate.domain.expressions import expression
from vibe_gate.domain.model import Model
from vibe_gate.domain.verdict import Finding

DEFAULT_TIMEOUT_S = 300.0

_POINTER = expression(r"(?:\./)?(?P<path>[^:]{1,4096}):(?P<line>[0-9]{1,7})(?::[0-9]{1,7})?:?\s+(?P<message>\S.*)")
"""`src/a.py:3:1: F401 unused`, as compilers and linters write it."""


class CommandOptions(Model):
    """`timeout_s`: seconds of wall clock after which the command is killed. `unix_sockets`: it may open them."""

    timeout_s: float = Field(default=DEFAULT_TIMEOUT_S, gt=0, le=86_400)
    unix_sockets: bool = False


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
    findings = [answer.finding(input, f"{shown} {how}: {last}"), *_pointed_at(input, ended.output)]
    return answer.failed(input, f"{shown} {how}.", findings)


def _pointed_at(input: CheckInput, output: str) -> Iterator[Finding]:
    """A finding for each line of output that points at a line of a changed file, once each."""
    files = {paths.encode(file.path).decode("utf-8", "replace"): file for file in input.files if file.after}
    contents: dict[str, list[str]] = {}
    seen: set[tuple[str, int, str]] = set()
    for line in output.splitlines():
        match = _POINTER.match(line)
        file = files.get(match["path"]) if match else None
        if match is None or file is None or file.after is None:
            continue
        if file.path not in contents:
            contents[file.path] = [text_of(content) for content in input.read(file.after).split(b"\n")]
        number, message = int(match["line"]), match["message"]
        if (file.path, number, message) in seen or not 0 < number <= len(contents[file.path]):
            continue
        seen.add((file.path, number, message))
        quote = contents[file.path][number - 1]
        yield answer.finding(input, message, path=file.shown_path, line=number, quote=quote)
