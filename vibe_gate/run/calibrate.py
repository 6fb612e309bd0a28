"""Calibrate: ask the labelled cases of rubrics, each several times, and count what their judges
kept_answer_of.

Each answer is kept in state.db as soon as it is there. So an interrupted calibration goes on where
it was, and one of the same cases, rubric, model and versions gives the same figures and pays
nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.context.listeners import unheard
from vibe_gate.domain.calibration import (
    Baseline,
    CriterionBaseline,
    LabelledAnswers,
    count_cases,
    mean,
)
from vibe_gate.domain.document import iso, plain, read
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.model_wire import WireMode
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import CriterionResult, Outcome
from vibe_gate.errors import InfrastructureError
from vibe_gate.gate.cases import Case
from vibe_gate.judging.brief import TEMPLATE_VERSION
from vibe_gate.run.batch import SOON_USED_UP, SharedLimit, Workers, carry_out_tasks
from vibe_gate.run.case_reviews import CaseResult, CaseSet, CaseTask
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.version import __version__


class KeptAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one review of a case came to, as state.db keeps it."""

    outcomes: dict[str, Outcome]
    """By judge criterion how it came out."""

    refuted: tuple[str, ...] = ()
    """Criteria that passed because a second look refuted what their votes found."""

    tokens: int = 0
    """Of all criteria together, when the model was asked."""

    usd: float = 0.0
    """As `tokens`."""

    cli: str = ""
    """The version of Claude Code."""

    def without_second_look(self, criterion: str) -> Outcome:
        """How the criterion would have come out."""
        if criterion in self.refuted:
            return "fail"
        return self.outcomes[criterion]


class Asking(Struct, frozen=True, eq=False):
    """One review of a case."""

    case: Case

    repeat: int
    """From 0."""

    key: str
    """Of its answer in state.db; "" if that is not kept."""


class CriterionMeasure(Struct, frozen=True):
    """What was measured of a criterion."""

    criterion: Criterion

    counts: CriterionBaseline

    without_second_look: CriterionBaseline

    tokens: Interval | None
    """Its share of a case's cost, the rubric's divided by its judge criteria; None of fewer than
    three answers.
    """

    usd: Interval | None
    """As `tokens`."""


class RubricMeasure(Struct, frozen=True):
    """What was measured of a rubric."""

    rubric: Rubric

    baseline: Baseline

    measures: tuple[CriterionMeasure, ...]

    cases: int

    undecided: Mapping[str, str]
    """By case why its answers are not complete."""


class Calibration(Struct, frozen=True):
    """The askings of a calibration, and the answers that are there so far."""

    cases: CaseSet

    model: str
    """The gate's."""

    wire: WireMode

    askings: tuple[Asking, ...]

    answers: dict[Asking, KeptAnswer]
    """Grows while it runs, one at a time."""

    reasons: dict[Asking, str]
    """Why an asking has no answer; grows, too."""

    paid: list[float]
    """USD by this calibration, one for each asking."""

    @property
    def missing(self) -> tuple[Asking, ...]:
        """What is still to be asked."""
        return tuple(asking for asking in self.askings if asking not in self.answers)

    @property
    def most_conversations(self) -> int:
        """How many conversations the missing ones hold at most, without second looks."""
        count = 0
        for askings in _group_by_case(self.missing):
            count += self.cases.conversations(askings[0].case, self.model) * len(askings)
        return count

    @property
    def looks_again(self) -> bool:
        """Whether a fail is put to a second look."""
        asked_ids = {asking.case.file.rubric for asking in self.missing}
        asked_rubrics = [rubric for rubric in self.cases.gate.rubrics if rubric.id in asked_ids]
        return any(rubric.second_look != "never" for rubric in asked_rubrics)

    def most_usd(self, max_cost_usd: float | None) -> float:
        """What it can cost: the gate's limit of a review for each that is missing, or the limit of
        all together.
        """
        if self.wire == "replay":
            return 0.0
        usd = len(self.missing) * self.cases.max_cost_usd
        if max_cost_usd is None:
            return usd
        return min(usd, max_cost_usd)

    def _limit(self, max_cost_usd: float | None) -> float:
        """USD for all together; a replay has no limit."""
        if max_cost_usd is None or self.wire == "replay":
            return math.inf
        return max_cost_usd

    async def run(
        self,
        *,
        jobs: int,
        max_cost_usd: float | None,
        clock: Callable[[], datetime],
        tell: Callable[[Asking], object],
    ) -> None:
        """Ask what is missing, `jobs` cases at a time, the repeats of a case one after the other.

        `tell` hears of each answer. Raises GateError for what no other case would fare better with.
        """
        budget = _WaitingLimit(self._limit(max_cost_usd))
        job_slots = asyncio.Semaphore(jobs)

        async def ask_all(askings: Iterable[Asking], state: CloneState) -> None:
            async with job_slots:
                for asking in askings:
                    await self._ask(asking, budget, state, clock)
                    tell(asking)

        with open_state(self.cases.repository.common_dir) as state:
            groups = _group_by_case(self.missing)
            await asyncio.gather(*(ask_all(askings, state) for askings in groups))

    def hand_out(
        self,
        workers: Workers,
        do: Callable[[CaseTask], CaseResult],
        *,
        max_cost_usd: float | None,
        clock: Callable[[], datetime],
        tell: Callable[[Asking], object],
    ) -> None:
        """Have the workers ask what is missing, `do` being what one does with a task. `tell` hears
        of each answer.
        """
        budget = SharedLimit(self._limit(max_cost_usd))
        askings: dict[tuple[str, int], Asking] = {}
        tasks: list[CaseTask] = []
        for asking in self.missing:
            name, repeat = asking.case.name, asking.repeat
            askings[name, repeat] = asking
            tasks.append(CaseTask(self.cases.root, name, self.wire, repeat=repeat, judge="always"))

        def with_budget(task: CaseTask) -> CaseTask | None:
            limit = budget.reserve(self.cases.max_cost_usd)
            if limit is None:
                return None
            return replace(task, max_cost_usd=limit)

        with open_state(self.cases.repository.common_dir) as state:
            for end in carry_out_tasks(tasks, do, workers, with_budget):
                asking = askings[end.task.case, end.task.repeat]
                usd = 0.0
                if end.result is None:
                    self.reasons[asking] = end.why
                else:
                    self._keep(asking, end.result, state, clock())
                    usd = end.result.usd
                self.paid.append(usd)
                budget.release(end.task.max_cost_usd or 0.0, usd)
                tell(asking)

    async def _ask(
        self,
        asking: Asking,
        budget: _WaitingLimit,
        state: CloneState,
        clock: Callable[[], datetime],
    ) -> None:
        limit = await budget.reserve(self.cases.max_cost_usd)
        if limit < SOON_USED_UP:
            self.reasons[asking] = "not asked: the budget is used up"
            return
        usd = 0.0
        try:
            result = await self.cases.run(
                asking.case,
                self.wire,
                clock=clock,
                progress=unheard,
                max_cost_usd=limit,
                repeat=asking.repeat,
                judge="always",
            )
            usd = result.usd
            self._keep(asking, result, state, clock())
        except InfrastructureError as error:
            self.reasons[asking] = str(error)
        finally:
            self.paid.append(usd)
            await budget.release(limit, usd)

    def _keep(self, asking: Asking, result: CaseResult, state: CloneState, now: datetime) -> None:
        answer, reason = kept_answer_of(result)
        if answer is None:
            self.reasons[asking] = reason
            return
        self.answers[asking] = answer
        if asking.key:
            state.answers.put(asking.key, plain(answer), now)

    def measures(self, now: datetime) -> list[RubricMeasure]:
        """What the answers come to, by rubric in the gate's order."""
        measures = []
        for rubric in self.cases.gate.rubrics:
            askings = [asking for asking in self.askings if asking.case.file.rubric == rubric.id]
            if askings:
                measures.append(self._measure_rubric(rubric, askings, now))
        return measures

    def _measure_rubric(
        self, rubric: Rubric, askings: Sequence[Asking], now: datetime
    ) -> RubricMeasure:
        case_names: set[str] = set()
        undecided: dict[str, str] = {}
        for asking in askings:
            case_names.add(asking.case.name)
            if asking in self.reasons:
                undecided[asking.case.name] = self.reasons[asking]
        answered_cases: list[tuple[Case, list[KeptAnswer]]] = []
        versions: set[str] = set()
        for askings_of_case in _group_by_case(askings):
            case = askings_of_case[0].case
            if case.name in undecided:
                continue
            answers = [self.answers[asking] for asking in askings_of_case]
            answered_cases.append((case, answers))
            versions.update(answer.cli for answer in answers)
        measures: list[CriterionMeasure] = []
        for criterion in rubric.judge_criteria:
            measure = _measure_criterion(criterion, rubric, answered_cases)
            if measure is not None:
                measures.append(measure)
        baseline = Baseline(
            schema=1,
            rubric=rubric.id,
            digest=rubric.digest,
            model=rubric.judged_by(self.model),
            template=TEMPLATE_VERSION,
            cli=", ".join(sorted(versions - {""})),
            created_at=iso(now),
            criterion=tuple(measure.counts for measure in measures),
        )
        return RubricMeasure(rubric, baseline, tuple(measures), len(case_names), undecided)


def _group_by_case(askings: Iterable[Asking]) -> list[list[Asking]]:
    """The askings of each case, in their order."""
    groups: dict[str, list[Asking]] = {}
    for asking in askings:
        groups.setdefault(asking.case.name, []).append(asking)
    return list(groups.values())


def plan_calibration(
    cases: CaseSet, wire: WireMode, repeats: int | None, now: datetime
) -> Calibration:
    """What is to be asked of the cases, `repeats` times each, with the answers that are kept
    already.

    None: as often as for the baseline that is there, so that no better measurement is replaced by
    the way; or once.
    """
    model = cases.gate.default_model(cases.repository.environment)
    rubrics = {rubric.id: rubric for rubric in cases.gate.rubrics}
    askings: list[Asking] = []
    answers: dict[Asking, KeptAnswer] = {}
    with open_state(cases.repository.common_dir) as state:
        for case in cases.cases:
            rubric = rubrics[case.file.rubric]
            if not case.is_labelled(rubric):
                continue
            judge_model = rubric.judged_by(model)
            for repeat in range(repeats or _repeats_of_baseline(cases, rubric, model)):
                key = ""
                if wire == "live":
                    key = _answer_key(cases, case, rubric, judge_model, repeat)
                asking = Asking(case, repeat, key)
                askings.append(asking)
                answer = _read_answer(state, asking.key, now)
                if answer is not None:
                    answers[asking] = answer
    return Calibration(cases, model, wire, tuple(askings), answers, {}, [])


def _repeats_of_baseline(cases: CaseSet, rubric: Rubric, model: str) -> int:
    """The repeats of the rubric's baseline, if it is of the same questions and model; else 1."""
    judge = (rubric.id, rubric.digest, rubric.judged_by(model))
    repeats: list[int] = []
    for baseline in cases.gate.baselines:
        if (baseline.rubric, baseline.digest, baseline.model) == judge:
            repeats += [criterion.repeats for criterion in baseline.criterion]
    return max(repeats, default=1)


def kept_answer_of(result: CaseResult) -> tuple[KeptAnswer | None, str]:
    """What a review of a case came to; None, and why, if a question of its judge has no answer."""
    if result.summary is None:
        return None, "; ".join(result.reasons)
    outcomes: dict[str, Outcome] = {}
    refuted_ids: list[str] = []
    for criterion in result.summary.rubrics[0].criteria:
        if criterion.kind != "judge":
            continue
        reason = _reason_for_no_answer(criterion)
        if reason:
            return None, f"{criterion.id}: {reason}"
        outcomes[criterion.id] = criterion.outcome
        if criterion.decided_by == "refuted":
            refuted_ids.append(criterion.id)
    model_use = result.model_use
    answer = KeptAnswer(
        outcomes=outcomes,
        refuted=tuple(refuted_ids),
        tokens=model_use.tokens if model_use else 0,
        usd=round(model_use.usd, 6) if model_use else 0.0,
        cli=result.cli,
    )
    return answer, ""


def _reason_for_no_answer(criterion: CriterionResult) -> str:
    """Why a question or a second look has no answer, "" if all have one."""
    if criterion.unanswered or criterion.outcome == "error":
        return criterion.reason
    for vote in criterion.votes:
        for defect in vote.defects:
            look = defect.second_look
            if look is not UNSET and look.said is None:
                return f"no second look: {look.reason}"
    return ""


def _measure_criterion(
    criterion: Criterion, rubric: Rubric, cases: Sequence[tuple[Case, Sequence[KeptAnswer]]]
) -> CriterionMeasure | None:
    """What the cases' answers come to for the criterion; None if no case has a label for it."""
    final_outcomes: list[LabelledAnswers] = []
    first_outcomes: list[LabelledAnswers] = []
    labelled_answers: list[KeptAnswer] = []
    for case, answers in cases:
        is_clean = case.is_clean(criterion)
        if is_clean is None:
            continue
        labelled_answers += answers
        final = tuple(answer.outcomes[criterion.id] for answer in answers)
        final_outcomes.append(LabelledAnswers(is_clean, final))
        first = tuple(answer.without_second_look(criterion.id) for answer in answers)
        first_outcomes.append(LabelledAnswers(is_clean, first))
    if not final_outcomes:
        return None
    criterion_count = len(rubric.judge_criteria)
    return CriterionMeasure(
        criterion,
        count_cases(criterion.id, final_outcomes),
        count_cases(criterion.id, first_outcomes),
        mean([answer.tokens / criterion_count for answer in labelled_answers]),
        mean([answer.usd / criterion_count for answer in labelled_answers]),
    )


def _answer_key(cases: CaseSet, case: Case, rubric: Rubric, model: str, repeat: int) -> str:
    """The sha-256 of all that the answer depends on; "" if the case's change cannot be had."""
    sides = cases.sides(case)
    if isinstance(sides, str):
        return ""
    parts = [
        "calibrate",
        *sides,
        rubric.digest,
        model,
        TEMPLATE_VERSION,
        cases.gate.reach(rubric.id),
        repeat,
        __version__,
        sdk_version(),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read_answer(state: CloneState, key: str, now: datetime) -> KeptAnswer | None:
    """The answer that is kept; None if there is none."""
    if not key:
        return None
    try:
        document = state.answers.get(key, now)
        if document is None:
            return None
        return read(KeptAnswer, document)
    except ValueError:  # written by another version, or by someone else
        return None


class _WaitingLimit:
    """A shared limit whose reviews wait for one another."""

    def __init__(self, usd: float) -> None:
        self._limit = SharedLimit(usd)
        self._changed = asyncio.Condition()

    async def reserve(self, most: float) -> float:
        async with self._changed:
            while (limit := self._limit.reserve(most)) is None:
                await self._changed.wait()
            return limit

    async def release(self, limit: float, usd: float) -> None:
        async with self._changed:
            self._limit.release(limit, usd)
            self._changed.notify_all()
