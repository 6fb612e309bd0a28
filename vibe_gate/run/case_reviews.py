"""Run labelled cases: each is a review of its rubric in a repository of its own, compared with what
it expects.

Rubrics are those of the working tree: a case tests the rubric that is being edited.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from vibe_gate import scratch
from vibe_gate.context.facts import Facts
from vibe_gate.context.listeners import Progress
from vibe_gate.context.mode import CalibrationMode
from vibe_gate.context.review_request import JudgeWish, ReviewRequest
from vibe_gate.domain.change import EMPTY_TREE, Selection
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.model_wire import Wire, WireMode
from vibe_gate.domain.rubric import Claim
from vibe_gate.domain.summary import AgentAuthored, Summary
from vibe_gate.domain.tables import advise_nearest
from vibe_gate.domain.verdict import CriterionResult, RubricResult
from vibe_gate.errors import DefinitionError, GatewayError, StorageError, UsageError
from vibe_gate.gate.cases import PATCH, SIDES, Case, read_cases
from vibe_gate.gate.loading import built_in_gate, load_gate
from vibe_gate.gate.source import Mistake
from vibe_gate.git import Repository, Tree, open_repository
from vibe_gate.judging.questions import questions_of
from vibe_gate.judging.rubric_brief import briefs_of
from vibe_gate.run.review import review_in
from vibe_gate.run.shard import WHOLE, Shard
from vibe_gate.run.stage_result import ModelUse, model_use_in
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_result import read_bundle

Status = Literal["ok", "failed", "undecided", "no cassette"]

CHANGE_MESSAGE = "Change"
"""What the commit of a case says (`git.Repository.with_trees`)."""

NO_CASSETTE = "record it with `vibe-gate test --wire record`"


class CaseResult(Struct, frozen=True):
    """How a case came out."""

    case: Case

    status: Status

    reasons: tuple[str, ...] = ()
    """Why it is not ok, one for each criterion."""

    summary: Summary | None = None
    """Of the review; None if there was none."""

    model_use: ModelUse | None = None

    cli: str = ""
    """The version of Claude Code, if a model was asked."""

    @property
    def usd(self) -> float:
        """What it cost this time."""
        return self.summary.cost.usd if self.summary else 0.0

    @property
    def text(self) -> str:
        """One line for people: the verdict on the case, then why."""
        status = "FAIL" if self.status == "failed" else self.status
        return ": ".join(filter(None, (status, "; ".join(self.reasons))))


class CaseTask(Struct, frozen=True):
    """A case to review, as `CaseSet.run` has it. It can be pickled."""

    root: Path
    """A folder of the repository that has the case."""

    case: str
    """Its name."""

    wire: WireMode

    max_cost_usd: float | None = None

    repeat: int = 0
    """From 0."""

    judge: JudgeWish = "if checks pass"


class _CaseReview(Struct, frozen=True):
    """A review that was made of a case."""

    summary: Summary
    model_use: ModelUse
    cli: str
    """The version of Claude Code, "" if no model was asked."""


class CaseSet(Struct, frozen=True):
    """The labelled cases of a folder."""

    repository: Repository

    root: Path
    """The folder."""

    tree: Tree
    """Its files when they were read."""

    cases: tuple[Case, ...]
    """Those of the shard that is run."""

    gate: Gate
    """What the files define."""

    cases_of_all_shards: tuple[Case, ...]

    @property
    def is_labelled(self) -> bool:
        """Whether a case of any part says how a judge's criterion must come out."""
        rubrics = {rubric.id: rubric for rubric in self.gate.rubrics}
        return any(case.is_labelled(rubrics[case.file.rubric]) for case in self.cases_of_all_shards)

    @property
    def max_cost_usd(self) -> float:
        """The gate's limit of a review."""
        return self.gate.file.budget.max_cost_usd

    async def run(
        self,
        case: Case,
        wire: WireMode,
        *,
        clock: Callable[[], datetime],
        progress: Progress,
        max_cost_usd: float | None = None,
        repeat: int = 0,
        judge: JudgeWish = "if checks pass",
    ) -> CaseResult:
        """Review the case and compare. `max_cost_usd` takes the place of the gate's own limit;
        `repeat` counts from 0.
        `judge`: whether it is asked if a check fails.

        A recording replaces the cassette only if every expected criterion was decided. Raises
        GateError: UsageError for a cassette behind a symbolic link, GatewayError for a wire set up
        wrongly.
        """
        cassette = self._cassette(case, repeat)
        trees = self.sides(case)
        if isinstance(trees, str):
            return CaseResult(case, "undecided", (trees,))
        with scratch.private_folder("case") as folder:
            recording = Path(folder, "cassette")
            cassettes = {"live": None, "record": recording, "replay": cassette}
            request = ReviewRequest(
                Selection("commit"),
                rubrics=(case.file.rubric,),
                definitions="HEAD~2",
                max_cost_usd=max_cost_usd,
                judge=judge,
                wire=Wire(wire, cassettes[wire]),
                mode=CalibrationMode(),
            )
            try:
                case_review = await self._review_trees(
                    trees, request, Path(folder, "repository"), clock, progress
                )
            except GatewayError:
                if wire != "replay" or any(cassette.glob("*.json")):
                    raise
                return CaseResult(case, "no cassette", (NO_CASSETTE,))
            failures, undecided = compare_with_expected(case, case_review.summary.rubrics[0])
            if wire == "record" and not undecided:
                _replace_cassette(cassette, recording)
        status: Status = "ok"
        if failures:
            status = "failed"
        elif undecided:
            status = "undecided"
        return CaseResult(
            case,
            status,
            failures or undecided,
            case_review.summary,
            case_review.model_use,
            case_review.cli,
        )

    async def _review_trees(
        self,
        trees: Sequence[str],
        request: ReviewRequest,
        folder: Path,
        clock: Callable[[], datetime],
        progress: Progress,
    ) -> _CaseReview:
        """Review a case in a repository of its own, below `folder`. GateError."""
        with (
            self.repository.with_trees(folder, (self.tree.id, *trees)) as stand_in,
            open_state(self.repository.common_dir) as project_state,
            open_state(stand_in.common_dir) as state,
        ):
            state.spending = project_state.spending  # a case counts on the project's day
            review = await review_in(stand_in, request, clock=clock, progress=progress, state=state)
            bundle = read_bundle(stand_in.store_root / review.summary.bundle)
            model_use = await model_use_in(bundle)
            cli = bundle.run_document["versions"].get("claude-code", "")
        return _CaseReview(review.summary, model_use, cli)

    def conversations(self, case: Case, model: str) -> int:
        """How many conversations a review of the case holds at most, without second looks; 0 if it
        cannot be had.

        `model` is asked where the rubric names none.
        """
        trees = self.sides(case)
        if isinstance(trees, str):
            return 0
        rubric = next(rubric for rubric in self.gate.rubrics if rubric.id == case.file.rubric)
        with scratch.private_folder("case") as folder:
            stand_in_folder = Path(folder, "repository")
            with self.repository.with_trees(stand_in_folder, (self.tree.id, *trees)) as stand_in:
                change = stand_in.change(Selection("commit"))
                claims = (Claim("message", CHANGE_MESSAGE),)
                facts = Facts(change, self.gate, (rubric,), claims, AgentAuthored())
                briefs = briefs_of(questions_of(facts, model), facts, stand_in)
                return sum(len(brief.parts) for brief in briefs) * rubric.votes

    def sides(self, case: Case) -> tuple[str, str] | str:
        """The trees before and after the change, or the sentence why they cannot be had."""
        base, head = case.file.base, case.file.head
        if base is None:
            return _folder_trees(self.tree, case)
        for commit in filter(None, (base, head)):
            if not self.repository.has(commit):
                return (
                    f"commit {commit[:12]} is not in this clone; fetch it "
                    "(in a shallow one: `git fetch --unshallow`)"
                )
        before = self.repository.tree_of(base)
        if head:
            after = self.repository.tree_of(head)
        else:
            patch = self.tree.read(f"{case.folder}/{PATCH}") or b""
            after = self.repository.patched(before, patch)
        if not after:
            return f"{PATCH} does not apply to commit {base[:12]}"
        if before == after:
            return f"nothing differs from commit {base[:12]}"
        return before, after

    def _cassette(self, case: Case, repeat: int) -> Path:
        """The folder of the case's recording, or of its repeat. UsageError if a link would lead
        elsewhere.
        """
        folder = self.root.resolve() / case.folder / "cassette"
        if repeat:
            folder = folder / f"repeat-{repeat + 1}"
        if folder.resolve() != folder:
            raise UsageError(
                f"{case.folder}/cassette: a symbolic link is on the way; "
                "put the folder itself here."
            )
        return folder


@contextmanager
def read_case_set(
    start: Path,
    environment: Environment,
    rubrics: Sequence[str] = (),
    *,
    nested: bool = False,
    shard: Shard = WHOLE,
) -> Iterator[CaseSet]:
    """The cases of the repository around `start`, or if `nested` of this folder of it; those of
    these rubrics, or all.

    Of them, those whose name is in `shard`. Raises DefinitionError with every mistake in
    definitions or cases; UsageError for a rubric that no case names, or a folder that git ignores.
    """
    with open_repository(start, environment) as repository:
        root = repository.root
        tree = repository.tree(repository.snapshot())
        if nested and start.resolve() != root.resolve():
            entry = tree.entry(os.fsencode(start.resolve().relative_to(root.resolve())))
            if entry is None:
                raise UsageError(f"git ignores {start}: labelled cases are read as git sees them.")
            root = start
            tree = repository.tree(entry.id)
        gate = load_gate(tree, revision="worktree", origin="trusted") or built_in_gate(tree)
        cases, mistakes = read_cases(tree, gate.rubrics)
        mistakes += _find_cases_without_change(tree, cases)
        if mistakes:
            raise DefinitionError(mistakes)
        _require_cases_of(rubrics, cases)
        chosen_cases = [case for case in cases if not rubrics or case.file.rubric in rubrics]
        cases_of_shard = [case for case in chosen_cases if shard.has(case.name)]
        yield CaseSet(repository, root, tree, tuple(cases_of_shard), gate, tuple(chosen_cases))


def _find_cases_without_change(tree: Tree, cases: Sequence[Case]) -> list[Mistake]:
    mistakes = []
    for case in cases:
        if case.file.base:
            continue
        before, after = _folder_trees(tree, case)
        if before == after:
            mistakes.append(Mistake(case.folder, 1, "", "before/ and after/ hold the same files"))
    return mistakes


def _require_cases_of(rubrics: Sequence[str], cases: Sequence[Case]) -> None:
    """UsageError: no case is about one of these rubrics."""
    known_rubrics = {case.file.rubric for case in cases}
    for rubric in rubrics:
        if rubric not in known_rubrics:
            advice = advise_nearest(rubric, sorted(known_rubrics))
            raise UsageError(f"no case is about a rubric '{rubric}'{advice and f'; {advice}'}")


def compare_with_expected(
    case: Case, result: RubricResult
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What came out otherwise than expected, and what nobody decided, both as sentences."""
    undecided: dict[str, str] = {}
    failures: list[str] = []
    for criterion in result.criteria:
        if _is_undecided(criterion):
            undecided[criterion.id] = f"{criterion.id}: {criterion.reason}"
            continue
        expected = case.file.expect.get(criterion.id, criterion.outcome)
        if criterion.outcome != expected:
            failures.append(
                f"{criterion.id}: expected {expected}, got {criterion.outcome} ({criterion.reason})"
            )
    expected_outcome = case.file.outcome or result.outcome
    if case.file.outcome and undecided and result.outcome in ("inconclusive", "error"):
        return tuple(failures), tuple(undecided.values())
    if result.outcome != expected_outcome:
        failures.append(
            f"rubric {case.file.rubric}: expected {expected_outcome}, got {result.outcome}"
        )
    expected_undecided = [undecided[name] for name in case.file.expect if name in undecided]
    return tuple(failures), tuple(expected_undecided)


def _is_undecided(criterion: CriterionResult) -> bool:
    """Whether it is an error, or no judge and no check has answered it."""
    if criterion.outcome == "error":
        return True
    return criterion.outcome == "abstain" and criterion.decided_by == "none"


def _folder_trees(tree: Tree, case: Case) -> tuple[str, str]:
    """The trees of the case's folders before/ and after/; one that it does not have is empty."""
    tree_ids = []
    for side in SIDES:
        entry = tree.entry(f"{case.folder}/{side}".encode())
        tree_ids.append(entry.id if entry else EMPTY_TREE)
    before, after = tree_ids
    return before, after


def _replace_cassette(cassette: Path, recording: Path) -> None:
    """Put a recording in place of an older one; a case that asked nothing has none."""
    try:
        shutil.rmtree(cassette, ignore_errors=True)
        if recording.exists():
            shutil.copytree(recording, cassette)
    except OSError as error:
        raise StorageError(f"{cassette} cannot be written: {error.strerror or error}.") from error
