"""Checks of what an agent did, the command, and the table of all checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checks.asking import ask, places
from domain.changes import added
from pydantic import ValidationError

from vibe_gate.checks import CHECKS
from vibe_gate.sandbox import CommandResult

CONDUCT: dict[str, dict[str, Any]] = {
    "tools-only": {"tools": ["Read"]}, "tool-used": {"tool": "Read"}, "cost-under": {"max_usd": 1.0},
    "todos-completed": {}, "no-errors-in-logs": {},
}  # fmt: skip


@pytest.mark.parametrize("check", CONDUCT)
def test_without_an_agent_of_ours_there_is_nothing_to_look_at(check: str) -> None:
    assert ask(check, added("a", b"x"), **CONDUCT[check]).outcome == "not_applicable"


# command


@pytest.mark.parametrize(
    ("ended", "outcome", "reason"),
    [
        (CommandResult(0, "fine\n"), "pass", "ruff check . exited with 0."),
        (CommandResult(1, "a.py:1: bad\n\n"), "fail", "ruff check . exited with 1."),
        (CommandResult(-11, ""), "fail", "ruff check . was ended by signal 11."),
        (CommandResult(None, "", "timed out after 7 s"), "error", "ruff check . gave no answer: timed out after 7 s."),
    ],
)
def test_a_command_passes_with_exit_code_zero(ended: CommandResult, outcome: str, reason: str) -> None:
    asked: list[tuple[tuple[str, ...], float]] = []

    def run(argv: tuple[str, ...], timeout_s: float) -> CommandResult:
        asked.append((argv, timeout_s))
        return ended

    result = ask("command", added("a", b"x"), command=("ruff", "check", "."), run_command=run, timeout_s=7)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert asked == [(("ruff", "check", "."), 7.0)]


def test_a_command_is_not_run_where_its_paths_are_not_touched() -> None:
    assert ask("command", added("a", b"x"), command=("x",), only=("src/**",)).outcome == "not_applicable"


def test_the_last_line_of_output_is_the_finding() -> None:
    result = ask("command", command=("t",), run_command=lambda argv, timeout_s: CommandResult(1, "a\n2 failed\n\n"))
    assert result.findings[0].message == "t exited with 1: 2 failed"


def test_a_secret_is_taken_out_before_a_limit_cuts_it() -> None:
    secret = "hR3-wq8mZt5xKc2vPb7nLd4sGf9jYa6eUi1oQ0-T"
    ended = CommandResult(1, f"a.txt:1: {'x ' * 135}{secret}\n{'y ' * 130}{secret}\n")
    result = ask(
        "command", added("a.txt", b"z" * 390 + secret.encode()),
        command=("t",), run_command=lambda argv, timeout_s: ended, redact=lambda text: text.replace(secret, "[gone]"),
    )  # fmt: skip
    assert places(result) == [("", 0), ("a.txt", 1)]
    assert secret[:8] not in "".join(finding.model_dump_json() for finding in result.findings)


def test_a_secret_is_taken_out_before_what_cannot_be_seen_is_made_longer() -> None:
    secret = "hR3-wq8mZt5xKc2vPb7nLd4sGf9jYa6eUi1oQ0-T"
    ended = CommandResult(1, "\u200b" * 27 + "xxxx" + secret + "\n")
    ask_it = {"command": ("t",), "run_command": lambda argv, timeout_s: ended}
    result = ask("command", **ask_it, redact=lambda text: text.replace(secret, "[gone]"))
    assert secret[:8] not in result.findings[0].message


def test_output_that_points_at_changed_lines_becomes_findings_there() -> None:
    output = (
        "./src/a.py:2:1: F401 unused\nsrc/a.py:2:1: F401 unused\nsrc/b.py:1: not in the change\n"
        "src/a.py:99: no such line\nFound: 3: errors\nsrc/a.py:1 \x1b[31mred\n" + ":" * 100_000 + "\n"
    )
    files = added("src/a.py", b"import os\nimport re\n"), added("gone", b"")
    result = ask("command", *files, command=("t",), run_command=lambda argv, timeout_s: CommandResult(1, output))
    assert places(result) == [("", 0), ("src/a.py", 2), ("src/a.py", 1)]
    assert result.findings[1].message == "F401 unused"
    assert result.findings[1].evidence[0].quote == "import re"


def test_a_command_check_without_a_command_is_an_error() -> None:
    assert ask("command", added("a", b"x")).outcome == "error"


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
