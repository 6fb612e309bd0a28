"""What an agent of a repair is shown besides its prompt: the findings, the change as it is by then,
what earlier rounds of the repair did, and how the change was made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from vibe_gate.domain.escape import without_middle
from vibe_gate.report.finding_list import ReviewedRound, list_findings
from vibe_gate.run.handed_over import Context
from vibe_gate.run.patch_excerpt import LinePosition, fit_patch
from vibe_gate.run.run_tree import RunTree
from vibe_gate.run.stage_request import MAX_PATCH, Material, reviewed_rounds
from vibe_gate.run.stage_result import StageResult

MAX_MESSAGE = 8_000
"""Characters of an agent's last message that the next round is shown."""


class RepairedReview(Struct, frozen=True):
    """The stored review whose findings a run repairs."""

    title: str
    """What its findings are called."""

    tree: str
    """The id of the reviewed tree."""

    reviewed: ReviewedRound


class RepairSource(Struct, frozen=True):
    """What a repair begins with."""

    review: RepairedReview | None = None
    """None if the run's own gate finds what is repaired."""

    sessions: tuple[Material, ...] = ()
    """In which the change was made."""


class RepairBrief(Struct, frozen=True):
    """What one turn is shown."""

    rounds: tuple[ReviewedRound, ...] = ()
    """The reviews whose findings are handed over, oldest first."""

    title: str = ""
    """What the findings are called; "" for the usual words."""

    materials: tuple[Material, ...] = ()


def brief_for_context(context: Context) -> RepairBrief:
    """The brief of an agent that is part of no repair: what the gates in its context found."""
    return RepairBrief(rounds=tuple(reviewed_rounds(context)))


def brief_for_repair(
    source: RepairSource, context: Context, tree: RunTree, results: Sequence[StageResult]
) -> RepairBrief:
    """The brief of the next turn of a repair. `results`: of the stages that have ended."""
    rounds, title = _rounds_of_repair(source.review, context, tree)
    positions = open_positions(rounds)
    materials = (*_change_materials(tree, results, positions), *source.sessions)
    return RepairBrief(tuple(rounds), title, materials)


def _rounds_of_repair(
    review: RepairedReview | None, context: Context, tree: RunTree
) -> tuple[list[ReviewedRound], str]:
    """The reviews whose findings are handed over, and what these are called."""
    rounds = reviewed_rounds(context, tree.start)
    if review is None or any(reviewed.number == 0 for reviewed in rounds):
        # A gate of the run that asked about the same files has found the same.
        return rounds, ""
    if not rounds:
        return [review.reviewed], review.title
    if review.tree == tree.start:
        rounds = [review.reviewed, *rounds]
    return rounds, ""


def open_positions(rounds: Sequence[ReviewedRound]) -> set[LinePosition]:
    """The lines that open findings are about."""
    positions: set[LinePosition] = set()
    for finding in list_findings(rounds):
        if finding.is_open:
            positions.update(finding.positions)
    return positions


def _change_materials(
    tree: RunTree, results: Sequence[StageResult], positions: Collection[LinePosition]
) -> Iterator[Material]:
    """The change as it is now, and what each round of the repair made of it. `positions`: the lines
    that are shown before others.
    """
    change = tree.current if tree.is_changed else tree.change
    patch = tree.repository.patch(change)
    title = "The change under review"
    if tree.is_changed:
        title += " as it is now, with what earlier rounds of the repair changed"
    yield Material(title, fit_patch(patch, positions, MAX_PATCH))
    if not tree.is_changed:
        return
    for number, result in enumerate(repair_turns(results), start=1):
        if result.patch:
            title = f"What round {number} of the repair changed"
            yield Material(title, fit_patch(result.patch, positions, MAX_PATCH))
        if result.message:
            title = f"What its agent said at the end of round {number}"
            yield Material(title, without_middle(result.message, MAX_MESSAGE))


def repair_turns(results: Sequence[StageResult]) -> list[StageResult]:
    """The turns of agents that changed files, one a round."""
    return [result for result in results if result.agent and result.changed]
