"""A range that is called reviewed: all that it brings was in a review. Random histories, random reviews."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from vibe_gate.domain.spans import History, Part

LINES = "abc"
MOST = 7
"""Commits of a history: with five, all that ever went wrong did."""

Tree = frozenset[str]


def difference(old: Tree, new: Tree) -> set[tuple[str, str]]:
    return {("+", line) for line in new - old} | {("-", line) for line in old - new}


@dataclass
class World:
    """Commits by number, the first of them the base of the range; a tree is the lines that it has."""

    parents: dict[str, list[str]] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)

    def add(self, parents: list[str], tree: Tree) -> None:
        name = str(len(self.trees))
        self.parents[name], self.trees[name] = parents, tree

    def behind(self, name: str) -> set[str]:
        return {name}.union(*(self.behind(parent) for parent in self.parents[name]))

    def bases(self, one: str, other: str) -> list[str]:
        common = self.behind(one) & self.behind(other)
        return [name for name in common if not any(name != more and name in self.behind(more) for more in common)]

    def merged(self, one: str, other: str) -> Tree:
        """What git makes of two: of several bases it merges those first."""
        bases = [self.trees[name] for name in self.bases(one, other)]
        base = bases[0] if len(bases) == 1 else frozenset(x for x in LINES if all(x in tree for tree in bases))
        left, right = self.trees[one], self.trees[other]
        return frozenset(x for x in LINES if (x in left if (x in base) == (x in right) else x in right))


def world(chance: random.Random) -> World:
    """All commits come after the base; merges of two and three, some of them exactly what git makes of the two."""
    made = World()
    made.add([], frozenset(chance.sample(LINES, 1)))
    for _ in range(chance.randint(2, MOST - 1)):
        names = chance.sample(list(made.trees), min(len(made.trees), chance.choice([1, 1, 1, 2, 2, 3])))
        names = [name for name in names if not any(name != one and name in made.behind(one) for one in names)]
        if len(names) == 2 and len(made.bases(*names)) == 1 and chance.random() < 0.6:
            made.plain.add(str(len(made.trees)))
            made.add(names, made.merged(*names))
        else:
            changed = chance.sample(LINES, chance.choice([0, 1, 1, 2]))
            made.add(names, made.trees[names[0]].symmetric_difference(changed))
    return made


def is_reviewed(made: World, names: list[str], reviews: set[tuple[str, str]], history: History) -> bool:
    """Whether each commit stands as it should: as `verify` decides it, with reviews that all pass."""
    parts = [part for part in (history.part(*one) for one in reviews) if part is not None]
    for name in names:
        first, *others = made.parents[name]
        own = (first, name) in reviews or made.trees[first] == made.trees[name]
        telling = [part for part in parts if history.tells(part, name)]
        if not own and not telling:
            return False
        if not history.is_shown(name, telling, own=own):
            history.hidden.add(name)
        if name not in made.plain and not all(shown_against(made, one, name, reviews, telling) for one in others):
            return False
    return True


def shown_against(made: World, other: str, name: str, reviews: set[tuple[str, str]], telling: list[Part]) -> bool:
    same = made.trees[other] == made.trees[name]
    return same or (other, name) in reviews or any(other in made.behind(part.base) for part in telling)


def trial(chance: random.Random, make: Callable[..., History] = History) -> tuple[bool, set[tuple[str, str]]]:
    """Whether the range is called reviewed, and what it brings that no review showed."""
    made = world(chance)
    names = [name for name in made.trees if name in made.behind(str(len(made.trees) - 1)) and name != "0"]
    possible = [(left, right) for right in names for left in made.behind(right) if left != right]
    possible += [(left, right) for right in names for left in names if left not in made.behind(right)]
    possible = sorted(one for one in possible if one != ("0", names[-1]))
    firsts = {(made.parents[name][0], name) for name in names}
    reviews = {one for one in possible if chance.random() < (0.5 if one in firsts else 0.35)}
    shown = set().union(*(difference(made.trees[left], made.trees[right]) for left, right in reviews))
    done = is_reviewed(made, names, reviews, make({name: made.parents[name] for name in names}, "0"))
    return done, difference(made.trees["0"], made.trees[names[-1]]) - shown


@pytest.mark.parametrize("seed", range(4))
def test_what_a_range_brings_that_is_called_reviewed_was_shown(seed):
    chance = random.Random(seed)
    found = [trial(chance) for _ in range(800)]
    assert sum(done for done, _ in found) > 100
    assert [missed for done, missed in found if done and missed] == []
