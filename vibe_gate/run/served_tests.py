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
    return _TestRunner(environment, tree, run, finding_tests).run_tests


class _TestRunner:
    """Runs tests in exports of an agent's tree as it is then."""

    def __init__(
        self,
        environment: ProofEnvironment,
        tree: RunTree,
        run: RunContext,
        finding_tests: Mapping[str, Sequence[str]],
    ) -> None:
        self._tests = WalledTests(environment, run)
        self._tree = tree
        self._run = run
        self._finding_tests = finding_tests

    async def run_tests(self, file: str) -> str:
        """What the tests of the file printed, and how they ended."""
        path = file.removeprefix("./")
        texts = self._finding_tests.get(path, ())
        if len(texts) < 2 or (self._tree.workspace.root / path).exists():
            return await self._run_file(path, "".join(texts[:1]), MAX_OUTPUT)
        answers = []
        for number, text in enumerate(texts, start=1):
            answer = await self._run_file(path, text, MAX_OUTPUT // len(texts))
            answers.append(f"test {number} of {len(texts)} that ran as {show_text(path)}: {answer}")
        return "\n\n".join(answers)

    async def _run_file(self, path: str, test: str, max_output: int) -> str:
        """The same of one file; `test` is its text if the tree has none."""
        with scratch.private_folder("check") as folder:
            root = folder.resolve() / "tree"
            with self._run.deadline.interrupting():
                self._tree.repository.export(self._tree.workspace.tree(), root)
            if test and not _is_below(path, root):
                place_test_file(root, path, test)
            if not _is_below(path, root):
                return f"There is no file {show_text(path)} in the working directory."
            named_path = f"./{path}" if path.startswith("@") else path  # no file of options
            result = await self._tests.run_file(named_path, root)
            output = self._run.redactor.text(result.output.replace(f"{root}/", ""))
        end = _keep_end(show_block(output), max_output)
        if result.exit_code is None:
            return f"The run was not finished: {show_text(result.failure)}.\n{end}"
        return f"exit code {result.exit_code}\n{end}"


def _keep_end(output: str, max_output: int) -> str:
    """The last so many characters, and how many there were before them."""
    if len(output) <= max_output:
        return output
    omitted = len(output) - max_output
    return f"[{omitted:,} characters before this left out]\n{output[-max_output:]}"


def _is_below(path: str, root: Path) -> bool:
    """Whether the path, which is no option of a command, names something below `root`."""
    if not path or path.startswith("-") or "\0" in path:
        return False
    target = (root / path).resolve()
    return target != root and target.is_relative_to(root) and target.exists()
