"""Checks of what an agent did, and the table of all checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checks.asking import ask
from domain.changes import added
from pydantic import ValidationError

from vibe_gate.checks import CHECKS

CONDUCT: dict[str, dict[str, Any]] = {
    "tools-only": {"tools": ["Read"]}, "tool-used": {"tool": "Read"}, "cost-under": {"max_usd": 1.0},
    "todos-completed": {}, "no-errors-in-logs": {},
}  # fmt: skip


@pytest.mark.parametrize("check", CONDUCT)
def test_without_an_agent_of_ours_there_is_nothing_to_look_at(check: str) -> None:
    assert ask(check, added("a", b"x"), **CONDUCT[check]).outcome == "not_applicable"


# the table

PRODUCT = """no-secrets, no-conflict-markers, no-deleted-files, no-deleted-tests, no-skipped-tests, only-paths,
forbidden-paths, forbidden-pattern, required-companion, max-changed-lines, no-binary, no-large-files,
no-invisible-unicode, no-escaping-symlinks, no-policy-change, tools-only, tool-used, cost-under, todos-completed,
no-errors-in-logs, command"""


def test_all_checks_of_the_product_are_there() -> None:
    assert set(CHECKS) == set(PRODUCT.replace("\n", " ").replace(",", " ").split())


@pytest.mark.parametrize(
    ("check", "options"),
    [
        ("only-paths", {"paths": []}),
        ("only-paths", {"paths": "src/**"}),
        ("forbidden-pattern", {"pattern": ""}),
        ("forbidden-pattern", {"pattern": "("}),
        ("forbidden-pattern", {"pattern": "a", "ignore_case": "yes"}),
        ("max-changed-lines", {"max": -1}),
        ("no-large-files", {"max_kb": 1.5}),
        ("command", {"timeout_s": 0}),
        ("cost-under", {"max_usd": float("nan")}),
        ("no-secrets", {"allow": ["["]}),
        ("no-policy-change", {"paths": ["a"]}),
        ("no-errors-in-logs", {"patterns": []}),
    ],
)
def test_options_that_make_no_sense_are_refused(check: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CHECKS[check].options.model_validate(options)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_and_each_of_its_options_is_documented(check: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "checks.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{check}` |")]
    assert [name for name in CHECKS[check].options.model_fields if f"`{name}`" not in row] == []
