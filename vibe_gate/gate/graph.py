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


def problems(stages: Sequence[StageRule | None], writes: Mapping[str, bool]) -> Iterator[WrongKey]:
    """Every mistake in the stages; None stands for a stage that could not be read.

    `writes` says of each agent whether it can change files; one that is not in it has a mistake of
    its own.
    """
    for at, stage in enumerate(stages):
        for one in _alone(stage) if stage else ():
            yield WrongKey((at, *one.location), one.what)
    yield from _Order(stages, writes).problems()


def _alone(stage: StageRule) -> Iterator[WrongKey]:
    """What is wrong with a stage whatever the others are."""
    if stage.agent and stage.rubrics:
        yield WrongKey(
            (), "has an agent and rubrics\nmake it two stages, of which one needs the other"
        )
    if not stage.agent and not stage.rubrics:
        yield WrongKey((), "needs an agent or rubrics")
    prompts = [
        key
        for key in ("prompt", "prompt_file", "prompt_command")
        if getattr(stage, key) is not None
    ]
    if stage.agent and len(prompts) != 1:
        have = " and ".join(prompts) or "none"
        yield WrongKey(
            (),
            f"an agent needs exactly one of prompt, prompt_file and prompt_command, and this has {have}",
        )
    if stage.prompt_command == ():
        yield WrongKey(("prompt_command",), "needs at least the program's name")
    if not stage.agent:
        of_agents = [
            *prompts,
            *(key for key in ("images", "context", "until") if getattr(stage, key)),
        ]
        yield from (WrongKey((key,), "belongs to a stage with an agent") for key in of_agents)
    if stage.id in stage.needs:
        yield WrongKey(("needs", stage.needs.index(stage.id)), "is this stage itself")
    if isinstance(stage.join, int) and stage.join > len(stage.needs):
        yield WrongKey(("join",), f"{stage.join} is more than needs has ({len(stage.needs)})")


class _Order:
    def __init__(self, stages: Sequence[StageRule | None], writes: Mapping[str, bool]) -> None:
        self._at = {stage.id: at for at, stage in reversed([*enumerate(stages)]) if stage}
        self._stages = {stage.id: stage for stage in reversed(stages) if stage}
        self._ids = list(reversed(self._stages))
        agents = {name: self._stages[name].agent for name in self._ids}
        self._writing = [name for name, agent in agents.items() if agent and writes.get(agent)]
        self._reading = [
            name for name, agent in agents.items() if agent is None or writes.get(agent) is False
        ]
        self._needs = {
            name: [one for one in stage.needs if one in self._stages and one != name]
            for name, stage in self._stages.items()
        }
        self._whole = len(self._stages) == len(stages)

    def problems(self) -> Iterator[WrongKey]:
        cycles = sorted(self._cycles(), key=lambda cycle: self._at[cycle[0]])
        for cycle in cycles:
            chain = " needs ".join(f'"{name}"' for name in (*cycle, cycle[0]))
            yield WrongKey((self._at[cycle[0]], "needs"), f"a cycle: {chain}")
        before = {name: self._before(name) for name in self._ids}
        if self._whole:  # a stage that could not be read may be the missing link
            yield from self._not_before(before)
        facts = {name: self._facts(stage) for name, stage in self._stages.items()}
        for name in self._ids:
            if why := self._never(facts[name]):
                yield WrongKey((self._at[name],), f"never runs: {why}")
        if self._whole and not cycles:
            yield from self._meetings(before, facts)

    def _cycles(self) -> Iterator[list[str]]:
        """Cycles of needs, none of them through a stage of another, each from the stage that is
        written first.
        """
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

    def _not_before(self, before: dict[str, set[str]]) -> Iterator[WrongKey]:
        for name, stage in self._stages.items():
            asked = [("context", at, other) for at, other in enumerate(stage.context)]
            asked += [("when", at, other) for at, (other, _) in enumerate(stage.conditions)]
            for key, at, other in asked:
                if other in self._stages and other not in before[name]:
                    advice = "" if other == name else f'\nadd "{other}" to needs'
                    yield WrongKey(
                        (self._at[name], key, at),
                        f'"{other}" does not come before this stage{advice}',
                    )

    def _facts(self, stage: StageRule) -> Facts:
        """What is true if the stage runs: its conditions, and if it needs all of its needs, that
        the others passed.
        """
        conditions = {
            one
            for one in stage.conditions
            if one[0] in self._stages and one[1] in get_args(Condition)
        }
        named = {other for other, _ in stage.conditions}
        every = stage.required == len(stage.needs)
        passed = {(need, "passed") for need in self._needs[stage.id] if every and need not in named}
        return frozenset(conditions | passed)

    def _never(self, facts: Facts) -> str:
        """Why these facts cannot all be true, as a clause; "" if they can."""
        impossible = (self._impossible(name, condition) for name, condition in sorted(facts))
        return next(filter(None, impossible), "") or _contradiction(facts)

    def _impossible(self, name: str, condition: str) -> str:
        """Why a stage can never meet a condition; "" if it can."""
        stage = self._stages[name]
        if condition == "changed" and name in self._reading:
            return f'"{name}" changes nothing (its agent only reads, or it has none)'
        if condition == "failed" and stage.agent and not stage.until:
            return f'"{name}" never fails: without until, an agent passes or ends with error or inconclusive'
        return ""

    def _meetings(
        self, before: Mapping[str, set[str]], facts: Mapping[str, Facts]
    ) -> Iterator[WrongKey]:
        """Pairs of writing stages, neither of which waits for the other, that may both run."""
        for one, other in combinations(self._writing, 2):
            apart = one in before[other] or other in before[one]
            if not apart and not _contradiction(facts[one] | facts[other]):
                what = f'writes, and so does "{one}": both could run at the same time'
                advice = f'add needs = ["{one}"], or a `when` that excludes the other\'s'
                yield WrongKey((self._at[other],), f"{what}\n{advice}")


def _contradiction(facts: Facts) -> str:
    """Two facts of one stage that cannot both be true, as a clause; "" if there are none."""
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
