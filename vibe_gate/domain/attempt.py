"""A test of agents, carried out: what is told of each time, and written into the bundles of its
runs.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from vibe_gate.domain.document import Count, Usd

TestResult = Literal["passed", "failed", "undecided", "error", "skipped", "xfailed", "xpassed"]
"""How a test ended: pytest's words, and "undecided" for what says nothing about the agent."""

RESULTS: tuple[TestResult, ...] = get_args(TestResult)

PASSED, FAILED = frozenset({"passed", "xpassed"}), frozenset({"failed", "xfailed"})
"""Those that decide whether the agent did what was asked."""


class TestedRun(Struct, frozen=True, kw_only=True):
    """What a run was for a test that was carried out once, an attempt. `attempt`: the id of its
    first run, or any text that other attempts of the test do not have.

    `test`: the test's id without the parameter that names the model; `model`: of the agent under
    test, "" if none answered. `judges`: the run judged another. `usd` of the run, as recorded if it
    was replayed; None: no agent ran, or a price is not known.
    """

    __test__ = False  # no test, whatever its name begins with

    test: str
    model: str
    attempt: str
    result: TestResult
    repetition: Count = 1
    judges: bool = False
    usd: Usd | None = None
