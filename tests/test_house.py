"""The house itself: its public surface, its documents, its sizes and its floors."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vibe_gate
from vibe_gate import errors
from vibe_gate.faces.cli import dispatch

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(path for path in (ROOT / "vibe_gate").rglob("*.py") if "demo_data" not in path.parts)
PUBLIC = {
    *(
        "review",
        "ReviewRequest",
        "Review",
        "Progress",
        "Selection",
        "Summary",
        "GateError",
        "UsageError",
        "DefinitionError",
    ),
    *("RevisionError", "UnsupportedRepository", "InfrastructureError", "AgentError", "GatewayError", "StorageError"),
    *("ForgeError", "IntegrityError", "__version__", "find_bundles", "clean_bundles"),
    *("read_bundle", "RunResult", "FileChange", "Attachment"),
}

MAX_LINES = 600
"""Of a module; beyond, it is two modules."""


def test_the_public_names_are_these_and_each_loads():
    assert set(vibe_gate.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(vibe_gate, name) is not None
    assert set(dir(vibe_gate)) == PUBLIC
    everything: dict[str, object] = {}
    exec("from vibe_gate import *", everything)
    assert everything.keys() >= PUBLIC


def test_every_error_is_public():
    tree = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert tree <= PUBLIC


def test_review_is_the_module_whatever_was_imported_first():
    assert vibe_gate.review is importlib.import_module("vibe_gate.review")
    assert callable(vibe_gate.review.review)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'reviwe'"):
        vibe_gate.reviwe  # noqa: B018


def test_every_public_name_stands_in_the_map():
    assert all(
        name in (vibe_gate.__doc__ or "") for name in ("review", "ReviewRequest", "Review", "Selection", "Summary")
    )


def section(command: str) -> str:
    """The part of docs/cli.md about one command."""
    text = (ROOT / "docs" / "cli.md").read_text()
    return text.split(f"## vibe-gate {command}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("command", (*dispatch.COMMANDS, *dispatch.MACHINE_COMMANDS))
def test_every_command_is_documented_with_all_its_options(command):
    parser = dispatch.parser(command, dispatch.command(command))
    options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
    assert {option for option in options if f"`{option}" not in section(command)} == set()


@pytest.mark.parametrize("command", (*dispatch.COMMANDS, *dispatch.MACHINE_COMMANDS))
def test_every_command_keeps_the_form_of_a_command(command):
    assert isinstance(dispatch.command(command), dispatch.Command)


def test_the_exit_codes_of_the_documents_are_those_of_the_errors():
    text = (ROOT / "docs" / "cli.md").read_text()
    names = ("PASS", "FAIL", "USAGE", "INCONCLUSIVE", "POLICY_CHANGED", "INTEGRITY", "INTERRUPTED")
    assert all(f"| {getattr(errors, name)} |" in text for name in names)


def test_planned_commands_are_not_there_yet_and_documented_as_such():
    text = (ROOT / "docs" / "cli.md").read_text()
    assert not set(dispatch.PLANNED) & set(dispatch.COMMANDS)
    assert all(f"`{name}`" in text for name in dispatch.PLANNED)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_a_docstring_and_a_readable_size(module):
    text = module.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= MAX_LINES


def test_the_floors_hold():
    pytest.importorskip("importlinter")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_test_replaces_our_own_code():
    forbidden = ("mock" + ".patch", "Magic" + "Mock", "unittest" + ".mock")
    assert [p.name for p in (ROOT / "tests").rglob("*.py") if any(word in p.read_text() for word in forbidden)] == []
