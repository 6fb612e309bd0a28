"""Run the tests that fails bring, behind the wall, in exports of both trees. What the runs mean:
`counterexample`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate import scratch
from vibe_gate.context.facts import Facts, ProofEnvironment
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, Side
from vibe_gate.domain.escape import show_block
from vibe_gate.domain.gate import CounterexampleRule
from vibe_gate.domain.verdict import CheckedEvidence, Proof, ProofStatus, Vote, short
from vibe_gate.git import Repository, Tree
from vibe_gate.judging import counterexample
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.brief import CriterionAnswer
from vibe_gate.judging.cast_vote import RubricVotes
from vibe_gate.judging.counterexample import MAX_TEST, RUNS, RunReading
from vibe_gate.sandbox import (
    CommandLimits,
    CommandResult,
    command_environment_from,
    run_command,
    wall_lack,
)

ENVIRONMENT = "VIBE_GATE_TEST_ENVIRONMENT"
"""The absolute path of the environment, in place of the gate's own setting: where a CI job made
it.
"""

MAX_DISK_MB, MAX_PROCESSES = 512, 256
"""Of one run: more than a test of a unit needs, and little enough for any machine."""


class Prover:
    """Runs the tests that fails of one review bring, one at a time. `tell` hears of each."""

    def __init__(
        self,
        environment: ProofEnvironment,
        change: Change,
        repository: Repository,
        run: RunContext,
        tell: Callable[[str], object],
    ) -> None:
        self._tell = tell
        self._rule, self._folder, self._named = (
            environment.rule,
            environment.folder,
            environment.named,
        )
        self._change, self._repository, self._run = change, repository, run
        self._environment = command_environment_from(run.environment.variables)
        self._trees: dict[Side, Tree] = {
            "after": repository.tree(change.after),
            "before": repository.tree(change.before),
        }
        self._free = asyncio.Lock()
        self._has_pytest: bool | None = None

    async def proven(self, vote: Vote, answer: CriterionAnswer) -> Vote:
        """The vote with what running its test came to; as it is if it is no fail, or has no
        test.
        """
        if vote.outcome != "fail" or not answer.test.strip():
            return vote
        obligation = counterexample.obliging(answer.obligation, vote, self._trees["after"].read)
        if len(answer.test) > MAX_TEST:
            why = f"Could not run: its test is longer than {MAX_TEST:,} characters."
            return replace(
                vote, proof=Proof(status="could_not_run", reason=why, obligation=obligation)
            )
        return await self._with_proof(vote, answer.test.rstrip("\n") + "\n", obligation)

    async def again(self, vote: Vote) -> Vote:
        """The vote of an earlier run with its test run now, if that could not be run then."""
        if not _could_not_run(vote) or vote.proof is UNSET:
            return vote
        return await self._with_proof(vote, vote.proof.test, vote.proof.obligation)

    async def _with_proof(
        self, vote: Vote, test: str, obligation: tuple[CheckedEvidence, ...]
    ) -> Vote:
        async with self._free:
            self._tell("running the test that a fail brought")
            return counterexample.voided(vote, await self._proof(test, obligation))

    async def _proof(self, test: str, obligation: tuple[CheckedEvidence, ...]) -> Proof:
        folders = [name for name in counterexample.TEST_FOLDERS if self._trees["after"].list(name)]
        path = counterexample.path_of(test, self._rule, folders)
        printed: list[str] = []
        status, reason = counterexample.weighed(
            *await self._compared(test, path, printed), obligation
        )
        redact, name = self._run.redactor.text, counterexample.name_of(path, test)
        shown = show_block("".join(printed))  # a person prints it on a terminal
        self._run.record.counterexample(
            name, test.encode(errors="replace"), shown.encode(errors="replace")
        )
        return Proof(
            status=status,
            reason=short(redact(reason)),
            path=path,
            test=redact(test),
            command=counterexample.repeated_by(self._command(shown=True), path),
            obligation=obligation,
        )

    async def _compared(self, test: str, path: str, printed: list[str]) -> tuple[ProofStatus, str]:
        """Three runs after the change, fewer if one says nothing; one before it, or one of what
        must not pass.
        """
        after: list[RunReading] = []
        while len(after) < RUNS and not (after and after[-1].end == "unfinished"):
            after.append(await self._ran("after", test, path, printed))
        if all(run.fails for run in after):
            return counterexample.compared(after, await self._ran("before", test, path, printed))
        status, reason = counterexample.compared(after, None)
        if status != "void":
            return status, reason
        if doubt := counterexample.doubt(self._change):
            return counterexample.not_run(doubt)
        control = counterexample.control_of(test, python=path.endswith(".py"))
        if not (await self._ran("after", control, path, printed)).fails:
            return counterexample.not_run(
                "what must fail in its place does not fail either, so a pass says nothing"
            )
        return status, reason

    async def _ran(self, side: Side, test: str, path: str, printed: list[str]) -> RunReading:
        """One run in an export of its own, which the test may spoil."""
        with scratch.private_folder("check") as folder:
            root = folder.resolve() / "tree"
            with self._run.deadline.interrupting():
                self._repository.export(self._trees[side].id, root)
            if not _put(root, path, test):
                return RunReading("unfinished", f"{path} cannot be written into the tree")
            if self._has_pytest is None:
                asked = [self._python(), "-c", "import pytest"]
                self._has_pytest = (
                    bool(self._rule.command) or (await self._walled(asked, root)).exit_code == 0
                )
            command = self._command()
            ended = await self._walled(counterexample.with_file(command, path), root)
        output = self._run.redactor.text(
            ended.output.replace(f"{root}/", "")
        )  # before a line of it is cut
        code = ended.failure if ended.exit_code is None else f"exit code {ended.exit_code}"
        printed.append(f"==== {side} the change: {code}\n{output}\n")
        return counterexample.read_run(
            counterexample.runner_of(command), ended.exit_code, output, ended.failure
        )

    async def _walled(self, argv: Sequence[str], root: Path) -> CommandResult:
        left = self._run.deadline.left()
        if not left:
            return CommandResult(None, "", "the deadline was reached")
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(
                run_command,
                argv,
                cwd=root,
                timeout_s=min(self._rule.timeout_s, left),
                environment=self._environment,
                limits=CommandLimits(self._rule.memory_mb, MAX_DISK_MB, MAX_PROCESSES),
                variables=self._variables(root),
                cancelled=cancelled.is_set,
            )
        finally:
            cancelled.set()  # the thread would go on

    def _variables(self, root: Path) -> dict[str, str]:
        """What a run in `root` sees: imports come from there, whatever is installed."""
        found = [str(each) for each in (root, root / "src") if each.is_dir()]
        own = {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": os.pathsep.join(found),
        }
        if self._folder is None:
            return own
        path = os.pathsep.join(
            filter(None, [str(self._folder / "bin"), self._environment.variables.get("PATH", "")])
        )
        return own | {"PATH": path, "VIRTUAL_ENV": str(self._folder)}

    def _python(self) -> str:
        return str(self._folder / "bin" / "python") if self._folder else "python"

    def _command(self, *, shown: bool = False) -> tuple[str, ...]:
        """The command with `{file}`; `shown`: as a user would type it in a checkout."""
        python = (
            (f"{self._named}/bin/python" if self._named else "python") if shown else self._python()
        )
        return counterexample.command_of(self._rule, python, has_pytest=bool(self._has_pytest))


async def tried_again(
    answers: Answers,
    facts: Facts,
    repository: Repository,
    run: RunContext,
    tell: Callable[[str], object],
) -> Answers:
    """The answers, with the tests of kept votes that could not be run then: what they need may be
    here now.
    """
    asked = (one for each in answers.by_rubric.values() for one in each)
    kept = [vote for one in asked for cast in one.by_criterion.values() for vote in cast]
    if facts.tests is None or not any(map(_could_not_run, kept)):
        return answers
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    prover = Prover(facts.tests, facts.change, repository, run, tell)
    made = {vote: await prover.again(vote) for vote in kept}

    def with_proofs(votes: RubricVotes) -> RubricVotes:
        again = {
            name: tuple(made[vote] for vote in cast) for name, cast in votes.by_criterion.items()
        }
        return replace(votes, by_criterion=again)

    by_rubric = {name: tuple(map(with_proofs, each)) for name, each in answers.by_rubric.items()}
    return replace(answers, by_rubric=by_rubric)


def _could_not_run(vote: Vote) -> bool:
    """Whether it is a vote of an earlier run whose test could not be run, other than for its own
    time.
    """
    proof = vote.proof
    if proof is UNSET or proof.status != "could_not_run" or not proof.test:
        return False
    return not vote.turn.startswith("nodes/") and "timed out" not in proof.reason


def _put(root: Path, path: str, test: str) -> bool:
    """Write the test into the export, through no link and over nothing; whether that could be
    done.
    """
    place = root / path
    if place.parent.resolve() != place.parent:
        return False
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x", encoding="utf-8", errors="replace") as file:
            file.write(test)
    except OSError:
        return False
    return True


def environment_for(
    rule: CounterexampleRule, change: Change, repository: Repository
) -> ProofEnvironment:
    """What tests of the change run with on this machine, or why they cannot.

    Not what a reviewed tree holds: it would be the change's own, and a link in its place opens any
    folder to the tests.
    """
    user_folder = repository.environment.variables.get(ENVIRONMENT, "")
    gate_folder = rule.environment or ""
    root = repository.root.resolve()
    folder: Path | None = None
    if user_folder:
        folder = Path(user_folder)
    elif gate_folder:
        folder = root / gate_folder
    lack = wall_lack()
    if folder is None:
        lack = lack or ("" if rule.command else _UNNAMED)
    elif user_folder and not folder.is_absolute():
        lack = f"{ENVIRONMENT} is not an absolute path"
    elif not user_folder and (
        folder.parent.resolve() != folder.parent or _is_tracked(gate_folder, change, repository)
    ):
        lack = f"{paths.quote(gate_folder)} is part of the reviewed files"
    elif not (folder / "bin").is_dir() or not (
        rule.command or (folder / "bin" / "python").exists()
    ):
        lack = f"there is no virtual environment at {paths.quote(user_folder or gate_folder)}"
    return ProofEnvironment(rule, folder, "" if user_folder else gate_folder, lack)


def _is_tracked(path: str, change: Change, repository: Repository) -> bool:
    trees = (repository.tree(tree) for tree in (change.after, change.before))
    return any(tree.entry(paths.encode(path)) is not None for tree in trees)


_UNNAMED = (
    f"no environment is named (environment under [counterexample] in gate.toml, or {ENVIRONMENT})"
)
