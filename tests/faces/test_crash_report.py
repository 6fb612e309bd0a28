"""The file that a person sends with a bug."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from vibe_gate.domain.environment import read_environment
from vibe_gate.faces.cli.crash_report import (
    MAX_ARGUMENT,
    MAX_MESSAGE,
    MAX_SUMMARY,
    make_crash_report,
    summarize_error,
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


SECRET = "correct-horse-battery"
HALF = SECRET[:8]
"""Too little of it to be found again."""


def test_a_secret_that_a_limit_cuts_in_two_is_found_before() -> None:
    environment = read_environment({"MY_API_TOKEN": SECRET})
    argument = "x" * (MAX_ARGUMENT - len(HALF)) + SECRET
    message_start = "x" * (MAX_MESSAGE - len("ValueError: ") - len(HALF))
    report = make_crash_report(crash(message_start + SECRET), [argument], environment)
    assert HALF not in report
    summary_start = "x" * (MAX_SUMMARY - len("ValueError: ") - len(HALF))
    assert HALF not in summarize_error(crash(summary_start + SECRET), environment)


def test_the_sentence_beside_it_has_one_line_and_no_secret() -> None:
    environment = read_environment({"MY_API_TOKEN": SECRET})
    sentence = summarize_error(crash(f"bad {SECRET}\nmore"), environment)
    assert sentence.startswith("ValueError: bad ")
    assert SECRET not in sentence
    assert "more" not in sentence


def test_hidden_characters_are_written_out() -> None:
    hidden = "\x1b]0;title\x07 e\u202ev"
    environment = read_environment({})
    escapes = "\\x1b]0;title\\x07 e\\u202ev"
    report = make_crash_report(crash(f"bad\n::notice::{hidden}"), [hidden], environment)
    assert report.splitlines()[-1] == f"ValueError: bad\\n::notice::{escapes}"
    assert report.splitlines()[0] == f"command: vibe-gate '{escapes}'"
    assert summarize_error(crash(hidden), environment) == f"ValueError: {escapes}"


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
