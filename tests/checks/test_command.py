"""The check `command`: how it ends, what its output points at, what it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from check_runs import ask, places
from domain.changes import added

from vibe_gate.checks.check_contract import CommandRun
from vibe_gate.checks.command_check import OutputForm, Remark, remarks
from vibe_gate.domain.document import to_json
from vibe_gate.judging.findings import name_findings

OUTPUTS = Path(__file__).with_name("output")
SECRET = "hR3-wq8mZt5xKc2vPb7nLd4sGf9jYa6eUi1oQ0-T"


def ended_fields(output: str, code: int | None = 1, **fields: Any) -> dict[str, object]:
    """A command that ends so."""
    return {
        "command": ("t",),
        "run_command": lambda argv, timeout_s, side: CommandRun(code, output, **fields),
    }


@pytest.mark.parametrize(
    ("run", "outcome", "reason"),
    [
        (CommandRun(0, "fine\n"), "pass", "ruff check . exited with 0."),
        (CommandRun(1, "a.py:1: bad\n\n"), "fail", "ruff check . exited with 1."),
        (CommandRun(-11, ""), "fail", "ruff check . was ended by signal 11."),
        (
            CommandRun(None, "", "timed out after 7 s"),
            "error",
            "ruff check . gave no answer: timed out after 7 s.",
        ),
        (CommandRun(2, "\x1b[31m\u202e" + "x" * 9000), "fail", "ruff check . exited with 2."),
        (CommandRun(0, "", "", ("a.py",)), "fail", "ruff check . changed a.py."),
        (CommandRun(1, "", "", ("a.py",)), "fail", "ruff check . exited with 1 and changed a.py."),
    ],
)
def test_a_command_passes_with_exit_code_zero_and_no_changed_file(
    run: CommandRun, outcome: str, reason: str
) -> None:
    calls: list[tuple[tuple[str, ...], float]] = []

    def answer(argv: tuple[str, ...], timeout_s: float, side: str) -> CommandRun:
        calls.append((argv, timeout_s))
        return run

    result = ask(
        "command", added("a", b"x"), command=("ruff", "check", "."), run_command=answer, timeout_s=7
    )
    assert (result.outcome, result.reason) == (outcome, reason)
    assert calls == [(("ruff", "check", "."), 7.0)]


def test_a_command_is_not_run_if_its_paths_do_not_change() -> None:
    assert (
        ask("command", added("a", b"x"), command=("x",), only=("src/**",)).outcome
        == "not_applicable"
    )


def test_without_remarks_about_lines_the_last_line_is_the_finding() -> None:
    result = ask("command", **ended_fields("a\n2 failed\n\n"), fix="make fix")
    assert result.findings[0].message == "t exited with 1: 2 failed"
    assert result.reason == "t exited with 1. To repair: make fix"


def test_a_secret_is_taken_out_before_a_limit_cuts_it() -> None:
    run = ended_fields(f"a.txt:1: {'x ' * 135}{SECRET}\n{'y ' * 130}{SECRET}\n", files=("a.txt",))
    file = added("a.txt", b"z" * 390 + SECRET.encode())
    result = ask("command", file, **run, redact=lambda text: text.replace(SECRET, "[gone]"))
    assert places(result) == [("a.txt", 1)]
    assert SECRET[:8] not in "".join(to_json(finding) for finding in result.findings)


def test_remarks_are_findings_in_every_file_of_the_tree_with_the_line_of_a_changed_one() -> None:
    output = (
        "./src/a.py:2:1: F401 unused\nsrc/a.py:2:1: F401 unused\nsrc/b.py:1: not in the change\n/etc/passwd:1: no\n"
        "src/a.py:99: no such line\nFound: 3: errors\nsrc/a.py:1 \x1b[31mred\n"
        + ":" * 60_000
        + "\n"
    )
    run = ended_fields(output, files=("src/a.py", "src/b.py"))
    result = ask("command", added("src/a.py", b"import os\nimport re\n"), **run)
    assert places(result) == [("src/a.py", 2), ("src/b.py", 1), ("src/a.py", 1)]
    assert result.findings[0].message == "F401 unused"
    assert [
        finding.evidence[0].quote if finding.evidence else "" for finding in result.findings
    ] == [
        "import re",
        "",
        "import os",
    ]


OLD = "old.py:1: bad\nFound 1 error\n"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            (1, "old.py:1: bad\nmore.py:2: worse\nFound 2 errors\n"),
            (1, OLD.replace(":1", ":7")),
            "",
        ),
        (
            (1, OLD),
            (1, OLD + "new:a.py:3: bad\n"),
            "Before the change it does not say: new:a.py:3: bad",
        ),
        (
            (1, OLD),
            (1, OLD + "a.ipynb:cell 1:2:1: F401"),
            "it does not say: a.ipynb:cell 1:2:1: F401",
        ),
        (
            (1, OLD),
            (1, OLD + "new.py: error: no stubs"),
            "Before the change it does not say: new.py: error: no stubs",
        ),
        ((1, OLD), (1, OLD + "old.py:2: bad"), "Before the change it does not say: old.py:1: bad"),
        ((0, ""), (1, OLD), "Before the change its exit code is 0."),
        ((1, OLD), (2, OLD), "Before the change its exit code is 1."),
        (
            (None, ""),
            (1, OLD),
            "Before the change it gave no answer (no time), so this counts as new.",
        ),
        (
            (-9, OLD),
            (-9, OLD),
            "Its output is not whole, so it cannot be compared with the one before the change.",
        ),
        (
            (1, "b.js\n 1:2  error  x\na.js\n 1:2  error  y\n"),
            (1, "a.js\n 1:2  error  x\n"),
            "say: a.js x",
        ),
        ((1, "No module named ruff\n"), (1, "No module named ruff\n"), "t exited with 1."),
    ],
)
def test_new_only_lets_pass_what_fails_in_the_same_way_before_the_change(
    before, after, reason: str
) -> None:
    def answer(argv: tuple[str, ...], timeout_s: float, side: str) -> CommandRun:
        return CommandRun(
            *(after if side == "after" else before),
            failure="no time",
            files=("old.py", "a.py", "a.js"),
        )

    result = ask(
        "command", added("a.py", b"x\n"), command=("t",), run_command=answer, new_only=True
    )
    assert result.outcome == ("fail" if reason else "pass")
    assert result.reason.endswith(reason or "t fails in the same way without this change.")


def test_new_only_shows_findings_on_lines_of_the_change_first_and_files_that_the_command_changed() -> (
    None
):
    both_fields = ended_fields("old.py:1: bad\na.py:1: worse\n", files=("old.py", "a.py"))
    assert places(ask("command", added("a.py", b"x\n"), **both_fields, new_only=True)) == [
        ("a.py", 1)
    ]
    repaired = ended_fields(
        "old.py:1: bad\n", files=("old.py",), changed=("a.py",)
    )  # so it says nothing of a.py any more
    assert places(ask("command", added("a.py", b"x\n"), **repaired, new_only=True)) == [("a.py", 0)]


def test_lines_that_no_file_has_and_names_that_are_escaped_in_sarif() -> None:
    def result(uri: str, line: str) -> str:
        place = f'{{"artifactLocation": {{"uri": "{uri}"}}, "region": {{"startLine": {line}}}}}'
        return f'{{"message": {{"text": "m"}}, "locations": [{{"physicalLocation": {place}}}]}}'

    results = [
        result("a%20b.py", "1"),
        result("a", "1e999"),
        result("a", "1" * 99),
        result("\\ud800", "1"),
    ]
    output = f'{{"runs": [{{"results": [{", ".join(results)}]}}]}}'
    answer = ask("command", added("a b.py", b"x\n"), **ended_fields(output, files=("a b.py", "a")))
    assert places(answer) == [("a b.py", 1)]


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [
        ("ruff.txt", "ruff", ["src/a.py:1 F401 [*] `os` imported but unused"]),
        ("ruff-concise.txt", "ruff", ["src/a.py:1 F401 [*] `os` imported but unused"]),
        ("ruff.sarif", "sarif", ["src/a.py:1 `os` imported but unused"]),
        ("mypy.txt", "mypy", ["src/a.py:5 error: Incompatible return value type"]),
        (
            "pytest.txt",
            "pytest",
            [
                "tests/test_a.py:24 test_with: RuntimeError: no database",
                "tests/test_a.py:9 test_sum: AssertionError: wrong value",
                "tests/test_a.py:14 test_more[1]: assert 1 == 2",
                "tests/test_a.py:19 TestBox.test_raises: ValueError: boom",
            ],
        ),
        (
            "eslint.txt",
            "eslint",
            ["src/b.js:1 Unexpected var, use let", "src/b.js:1 'a' is assigned", "src/b.js:2", "src/b.js:2"],
        ),
        ("gcc.txt", "gcc", ["src/c.c:1 error: ‘y’ undeclared", "src/c.c:1 warning: unused variable"]),
    ],
)  # fmt: skip
def test_the_output_of_known_tools_is_read(
    name: str, form: OutputForm, expected: list[str]
) -> None:
    output = (OUTPUTS / name).read_text()
    output_remarks = remarks(output, form)
    assert remarks(output) == output_remarks
    assert remarks(output, "none") == []
    assert len(output_remarks) == len(expected)
    for remark, start in zip(output_remarks, expected, strict=True):
        assert f"{remark.path}:{remark.line} {remark.message}".startswith(start)


def test_the_short_tracebacks_of_pytest_give_the_same() -> None:
    long, short = ((OUTPUTS / name).read_text() for name in ("pytest.txt", "pytest-short.txt"))
    assert remarks(short) == remarks(long)


def test_a_module_that_pytest_cannot_read_is_a_remark_at_its_own_line() -> None:
    output = """\
___ ERROR collecting tests/test_m.py ___
tests/test_m.py:1: in <module>
    import app.m
E     File "app/m.py", line 3
E       def f(:
E             ^
E   SyntaxError: invalid syntax
=== short test summary info ===
"""
    assert remarks(output) == [
        Remark("app/m.py", 3, "ERROR collecting tests/test_m.py: SyntaxError: invalid syntax")
    ]


@pytest.mark.parametrize(
    "output", ['{"runs": 3}', "{" * 50_000, '{"runs": [{"results": [{"locations": [{}]}]}]}', ""]
)
def test_what_is_not_sarif_gives_no_remarks(output: str) -> None:
    assert remarks(output, "sarif") == []


def test_auto_reads_the_remarks_of_two_tools_that_one_command_runs() -> None:
    """What is not read has no finding of its own, and a waiver of the other tool's would cover
    it.
    """
    output = "".join(
        (OUTPUTS / name).read_text() for name in ("ruff.txt", "mypy.txt", "pytest.txt")
    )
    places_ = [(remark.path, remark.line) for remark in remarks(output)]
    pytest_places = [("tests/test_a.py", line) for line in (24, 9, 14, 19)]
    assert sorted(places_) == sorted([("src/a.py", 1), ("src/a.py", 5), *pytest_places])


LINE = "x = eval(os.environ['X'])  # long"
LONG = "x" * 300


def fingerprint(output: str, line: str = LINE, path: str = "a.py", **fields: Any) -> str:
    """The fingerprint of the only finding of a command that fails with this output."""
    run = ended_fields(output, files=("a.py", "b.py"), **fields)
    contents = {"a.py": line, "b.py": line}
    files = [added("a.py", f"{line}\n".encode())]
    result = ask("command", *files, **run, read_path=lambda path: f"{contents[path]}\n".encode())
    [finding] = name_findings(result.findings, {})
    return finding.fingerprint


E501 = "a.py:1:80: E501 line too long (84 > 79 characters)"


def sarif(rule: str, text: str) -> str:
    place = '{"artifactLocation": {"uri": "a.py"}, "region": {"startLine": 1}}'
    result = f'{{"ruleId": "{rule}", "message": {{"text": "{text}"}}, "locations": [{{"physicalLocation": {place}}}]}}'
    return f'{{"runs": [{{"results": [{result}]}}]}}'


@pytest.mark.parametrize(
    ("accepted", "other"),
    [
        (E501, "a.py:1:5: S307 eval of untrusted input"),
        (E501, E501.replace("E501", "W505")),
        ("a.py:1: rule C0301", "a.py:1: rule C0302"),
        ("a.py:1: CVE-2024-1111 in requests", "a.py:1: CVE-2024-2222 in requests"),
        ("a.py:1: [301] not allowed", "a.py:1: [302] not allowed"),
        (f"a.py:1: {LONG} a", f"a.py:1: {LONG} b"),  # longer than what is shown of a message
        (sarif("no-eval", "Avoid this."), sarif("no-exec", "Avoid this.")),
        (
            "b.py:1: E722 bare except",
            "b.py:1: E501 line too long",
        ),  # of a file that the change does not touch
        (
            "make: lint: unknown option\nmake: *** Error 1\n",
            "make: lint: missing tool\nmake: *** Error 1\n",
        ),
        (
            "a.py\n  1:1  error  Unexpected var  no-var\n",
            "a.py\n  1:1  error  Unexpected eval  no-eval\n",
        ),
        (
            "error[E0308]: mismatched types\n --> a.py:1:1\n",
            "error[E0382]: use of moved value\n --> a.py:1:1\n",
        ),
        ("a.py:1: CVE 2024 1234 in pkg 3.1", "a.py:1: CVE 2026 9999 in pkg 3.1"),
        ("a.py:1: pkg 3.1 is vulnerable", "a.py:1: pkg 4.0 is vulnerable"),
        ("a.py:1: port 22 open to 10.0.0.1", "a.py:1: port 3389 open to 10.0.0.1"),
        ("a.py:1: port 22 open to 10.0.0.1", "a.py:1: port 22 open to 0.0.0.0"),
        ("a.py:1: example.com:22 is open", "a.py:1: example.com:3389 is open"),
        ("rule 1234 failed\n", "rule 9999 failed\n"),
    ],
)
def test_another_remark_about_the_same_line_has_another_fingerprint(
    accepted: str, other: str
) -> None:
    assert fingerprint(accepted) != fingerprint(other)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (E501, E501.replace(":80", ":5").replace("84", "85")),
        ("a.py:1: redefinition of 'x' from line 3", "a.py:1: redefinition of 'x' from line 31"),
        ("a.py:1: <object at 0x7f01> is bad", "a.py:1: <object at 0x7f99> is bad"),
        ("a.py:1: took 1.25s", "a.py:1: took 300ms"),
        ("a.py:1: /tmp/vibe-gate-command-x1/t: no", "a.py:1: /tmp/vibe-gate-command-y2/t: no"),
        ("1 failed in 0.12s\n", "2 failed in 1.5s\n"),
        ("12:01:59 lint: no such file", "08:30:00 lint: no such file"),
        ("2026-11-28 12:01:59,5 lint: no", "2027-01-02 08:30:00,123 lint: no"),
        ("a.py:1: first at b.py:3:4", "a.py:1: first at b.py:30:1"),
        ("a.py:1: unclosed at line 3, column 4", "a.py:1: unclosed at line 12, column 1"),
        ("a.py:1: see (3,4)", "a.py:1: see (12,40)"),
        ("make: 12 warnings\n", "make: 13 warnings\n"),
    ],
)
def test_the_same_remark_keeps_its_fingerprint_whatever_it_counts_and_measures(
    before: str, after: str
) -> None:
    assert fingerprint(before) == fingerprint(after)


def test_a_remark_about_another_line_has_another_fingerprint() -> None:
    for output in ("a.py:1: bad", "b.py:1: bad", f"a.py:1: {LONG}"):
        assert fingerprint(output) != fingerprint(output, "y = 2")
        assert fingerprint(output, "x" * 500 + "a") != fingerprint(output, "x" * 500 + "b")


def test_what_a_command_would_write_tells_its_findings_apart() -> None:
    def rewritten(content: bytes) -> str:
        return fingerprint("", code=0, changed=("a.py",), contents={"a.py": content})

    assert rewritten(b"x = 1\n") == rewritten(b"x = 1\n")
    assert rewritten(b"x = 1\n") != rewritten(b"x = 2\n")


def test_a_command_check_without_a_command_is_an_error() -> None:
    assert ask("command", added("a", b"x")).outcome == "error"
