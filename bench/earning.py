"""How many simulated judges ever earn blocking: `python bench/earning.py`, the table of
docs/guides/calibration.md.

Each judge blocks clean changes at a fixed rate, and is looked at after each of 300. The last two
columns are what an ordinary one-sided interval would have done, looked at every ten changes and at
the end alone.
"""

from __future__ import annotations

import argparse
import random
import statistics

from msgspec import Struct

from vibe_gate.domain.calibration import at_most, earned

BOUND = 0.05
HISTORIES, LOOKS = 1_000, 300


class Ever(Struct, frozen=True):
    """Of one judge: the look at which it first earned blocking (0: never), and what held at the
    last look.
    """

    first: int
    last: bool
    by_interval: bool


def history(rate: float, seed: str) -> Ever:
    """One judge with this rate of false blocks."""
    draw, blocked, first, interval = random.Random(seed), 0, 0, False
    for clean in range(1, LOOKS + 1):
        blocked += draw.random() < rate
        has = earned(clean, blocked, BOUND)
        first = first or (clean if has else 0)
        interval = interval or (clean % 10 == 0 and at_most(blocked, clean) <= BOUND)
    return Ever(first, has, interval)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=HISTORIES, help="of each judge")
    histories = parser.parse_args().histories
    print("| false blocks of the judge | ever earn blocking | still have it at the end | median of looks until then "
          "| by an interval every ten |")  # fmt: skip
    print("| --- | --- | --- | --- | --- |")
    for rate in (0.0, 0.01, 0.02, 0.03, 0.05, 0.1):
        judges = [history(rate, f"{rate} {number}") for number in range(histories)]
        firsts = [judge.first for judge in judges if judge.first]
        ever, last = len(firsts) / histories, sum(judge.last for judge in judges) / histories
        interval = sum(judge.by_interval for judge in judges) / histories
        median = f"{statistics.median(firsts):.0f}" if firsts else "-"
        print(f"| {rate:.0%} | {ever:.1%} | {last:.1%} | {median} | {interval:.1%} |")


if __name__ == "__main__":
    main()
