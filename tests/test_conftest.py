"""What the tests themselves may not do, and what they say about tools that are missing."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import missing_tools
import pytest
import watch
from command import run_unforked, vibe_gate

_TEST = """
import pytest
@pytest.mark.skipif(True, reason="npm is not installed here")
def test_a(): ...
def test_b(): ...
"""


def test_writing_to_the_home_directory_is_an_error() -> None:
    for write in (
        lambda path: path.write_text("x"),
        Path.mkdir,
        lambda path: path.symlink_to("/x"),
    ):
        with pytest.raises(AssertionError, match="tried to write"):
            write(watch.HOME / "vibe-gate-was-here")
    assert not (watch.HOME / "vibe-gate-was-here").exists()
    watch.acts.clear()


def test_a_connection_that_is_not_loopback_is_an_error() -> None:
    with socket.socket() as client, pytest.raises(AssertionError, match="tried to connect"):
        client.connect(("192.0.2.1", 80))
    with pytest.raises(AssertionError, match="tried to look up"):
        socket.create_connection(("example.org", 80))
    watch.acts.clear()


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "code"), [({}, 0), ({"CI": "true"}, missing_tools.MISSING_CODE)])
def test_a_missing_tool_is_said_at_the_end_and_fails_in_ci(tmp_path, environ, ci, code) -> None:
    (tmp_path / "test_it.py").write_text(_TEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "missing_tools",
        tmp_path,
    ]
    path = {
        "PYTHONPATH": str(Path(missing_tools.__file__).parent),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # whose imports are half of a start
    }
    result = subprocess.run(
        command, cwd=tmp_path, env=environ | path | ci, capture_output=True, text=True, check=False
    )
    assert result.returncode == code, result.stdout
    assert "1 skipped: npm is not installed here" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("argv", [("viz",), ("doctor",), ("review", "--json"), ("bundles", "list")])
def test_a_command_in_a_forked_or_used_process_ends_as_one_that_was_started(
    tmp_path, environ, argv
):
    runs = [
        run(*argv, cwd=tmp_path, environ=environ) for run in (run_unforked, vibe_gate, vibe_gate)
    ]
    new, forked, used = [(result.code, result.out, result.err) for result in runs]
    assert new == forked == used
