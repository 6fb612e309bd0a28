"""Run the tests that fails bring, behind the wall, in exports of both trees. What the runs mean:
`counterexample`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate import scratch
from vibe_gate.context.facts import Facts, ProofEnvironment
from vibe_gate.context.world import RunContext
from vibe_gate.domain import paths
from vibe_gate.domain.change import Change, Side
from vibe_gate.domain.escape import show_block
from vibe_gate.domain.gate import CounterexampleRule
from vibe_gate.domain.verdict import (
    MAX_PROOF_OUTPUT,
    CheckedEvidence,
    Defect,
    Proof,
    ProofStatus,
    Vote,
    short,
)
from vibe_gate.git import Repository, Tree
from vibe_gate.judging import counterexample
from vibe_gate.judging.answers import Answers
from vibe_gate.judging.brief import FindingAnswer
from vibe_gate.judging.cast_vote import RubricVotes
from vibe_gate.judging.counterexample import MAX_TEST, RUNS, RunReading
from vibe_gate.judging.defects import judge_defect
from vibe_gate.judging.vote_counting import check_vote
from vibe_gate.judging.walled_tests import WalledTests, place_test_file
from vibe_gate.sandbox import wall_lack

ENVIRONMENT = "VIBE_GATE_TEST_ENVIRONMENT"
"""The absolute path of the environment, in place of the gate's own setting: where a CI job made
it.
"""


class _TestResult(Struct, frozen=True):
    """How one run of a test ended, for people."""

    heading: str
    """Where it ran, and how it ended."""
    output: str
    """Without secrets."""
    timed_out: bool


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
        self._rule = environment.rule
        self._tests = WalledTests(environment, run)
        self._change = change
        self._repository = repository
        self._run = run
        self._trees: dict[Side, Tree] = {
            "after": repository.tree(change.after),
            "before": repository.tree(change.before),
        }
        self._lock = asyncio.Lock()

    async def prove(self, vote: Vote, findings: Sequence[FindingAnswer]) -> Vote:
        """The vote with what running the tests of its defects came to; as it is if it is no fail, or
        has no test.

        `findings`: of which its defects were made, in their order.
        """
        if vote.outcome != "fail":
            return vote
        defects = []
        for defect, finding in zip(vote.defects, findings, strict=True):
            if finding.test.strip() and judge_defect(defect) == "counts":
                defect = await self._prove_defect(defect, finding)
            defects.append(defect)
        return check_vote(replace(vote, defects=tuple(defects)))

    async def prove_kept_vote(self, vote: Vote) -> Vote:
        """The vote of an earlier run with those of its tests run now that could not be run then."""
        defects = []
        for defect in vote.defects:
            if defect.proof is not UNSET and _could_not_run(vote, defect):
                proof = await self._run_proof(defect.proof.test, defect.proof.obligation)
                defect = replace(defect, proof=proof)
            defects.append(defect)
        return check_vote(replace(vote, defects=tuple(defects)))

    async def _prove_defect(self, defect: Defect, finding: FindingAnswer) -> Defect:
        read_after = self._trees["after"].read
        obligation = counterexample.check_obligation(finding.obligation, defect, read_after)
        if len(finding.test) > MAX_TEST:
            reason = f"Could not run: its test is longer than {MAX_TEST:,} characters."
            proof = Proof(status="could_not_run", reason=reason, obligation=obligation)
        else:
            proof = await self._run_proof(finding.test.rstrip("\n") + "\n", obligation)
        return replace(defect, proof=proof)

    async def _run_proof(self, test: str, obligation: tuple[CheckedEvidence, ...]) -> Proof:
        async with self._lock:
            self._tell("running the test that a fail brought")
            return await self._make_proof(test, obligation)

    async def _make_proof(self, test: str, obligation: tuple[CheckedEvidence, ...]) -> Proof:
        after = self._trees["after"]
        folders = [name for name in counterexample.TEST_FOLDERS if after.list(name)]
        path = counterexample.choose_test_path(test, self._rule, folders)
        results: list[_TestResult] = []
        status, reason = await self._compare_trees(test, path, results)
        status, reason = counterexample.weigh_obligation(status, reason, obligation)
        self._keep_runs(test, path, results)
        redact = self._run.redactor.text
        failure_output = ""
        if status in ("proven", "shown"):
            failure_output = results[0].output.rstrip()[-MAX_PROOF_OUTPUT:]
        has_timed_out = any(result.timed_out for result in results)
        return Proof(
            status=status,
            reason=short(redact(reason)),
            path=path,
            test=redact(test),
            output=failure_output,
            command=counterexample.format_test_command(self._tests.user_command, path),
            obligation=obligation,
            timed_out=has_timed_out or UNSET,
        )

    def _keep_runs(self, test: str, path: str, results: Sequence[_TestResult]) -> None:
        """Keep the test and what its runs printed, as a person may print it on a terminal."""
        output = ""
        for result in results:
            output += f"==== {result.heading}\n{result.output}\n"
        self._run.record.keep_counterexample(
            counterexample.name_test_file(path, test),
            test.encode(errors="replace"),
            show_block(output).encode(errors="replace"),
        )

    async def _compare_trees(
        self, test: str, path: str, results: list[_TestResult]
    ) -> tuple[ProofStatus, str]:
        """Three runs after the change, fewer if one says nothing; one before it, or one of what
        must not pass.
        """
        runs_after: list[RunReading] = []
        for _ in range(RUNS):
            run_after = await self._run_test("after", test, path, results)
            runs_after.append(run_after)
            if run_after.end == "unfinished":
                break
        if all(run.fails for run in runs_after):
            run_before = await self._run_test("before", test, path, results)
            return counterexample.compare_runs(runs_after, run_before)
        status, reason = counterexample.compare_runs(runs_after, None)
        if status != "void":
            return status, reason
        doubt = counterexample.find_doubt(self._change)
        if doubt:
            return counterexample.could_not_run(doubt)
        control = counterexample.make_control(test, python=path.endswith(".py"))
        control_run = await self._run_test("after", control, path, results)
        if not control_run.fails:
            return counterexample.could_not_run(
                "what must fail in its place does not fail either, so a pass says nothing"
            )
        return status, reason

    async def _run_test(
        self, side: Side, test: str, path: str, results: list[_TestResult]
    ) -> RunReading:
        """One run in an export of its own, which the test may spoil; how it ended goes to
        `results`.
        """
        with scratch.private_folder("check") as folder:
            root = folder.resolve() / "tree"
            with self._run.deadline.interrupting():
                self._repository.export(self._trees[side].id, root)
            if not place_test_file(root, path, test):
                return RunReading("unfinished", f"{path} cannot be written into the tree")
            result = await self._tests.run_file(path, root)
        # Redacted before a line of it is cut.
        output = self._run.redactor.text(result.output.replace(f"{root}/", ""))
        code = result.failure if result.exit_code is None else f"exit code {result.exit_code}"
        heading = f"{side} the change: {code}"
        results.append(_TestResult(heading, output, result.timed_out))
        runner = counterexample.find_runner(self._tests.command)
        return counterexample.read_run(runner, result.exit_code, output, result.failure)


async def rerun_kept_tests(
    answers: Answers,
    facts: Facts,
    repository: Repository,
    run: RunContext,
    tell: Callable[[str], object],
) -> Answers:
    """The answers, with the tests of kept votes that could not be run then: what they need may be
    here now.
    """
    kept_votes = _all_votes(answers)
    if facts.tests is None or not any(map(_has_unrun_test, kept_votes)):
        return answers
    await asyncio.sleep(0)  # from here on an event loop is needed (faces.progress)
    prover = Prover(facts.tests, facts.change, repository, run, tell)
    proven_votes = {vote: await prover.prove_kept_vote(vote) for vote in kept_votes}
    by_rubric = {}
    for rubric_id, question_votes in answers.by_rubric.items():
        by_rubric[rubric_id] = tuple(
            _replace_votes(votes, proven_votes) for votes in question_votes
        )
    return replace(answers, by_rubric=by_rubric)


def _all_votes(answers: Answers) -> list[Vote]:
    all_votes: list[Vote] = []
    for question_votes in answers.by_rubric.values():
        for votes in question_votes:
            for cast in votes.by_criterion.values():
                all_votes += cast
    return all_votes


def _replace_votes(votes: RubricVotes, new_votes: Mapping[Vote, Vote]) -> RubricVotes:
    by_criterion = {}
    for criterion_id, cast in votes.by_criterion.items():
        by_criterion[criterion_id] = tuple(new_votes[vote] for vote in cast)
    return replace(votes, by_criterion=by_criterion)


def _has_unrun_test(vote: Vote) -> bool:
    """Whether a test of it could not be run."""
    return any(_could_not_run(vote, defect) for defect in vote.defects)


def _could_not_run(vote: Vote, defect: Defect) -> bool:
    """Whether it is of a vote of an earlier run, and its test could not be run, other than for its
    own time.
    """
    proof = defect.proof
    if proof is UNSET or proof.status != "could_not_run" or not proof.test:
        return False
    return not vote.turn.startswith("nodes/") and proof.timed_out is UNSET


def find_proof_environment(
    rule: CounterexampleRule, change: Change, repository: Repository
) -> ProofEnvironment:
    """What tests of the change run with on this machine, or why they cannot."""
    user_folder = repository.environment.variables.get(ENVIRONMENT, "")
    gate_folder = rule.environment or ""
    folder: Path | None = None
    if user_folder:
        folder = Path(user_folder)
    elif gate_folder:
        folder = repository.root.resolve() / gate_folder
    if folder is None:
        lack = wall_lack() or ("" if rule.command else _UNNAMED)
        return ProofEnvironment(rule, folder, gate_folder, lack)
    if user_folder:
        lack = "" if folder.is_absolute() else f"{ENVIRONMENT} is not an absolute path"
    else:
        lack = _reviewed_lack(folder, gate_folder, change, repository)
    lack = lack or _missing_lack(folder, rule, user_folder or gate_folder) or wall_lack()
    return ProofEnvironment(rule, folder, "" if user_folder else gate_folder, lack)


def _reviewed_lack(folder: Path, path: str, change: Change, repository: Repository) -> str:
    """Why an environment that reviewed files hold is not taken, or "".

    It would be the change's own, and a link in its place opens any folder to the tests.
    """
    if folder.parent.resolve() == folder.parent and not _is_tracked(path, change, repository):
        return ""
    return f"{paths.quote(path)} is part of the reviewed files"


def _missing_lack(folder: Path, rule: CounterexampleRule, shown_path: str) -> str:
    """That there is no virtual environment in the folder, or ""."""
    has_programs = (folder / "bin").is_dir()
    has_python = bool(rule.command) or (folder / "bin" / "python").exists()
    if has_programs and has_python:
        return ""
    return f"there is no virtual environment at {paths.quote(shown_path)}"


def _is_tracked(path: str, change: Change, repository: Repository) -> bool:
    """Whether the tree before or after the change has something at the path."""
    tree_path = paths.encode(path)
    trees = [repository.tree(change.after), repository.tree(change.before)]
    return any(tree.entry(tree_path) is not None for tree in trees)


_UNNAMED = (
    f"no environment is named (environment under [counterexample] in gate.toml, or {ENVIRONMENT})"
)
