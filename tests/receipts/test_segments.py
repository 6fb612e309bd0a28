"""A range that is called reviewed: all that it brings was in a review.

Random histories, each with all the reviews that do not show one thing that it brings.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from vibe_gate.receipts.verify_range import History, Segment

LINES = "abc"
OLD, BASE = "0", "1"
MOST = 7
"""Commits of a history: with five, all that ever went wrong did."""

Tree = frozenset[str]


def difference(old: Tree, new: Tree) -> set[tuple[str, str]]:
    return {("+", line) for line in new - old} | {("-", line) for line in old - new}


@dataclass
class World:
    """Commits by number: `OLD`, from which branches can come that lack what the range begins with,
    and `BASE`.

    A tree is the lines that it has.
    """

    parents: dict[str, list[str]] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    clean: set[str] = field(default_factory=set)

    def add(self, parents: list[str], tree: Tree) -> None:
        name = str(len(self.trees))
        self.parents[name], self.trees[name] = parents, tree

    @property
    def last(self) -> str:
        return str(len(self.trees) - 1)

    def behind(self, name: str) -> set[str]:
        return {name}.union(*(self.behind(parent) for parent in self.parents[name]))

    def bases(self, first: str, second: str) -> list[str]:
        common = self.behind(first) & self.behind(second)
        return [
            name
            for name in common
            if not any(
                name != descendant and name in self.behind(descendant) for descendant in common
            )
        ]

    def merged(self, first: str, second: str) -> Tree:
        """The tree of git's merge of two commits: of several bases it merges those first."""
        bases = [self.trees[name] for name in self.bases(first, second)]
        base = (
            bases[0]
            if len(bases) == 1
            else frozenset(x for x in LINES if all(x in tree for tree in bases))
        )
        first_tree, second_tree = self.trees[first], self.trees[second]
        return frozenset(
            x
            for x in LINES
            if (x in first_tree if (x in base) == (x in second_tree) else x in second_tree)
        )


def draw_world(chance: random.Random) -> World:
    """Commits after the base or after the one before it, the last after the base; merges of two and
    three.

    Some of the merges are exactly what git makes of the two.
    """
    world = World()
    world.add([], frozenset(chance.sample(LINES, 1)))
    world.add([OLD], frozenset(chance.sample(LINES, 1)))
    for _ in range(chance.randint(2, MOST - 1)):
        old = [OLD] if chance.random() < 0.3 else []
        candidates = [name for name in world.trees if name != OLD] + old
        names = chance.sample(candidates, min(len(candidates), chance.choice([1, 1, 1, 2, 2, 3])))
        names = [
            name
            for name in names
            if not any(name != tip and name in world.behind(tip) for tip in names)
        ]
        if len(names) == 2 and len(world.bases(*names)) == 1 and chance.random() < 0.6:
            world.clean.add(str(len(world.trees)))
            world.add(names, world.merged(*names))
        else:
            changed = chance.sample(LINES, chance.choice([0, 1, 1, 2]))
            world.add(names, world.trees[names[0]].symmetric_difference(changed))
    return world if BASE in world.behind(world.last) else draw_world(chance)


def is_reviewed(world: World, reviews: set[tuple[str, str]]) -> bool:
    """Whether each commit is reviewed: as `verify` decides it, with reviews that all pass."""
    names = [name for name in world.trees if name in world.behind(world.last) - {OLD, BASE}]
    history = History.of({name: world.parents[name] for name in names}, BASE)
    segments = [
        segment for segment in (history.segment(*pair) for pair in reviews) if segment is not None
    ]

    def is_covered(parent: str, name: str) -> bool:
        return world.trees[parent] == world.trees[name] or (parent, name) in reviews

    def merged_parents(name: str) -> list[str]:
        return [] if name in world.clean else world.parents[name][1:]

    first = {name for name in names if is_covered(world.parents[name][0], name)}
    alone = {
        name for name in first if all(is_covered(parent, name) for parent in merged_parents(name))
    }

    def is_settled(name: str, segments: list[Segment]) -> bool:
        own_segments = [segment for segment in segments if name in segment.commits]
        uncovered_parents = [
            parent for parent in merged_parents(name) if not is_covered(parent, name)
        ]
        return (name in first or bool(own_segments)) and all(
            any(history.precedes(p, s) for s in own_segments) for p in uncovered_parents
        )

    cuts = history.cuts(alone, segments, {name for name in names if not is_settled(name, segments)})
    counting = [segment for segment in segments if segment.base in cuts]
    return all(is_settled(name, counting) for name in names)


def reviewable_pairs(world: World, name: str) -> set[tuple[str, str]]:
    """The pairs that a review can be of: two commits of the range, or one before it and one that
    `name` has.
    """
    names = [ancestor for ancestor in world.trees if ancestor in world.behind(name)]
    pairs = {(base, tip) for tip in names for base in names if base not in (tip, OLD)}
    return pairs | {(base, tip) for tip in names for base in world.parents[tip]}


def find_missed_lines(world: World) -> list[tuple[str, str]]:
    """What the range brings, where it is called reviewed with all the reviews that do not show just
    that.
    """
    pairs = {
        pair: difference(*(world.trees[name] for name in pair))
        for pair in reviewable_pairs(world, world.last)
    }
    assert is_reviewed(world, set(pairs))
    return [
        line
        for line in pairs[BASE, world.last]
        if is_reviewed(world, {pair for pair in pairs if line not in pairs[pair]})
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_a_range_brings_that_is_called_reviewed_was_shown(seed):
    chance = random.Random(seed)
    for _ in range(400):
        world = draw_world(chance)
        assert find_missed_lines(world) == [], world


def test_a_segment_has_one_way_in_and_one_way_out():
    # "3" takes back what "2" brought; of that, "5" has what "3" left, and nobody saw it go.
    history = History.of({"1": ["0"], "2": ["1"], "3": ["2"], "4": ["2"], "5": ["3", "4"]}, "0")
    assert history.segment("1", "3") is None
    assert history.segment("0", "3") is None
    assert history.segment("4", "5") is None
    assert history.segment("1", "2") == Segment("1", "2", frozenset("2"))
    assert history.segment("1", "5") == Segment("1", "5", frozenset("2345"))
    assert history.segment("0", "5") == Segment("0", "5", frozenset("12345"))
    # A branch from before the range is no other way in for what begins where the range does.
    assert History.of({"1": ["old"], "2": ["1"]}, "0").segment("0", "2") == Segment(
        "0", "2", frozenset("12")
    )
    assert History.of({"1": ["old"], "2": ["1"]}, "0").segment("9", "2") is None
    assert History.of({"1": [], "2": ["1"]}, "0").segment("", "2") == Segment(
        "", "2", frozenset("12")
    )


@pytest.mark.parametrize(
    ("parent", "base", "precedes"),
    [
        ("1", "1", True),
        ("0", "0", True),  # the range's own base
        ("old", "0", True),  # from before the range, and the segment begins where the range does
        ("old", "1", False),
        ("1", "0", False),
        ("2", "1", False),
    ],
)
def test_a_segment_shows_what_is_changed_against_a_parent_that_was_in_where_it_begins(
    parent, base, precedes
):
    history = History.of({"1": ["0"], "2": ["1"], "3": ["2", "old"]}, "0")
    assert history.precedes(parent, Segment(base, "3", frozenset("23"))) is precedes


def test_segments_that_overlap_lead_nowhere_and_what_follows_an_unreviewed_commit_is_not_to_blame():
    history = History.of({"1": ["0"], "2": ["1"], "3": ["2"], "4": ["3"]}, "0")
    overlapping = [Segment("0", "2", frozenset("12")), Segment("1", "3", frozenset("23"))]
    assert history.cuts({"4"}, overlapping, set()) == {"0", "2"}
    assert history.cuts({"3", "4"}, overlapping, set()) == {"0", "2", "3", "4"}
    assert history.cuts({"4"}, overlapping[1:], {"1"}) == {"0", "1", "3", "4"}
