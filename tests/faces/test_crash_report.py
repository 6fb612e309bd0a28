"""The file that a person sends with a bug."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from vibe_gate.domain.environment import read_environment
from vibe_gate.faces.cli.crash_report import (
    MAX_ARGUMENT,
    MAX_MESSAGE,
    make_crash_report,
    write_crash_report,
)
from vibe_gate.version import __version__

TOKEN = "ghp_" + "a1B2" * 9


def crash(message: str) -> Exception:
    """An exception that was raised because of another one."""
    try:
        try:
            {}["missing"]
        except KeyError as cause:
            raise ValueError(message) from cause
    except ValueError as error:
        return error


def test_it_has_versions_command_and_the_chain_of_exceptions(tmp_path: Path) -> None:
    environment = read_environment({"HOME": str(tmp_path)})
    report = make_crash_report(crash("bad"), ["review", "HEAD~1"], environment)
    path = write_crash_report(report, environment)
    assert path == tmp_path / ".cache/vibe-gate/crash.log"
    lines = path.read_text().splitlines()
    assert lines[:2] == ["command: vibe-gate review 'HEAD~1'", f"vibe-gate {__version__}"]
    assert any(line.startswith("pygit2 ") for line in lines)
    assert [line for line in lines if "Error: " in line] == [
        "KeyError: 'missing'",
        "ValueError: bad",
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_and_long_texts_are_left_out() -> None:
    environ = {"MY_API_TOKEN": "correct-horse-battery"}
    argv = ["run", "--prompt", f"{TOKEN} {'x' * 1_000}", "correct-horse-battery"]
    text = make_crash_report(crash(TOKEN + "y" * 1_000), argv, read_environment(environ))
    assert TOKEN not in text
    assert "correct-horse-battery" not in text
    assert "x" * MAX_ARGUMENT not in text
    assert "y" * MAX_MESSAGE not in text


@pytest.mark.parametrize(
    "environ", [{}, {"HOME": "relative"}, {"HOME": "/dev/null"}, {"HOME": "/a\0b"}]
)
def test_without_a_place_for_it_there_is_none(environ: dict[str, str]) -> None:
    assert write_crash_report("report", read_environment(environ)) is None


def test_the_newest_replaces_the_one_before_and_follows_no_link(tmp_path: Path) -> None:
    folder = tmp_path / "vibe-gate"
    folder.mkdir()
    target = tmp_path / "kept"
    target.write_text("kept")
    (folder / "crash.log").symlink_to(target)
    for message in ("first", "second"):
        write_crash_report(message, read_environment({"XDG_CACHE_HOME": str(tmp_path)}))
    assert target.read_text() == "kept"
    assert (folder / "crash.log").read_text() == "second"
    assert [path.name for path in folder.iterdir()] == ["crash.log"]
