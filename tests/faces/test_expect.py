"""Matchers: what each says of a tidy turn, of a wild one, and of one that was not recorded to its
end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundle_words import KEY, START, Clock, Ended, OneSecretRedactor, summary_of

from vibe_gate import expect
from vibe_gate.domain.turn import TurnChange, TurnFile
from vibe_gate.domain.wire import ModelCost, SessionCost
from vibe_gate.errors import UsageError
from vibe_gate.store.run_recorder import RunRecorder
from vibe_gate.store.run_result import RunResult, read_bundle
from vibe_gate.store.store import open_store

TIDY = (
    [TurnFile(path="src/a.py", change_type="modified"), TurnFile(path="src/new.py", change_type="added")],
    ["Read", "Read", "Edit"], "completed", "2 passed", 0.5,
)  # fmt: skip
WILD = (
    [
        TurnFile(path="src/a.py", change_type="deleted"),
        TurnFile(path="lib/b.py", old_path="src/b.py", change_type="renamed"),
    ],
    ["Bash", "WebFetch"], "pending", "ERROR: no space\x1b[2J", 5.0,
)  # fmt: skip


def record_turn(
    run: RunRecorder, node: str, actions: tuple[Any, ...], *, seal: bool = True, blind: bool = False
) -> Path:
    """A turn in which an agent changed files, called tools, kept a list of one todo, ran a program
    and cost USD.
    """
    files, tools, todo, printed, usd = actions
    turn = run.turn(node)
    for number, tool in enumerate(tools):
        hook = {"tool_name": tool, "tool_use_id": f"toolu_{number}", "tool_input": {}}
        turn.hook({"hook_event_name": "PreToolUse", **hook})
        if not blind:
            turn.hook({"hook_event_name": "PostToolUse", **hook})
    if todo:
        turn.event({"type": "todo", "action": "add", "text": "mend", "status": todo})
    turn.event({"type": "message", "role": "tool", "tool": "Bash", "result": printed})
    if seal:
        cost, change = (
            SessionCost(10, 20, {"a-model": ModelCost(usd, "known")}),
            TurnChange(files=tuple(files)),
        )
        turn.seal(Ended(cost=cost, change=change))
    turn.close()
    return run.directory / turn.relative


@pytest.fixture
def turn(tmp_path: Path) -> Callable[..., RunResult]:
    def recorded(actions: tuple[Any, ...], **options: bool) -> RunResult:
        return read_bundle(
            record_turn(
                open_store(tmp_path, OneSecretRedactor(), Clock()).begin(KEY, START, {}),
                "fix",
                actions,
                **options,
            )
        )

    return recorded


def matcher_error(
    result: RunResult, matcher: str, *args: Any, turned: bool = False, **options: Any
) -> str:
    """What the matcher raises; "" if it holds."""
    expectation = expect(result).not_ if turned else expect(result)
    try:
        getattr(expectation, matcher)(*args, **options)
    except AssertionError as error:
        return str(error)
    return ""


def test_matchers_take_lists_of_names(turn):
    tidy = turn(TIDY)
    expect(tidy).to_have_changed_files(["src/a.py"])
    expect(tidy).to_modify_only(["src/**"], "docs/**")
    expect(tidy).to_use_only_tools(["Read", "Write", "Edit"])
    with pytest.raises(AssertionError, match=r"No changed file matches \*\.txt\."):
        expect(tidy).to_have_changed_files(["*.txt", "src/**"])
    with pytest.raises(UsageError, match="A matcher takes names as text, not 1"):
        expect(tidy).to_have_changed_files([1])


CHANGED = "\n  Changed: deleted src/a.py, renamed lib/b.py"
CALLED = "\n  Called: Bash, WebFetch"
ROWS = [
    ("to_have_changed_files", ["src/**", "*new*"], "No changed file matches *new*." + CHANGED, "seal"),
    ("to_modify_only", ["src/**"],
     "1 disallowed path: lib/b.py.\n  lib/b.py: Only src/** may change here." + CHANGED, "seal"),
    ("to_have_no_deleted_files", [], "1 deleted file: src/a.py.\n  src/a.py: This file is deleted." + CHANGED, "seal"),
    ("to_have_used_tool", ["Read", 2, 3], "Read succeeded 0 times of 2 wanted, and failed 0 times." + CALLED, "hooks"),
    ("to_have_used_tool", ["Bash", 0, 0], "Bash succeeded 1 time, at most 0 allowed." + CALLED, "hooks"),
    ("to_use_only_tools", ["Read", "E*"],
     "fix used Bash; fix used WebFetch.\n  fix used Bash\n  fix used WebFetch" + CALLED, "hooks"),
    ("to_complete_all_todos", [], "fix: pending: mend.\n  Todos: pending: mend", "seal"),
    ("to_have_no_errors_in_logs", [], "fix: ERROR: no space⟦U+001B⟧[2J.", "seal"),
    ("to_stay_under_cost", [2.5], "$5.0000 is more than $2.5000 (fix $5.0000).", "seal"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("matcher", "args", "wrong", "needed"), ROWS, ids=[f"{row[0]}{row[1]}" for row in ROWS]
)
def test_a_matcher_holds_fails_with_what_it_saw_and_turns_round(turn, matcher, args, wrong, needed):
    tidy, wild = turn(TIDY), turn(WILD)
    assert matcher_error(tidy, matcher, *args) == ""
    assert matcher_error(tidy, matcher, *args, turned=True).startswith("not expected: ")
    assert matcher_error(wild, matcher, *args) == wrong
    if matcher != "to_have_changed_files":
        assert matcher_error(wild, matcher, *args, turned=True) == ""

    unsealed, blind = turn(TIDY, seal=False), turn(TIDY, blind=True)
    for turned in (False, True):
        assert matcher_error(unsealed, matcher, *args, turned=turned).startswith(
            "capture is incomplete: "
        )
        if needed == "hooks":
            assert "no PostToolUse toolu_0" in matcher_error(blind, matcher, *args, turned=turned)
        else:
            assert (matcher_error(blind, matcher, *args, turned=turned) == "") is not turned


def test_what_more_of_a_recording_cannot_change_is_known_of_a_cut_one(turn):
    unsealed = turn(WILD, seal=False)
    assert matcher_error(unsealed, "to_have_used_tool", "Bash") == ""
    assert matcher_error(unsealed, "to_use_only_tools", "Read").startswith("fix used Bash")
    assert matcher_error(unsealed, "to_have_no_errors_in_logs").startswith("fix: ERROR")
    assert matcher_error(unsealed, "to_have_complete_capture") == "fix: the turn is not finished."
    blind = turn(TIDY, blind=True)
    assert matcher_error(blind, "to_have_complete_capture").startswith(
        "fix: no PostToolUse toolu_0"
    )
    assert (
        matcher_error(blind, "to_have_complete_capture", turned=True)
        == matcher_error(turn(TIDY), "to_have_complete_capture")
        == ""
    )
    assert matcher_error(turn(TIDY), "to_have_complete_capture", turned=True).startswith(
        "not expected: Hooks saw"
    )


def test_what_is_not_there_is_not_known_and_what_makes_no_sense_is_refused(turn):
    files, tools, _, printed, usd = WILD
    for turned in (False, True):
        listless = turn((files, tools, "", printed, usd))
        assert (
            matcher_error(listless, "to_complete_all_todos", turned=turned)
            == "No agent had a list of todos."
        )
    assert matcher_error(turn(([], [], "completed", "", 0.0)), "to_modify_only", "src/**") == ""
    assert matcher_error(
        turn(WILD), "to_have_changed_files", "src/**", "docs/**", turned=True
    ).startswith("not expected: Files")
    assert matcher_error(turn(WILD), "to_have_no_errors_in_logs", ignore=("no space",)) == ""
    for matcher, args in (
        ("to_modify_only", []),
        ("to_have_used_tool", ["Read", -1]),
        ("to_stay_under_cost", [-1]),
    ):
        with pytest.raises(UsageError, match="does not take"):
            matcher_error(turn(TIDY), matcher, *args)


def test_of_a_run_all_turns_of_agents_count_and_the_last_of_a_stage_that_ran_again(tmp_path):
    run = open_store(tmp_path, OneSecretRedactor(), Clock()).begin(KEY, START, {})
    for node, kind, actions in (
        ("fix", "stage", WILD),
        ("fix-b", "stage", TIDY),
        ("judge", "judge", WILD),
    ):
        run.event("node.added", node, kind=kind, **({"agent": "fixer"} if kind == "stage" else {}))
        record_turn(run, node, actions)
    result = read_bundle(run.directory)
    assert matcher_error(result, "to_have_changed_files", "src/**").startswith(
        "capture is incomplete: its writer is still"
    )
    run.seal(summary_of(run))
    result = read_bundle(run.directory)
    assert (
        matcher_error(result, "to_complete_all_todos")
        == matcher_error(result, "to_have_no_errors_in_logs")
        == ""
    )
    assert matcher_error(result, "to_have_changed_files", "src/new.py", "lib/**") == ""
    assert matcher_error(result, "to_use_only_tools", "Read", "Edit").endswith(
        "Called: Bash, WebFetch, Read 2 times, Edit"
    )
    assert "src/a.py: This file is deleted." in matcher_error(result, "to_have_no_deleted_files")


def test_a_plain_assertion_shows_what_was_changed_and_called(turn):
    result = turn(WILD)
    assert [file.path for file in result.files.changed("src/**")] == ["src/a.py", "lib/b.py"]
    assert repr(result.files) == "<Files deleted src/a.py, renamed lib/b.py>"
    assert repr(result.files.changed("*b*")) == "[<FileChange renamed src/b.py to lib/b.py>]"
    assert repr(result.tools) == "<Tools Bash, WebFetch>"
    assert repr(result.tools.all()[0]) == "<CapturedCall Bash completed>"
