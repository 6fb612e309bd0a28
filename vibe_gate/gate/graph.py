"""What is wrong with the stages of a workflow among themselves: pure, from stages to mistakes.

What comes before a stage follows from all needs; what must be true if it runs (its facts) from its
own `when` and `needs` alone. Two stages can run at the same time if neither comes before the other
and their facts agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import get_args

from vibe_gate.domain.tables import WrongKey
from vibe_gate.domain.workflow import Condition, StageRule

Facts = frozenset[tuple[str, str]]
"""Pairs of a stage's id and a condition that holds for it."""

ENDINGS = ("passed", "failed", "inconclusive", "error", "skipped")
"""Conditions of which a stage meets exactly one."""

_CHANGES = ("changed", "unchanged", "skipped")
"""Conditions of which a stage meets at most one."""


def find_stage_problems(
    stages: Sequence[StageRule | None], writes: Mapping[str, bool]
) -> Iterator[WrongKey]:
    """Every mistake in the stages; None stands for a stage that could not be read.

    `writes` says of each agent whether it can change files; one that is not in it has a mistake of
    its own.
    """
    for index, stage in enumerate(stages):
        if stage is None:
            continue
        for problem in _problems_of(stage):
            yield WrongKey((index, *problem.location), problem.what)
    yield from _StageOrder(stages, writes).problems()


def _problems_of(stage: StageRule) -> Iterator[WrongKey]:
    """What is wrong with a stage whatever the others are."""
    if stage.agent and stage.rubrics:
        advice = "make it two stages, of which one needs the other"
        yield WrongKey((), f"has an agent and rubrics\n{advice}")
    if not stage.agent and not stage.rubrics:
        yield WrongKey((), "needs an agent or rubrics")
    yield from _prompt_problems(stage)
    if stage.id in stage.needs:
        yield WrongKey(("needs", stage.needs.index(stage.id)), "is this stage itself")
    if isinstance(stage.join, int) and stage.join > len(stage.needs):
        yield WrongKey(("join",), f"{stage.join} is more than needs has ({len(stage.needs)})")


def _prompt_problems(stage: StageRule) -> Iterator[WrongKey]:
    """What is wrong with the keys that belong to a stage with an agent."""
    prompt_keys = []
    for key in ("prompt", "prompt_file", "prompt_command"):
        if getattr(stage, key) is not None:
            prompt_keys.append(key)
    if stage.agent and len(prompt_keys) != 1:
        present = " and ".join(prompt_keys) or "none"
        yield WrongKey(
            (),
            "an agent needs exactly one of prompt, prompt_file and prompt_command, "
            f"and this has {present}",
        )
    if stage.prompt_command == ():
        yield WrongKey(("prompt_command",), "needs at least the program's name")
    if stage.agent:
        return
    other_keys = [key for key in ("images", "context", "until") if getattr(stage, key)]
    for key in (*prompt_keys, *other_keys):
        yield WrongKey((key,), "belongs to a stage with an agent")


class _StageOrder:
    """The stages of a workflow, as they wait for one another."""

    _indexes: dict[str, int]
    """By stage id, its place in the file; of several of one id, the first."""

    _stages: dict[str, StageRule]

    _ids: list[str]
    """In the order of the file."""

    _writing: list[str]
    """The stages whose agents can change files."""

    _reading: list[str]
    """The stages that change nothing."""

    _needs: dict[str, list[str]]
    """By stage id, the other stages of its `needs`, as far as they are there."""

    _is_complete: bool
    """Whether every stage could be read, and has an id of its own."""

    def __init__(self, stages: Sequence[StageRule | None], writes: Mapping[str, bool]) -> None:
        self._indexes = {}
        self._stages = {}
        for index, stage in enumerate(stages):
            if stage and stage.id not in self._stages:
                self._indexes[stage.id] = index
                self._stages[stage.id] = stage
        self._ids = list(self._stages)
        self._is_complete = len(self._stages) == len(stages)
        self._writing = []
        self._reading = []
        self._needs = {}
        for name, stage in self._stages.items():
            agent_writes = writes.get(stage.agent) if stage.agent else False
            if agent_writes:
                self._writing.append(name)
            elif agent_writes is False:
                self._reading.append(name)
            self._needs[name] = [
                need for need in stage.needs if need in self._stages and need != name
            ]

    def problems(self) -> Iterator[WrongKey]:
        """Every mistake in the order."""
        cycles = sorted(self._cycles(), key=lambda cycle: self._indexes[cycle[0]])
        for cycle in cycles:
            chain = " needs ".join(f'"{name}"' for name in (*cycle, cycle[0]))
            yield WrongKey((self._indexes[cycle[0]], "needs"), f"a cycle: {chain}")
        before = {name: self._stages_before(name) for name in self._ids}
        if self._is_complete:  # a stage that could not be read may be the missing link
            yield from self._not_before(before)
        facts = {name: self._facts(stage) for name, stage in self._stages.items()}
        for name in self._ids:
            contradiction = self._why_never(facts[name])
            if contradiction:
                yield WrongKey((self._indexes[name],), f"never runs: {contradiction}")
        if self._is_complete and not cycles:
            yield from self._meetings(before, facts)

    def _cycles(self) -> Iterator[list[str]]:
        """Cycles of needs, none of them through a stage of another, each from the stage that is
        written first.
        """
        needs = {name: self._needs[name] for name in reversed(self._ids)}
        while True:
            try:
                return TopologicalSorter(needs).prepare()
            except CycleError as error:
                cycle = error.args[1][:0:-1]  # there each is needed by the next
            first = cycle.index(min(cycle, key=self._indexes.__getitem__))
            yield cycle[first:] + cycle[:first]
            needs = {name: names for name, names in needs.items() if name not in cycle}

    def _stages_before(self, name: str) -> set[str]:
        """The stages that a stage waits for, directly or through others."""
        before: set[str] = set()
        waiting = [*self._needs[name]]
        while waiting:
            need = waiting.pop()
            if need not in before:
                before.add(need)
                waiting += self._needs[need]
        return before

    def _not_before(self, before: dict[str, set[str]]) -> Iterator[WrongKey]:
        """Stages that `context` or `when` name and that may not have run by then."""
        for name in self._ids:
            stage = self._stages[name]
            named_stages = [("context", index, other) for index, other in enumerate(stage.context)]
            for index, (other, _) in enumerate(stage.conditions):
                named_stages.append(("when", index, other))
            for key, index, other in named_stages:
                if other not in self._stages or other in before[name]:
                    continue
                problem = f'"{other}" does not come before this stage'
                if other != name:
                    problem += f'\nadd "{other}" to needs'
                yield WrongKey((self._indexes[name], key, index), problem)

    def _facts(self, stage: StageRule) -> Facts:
        """What is true if the stage runs: its conditions, and if it needs all of its needs, that
        the others passed.
        """
        facts = set()
        for name, condition in stage.conditions:
            if name in self._stages and condition in get_args(Condition):
                facts.add((name, condition))
        if stage.required == len(stage.needs):
            conditioned_stages = {name for name, _ in stage.conditions}
            for need in self._needs[stage.id]:
                if need not in conditioned_stages:
                    facts.add((need, "passed"))
        return frozenset(facts)

    def _why_never(self, facts: Facts) -> str:
        """Why these facts cannot all be true, as a clause; "" if they can."""
        for name, condition in sorted(facts):
            impossibility = self._why_impossible(name, condition)
            if impossibility:
                return impossibility
        return _contradiction(facts)

    def _why_impossible(self, name: str, condition: str) -> str:
        """Why a stage can never meet a condition; "" if it can."""
        stage = self._stages[name]
        if condition == "changed" and name in self._reading:
            return f'"{name}" changes nothing (its agent only reads, or it has none)'
        if condition == "failed" and stage.agent and not stage.until:
            return (
                f'"{name}" never fails: '
                "without until, an agent passes or ends with error or inconclusive"
            )
        return ""

    def _meetings(
        self, before: Mapping[str, set[str]], facts: Mapping[str, Facts]
    ) -> Iterator[WrongKey]:
        """Pairs of writing stages, neither of which waits for the other, that may both run."""
        for first, second in combinations(self._writing, 2):
            if first in before[second] or second in before[first]:
                continue
            if _contradiction(facts[first] | facts[second]):
                continue
            problem = f'writes, and so does "{first}": both could run at the same time'
            advice = f'add needs = ["{first}"], or a `when` that excludes the other\'s'
            yield WrongKey((self._indexes[second],), f"{problem}\n{advice}")


def _contradiction(facts: Facts) -> str:
    """Two facts of one stage that cannot both be true, as a clause; "" if there are none."""
    conditions_by_stage: dict[str, set[str]] = {}
    for stage, condition in sorted(facts):
        conditions_by_stage.setdefault(stage, set()).add(condition)
    for stage, conditions in conditions_by_stage.items():
        for exclusive in (ENDINGS, _CHANGES):
            matches = [condition for condition in exclusive if condition in conditions]
            if len(matches) > 1:
                return f"it would need {stage}.{matches[0]} and {stage}.{matches[1]}"
    return ""
