"""Simulated voters on the real arithmetic: `python bench/voting.py`, the table of
docs/explanation/judging.md.

A vote errs with a fixed chance, by itself: it fails a clean change, or passes a defective one. A
second look refutes a wrong fail with the chance REFUTES, and a right one with the chance MISLED.
Wrong fails point at a line each, right ones at the same line, so that they share one look. Beside
each figure stands the closed form.
"""

from __future__ import annotations

import argparse
import math
import random

from msgspec import Struct
from msgspec.structs import replace

from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import CheckedEvidence, CriterionResult, Defect, SecondLook, Vote
from vibe_gate.judging.defects import group_defects
from vibe_gate.judging.vote_counting import result_of_votes, settle_votes

TRIALS = 20_000
REFUTES, MISLED = 0.8, 0.02
CRITERION = Criterion(id="works", kind="judge", question="?", must=True)


class Rates(Struct, frozen=True):
    """Share of wrong outcomes, and mean of conversations held for one outcome."""

    wrong: float
    calls: float


def simulated(
    *, defective: bool, votes: int, error: float, looks: bool, trials: int = TRIALS
) -> Rates:
    """False blocks of clean changes, or false passes of defective ones."""
    draw, wrong, calls = random.Random(f"{defective} {votes} {error} {looks}"), 0, 0
    for _ in range(trials):
        result = asked(draw, defective=defective, votes=votes, error=error)
        calls += len(result.votes)
        if looks and result.outcome == "fail":
            groups = group_defects(result.votes)
            calls += len(groups)
            refuted: list[Defect] = []
            for group in groups:
                if draw.random() < (MISLED if defective else REFUTES):
                    refuted += group.defects
            result = result_of_votes(
                CRITERION, [_looked_at(vote, refuted) for vote in result.votes], votes
            )
        wrong += result.outcome != ("fail" if defective else "pass")
    return Rates(wrong / trials, calls / trials)


def asked(draw: random.Random, *, defective: bool, votes: int, error: float) -> CriterionResult:
    """The result of votes cast one after the other until they settle the outcome."""
    cast: list[Vote] = []
    while settle_votes(cast, votes) is None:
        fails = defective != (draw.random() < error)
        line = 1 if defective else len(cast) + 1
        at = CheckedEvidence(
            path="a.py", line=line, end_line=line, quote=f"x{line}", standing="holds"
        )
        outcome = "fail" if fails else "pass"
        defect = Defect(reason="so", counterexample="x -> y", evidence=(at,))
        defects = (defect,) if fails else ()
        cast.append(Vote(outcome=outcome, said=outcome, reason="", defects=defects))
    return result_of_votes(CRITERION, cast, votes)


def _looked_at(vote: Vote, refuted: list[Defect]) -> Vote:
    defects = []
    for defect in vote.defects:
        outcome = "refuted" if defect in refuted else "stands"
        look = SecondLook(outcome=outcome, said=outcome, reason="a guard")
        defects.append(replace(defect, second_look=look))
    return replace(vote, defects=tuple(defects))


def closed(*, defective: bool, votes: int, error: float, looks: bool) -> Rates:
    """The same by formula. More than half, `most`, settle the outcome: so many wrong votes are
    there when they do.
    """
    most = votes // 2 + 1

    def ends_at(number: int, chance: float) -> float:
        """The chance that the vote of this number is the one that makes `most` of a kind that has
        this chance.
        """
        return math.comb(number - 1, most - 1) * chance**most * (1 - chance) ** (number - most)

    numbers = range(most, votes + 1)
    wrong = sum(ends_at(number, error) for number in numbers)
    calls = sum(
        number * (ends_at(number, error) + ends_at(number, 1 - error)) for number in numbers
    )
    if not looks:
        return Rates(wrong, calls)
    if defective:
        return Rates(wrong + (1 - wrong) * MISLED, calls + 1 - wrong)
    return Rates(wrong * (1 - REFUTES**most), calls + wrong * most)


def main() -> None:
    """Print the table as Markdown: simulated, and in brackets by formula."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS, help="outcomes of a figure")
    trials = parser.parse_args().trials
    shown = ("error of a vote", "votes", "false blocks", "with second look", "false passes", "with second look",
             "conversations, clean change", "defective change")  # fmt: skip
    print(f"| {' | '.join(shown)} |\n|{' --- |' * len(shown)}")
    for error in (0.05, 0.1, 0.15, 0.2, 0.3):
        for votes in (1, 3, 5):
            cells = [f"{error:.0%}", str(votes)]
            calls = []
            for defective in (False, True):
                about = {"defective": defective, "votes": votes, "error": error}
                rates = [
                    (simulated(**about, looks=looks, trials=trials), closed(**about, looks=looks))
                    for looks in (False, True)
                ]
                cells += [f"{made.wrong:.1%} ({exact.wrong:.1%})" for made, exact in rates]
                calls.append(" to ".join(f"{made.calls:.2f}" for made, _ in rates))
            print(f"| {' | '.join([*cells, *calls])} |")


if __name__ == "__main__":
    main()
