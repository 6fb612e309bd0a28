"""Stages among themselves: what comes before what, what can run at all, which writing stages could
meet.
"""

from __future__ import annotations

import pytest
from msgspec import convert

from vibe_gate.domain.workflow import StageRule
from vibe_gate.gate.graph import find_stage_problems


def stage(
    name: str, needs: str = "", when: str = "", *, does: str = "writer", **fields: object
) -> StageRule:
    """A stage whose needs and conditions are words; `does`: its agent, or "rubrics"."""
    work = {"rubrics": ["quality"]} if does == "rubrics" else {"agent": does, "prompt": "Go."}
    return convert(
        {"id": name, "needs": needs.split(), "when": when.split()} | work | fields, StageRule
    )


def read(name: str, needs: str = "", when: str = "", **fields: object) -> StageRule:
    return stage(name, needs, when, does="reader", **fields)


def gate(name: str = "gate", needs: str = "", when: str = "") -> StageRule:
    return stage(name, needs, when, does="rubrics")


def said_lines(*stages: StageRule | None) -> list[str]:
    stage_problems = find_stage_problems(stages, {"writer": True, "reader": False})
    return [
        f"{stages[stage_problem.location[0]].id}{stage_problem.location[1:] or ''}: {stage_problem.what}"
        for stage_problem in stage_problems
    ]  # type: ignore


ROUTES = (gate(), stage("fix", "gate", "gate.failed"), stage("polish", "gate", "gate.passed"))


@pytest.mark.parametrize(
    "stages",
    [
        [
            gate(),
            stage("fix", "gate", "gate.failed", context=["gate"], until={"rubrics": ["quality"]}),
        ],
        [read("a"), read("b"), read("c", "a b")],
        [stage("a"), stage("b", "a"), stage("c", "b")],
        [stage("b", "a"), stage("a")],
        [*ROUTES, read("tell", "fix polish", join="any")],
        [*ROUTES, stage("more", "fix", "gate.failed"), stage("ship", "polish", "gate.passed")],
        [
            gate(),
            stage("fix", "gate", "gate.failed"),
            stage("ship", "gate fix", "gate.passed fix.skipped"),
        ],
        [stage("a"), read("b", "a", "a.changed"), read("c", "a", "a.unchanged")],
        [gate(), read("b", "gate"), read("c", "b", "gate.failed", context=["gate"])][:2],
        [read("a"), read("b"), stage("c", "a b", join=1), stage("d", "a b c", join="any")],
        [stage("a"), None, stage("b", "unread")],
        [stage("a", does="unknown"), stage("b"), read("c", "a", "a.changed")],
    ],
)
def test_a_right_graph_has_no_mistake(stages: list[StageRule | None]) -> None:
    assert said_lines(*stages) == []


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([read("a", "b"), read("b", "a")], ['a(\'needs\',): a cycle: "a" needs "b" needs "a"']),
        (
            [
                read("x", "b"),
                read("a", "c"),
                read("b", "a"),
                read("c", "b"),
                read("y", "z"),
                read("z", "y"),
            ],
            [
                'a(\'needs\',): a cycle: "a" needs "c" needs "b" needs "a"',
                'y(\'needs\',): a cycle: "y" needs "z" needs "y"',
            ],
        ),
        ([read("a", "a")], ["a('needs', 0): is this stage itself"]),
        (
            [read("a"), read("b", context=["a"])],
            ['b(\'context\', 0): "a" does not come before this stage\nadd "a" to needs'],
        ),
        (
            [read("a", when="b.passed"), read("b")],
            ['a(\'when\', 0): "b" does not come before this stage\nadd "b" to needs'],
        ),
        ([read("a", context=["a"])], ["a('context', 0): \"a\" does not come before this stage"]),
        ([read("a"), read("b", "a", join=2)], ["b('join',): 2 is more than needs has (1)"]),
    ],
)
def test_what_does_not_come_before_is_named(stages: list[StageRule], expected: list[str]) -> None:
    assert said_lines(*stages) == expected


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (
            [gate(), read("a", "gate", "gate.passed gate.failed")],
            "a: never runs: it would need gate.passed and gate.failed",
        ),
        (
            [stage("w"), read("a", "w", "w.changed w.skipped")],
            "a: never runs: it would need w.changed and w.skipped",
        ),
        (
            [gate(), read("a", "gate", "gate.changed")],
            'a: never runs: "gate" changes nothing (its agent only reads, or it has none)',
        ),
        (
            [read("r"), read("a", "r", "r.changed")],
            'a: never runs: "r" changes nothing (its agent only reads, or it has none)',
        ),
    ],
)
def test_a_stage_that_can_only_be_skipped_is_a_mistake(
    stages: list[StageRule], expected: str
) -> None:
    assert said_lines(*stages) == [expected]


def test_an_agent_fails_only_by_the_rubrics_of_its_loop() -> None:
    never = 'b: never runs: "a" never fails: without until, an agent passes or ends with error or inconclusive'
    assert said_lines(stage("a"), read("b", "a", "a.failed")) == [never]
    assert said_lines(stage("a", until={"rubrics": ["quality"]}), read("b", "a", "a.failed")) == []


@pytest.mark.parametrize(
    ("stages", "pairs"),
    [
        ([stage("a"), stage("b")], [("a", "b")]),
        ([gate(), stage("a", "gate"), stage("b", "gate", "gate.failed")], []),
        (
            [gate(), stage("a", "gate", "gate.failed"), stage("b", "gate", "gate.failed")],
            [("a", "b")],
        ),
        (
            [gate("g"), gate("h"), stage("a", "g", "g.failed"), stage("b", "h", "h.passed")],
            [("a", "b")],
        ),
        (
            [*ROUTES, stage("c", "fix polish", join="any"), stage("d", "gate")],
            [("polish", "d"), ("c", "d")],
        ),
        ([stage("a"), read("r"), stage("b", "r")], [("a", "b")]),
        ([*ROUTES, stage("more", "fix")], [("polish", "more")]),
    ],
)
def test_two_writing_stages_must_not_be_able_to_meet(
    stages: list[StageRule], pairs: list[tuple[str, str]]
) -> None:
    text = 'writes, and so does "{}": both could run at the same time\n'
    advice = 'add needs = ["{}"], or a `when` that excludes the other\'s'
    assert said_lines(*stages) == [
        f"{later}: {text.format(first)}{advice.format(first)}" for first, later in pairs
    ]


def test_a_long_workflow_is_checked_at_once() -> None:
    chain = [
        stage("s0"),
        *(stage(f"s{at}", f"s{at - 1}", f"s{at - 1}.passed") for at in range(1, 200)),
    ]
    assert said_lines(*chain) == []
    assert len(said_lines(*(stage(f"s{at}") for at in range(200)))) == 199 * 100
