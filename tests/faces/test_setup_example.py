"""examples/claude-setup: a suite about one's own CLAUDE.md, commands, skills and subagents."""

from __future__ import annotations

import os
import shutil

import pytest
from record_setup_example import EXAMPLE, agent
from repos import Repo
from wire import answering

pytestmark = pytest.mark.slow
pytest_plugins = ["pytester"]

FIX = ".claude/commands/fix.md"


@pytest.fixture
def suite(pytester, environ, monkeypatch) -> Repo:
    """The example, in a folder of another name."""
    loop_scope = "-o asyncio_default_fixture_loop_scope=function"
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{os.environ['PYTEST_ADDOPTS']} {loop_scope}")
    shutil.copytree(EXAMPLE, pytester.path, dirs_exist_ok=True)
    return Repo(pytester.path, environ)


def test_the_example_passes_from_its_cassettes(pytester, suite):
    result = pytester.runpytest_inprocess("--vibe-strict")
    result.assert_outcomes(passed=2)  # else run `python tests/faces/record_setup_example.py`


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            None,
            "*There is no command /fix in .claude/commands or .claude/skills of the working tree;*",
        ),
        ("---\nmodel\n---\nRepair $ARGUMENTS\n", f"*{FIX}:2: not front matter*"),
        ("Repair $ARGUMENTS\n!`git log`\n", "*The command /fix did not run.*Bash has been denied*"),
        ("Repair $ARGUMENTS, see @../../x\n", f"*{FIX}:* refers to @../../x*"),
    ],
)
def test_a_broken_command_is_found_without_a_model(pytester, suite, text, sentence):
    (suite.path / FIX).unlink()
    if text is not None:
        suite.write(FIX, text)
    result = pytester.runpytest_inprocess("-k", "test_fix")
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 1
    result.stdout.fnmatch_lines([sentence])


@pytest.mark.parametrize(
    ("paths", "difference"),
    [
        (("CLAUDE.md",), "CLAUDE.md changed"),
        (
            (FIX, ".claude/commands/other.md"),
            f"{FIX} changed, .claude/commands/other.md is new",
        ),
    ],
)
def test_a_changed_set_up_is_another_question_and_the_difference_names_the_file(
    pytester, suite, paths, difference
):
    for path in paths:
        suite.write(path, "Do as you like with $ARGUMENTS.\n")
    result = pytester.runpytest_inprocess("-rs", "-k", "test_fix")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"*no recorded answer: set-up: {difference}*"])


def test_a_broken_command_is_found_with_a_model(pytester, suite, environ, monkeypatch):
    suite.write(FIX, "Repair the file.\n")  # without $ARGUMENTS
    with answering(agent, repeat_last=True) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        result = pytester.runpytest_inprocess("--vibe-wire=live")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*CLAUDE.md asks for a line*"])
