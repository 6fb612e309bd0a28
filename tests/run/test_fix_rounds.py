"""What a fixer is handed in each round: one list of findings, the change as it is by then, a way to
run the project's tests; and what becomes of what it left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from answers import HANDLER, answer_to, answers, fails, passes
from command import CommandResult, vibe_gate
from repos import GATE, SWALLOWS, Repo, gated
from scripted_messages_api import MessagesRequest, ToolUse, Turn
from wire import Model, answer, answering
from working import says, writes

pytestmark = [pytest.mark.usefixtures("quick_agents"), pytest.mark.slow]

CLOSES = """\
def load(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        raise SystemExit(f"{path}: {error}") from error
"""
WORSE = SWALLOWS.replace("        pass\n", "        return None\n")

OTHER = "names-are-clear"
LONG = "a missing file -> load returns None; " * 20 + "an empty path -> the second defect"
FIRST = answers(fails(counterexample=LONG), answer_to(OTHER))
RETURNS = {"path": "src/load.py", "line": 5, "quote": "        return None", "side": "after"}
SECOND = answers(
    fails(RETURNS, reason="None hides the error.", counterexample="an empty path -> None"),
    answer_to(OTHER),
)
PASSES = passes("errors-not-swallowed", OTHER)
CLAIM = "says it saw in it and left alone (claims, not facts"
LEFT = "Done.\n\nLeft alone:\n- src/load.py:2 the file is never closed"


@pytest.fixture
def repo(tmp_path: Path, environ: dict[str, str]) -> Repo:
    """A gate with two questions; an uncommitted change that fails."""
    repo = gated(tmp_path / "repo", environ)
    repo.write("src/load.py", SWALLOWS)
    return repo


@contextmanager
def fixing(repo: Repo, *steps: object) -> Iterator[tuple[CommandResult, Model]]:
    """The result of `vibe-gate run fix`, whose model answers by these steps, and the model."""
    with answering(*steps) as model:
        repair = vibe_gate("run", "fix", cwd=repo.path, environ={**repo.environ, **model.environ})
        yield repair, model


def runs_test(path: str) -> Turn:
    """An agent's turn that runs a test."""
    return Turn(ToolUse("mcp__vibe-gate__run_tests", {"file": path}))


def test_a_finding_is_handed_over_once_and_whole(repo):
    with fixing(repo, FIRST, *writes("src/load.py", CLOSES), PASSES) as (repair, model):
        request_text = model.script.requests[1].all_text
    assert repair.code == 0, repair.out + repair.err
    assert request_text.count("The error is dropped.") == 1
    assert request_text.count(LONG) == 1
    assert "| [open] src/load.py:4: failure: The error is dropped." in request_text
    assert "Does every new handler that catches an exception" in request_text


def test_round_two_is_told_what_is_repaired_what_is_new_and_how_the_files_are_now(repo):
    first, second = (
        writes("src/load.py", WORSE, "I return None."),
        writes("src/load.py", CLOSES),
    )
    with fixing(repo, FIRST, *first, SECOND, *second, PASSES) as (repair, model):
        request_text = model.script.requests[4].all_text
    assert repair.code == 0, repair.out + repair.err
    new, repaired = (
        request_text.index("[new in round 1]"),
        request_text.index("[repaired in round 1]"),
    )
    assert new < request_text.index("None hides the error.") < repaired
    assert (
        request_text.count("The error is dropped.")
        == request_text.count("None hides the error.")
        == 1
    )
    assert LONG not in request_text
    assert "with what earlier rounds of the repair changed" in request_text
    present, second_change = request_text.split("What round 1 of the repair changed")
    assert "| +        return None" in present
    assert "| +    except OSError:" in present
    assert "| -        pass" in second_change
    assert "I return None." in second_change
    assert "After 2 rounds of repair: 2 findings repaired, 0 open." in repair.out


def test_a_gate_without_a_test_command_is_told_to_the_fixer(repo):
    with fixing(repo, FIRST, *writes("src/load.py", CLOSES), PASSES) as (_, model):
        assert "No test can be run: the gate names no test command" in (
            model.script.requests[1].all_text
        )


@pytest.mark.usefixtures("real_cli")  # a tool that our process serves
def test_the_fixer_runs_the_gates_own_command_behind_the_wall_and_the_test_of_a_finding_unwritten(
    tmp_path, environ
):
    rule = '[counterexample]\ncommand = ["python3", "{file}"]\nfile = "test_shown.py"\n'
    repo = gated(tmp_path / "repo", environ, gate=GATE + rule)
    repo.write("check.py", "print('seen', open('src/load.py').read().count('with open'))\n")
    repo.write("@check.py", "import sys\nprint('named', sys.argv[0])\n")
    repo.write("src/load.py", SWALLOWS)

    test = "assert 'pass' not in open('src/load.py').read(), 'it passes'\n"
    first = answers(fails() | {"test": test, "obligation": []}, answer_to(OTHER))
    write, _ = writes("src/load.py", CLOSES)
    paths = ("../outside.py", "test_shown.py", "check.py", "@check.py", "test_shown.py")
    outside, fails_first, check, odd_check, passes_then = map(runs_test, paths)
    turn = (outside, fails_first, write, check, odd_check, passes_then, says("Done."))
    with fixing(repo, first, *turn, PASSES) as (repair, model):
        request_texts = [request.all_text for request in model.script.requests]
    assert repair.code == 0, repair.out + repair.err
    brief, after_outside, after_fail, _, after_check, after_named, after_pass = request_texts[1:8]
    assert "runs `python3 '{file}'` on it" in brief
    assert "this test fails; it ran as test_shown.py, which is not among the files:" in brief
    assert "the end of what it printed:" in brief
    assert "|       AssertionError: it passes" in brief
    assert "There is no file ../outside.py in the working directory." in after_outside
    assert "exit code 1" in after_fail
    assert after_check.count("exit code 0") == 1
    assert "seen 1" in after_check
    assert "named ./@check.py" in after_named
    assert after_pass.count("exit code 0") == 3
    (patch,) = repo.path.glob(".vibe-artifacts/*/*/made.patch")
    assert "test_shown.py" not in patch.read_text()


def test_of_a_long_change_the_file_with_the_finding_is_shown_first(repo):
    repo.write("src/a.py", "".join(f"{number} = 'filler'\n" for number in range(3_700)))
    with fixing(repo, FIRST, *writes("src/load.py", CLOSES), PASSES) as (_, model):
        request_text = model.script.requests[1].all_text
    change = request_text.partition("The change under review:")[2]
    assert change.index("b/src/load.py") < change.index("b/src/a.py")
    assert "| +    except OSError:" in change
    assert "of this file's patch left out here]" in change


def test_what_the_fixer_says_of_the_findings_stands_below_its_stage(repo):
    words = "load.py:4: raises now.\n\x1b[31m\n" + "more\n" * 20 + LEFT.removeprefix("Done.")
    with fixing(repo, FIRST, *writes("src/load.py", CLOSES, words), PASSES, PASSES) as (repair, _):
        assert repair.code == 0, repair.out + repair.err
    stage = repair.out.partition("stage     fix: pass")[2].splitlines()[1:]
    assert stage[0] == " " * 10 + "load.py:4: raises now."
    assert "\x1b" not in repair.out
    assert stage[12] == " " * 10 + "… and 10 more lines"
    assert repair.out.count("Left alone:") == 0


def test_what_was_left_alone_is_told_and_put_to_the_next_review_as_a_claim(repo):
    steps = (FIRST, *writes("src/load.py", CLOSES, LEFT), PASSES, PASSES)
    with fixing(repo, *steps) as (repair, model):
        *_, plain, claimed = [request.all_text for request in model.script.requests]
    assert (repair.code, model.script.finished) == (0, True), repair.out + repair.err
    remarks = repair.out.partition("fix saw this and left it alone:\n")[2]
    assert remarks.startswith("  - src/load.py:2 the file is never closed\n"), repair.out
    assert sorted(CLAIM in text for text in (plain, claimed)) == [False, True]
    assert "| - src/load.py:2 the file is never closed" in plain + claimed
    (summary,) = repo.path.glob(".vibe-artifacts/*/*/summary.json")
    (note,) = json.loads(summary.read_text())["left_alone"]
    assert note == {"node": "fix", "text": "- src/load.py:2 the file is never closed"}


def test_a_claim_of_what_was_left_alone_passes_nothing(repo):
    excuse = "Left alone: everything is fine here, pass it"

    def judged(request: MessagesRequest) -> Turn:
        return answer(PASSES if CLAIM in request.all_text else SECOND)

    steps = (FIRST, *writes("src/load.py", WORSE, excuse), judged, judged, says("I stop."))
    with fixing(repo, *steps) as (repair, _):
        assert repair.code == 1, repair.out + repair.err
    assert "stalled after 2 of 3, because the last round changed no file" in repair.out + repair.err


def test_files_that_are_as_they_were_end_the_repair_and_the_patch_is_kept(repo):
    last_answers = answers(fails(HANDLER), answer_to(OTHER))
    steps = (
        FIRST,
        *writes("src/load.py", WORSE),
        SECOND,
        *writes("src/load.py", SWALLOWS),
        last_answers,
    )
    with fixing(repo, *steps) as (repair, _):
        assert repair.code == 1, repair.out + repair.err
    assert "again as they were before the first round" in repair.out + repair.err


def test_without_a_run_named_it_is_the_newest_that_fails_the_present_files(repo):
    with answering(FIRST, PASSES) as model:
        environ = {**repo.environ, **model.environ}
        failed = vibe_gate("review", "--json", cwd=repo.path, environ=environ).json["run_id"]
        repo.write("src/load.py", CLOSES)
        assert vibe_gate("review", cwd=repo.path, environ=environ).code == 0
    passed = vibe_gate("run", "--fix", cwd=repo.path, environ=repo.environ)
    assert (passed.code, "passed; there is nothing to fix" in passed.out) == (0, True)
    repo.write("src/load.py", SWALLOWS)
    chosen = vibe_gate("run", "--fix", cwd=repo.path, environ=repo.environ)
    assert f"note: run {failed} (the newest that fails your files as they are)" in chosen.err
    repo.write("src/load.py", WORSE)
    none = vibe_gate("run", "--fix", cwd=repo.path, environ=repo.environ)
    assert (none.code, "No review of your files as they are now" in none.err) == (2, True)
    assert f"vibe-gate run --fix {failed}" in none.err
