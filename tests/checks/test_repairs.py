"""What a check would write: the right line where it knows one, and nothing where only people
can.
"""

from __future__ import annotations

import pytest
from check_runs import ask
from domain.changes import file_change, version

from vibe_gate.checks.check_contract import CheckResult, CommandRun
from vibe_gate.domain.change import SYMLINK_MODE

OLD = b"first\n"


def repaired(result: CheckResult, head: bytes) -> bytes:
    """The file with every repair applied, from its end on."""
    lines = head.splitlines(keepends=True)
    hunks = [hunk for file in result.repairs for hunk in file.hunks]
    for hunk in sorted(hunks, key=lambda hunk: -hunk.old_start):
        assert lines[hunk.old_start - 1 :][: hunk.old_lines] == [
            line.content for line in hunk.lines if line.origin != "+"
        ]
        lines[hunk.old_start - 1 : hunk.old_start - 1 + hunk.old_lines] = [
            line.content for line in hunk.lines if line.origin != "-"
        ]
    return b"".join(lines)


RAN_BEFORE = {
    "test_a.py": "def test_a(): ...\n    def test(self): ...\n",
    "a.test.ts": "it('adds', () => {})\ndescribe('b', f)\nit('a', f)\nit('later')\n",
    "ATest.java": "  @Test void a() {}\n",
    "ATests.cs": "[Fact]\npublic void A() {}\n",
    "tests/a.rs": "#[test]\nfn a() {}\n",
}
"""Tests as they stood before a marker switched them off."""


@pytest.mark.parametrize(
    ("check", "path", "added", "right"),
    [
        ("no-invisible-unicode", "a.py", "is\u202e_ad\u200bmin = 1\n", "is_admin = 1\n"),
        ("no-invisible-unicode", "a.py", "a\u200b\nb\nc\u2066\n", "a\nb\nc\n"),
        ("no-conflict-markers", "a.py", "x = 1\n>>>>>>> theirs\ny = 1\n", "x = 1\ny = 1\n"),
        ("no-conflict-markers", "a.py", "x\n=======\ny\n>>>>>>> b\n", "x\ny\n"),
        ("no-skipped-tests", "test_a.py", "@pytest.mark.skip(reason='(')\ndef test_a(): ...\n", None),
        ("no-skipped-tests", "test_a.py", "    @pytest.mark.skip(reason='x')\n    def test(self): ...\n",
         "    def test(self): ...\n"),
        ("no-skipped-tests", "test_a.py", "@unittest.skip\ndef test_a(): ...\n", "def test_a(): ...\n"),
        ("no-skipped-tests", "test_a.py", "@pytest.mark.skipif(\n    True,\n)\ndef test_a(): ...\n", None),
        ("no-skipped-tests", "test_a.py", "def test_a():\n    pytest.skip('x')\n", None),
        ("no-skipped-tests", "a.test.ts", "it.skip('adds', () => {})\nxdescribe('b', f)\n",
         "it('adds', () => {})\ndescribe('b', f)\n"),
        ("no-skipped-tests", "a.test.ts", "test.only(`a.only`, f)\n", "test(`a.only`, f)\n"),
        ("no-skipped-tests", "a.test.ts", "xit('a', () => it.skip('b', f))\n", None),
        ("no-skipped-tests", "a.test.ts", "it.todo('later')\n", None),
        ("no-skipped-tests", "ATest.java", "  @Disabled(\"flaky\")\n  @Test void a() {}\n", "  @Test void a() {}\n"),
        ("no-skipped-tests", "ATests.cs", '[Fact(Skip = "x")]\npublic void A() {}\n', None),
        ("no-skipped-tests", "tests/a.rs", "#[test]\n#[ignore]\nfn a() {}\n", "#[test]\nfn a() {}\n"),
        ("no-conflict-markers", "a.py", "<<<<<<< a\nx\n||||||| b\n=======\ny\n>>>>>>> c\n", None),
        ("no-invisible-unicode", "a.py", "a\u200b\r\n", None),
        ("no-invisible-unicode", "a.py", "a\u200b", None),
    ],
)  # fmt: skip
def test_the_right_line_is_offered_where_it_is_known(check, path, added, right):
    head = OLD + added.encode()
    before = OLD + RAN_BEFORE.get(path, "").encode() if check == "no-skipped-tests" else OLD
    result = ask(check, file_change(path, before, head))
    assert result.outcome == "fail"
    expected = None if right is None else OLD + right.encode()
    if expected is None:
        assert result.repairs == ()
    else:
        assert repaired(result, head) == expected


def test_a_name_and_a_link_have_no_line_to_repair():
    answer = ask("no-invisible-unicode", file_change("a\u200b.py", None, b"x\n"))
    link = file_change("a", b"x\n", "y\u200b\n".encode(), modes=(SYMLINK_MODE, SYMLINK_MODE))
    assert answer.repairs == ask("no-invisible-unicode", link).repairs == ()


def formatted(
    fix: str = "fmt .", suggest: bool = True, repaired: bytes = b"x = 1\ny = 2\n", **fields
) -> CheckResult:
    """A check that fails and a `fix` that writes `repaired`; what other command is asked for is an
    error.
    """

    def run(argv, timeout_s, side) -> CommandRun:
        assert argv in {("t",), ("fmt", ".")} and side == "after"
        return (
            CommandRun(1, "bad")
            if argv == ("t",)
            else CommandRun(0, "", contents={"a.py": repaired, "b.py": b"z\n"})
        )

    file = file_change("a.py", b"x=1\n", b"x=1\ny=2\n")
    return ask("command", file, command=("t",), run_command=run, suggest=suggest, fix=fix, **fields)


def test_what_fix_makes_of_a_file_of_the_change_is_offered():
    assert repaired(formatted(), b"x=1\ny=2\n") == b"x = 1\ny = 2\n"
    assert {file.path for file in formatted().repairs} == {"a.py"}


@pytest.mark.parametrize(
    "options",
    [
        {"suggest": False}, {"fix": ""}, {"fix": "fmt . && git add ."}, {"fix": "fmt '"}, {"repaired": b"x=1\ny=2\n"},
        {"repaired": b"x\n" * 6_000}, {"redact": lambda text: text.replace("= 2", "***")},
    ],
)  # fmt: skip
def test_no_repair_is_offered_that_is_not_wanted_needs_a_shell_or_is_not_what_was_written(options):
    assert formatted(**options).repairs == ()


def test_a_repair_is_about_the_reviewed_file_whatever_it_was_before():
    moved = file_change("b.py", b"x\n", "x\ny\u200b\n".encode(), old_path="a.py")
    (repair,) = ask("no-invisible-unicode", moved).repairs
    assert (repair.before, repair.old_name) == (version(b"x\ny\xe2\x80\x8b\n"), "b.py")
