"""The command line: what it says, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import run_unforked, vibe_gate
from program import ROOT, repository

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.model_wire import Wire
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli import dispatch
from vibe_gate.faces.cli.command import Command, argument, parser
from vibe_gate.faces.cli.help import COMMANDS, HELP
from vibe_gate.faces.cli.output import emit_with_rows
from vibe_gate.faces.cli.request import request_of
from vibe_gate.faces.cli.review import REVIEW
from vibe_gate.version import __version__


def test_version_is_one_line(tmp_path, environ):
    result = vibe_gate("--version", cwd=tmp_path, environ=environ)
    assert (result.returncode, result.stdout, result.stderr) == (
        0,
        f"vibe-gate {__version__}\n",
        "",
    )


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_teaches_by_example_before_it_lists(tmp_path, environ, argv):
    result = vibe_gate(*argv, cwd=tmp_path, environ=environ)
    assert result.returncode == 0
    assert result.stdout == HELP
    assert HELP.index("vibe-gate review HEAD~1") < HELP.index("Commands") < HELP.index("Exit codes")
    assert max(map(len, HELP.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "expected"),
    [("rev", "review"), ("bundles l", "list"), ("review --wire r", "record replay")],
)
def test_bash_completes_commands_and_choices(tmp_path, environ, words, expected):
    pytest.importorskip("shtab")
    asks = f"COMP_WORDS=(vibe-gate {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); set -- $(complete -p vibe-gate)"
    calls = '${@: -2:1} vibe-gate "${COMP_WORDS[COMP_CWORD]}"; echo "${COMPREPLY[@]}"'
    script = (
        vibe_gate("completion", "bash", cwd=tmp_path, environ=environ).stdout + f"\n{asks}; {calls}"
    )
    result = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True)
    assert (result.stdout.strip(), result.stderr) == (expected, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uninstall", "git, claude"),
        ("config", "show, check, schema"),
        ("completion", "bash, zsh, fish"),
        ("bundles", "list, show, keep"),
    ],
)
def test_a_command_without_its_word_lists_the_words(tmp_path, environ, name, words):
    result = vibe_gate(name, cwd=tmp_path, environ=environ)
    assert (result.code, f": {words}" in result.err) == (2, True), result.err


@pytest.mark.slow
def test_modules_of_the_reviewed_repository_are_never_imported(tmp_path, environ):
    for name in ("argparse", "json", "rich", "pydantic"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hostile')")
    result = run_unforked("replay", cwd=tmp_path, environ={**environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 2
    assert "hostile" not in result.stderr


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["reviev"], "'reviev' is not a command; did you mean 'review'?"),
        (["\x1b[31mreview"], "\\x1b[31mreview"),
        (
            ["--verison"],
            "'--verison' is not an option of vibe-gate itself; did you mean '--version'?",
        ),
        (["bundles", "lst"], "vibe-gate: 'lst' is not one of list, show, keep,"),
        (["bundles", "lst"], "did you mean 'list'?"),
        (["bundles", "list", "--limt", "3"], "unknown option --limt; did you mean '--limit'?"),
    ],
)
def test_a_wrong_word_gets_the_nearest_one_suggested(tmp_path, environ, argv, sentence):
    result = vibe_gate(*argv, cwd=tmp_path, environ=environ)
    assert result.returncode == 2
    assert result.stderr.startswith("vibe-gate: ")
    assert sentence in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["run", "x", "--base", "HEAD"], "unknown option --base (see"),
        (["override", "F", "--wrong"], "unknown option --wrong; options are --reason, --expires"),
        (["install", "claude", "--base", "x"], "unknown option --base; options are --shared, "),
    ],
)
def test_an_option_like_no_other_gets_none_suggested(tmp_path, environ, argv, sentence):
    result = vibe_gate(*argv, cwd=tmp_path, environ=environ)
    assert (result.returncode, sentence in result.stderr) == (2, True), result.stderr


def test_with_json_an_error_is_exactly_one_document(tmp_path, environ):
    result = vibe_gate(
        "review", "--staged", "--commit", "HEAD", "--json", cwd=tmp_path, environ=environ
    )
    assert result.returncode == 2
    document = json.loads(result.stdout)
    assert document["schema"] == 1
    assert document["error"]["exit_code"] == 2
    assert "use one of them" in document["error"]["message"]


@pytest.mark.slow
@pytest.mark.every_python
def test_every_command_has_help_of_its_own(capsys, monkeypatch, subtests):
    monkeypatch.delenv("COLUMNS", raising=False)
    for command in (*COMMANDS, *dispatch.MACHINE_COMMANDS):
        with subtests.test(command=command):
            assert dispatch.run([command, "--help"]) == 0
            text = capsys.readouterr().out
            assert text.startswith(f"usage: vibe-gate {command}")
            assert max(map(len, text.splitlines())) <= 80
            assert (
                dispatch.find_command(command).examples or ""
            ) in text  # none is broken into two lines


@pytest.mark.parametrize("command", ["review", "verify"])
def test_the_program_prints_a_commands_help(tmp_path, environ, command):
    result = vibe_gate(command, "--help", cwd=tmp_path, environ=environ)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: vibe-gate {command}")


@pytest.mark.slow
@pytest.mark.parametrize("words", ["bundles list", "review --json"])
def test_a_current_directory_that_was_deleted_is_one_sentence_and_usage(tmp_path, environ, words):
    command = f"mkdir gone; cd gone; rmdir ../gone; exec {sys.executable} -m vibe_gate {words}"
    env = {**environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert "the current directory no longer exists" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--version >&-", 0),
        ("reviev >&- 2>&-", 2),
        ("--version >/dev/full", 3),
        ("reviev --json >/dev/full", 2),
        ("--help | true", 0),
        ("bundles list | true", 0),
    ],
)
def test_a_stdout_that_cannot_be_written_is_no_traceback(tmp_path, environ, command, code):
    root, env = repository(tmp_path / "r"), {**environ, "PYTHONPATH": str(ROOT)}
    argv = [
        "bash",
        "-o",
        "pipefail",
        "-c",
        f'"$0" "$1" "$2" {command}',
        sys.executable,
        "-m",
        "vibe_gate",
    ]
    result = subprocess.run(argv, env=env, cwd=root, capture_output=True, text=True)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 500, 501])
def test_a_document_whose_rows_are_written_in_portions_is_what_json_writes_of_all(capsys, count):
    rows = [{"number": number, "text": "a\u2028b\n\n", "none": []} for number in range(count)]
    emit_with_rows({"exit_code": 0}, "commits", iter(rows))
    document = {"schema": 1, "exit_code": 0, "commits": rows}
    assert capsys.readouterr().out == json.dumps(document, indent=2) + "\n"


def test_a_stdout_without_our_characters_gets_plain_ones(tmp_path, environ):
    result = run_unforked("doctor", cwd=tmp_path, environ={**environ, "PYTHONIOENCODING": "ascii"})
    assert result.stdout.startswith("+ vibe-gate")


LAST = """\
import os, signal, sys
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT):
        kill(pid, number)
sys.last = Last()
from vibe_gate.faces.cli import main
sys.exit(main())"""
"""Ctrl-C when the interpreter takes its modules apart."""


@pytest.mark.slow
def test_a_signal_when_the_command_has_ended_does_not_change_its_exit_code(tmp_path, environ):
    argv = [sys.executable, "-c", LAST, "verify", "--help"]
    result = subprocess.run(
        argv, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def explode(cause):
    if cause == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if cause == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    if cause == "secret":
        raise RuntimeError(f"bad \x1b[31m{os.environ['MY_API_TOKEN']}")
    raise KeyError("a bug with \x1b[31m in it")


@pytest.fixture
def exploding():
    """Run a command that breaks, and restore the process' signals afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    broken = Command("x", (argument("how"),), lambda args: args.how, explode)
    yield lambda cause, command="explode": dispatch.run([command, cause], lambda name: broken)
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("cause", ["interrupt", "terminate"])
@pytest.mark.parametrize(
    ("command", "words"),
    [("review", "interrupted; nothing was decided."), ("blame", "interrupted.")],
)
def test_an_interruption_is_130_with_one_line(exploding, capsys, cause, command, words):
    assert exploding(cause, command) == 130
    assert capsys.readouterr().err == f"vibe-gate: {words}\n"


def test_a_bug_is_one_line_and_in_ci_its_report_stands_above(exploding, capsys, monkeypatch):
    assert exploding("bug") == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "this is a bug, please report it: KeyError" in err
    assert "\x1b" not in err
    assert err.endswith("/.cache/vibe-gate/crash.log; look at it before you send it.\n")
    monkeypatch.setenv("CI", "true")
    exploding("bug")
    report, _, sentence = capsys.readouterr().err.rstrip("\n").rpartition("\n")
    assert report.splitlines()[0].startswith("command: vibe-gate")
    assert "KeyError" in report.splitlines()[-1]
    assert sentence.endswith("stand above; look at them before you send them.")


def test_what_a_bug_says_in_ci_has_no_secret_and_no_escape(exploding, capsys, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("MY_API_TOKEN", "correct-horse-battery")
    exploding("secret")
    err = capsys.readouterr().err
    assert err.count("RuntimeError: bad ") == 2  # in the report, and in the sentence beside it
    assert "correct-horse" not in err
    assert "\x1b" not in err


def request(*argv: str, **environ: str):
    arguments = REVIEW.parse(parser("review", REVIEW).parse_args(argv))
    return request_of(
        arguments.change,
        arguments.rubrics,
        arguments.limits,
        arguments.wire,
        read_environment(environ),
    )


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], Selection("worktree", "HEAD")),
        (["HEAD~1"], Selection("worktree", "HEAD~1")),
        (["A..B"], Selection("range", "A", "B")),
        (["A...B"], Selection("merge_base", "A", "B")),
        (["...B"], Selection("merge_base", "HEAD", "B")),
        (["A..."], Selection("merge_base", "A", "HEAD")),
        (["--staged"], Selection("staged")),
        (["--commit", "HEAD~3"], Selection("commit", "HEAD~3")),
        (["--strict", "HEAD~1", "--no-judge"], Selection("worktree", "HEAD~1")),
        (["--rubric", "a", "b", "HEAD~1"], Selection("worktree", "HEAD~1")),
        (["--rubric", "a", "main..feature"], Selection("range", "main", "feature")),
    ],
)
def test_a_revision_selects_what_git_diff_would(argv, expected):
    assert request(*argv).selection == expected


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["HEAD", "--staged"], "HEAD and --staged select different changes"),
        (["HEAD", "--commit", "X"], "HEAD and --commit select different changes"),
        (["--staged", "--commit", "X"], "--staged and --commit select different changes"),
        (["A", "B"], "for a range use A..B"),
        (["--commit", "A..B"], "--commit takes one commit"),
        (["A....B"], "is not a range"),
        ([""], "the revision is empty"),
        (["--rubric", "Upper"], "is not a rubric id"),
        (["--max-cost-usd", "0"], "not a number above zero"),
        (["--deadline", "soon"], "not a number above zero"),
        (["--wire", "replay"], "needs --cassette DIR"),
        (["--cassette", "x"], "needs --wire record or --wire replay"),
        (["--wire", "fax"], "'fax' is not one of live, record, replay"),
        (["--max-cost", "1"], "unknown option --max-cost; did you mean '--max-cost-usd'"),
        (["--no-juge"], "did you mean '--no-judge'"),
        (["--no-jugde"], "did you mean '--no-judge'"),
        (["--jason"], "did you mean '--json'"),
        (["--maxcost", "1"], "did you mean '--max-cost-usd'"),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_sentence(argv, sentence):
    with pytest.raises(UsageError, match=sentence):
        request(*argv)


def test_options_arrive_in_the_request():
    review_request = request(
        *("HEAD~1", "--rubric", "a", "--rubric", "b", "c", "--no-judge", "--base", "main"),
        *("--definitions", "worktree", "--strict", "--max-cost-usd", "1.5", "--deadline", "20"),
        *("--wire", "record", "--cassette", "tapes"),
    )
    assert (
        review_request.rubrics,
        review_request.judge,
        review_request.base,
        review_request.definitions,
    ) == (
        ("a", "b", "c"),
        "never",
        "main",
        "worktree",
    )
    assert (review_request.max_cost_usd, review_request.deadline_s) == (1.5, 20.0)
    assert review_request.wire == Wire("record", Path("tapes"))


def test_the_wire_may_come_from_the_environment():
    review_request = request(VIBE_GATE_WIRE="replay", VIBE_GATE_CASSETTE="tapes")
    assert review_request.wire == Wire("replay", Path("tapes"))
    with pytest.raises(UsageError, match="VIBE_GATE_WIRE is 'fax'"):
        request(VIBE_GATE_WIRE="fax")


def test_outside_a_repository_review_is_one_sentence_with_exit_2(tmp_path, environ):
    review = vibe_gate("review", cwd=tmp_path, environ=environ)
    assert review.returncode == 2
    assert review.stderr.splitlines()[-1].startswith("vibe-gate: ")


def test_a_review_of_a_commit_without_files_says_nothing_to_review(tmp_path, environ):
    root = repository(tmp_path / "r")
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "empty"], cwd=root, check=True)
    review = vibe_gate("review", "--commit", "HEAD", cwd=root, environ=environ)
    assert (review.returncode, review.stdout) == (
        0,
        "Nothing to review: commit HEAD changes no files.\n",
    )


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ((), "the working tree has no files that git would add."),
        (("--staged",), "the index has no files."),
    ],
)
def test_a_review_without_a_commit_and_files_does_not_name_head(
    tmp_path, environ, option, sentence
):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    review = vibe_gate("review", *option, cwd=tmp_path, environ=environ)
    expected = f"Nothing to review: there is no commit yet, and {sentence}\n"
    assert (review.returncode, review.stdout) == (0, expected)


def test_json_of_nothing_to_review_is_the_summary(tmp_path, environ):
    review = vibe_gate("review", "--json", cwd=repository(tmp_path / "r"), environ=environ)
    document = json.loads(review.stdout)
    assert (review.returncode, document["schema"], document["run_id"], document["outcome"]) == (
        0,
        1,
        "",
        "pass",
    )
