"""What is wrong with the stages of a workflow among themselves: pure, from stages to mistakes.

Three relations are computed, from the needs of each stage: what comes before it; what must be true if it runs (its
guard); and, from both, which pairs of stages can run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import get_args

from vibe_gate.domain.workflow import Condition, StageRule
from vibe_gate.gate.source import Location

Facts = frozenset[tuple[str, str]]
"""Pairs of a stage's id and a condition that holds for it."""

ENDINGS = ("passed", "failed", "inconclusive", "error", "skipped")
"""Conditions of which a stage meets exactly one."""

Problem = tuple[Location, str]
"""Where, from the array of stages, and what; a line break begins the suggestion."""


def problems(stages: Sequence[StageRule | None], writes: Mapping[str, bool]) -> Iterator[Problem]:
    """Every mistake in the stages; None stands for a stage that could not be read.

    `writes` says of each agent whether it can change files; one that is not in it has a mistake of its own.
    """
    for at, stage in enumerate(stages):
        for location, what in _alone(stage) if stage else ():
            yield (at, *location), what
    yield from _Graph(stages, writes).problems()


def _alone(stage: StageRule) -> Iterator[Problem]:
    """What is wrong with a stage whatever the others are."""
    if stage.agent and stage.rubrics:
        yield (), "has an agent and rubrics\nmake it two stages, of which one needs the other"
    if not stage.agent and not stage.rubrics:
        yield (), "needs an agent or rubrics"
    prompts = [key for key in ("prompt", "prompt_file", "prompt_command") if getattr(stage, key) is not None]
    if stage.agent and len(prompts) != 1:
        have = " and ".join(prompts) or "none"
        yield (), f"an agent needs exactly one of prompt, prompt_file and prompt_command, and this has {have}"
    if stage.prompt_command == ():
        yield ("prompt_command",), "needs at least the program's name"
    if not stage.agent:
        of_agents = [*prompts, *(key for key in ("images", "context", "until") if getattr(stage, key))]
        yield from (((key,), "belongs to a stage with an agent") for key in of_agents)
    if stage.id in stage.needs:
        yield ("needs", stage.needs.index(stage.id)), "is this stage itself"
    if isinstance(stage.join, int) and stage.join > len(stage.needs):
        yield ("join",), f"{stage.join} is more than needs has ({len(stage.needs)})"


@dataclass(frozen=True, slots=True)
class _Guard:
    """What is true if a stage runs; `never`: why it cannot, "" if it can."""

    facts: Facts
    never: str = ""


class _Graph:
    def __init__(self, stages: Sequence[StageRule | None], writes: Mapping[str, bool]) -> None:
        self._at = {stage.id: at for at, stage in reversed([*enumerate(stages)]) if stage}
        self._stages = {stage.id: stage for stage in reversed(stages) if stage}
        self._ids = list(reversed(self._stages))
        agents = {name: self._stages[name].agent for name in self._ids}
        self._writing = [name for name, agent in agents.items() if agent and writes.get(agent)]
        self._reading = [name for name, agent in agents.items() if agent is None or writes.get(agent) is False]
        self._needs = {
            name: [one for one in stage.needs if one in self._stages and one != name]
            for name, stage in self._stages.items()
        }
        self._whole = len(self._stages) == len(stages)

    def problems(self) -> Iterator[Problem]:
        cycles = sorted(self._cycles(), key=lambda cycle: self._at[cycle[0]])
        for cycle in cycles:
            chain = " needs ".join(f'"{name}"' for name in (*cycle, cycle[0]))
            yield (self._at[cycle[0]], "needs"), f"a cycle: {chain}"
        before = {name: self._before(name) for name in self._ids}
        if self._whole:  # a stage that could not be read may be the missing link
            yield from self._not_before(before)
        if not cycles:
            guards: dict[str, _Guard] = {}
            yield from self._unreachable(guards)
            if self._whole:
                yield from self._meetings(before, guards)

    def _cycles(self) -> Iterator[list[str]]:
        """Cycles of needs, none of them through a stage of another, each from the stage that is written first."""
        needs = dict(self._needs)
        while True:
            try:
                return TopologicalSorter(needs).prepare()
            except CycleError as error:
                cycle = error.args[1][:0:-1]  # there each is needed by the next
            first = cycle.index(min(cycle, key=self._at.__getitem__))
            yield cycle[first:] + cycle[:first]
            needs = {name: ones for name, ones in needs.items() if name not in cycle}

    def _before(self, name: str) -> set[str]:
        found: set[str] = set()
        waiting = [*self._needs[name]]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self._needs[one]
        return found

    def _not_before(self, before: dict[str, set[str]]) -> Iterator[Problem]:
        for name, stage in self._stages.items():
            asked = [("context", at, other) for at, other in enumerate(stage.context)]
            asked += [("when", at, other) for at, (other, _) in enumerate(stage.conditions)]
            for key, at, other in asked:
                if other in self._stages and other not in before[name]:
                    advice = "" if other == name else f'\nadd "{other}" to needs'
                    yield (self._at[name], key, at), f'"{other}" does not come before this stage{advice}'

    def _unreachable(self, guards: dict[str, _Guard]) -> Iterator[Problem]:
        for name in self._ids:
            if why := self._guard(name, guards).never:
                yield (self._at[name],), f"never runs: {why}"

    def _guard(self, name: str, guards: dict[str, _Guard]) -> _Guard:
        """The stage's guard, made of those of the stages before it, which are no cycle."""
        if name not in guards:
            guards[name] = _Guard(frozenset())  # a condition may name a stage that does not come before
            guards[name] = self._made(self._stages[name], guards)
        return guards[name]

    def _made(self, stage: StageRule, guards: dict[str, _Guard]) -> _Guard:
        conditions = get_args(Condition)
        facts: Facts = frozenset(one for one in stage.conditions if one[0] in self._stages and one[1] in conditions)
        named = {other for other, _ in stage.conditions}
        needs = self._needs[stage.id]
        for other, condition in sorted(facts):
            if why := self._impossible(other, condition):
                return _Guard(facts, why)
            if condition != "skipped":
                guard = self._guard(other, guards)
                if guard.never:
                    return _Guard(facts, f'"{other}" never runs')
                facts |= guard.facts
        passing = {need: self._guard(need, guards) for need in needs if need not in named}
        usable = {need: guard.facts | {(need, "passed")} for need, guard in passing.items() if not guard.never}
        required = min(stage.required - len(stage.needs), 0) + len(passing)
        if required > len(usable):
            return _Guard(facts, f'"{next(need for need in passing if need not in usable)}" never runs')
        if required > 0:
            together = frozenset.union if required == len(usable) else frozenset.intersection
            facts |= together(*usable.values())
        return _Guard(facts, _contradiction(facts))

    def _impossible(self, name: str, condition: str) -> str:
        """Why a stage can never meet a condition; "" if it can."""
        stage = self._stages[name]
        if condition == "changed" and name in self._reading:
            return f'"{name}" changes nothing (its agent only reads, or it has none)'
        if condition == "failed" and stage.agent and not stage.until:
            return f'"{name}" never fails: without until, an agent passes or ends with error or inconclusive'
        return ""

    def _meetings(self, before: dict[str, set[str]], guards: dict[str, _Guard]) -> Iterator[Problem]:
        """Pairs of writing stages, neither of which waits for the other, that may both run."""
        for one, other in combinations([name for name in self._writing if not guards[name].never], 2):
            apart = one in before[other] or other in before[one]
            if not apart and not _contradiction(guards[one].facts | guards[other].facts):
                what = f'writes, and so does "{one}": both could run at the same time\nadd needs = ["{one}"]'
                yield (self._at[other],), what


def _contradiction(facts: Facts) -> str:
    """Two facts of one stage that cannot both be true, as a sentence; "" if there are none."""
    by_stage: dict[str, set[str]] = {}
    for stage, condition in sorted(facts):
        by_stage.setdefault(stage, set()).add(condition)
    for stage, conditions in by_stage.items():
        ends = [one for one in ENDINGS if one in conditions]
        if len(ends) > 1:
            return f"it would need {stage}.{ends[0]} and {stage}.{ends[1]}"
        states = [one for one in ("changed", "unchanged", "skipped") if one in conditions]
        if len(states) > 1:
            return f"it would need {stage}.{states[0]} and {stage}.{states[1]}"
    return ""
