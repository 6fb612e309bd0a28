"""The tool with which an agent runs the project's tests, behind the wall, by the gate's own command."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import UNSET

from vibe_gate import scratch
from vibe_gate.context.facts import ProofEnvironment
from vibe_gate.context.world import RunContext
from vibe_gate.domain.agent import TESTS_TOOL
from vibe_gate.domain.escape import show_block, show_text
from vibe_gate.judging.walled_tests import WalledTests, place_test_file
from vibe_gate.report.finding_list import ReviewedRound, list_findings
from vibe_gate.run.run_tree import RunTree

MAX_OUTPUT = 12_000
"""Characters of the end of one run's output that an agent is shown."""


def tests_sentence(environment: ProofEnvironment | None) -> str:
    """What an agent that may run tests is told of how, or why it cannot."""
    if environment is None:
        return (
            "No test can be run: the gate names no test command ([counterexample] in gate.toml). "
            "Follow the code by reading it."
        )
    if environment.lack:
        return f"No test can be run: {show_text(environment.lack)}. Follow the code by reading it."
    command = "pytest, or unittest if the project has no pytest,"
    if environment.rule.command:
        command = f"`{show_text(shlex.join(environment.rule.command))}`"
    return (
        f"You can run the project's tests: the tool {TESTS_TOOL} takes one test file and runs "
        f"{command} on it, behind a wall, without network, at most "
        f"{environment.rule.timeout_s:g} seconds. It also takes the path of a finding's test, which "
        "it puts there for the run: do not write that file."
    )


def tests_of_findings(rounds: Sequence[ReviewedRound]) -> dict[str, list[str]]:
    """The failing tests that open findings bring, by the path at which they ran: all of them have
    the same one if the gate names it.
    """
    tests: dict[str, list[str]] = {}
    for finding in list_findings(rounds):
        proof = finding.proof
        if not finding.is_open or proof is UNSET or not proof.is_executed:
            continue
        path_tests = tests.setdefault(proof.path, [])
        if proof.test not in path_tests:
            path_tests.append(proof.test)
    return tests


def make_test_runner(
    environment: ProofEnvironment,
    tree: RunTree,
    run: RunContext,
    finding_tests: Mapping[str, Sequence[str]],
) -> Callable[[str], Awaitable[str]]:
    """What the tool does for an agent that works on this tree. `finding_tests`: by path, tests that
    are put there for a run if the tree has no such file.
    """
    tests = WalledTests(environment, run)

    async def run_file(path: str, test: str, max_output: int) -> str:
        with scratch.private_folder("check") as folder:
            root = folder.resolve() / "tree"
            with run.deadline.interrupting():
                tree.repository.export(tree.workspace.tree(), root)
            if test and not _is_below(path, root):
                place_test_file(root, path, test)
            if not _is_below(path, root):
                return f"There is no file {show_text(path)} in the working directory."
            named_path = f"./{path}" if path.startswith("@") else path  # no file of options
            result = await tests.run_file(named_path, root)
            output = run.redactor.text(result.output.replace(f"{root}/", ""))
        end = show_block(output)
        if len(end) > max_output:
            end = (
                f"[{len(end) - max_output:,} characters before this left out]\n{end[-max_output:]}"
            )
        if result.exit_code is None:
            return f"The run was not finished: {show_text(result.failure)}.\n{end}"
        return f"exit code {result.exit_code}\n{end}"

    async def run_tests(file: str) -> str:
        path = file.removeprefix("./")
        texts = finding_tests.get(path, ())
        if len(texts) < 2 or (tree.workspace.root / path).exists():
            return await run_file(path, "".join(texts[:1]), MAX_OUTPUT)
        answers = []
        for number, text in enumerate(texts, start=1):
            answer = await run_file(path, text, MAX_OUTPUT // len(texts))
            answers.append(f"test {number} of {len(texts)} that ran as {show_text(path)}: {answer}")
        return "\n\n".join(answers)

    return run_tests


def _is_below(path: str, root: Path) -> bool:
    """Whether the path, which is no option of a command, names something below `root`."""
    if not path or path.startswith("-") or "\0" in path:
        return False
    target = (root / path).resolve()
    return target != root and target.is_relative_to(root) and target.exists()
