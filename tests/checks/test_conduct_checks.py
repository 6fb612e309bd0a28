"""Checks of what an agent did, and the table of all checks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bundle_words import KEY, START, Clock, Ended, OneSecretRedactor
from check_runs import ask
from domain.changes import added

from vibe_gate.checks import CHECKS
from vibe_gate.checks.check_contract import Conduct
from vibe_gate.checks.conduct_checks import conduct_of_stages, describe_capture_gaps
from vibe_gate.domain.tables import WrongKey, read_table
from vibe_gate.domain.turn import TurnTodo
from vibe_gate.store.run_result import read_bundle
from vibe_gate.store.store import open_store

CONDUCT: dict[str, dict[str, Any]] = {
    "tools-only": {"tools": ["Read", "mcp__docs__*"]}, "tool-used": {"tool": "Read", "min": 2},
    "cost-under": {"max_usd": 1.0}, "todos-completed": {}, "no-errors-in-logs": {"ignore": ["0 errors"]},
    "complete-capture": {},
}  # fmt: skip
OF_SESSIONS = ("tools-only", "todos-completed")


class Called(NamedTuple):
    name: str
    ok: bool = True


def turn(**fields: Any) -> Conduct:
    """A turn that all checks pass, but for what is said of it."""
    good: dict[str, Any] = {
        "name": "fix", "calls": [Called("Read"), Called("Read"), Called("StructuredOutput")], "usd": 0.75,
        "todos": [TurnTodo(text="mend", status="completed")],
        "log": lambda: ["ERROR: 0 errors found", "ok"],
    }  # fmt: skip
    return Conduct(**(good | fields))


session = partial(turn, name="Claude Code session 5e551011", usd=None, is_session=True)
PENDING = [TurnTodo(text="mend", status="pending")]


@pytest.mark.parametrize("check", CONDUCT)
def test_without_an_agent_there_is_nothing_to_look_at_and_what_was_not_recorded_is_no_pass(
    check: str,
) -> None:
    def answer(*conduct: Conduct) -> str:
        return ask(check, added("a", b"x"), conduct=conduct, **CONDUCT[check]).outcome

    missing_conduct = Conduct(name="fix", unread="its turn was not recorded")
    assert answer() == "not_applicable"
    assert answer(turn()) == "pass"
    assert answer(missing_conduct) == {"complete-capture": "fail"}.get(check, "abstain")
    assert answer(session()) == ("pass" if check in OF_SESSIONS else "not_applicable")
    assert answer(session(unread="2 events of it could not be kept")) == (
        "abstain" if check in OF_SESSIONS else "not_applicable"
    )


@pytest.mark.parametrize(
    ("check", "conduct", "outcome", "reason"),
    [
        ("tools-only", turn(calls=[Called("Bash", ok=False), Called("mcp__docs__get")]), "fail", "fix used Bash."),
        ("tools-only", turn(calls=[Called("Bash")], superseded=True), "fail", "fix used Bash."),
        ("tools-only", session(calls=[Called("Bash")]), "fail", "Claude Code session 5e551011 used Bash."),
        ("tool-used", turn(calls=[Called("Read"), Called("Read", ok=False)]), "fail",
         "Read succeeded 1 time of 2 wanted, and failed 1 time."),
        ("cost-under", turn(usd=1.25), "fail", "$1.2500 is more than $1.0000 (fix $1.2500)."),
        ("cost-under", turn(usd=1.25, usd_at_most=True), "abstain",
         "It cost at most $1.2500: a model has no list price (fix $1.2500)."),
        ("cost-under", turn(usd=None), "abstain", "What fix cost is not known."),
        ("todos-completed", turn(todos=PENDING), "fail", "fix: pending: mend."),
        ("todos-completed", turn(todos=PENDING, superseded=True), "not_applicable", "No agent had a list of todos."),
        ("todos-completed", session(todos=PENDING), "fail", "Claude Code session 5e551011: pending: mend."),
        ("no-errors-in-logs", turn(log=lambda: ["x ERROR y"] * 5), "fail",
         "fix: x ERROR y; fix: x ERROR y; fix: x ERROR y; and 2 more."),
        ("no-errors-in-logs", turn(log=lambda: ["x ERROR y"], superseded=True), "not_applicable",
         "There is no turn of an agent to look at."),
        ("complete-capture", turn(lacks="no PostToolUse toolu_1"), "fail", "fix: no PostToolUse toolu_1."),
    ],
)  # fmt: skip
def test_conduct_is_answered_with_what_it_rests_on(
    check: str, conduct: Conduct, outcome: str, reason: str
) -> None:
    result = ask(check, added("a", b"x"), conduct=[conduct], **CONDUCT[check])
    assert (result.outcome, result.reason) == (outcome, reason)


def test_all_turns_together_cost_and_use_a_tool() -> None:
    both_turns = [turn(), turn(name="fix-b", calls=[])]
    assert ask("cost-under", added("a", b"x"), conduct=both_turns, max_usd=1.0).outcome == "fail"
    assert (
        ask("tool-used", added("a", b"x"), conduct=both_turns, tool="Read", min=2).outcome == "pass"
    )


def test_turns_are_read_from_the_bundle_of_a_run_that_is_not_sealed_yet(tmp_path: Path) -> None:
    run = open_store(tmp_path, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    ends = {"fix": Ended(status="interrupted", detail="killed"), "fix-b": Ended()}
    for node in ("fix", "fix", "fix-b", "judge"):
        turn = run.turn(node)
        for tool, output in (
            ("Bash", [{"type": "text", "text": f"ERROR in {node}\nline 2"}]),
            ("Read", "ERROR"),
        ):
            turn.event({"type": "message", "role": "tool", "tool": tool, "result": output})
        turn.hook({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "toolu_1"})
        turn.seal(ends.get(node, Ended()))
    read = conduct_of_stages(
        read_bundle(run.directory), {"fix": "fix", "fix-b": "fix", "gone": "gone"}
    )
    assert [(conduct.name, len(conduct.calls), conduct.usd, conduct.superseded) for conduct in read] == [
        ("fix, cut off", 1, 0.0125, True), ("fix", 1, 0.0125, True), ("fix-b", 1, 0.0125, False),
        ("gone", 0, None, False),
    ]  # fmt: skip
    first = ["ERROR in fix", "line 2"]
    assert [list(conduct.log()) for conduct in read] == [
        first,
        first,
        ["ERROR in fix-b", "line 2"],
        [],
    ]
    assert [(conduct.unread or conduct.lacks) for conduct in read[1:]] == [
        "no PreToolUse toolu_1, cut off: killed", "no PreToolUse toolu_1", "its turn was not recorded"
    ]  # fmt: skip
    assert describe_capture_gaps(read_bundle(run.directory)).startswith(
        "Capture incomplete: fix: no PreToolUse toolu_1, cut off: killed; fix: "
    )


# the table


@pytest.mark.parametrize(
    ("check", "options"),
    [
        ("only-paths", {"paths": []}),
        ("only-paths", {"paths": "src/**"}),
        ("forbidden-pattern", {"pattern": ""}),
        ("forbidden-pattern", {"pattern": "("}),
        ("forbidden-pattern", {"pattern": "a", "message": True}),
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
    wrong: list[WrongKey] = []
    assert read_table(CHECKS[check].options, options, wrong) is None
    assert len(wrong) == 1
