"""The table of what agents cost, by what tests report of their runs."""

from __future__ import annotations

import pytest
from faces.forked_pytest import run_forked

pytest_plugins = ["pytester"]

SUITE = """
import json
import pytest

@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-haiku-5"])
def test_fix(request, model):
    usd = 0.25 if "sonnet" in model else 0.05
    for turns in (3, 1):
        run = {"model": model, "turns": turns, "tokens": 1000 * turns, "usd": usd, "over_budget": "sonnet" in model}
        request.node.user_properties.append(("vibe", json.dumps(run)))
    assert "sonnet" in model

def test_unpriced(request):
    priceless = {"model": "[red]local[/red]\\x1b[2J", "turns": 1, "tokens": None, "usd": None}
    unanswered = {"model": "", "turns": 0, "tokens": 0, "usd": 0.0}
    for run in (priceless, unanswered):
        request.node.user_properties.append(("vibe", json.dumps(run)))
    pytest.skip("undecided")

def test_checked(request):
    run = {"model": "", "judges": True, "turns": 0, "tokens": 0, "usd": 0.0}
    request.node.user_properties.append(("vibe", json.dumps(run)))

def test_without(): pass
"""

TABLES = r"""
================= cost of agents as recorded, nothing was paid =================
test                          model                    turns  tokens         USD
test_suite.py::test_fix[clau  claude-sonnet-5              4   4,000      0.5000
de-sonnet-5] (over budget)
test_suite.py::test_fix[clau  claude-haiku-5               4   4,000      0.1000
de-haiku-5]
test_suite.py::test_unpriced  [red]local[/red]\x1b[2J      1       0  0.0000 + ?
test_suite.py::test_unpriced  ?                            0       0      0.0000
4 in all                                                   9   8,000  0.6000 + ?
model                    passed  turns  tokens         USD  USD a test
claude-sonnet-5          1 of 1      4   4,000      0.5000      0.5000
claude-haiku-5           0 of 1      4   4,000      0.1000      0.1000
[red]local[/red]\x1b[2J  0 of 1      1       0  0.0000 + ?           ?
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_tests_and_models_are_listed_with_what_they_used(pytester, workers):
    pytester.makepyfile(test_suite=SUITE)
    options = ("-q", "-p", "no:asyncio", *workers)
    result = run_forked(pytester, *options) if workers else pytester.runpytest_inprocess(*options)
    result.assert_outcomes(passed=3, failed=1, skipped=1)
    assert [line for line in TABLES.strip().splitlines() if line not in result.outlines] == []
    assert not [line for line in result.outlines if "test_checked" in line], (
        "checks alone ask no model"
    )
    assert not [line for line in result.outlines if line.startswith("? ")], (
        "no model answered, so none is compared"
    )
    if not workers:
        assert (
            "cost of agents"
            not in pytester.runpytest_inprocess(
                "-q", "-p", "no:asyncio", "-k", "without"
            ).stdout.str()
        )
