"""How the review of one commit among many came out, and what many come to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from vibe_gate.domain.cause import Cause
from vibe_gate.errors import FAIL, INCONCLUSIVE, INTEGRITY, PASS, POLICY_CHANGED, USAGE

WORST_FIRST = (INTEGRITY, FAIL, USAGE, INCONCLUSIVE, POLICY_CHANGED, PASS)
"""Exit codes of reviews, and of all together the first that one of them has."""

CommitOutcome = Literal["pass", "fail", "inconclusive", "error", "missing"]


class OpenCriterion(Struct, frozen=True, kw_only=True):
    """A criterion that could not be decided, and why."""

    criterion: str
    """Its id."""
    cause: Cause


class CommitRow(Struct, frozen=True, kw_only=True):
    """How the review of one commit came out. `run_id` and `bundle` are "" if nothing was recorded.

    `headline` is the verdict line. `unasked`: of a pass by checks only, how many questions no judge
    was asked, and why; `warnings` counts findings. `why`: why there is no verdict, why it is not
    recorded, or why the run that was recorded before does not count. `recorded`: by an earlier
    command. "missing": nothing that counts is recorded, and nobody was to review it. `undecided`: of a
    review without a verdict, the criteria without an answer whose cause is known.
    """

    commit: str
    title: str
    outcome: CommitOutcome
    exit_code: int
    headline: str = ""
    run_id: str = ""
    bundle: str = ""
    usd: float = 0.0
    duration_ms: int = 0
    unasked: str = ""
    warnings: int = 0
    why: str = ""
    recorded: bool = False
    undecided: tuple[OpenCriterion, ...] = ()


def worst(exit_codes: Iterable[int]) -> int:
    """The one exit code of several."""
    distinct_codes = set(exit_codes)
    return next((code for code in WORST_FIRST if code in distinct_codes), PASS)
