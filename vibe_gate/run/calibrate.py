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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import UNSET, Struct
from msgspec.structs import replace

from vibe_gate.agent import sdk_version
from vibe_gate.context.listeners import unheard
from vibe_gate.domain.calibration import Baseline, CriterionBaseline, LabelledAnswers, count, mean
from vibe_gate.domain.document import iso, plain, read
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.model_wire import WireMode
from vibe_gate.domain.rubric import Criterion, Rubric
from vibe_gate.domain.verdict import Outcome
from vibe_gate.errors import InfrastructureError
from vibe_gate.gate.cases import Case
from vibe_gate.judging.brief import TEMPLATE_VERSION
from vibe_gate.run.batch import SOON_USED_UP, SharedLimit, Workers, carried_out
from vibe_gate.run.case_reviews import CaseResult, CaseSet, CaseTask
from vibe_gate.store.clone_state import CloneState, open_state
from vibe_gate.version import __version__


class KeptAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one review of a case came to, as state.db keeps it: by judge criterion how it came out.

    `refuted`: criteria that passed because a second look refuted what their votes found. `tokens`
    and `usd` are of all criteria together, when the model was asked.
    """

    outcomes: dict[str, Outcome]
    refuted: tuple[str, ...] = ()
    tokens: int = 0
    usd: float = 0.0
    cli: str = ""

    def without_second_look(self, criterion: str) -> Outcome:
        """How the criterion would have come out."""
        return "fail" if criterion in self.refuted else self.outcomes[criterion]


class Asking(Struct, frozen=True, eq=False):
    """One review of a case: its `repeat` counts from 0. `key`: of its answer; "" if that is not
    kept.
    """

    case: Case
    repeat: int
    key: str


class CriterionMeasure(Struct, frozen=True):
    """What was measured of a criterion. `tokens` and `usd`: its share of a case's cost, the
    rubric's divided by its judge criteria; None of fewer than three answers.
    """

    criterion: Criterion
    counts: CriterionBaseline
    without_second_look: CriterionBaseline
    tokens: Interval | None
    usd: Interval | None


class RubricMeasure(Struct, frozen=True):
    """What was measured of a rubric; `undecided` says by case why its answers are not complete."""

    rubric: Rubric
    baseline: Baseline
    measures: tuple[CriterionMeasure, ...]
    cases: int
    undecided: Mapping[str, str]


class Calibration(Struct, frozen=True):
    """The askings of a calibration, and the answers that are known so far; `paid` USD by this one.
    `model`: the gate's.

    `answers` grows while it runs, one at a time, and `reasons` with it: why an asking has no
    answer.
    """

    cases: CaseSet
    model: str
    wire: WireMode
    askings: tuple[Asking, ...]
    answers: dict[Asking, KeptAnswer]
    reasons: dict[Asking, str]
    paid: list[float]

    @property
    def missing(self) -> tuple[Asking, ...]:
        """What is still to be asked."""
        return tuple(asking for asking in self.askings if asking not in self.answers)

    @property
    def most_conversations(self) -> int:
        """How many conversations the missing ones hold at most, without second looks."""
        repeats = Counter(asking.case.name for asking in self.missing)
        cases = {asking.case.name: asking.case for asking in self.missing}
        return sum(
            self.cases.conversations(cases[name], self.model) * number
            for name, number in repeats.items()
        )

    @property
    def looks_again(self) -> bool:
        """Whether a fail is put to a second look."""
        asked = {asking.case.file.rubric for asking in self.missing}
        return any(
            rubric.second_look != "never"
            for rubric in self.cases.gate.rubrics
            if rubric.id in asked
        )

    def most_usd(self, max_cost_usd: float | None) -> float:
        """What it can cost: the gate's limit of a review for each that is missing, or the limit of
        all together.
        """
        most = len(self.missing) * self.cases.max_cost_usd if self.wire != "replay" else 0.0
        return most if max_cost_usd is None else min(most, max_cost_usd)

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
        budget = _WaitingLimit(
            float("inf") if max_cost_usd is None or self.wire == "replay" else max_cost_usd
        )
        places = asyncio.Semaphore(jobs)
        by_case: dict[str, list[Asking]] = {}
        for asking in self.missing:
            by_case.setdefault(asking.case.name, []).append(asking)

        async def ask_all(askings: Iterable[Asking], state: CloneState) -> None:
            async with places:
                for asking in askings:
                    await self._ask(asking, budget, state, clock)
                    tell(asking)

        with open_state(self.cases.repository.common_dir) as state:
            await asyncio.gather(*(ask_all(askings, state) for askings in by_case.values()))

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
        budget = SharedLimit(
            float("inf") if max_cost_usd is None or self.wire == "replay" else max_cost_usd
        )
        askings = {(asking.case.name, asking.repeat): asking for asking in self.missing}
        root, wire = self.cases.root, self.wire
        tasks = [
            CaseTask(root, name, wire, repeat=repeat, judge="always") for name, repeat in askings
        ]

        def ready(task: CaseTask) -> CaseTask | None:
            limit = budget.reserve(self.cases.max_cost_usd)
            return None if limit is None else replace(task, max_cost_usd=limit)

        with open_state(self.cases.repository.common_dir) as state:
            for end in carried_out(tasks, do, workers, ready):
                asking = askings[end.task.case, end.task.repeat]
                if end.result is None:
                    self.reasons[asking] = end.why
                else:
                    self._keep(asking, end.result, state, clock())
                self.paid.append(end.result.usd if end.result else 0.0)
                budget.release(end.task.max_cost_usd or 0.0, self.paid[-1])
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
        answer, why = kept_answer_of(result)
        if answer is None:
            self.reasons[asking] = why
            return
        self.answers[asking] = answer
        if asking.key:
            state.answers.put(asking.key, plain(answer), now)

    def measures(self, now: datetime) -> list[RubricMeasure]:
        """What the answers come to, by rubric in the gate's order."""
        named = {asking.case.file.rubric for asking in self.askings}
        return [
            self._measure(rubric, now) for rubric in self.cases.gate.rubrics if rubric.id in named
        ]

    def _measure(self, rubric: Rubric, now: datetime) -> RubricMeasure:
        askings = [asking for asking in self.askings if asking.case.file.rubric == rubric.id]
        undecided = {each.case.name: self.reasons[each] for each in askings if each in self.reasons}
        by_case: dict[str, list[Asking]] = {}
        for asking in askings:
            if asking.case.name not in undecided:
                by_case.setdefault(asking.case.name, []).append(asking)
        answered_cases = [
            (each[0].case, [self.answers[asking] for asking in each]) for each in by_case.values()
        ]
        found = (
            _measure_of(criterion, rubric, answered_cases) for criterion in rubric.judge_criteria
        )
        measures = tuple(filter(None, found))
        cli = sorted(
            {answer.cli for _, answers in answered_cases for answer in answers if answer.cli}
        )
        baseline = Baseline(
            schema=1,
            rubric=rubric.id,
            digest=rubric.digest,
            model=rubric.judged_by(self.model),
            template=TEMPLATE_VERSION,
            cli=", ".join(cli),
            created_at=iso(now),
            criterion=tuple(measure.counts for measure in measures),
        )
        return RubricMeasure(
            rubric, baseline, measures, len({each.case.name for each in askings}), undecided
        )


def plan_calibration(
    cases: CaseSet, wire: WireMode, repeats: int | None, now: datetime
) -> Calibration:
    """What is to be asked of the cases, `repeats` times each, with the answers that are kept
    already.

    None: as often as for the baseline that is there, so that no better measurement is replaced by
    the way; or once.
    """
    askings, answers, model = [], {}, cases.gate.default_model(cases.repository.environment)
    rubrics = {rubric.id: rubric for rubric in cases.gate.rubrics}
    with open_state(cases.repository.common_dir) as state:
        for case in cases.cases:
            rubric = rubrics[case.file.rubric]
            if not case.is_labelled(rubric):
                continue
            for repeat in range(repeats or _repeats_before(cases, rubric, model)):
                asking = Asking(
                    case,
                    repeat,
                    _key(cases, case, rubric, rubric.judged_by(model), repeat)
                    if wire == "live"
                    else "",
                )
                askings.append(asking)
                if asking.key and (kept := _kept(state, asking.key, now)):
                    answers[asking] = kept
    return Calibration(cases, model, wire, tuple(askings), answers, {}, [])


def _repeats_before(cases: CaseSet, rubric: Rubric, model: str) -> int:
    """The repeats of the rubric's baseline, if it is of the same questions and model; else 1."""
    judge = (rubric.id, rubric.digest, rubric.judged_by(model))
    same = (
        each for each in cases.gate.baselines if (each.rubric, each.digest, each.model) == judge
    )
    return max((one.repeats for each in same for one in each.criterion), default=1)


def kept_answer_of(result: CaseResult) -> tuple[KeptAnswer | None, str]:
    """What a review of a case came to; None, and why, if a question of its judge has no answer."""
    if result.summary is None:
        return None, "; ".join(result.reasons)
    criteria = [one for one in result.summary.rubrics[0].criteria if one.kind == "judge"]
    for one in criteria:
        if one.unanswered or one.outcome == "error":
            return None, f"{one.id}: {one.reason}"
        looks = (vote.second_look for vote in one.votes if vote.second_look is not UNSET)
        if silent := next((look for look in looks if look.said is None), None):
            return None, f"{one.id}: no second look: {silent.reason}"
    return KeptAnswer(
        outcomes={one.id: one.outcome for one in criteria},
        refuted=tuple(one.id for one in criteria if one.decided_by == "refuted"),
        tokens=result.used.tokens if result.used else 0,
        usd=round(result.used.usd, 6) if result.used else 0.0,
        cli=result.cli,
    ), ""


def _measure_of(
    criterion: Criterion, rubric: Rubric, cases: Sequence[tuple[Case, Sequence[KeptAnswer]]]
) -> CriterionMeasure | None:
    labelled = [
        (clean, answers)
        for case, answers in cases
        if (clean := case.is_clean(criterion)) is not None
    ]
    if not labelled:
        return None
    name, share = criterion.id, len(rubric.judge_criteria)
    final = [
        LabelledAnswers(clean, tuple(one.outcomes[name] for one in answers))
        for clean, answers in labelled
    ]
    first = [
        LabelledAnswers(clean, tuple(one.without_second_look(name) for one in answers))
        for clean, answers in labelled
    ]
    every = [one for _, answers in labelled for one in answers]
    return CriterionMeasure(
        criterion,
        count(name, final),
        count(name, first),
        mean([one.tokens / share for one in every]),
        mean([one.usd / share for one in every]),
    )


def _key(cases: CaseSet, case: Case, rubric: Rubric, model: str, repeat: int) -> str:
    """The sha-256 of all that the answer depends on; "" if the case's change cannot be had."""
    sides = cases.sides(case)
    about = [
        "calibrate",
        *sides,
        rubric.digest,
        model,
        TEMPLATE_VERSION,
        cases.gate.reach(rubric.id),
    ]
    text = json.dumps([*about, repeat, __version__, sdk_version()])
    return "" if isinstance(sides, str) else hashlib.sha256(text.encode()).hexdigest()


def _kept(state: CloneState, key: str, now: datetime) -> KeptAnswer | None:
    try:
        answer = state.answers.get(key, now)
        return None if answer is None else read(KeptAnswer, answer)
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
