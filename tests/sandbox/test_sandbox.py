"""Commands of a repository's own: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import pid_in, process_ends

from vibe_gate.sandbox import KEPT_OUTPUT, CommandResult, command_environment_from, run_command

USER = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent-home",
    "ANTHROPIC_API_KEY": "secret",
    "GIT_DIR": "/elsewhere/.git",
    "VIRTUAL_ENV": "/venv",
    "PYTHONPATH": "/evil",
    "LD_PRELOAD": "",
}


def run(tree: Path, *argv: str, timeout_s: float = 20) -> CommandResult:
    return run_command(
        argv, cwd=tree, timeout_s=timeout_s, environment=command_environment_from(USER)
    )


def python(tree: Path, code: str, timeout_s: float = 20) -> CommandResult:
    return run(tree, sys.executable, "-c", code, timeout_s=timeout_s)


def test_output_and_exit_code_come_back_together(tmp_path: Path) -> None:
    result = run(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.output, result.failure) == (3, "out\nerr\n", "")


def test_the_command_stands_in_the_tree_with_an_environment_of_its_own(tmp_path: Path) -> None:
    result = python(
        tmp_path,
        "import os; print(os.getcwd()); print(sorted(os.environ)); print(os.listdir(os.environ['HOME']))",
    )
    folder, names, home = result.output.splitlines()
    assert Path(folder) == tmp_path
    assert set(eval(names)) <= {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ"}
    assert home == "['tmp']"


def test_home_and_temporary_files_are_gone_afterwards(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        "sh",
        "-c",
        'touch "$HOME/a" "$TMPDIR/b"; mkdir "$HOME/c"; chmod 0 "$HOME/c"; echo "$HOME"',
    )
    assert not Path(result.output.strip()).exists()


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("no-such-program-here", "not found"),
        ("./missing", "not found"),
        ("../outside", "out of the tree"),
        ("bin/../../outside", "out of the tree"),
        ("./link", "out of the tree"),
        ("./text", "could not be started"),
        ("", "not found"),
    ],
)
def test_a_program_that_is_not_there_is_a_failure_and_no_exit_code(
    tmp_path: Path, name: str, failure: str
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "outside").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "outside").chmod(0o755)
    (tree / "link").symlink_to("../outside")
    (tree / "text").write_text("no program")
    result = run(tree, name)
    assert result.exit_code is None
    assert failure in result.failure


def test_a_name_with_a_slash_is_a_file_of_the_tree_and_one_without_never_is(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho ours\n")
    (tmp_path / "tool").chmod(0o755)
    assert run(tmp_path, "./tool").output == "ours\n"
    environment = command_environment_from({"PATH": f".:{USER['PATH']}:"})
    result = run_command(["tool"], cwd=tmp_path, timeout_s=5, environment=environment)
    assert result.failure.startswith("not found")


@pytest.mark.slow
def test_a_command_over_its_time_is_ended_with_its_children(tmp_path: Path) -> None:
    for timeout_s in (1.5, 20, 200):  # where others use the machine, it has begun by then
        result = run(tmp_path, "sh", "-c", "sleep 600 & echo $!; sleep 600", timeout_s=timeout_s)
        if result.output:
            break
    assert result.exit_code is None
    assert result.failure == f"timed out after {timeout_s} s"
    assert process_ends(int(result.output))


@pytest.mark.slow
def test_a_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = (
        "import signal, time, os; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(os.getpid(), flush=True); open('deaf', 'w'); time.sleep(600)"
    )
    result = run_command(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        timeout_s=200,
        environment=command_environment_from(USER),
        cancelled=(tmp_path / "deaf").exists,
    )
    assert result.exit_code is None
    assert process_ends(int(result.output))


@pytest.mark.slow
def test_a_child_left_behind_is_ended_though_it_holds_the_output(tmp_path: Path) -> None:
    result = run(tmp_path, "sh", "-c", "sleep 600 & echo $!")
    assert result.exit_code == 0
    assert process_ends(int(result.output))


@pytest.mark.slow
def test_a_command_that_prints_forever_is_bounded(tmp_path: Path) -> None:
    result = run(tmp_path, "yes", timeout_s=1)
    assert result.failure.startswith("timed out")
    assert len(result.output) < KEPT_OUTPUT + 100
    assert result.output.startswith("[")


def test_the_end_of_long_output_is_kept(tmp_path: Path) -> None:
    result = python(tmp_path, "print('x' * 500_000); print('the end')")
    assert result.output.endswith("x\nthe end\n")
    assert "bytes before this were dropped" in result.output


def test_a_signal_is_a_negative_exit_code(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "kill -9 $$").exit_code == -9


def test_closing_the_output_early_is_no_end(tmp_path: Path) -> None:
    result = python(
        tmp_path, "import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(4)"
    )
    assert result.exit_code == 4


@pytest.mark.slow
def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from vibe_gate.sandbox import command_environment_from, run_command\n"
        f"run_command(['sh', '-c', 'echo $$ > pid; sleep 600'], cwd=Path({str(tmp_path)!r}), "
        "timeout_s=60, environment=command_environment_from(os.environ))"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2]
    )
    pid = pid_in(tmp_path)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(60) != 0
    assert process_ends(pid)
