"""What checks, judges and second looks answered, as the outcome of their nodes: a run's log says
only that they ended.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from vibe_gate.domain.event import Graph
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult, RubricResult
from vibe_gate.report.folds import OWNED
from vibe_gate.report.outcome_words import outcome_rank


def add_outcomes(graph: Graph, summary: Summary) -> Graph:
    """The graph, with the worst answer of each node of checks or judges as its outcome if it has
    none.
    """
    answers = _answers_by_node(graph, summary)
    nodes = []
    for node in graph.nodes:
        if node.kind in OWNED and not node.outcome:
            node = replace(node, outcome=_worst_answer(answers.get(node.id, [])))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _answers_by_node(graph: Graph, summary: Summary) -> dict[str, list[str]]:
    """What checks, votes and second looks came to."""
    answers: dict[str, list[str]] = defaultdict(list)
    checks = checks_node(graph)
    for rubric in summary.rubrics:
        for criterion in rubric.criteria:
            if criterion.kind == "check":
                answers[checks].append(check_outcome(criterion, rubric))
    for criterion in summary.criteria:
        for vote in criterion.votes:
            answers[node_of_turn(vote.turn)].append(vote.outcome)
            for defect in vote.defects:
                look = defect.second_look
                if look is not UNSET:
                    answers[node_of_turn(look.turn)].append(look.outcome)
    return answers


def _worst_answer(words: Sequence[str]) -> str:
    """The worst of what checks, votes or second looks of a node came to; "" if nothing applies."""
    applicable = [word for word in words if word != "not_applicable"]
    return min(applicable, key=outcome_rank, default="")


def check_outcome(check: CriterionResult, rubric: RubricResult) -> str:
    """The check's outcome; "warning" of a fail with which its rubric passes all the same."""
    if check.outcome == "fail" and rubric.outcome == "pass":
        return "warning"
    return check.outcome


def checks_node(graph: Graph) -> str:
    """The node of the checks; "" if there are several, of which the summary does not tell which
    answered what.
    """
    names = [node.id for node in graph.nodes if node.kind == "checks"]
    if len(names) != 1:
        return ""
    return names[0]


def node_of_turn(turn: str) -> str:
    """The node of a turn's folder; "" of one of an earlier run."""
    if not turn.startswith("nodes/"):
        return ""
    return turn.split("/")[1]
