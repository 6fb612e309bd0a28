"""Hunks as git writes them, and what their readers take from them."""

from __future__ import annotations

import pytest

from vibe_gate.domain import patch
from vibe_gate.domain.change import Hunk, HunkLine

SECTION = b"""diff --git a/x b/x
--- a/x
+++ b/x
@@ -3,4 +3,4 @@ def f():
 same
--- gone
+++ come
+\r
+@@ -1,2 +3,4 @@
 same
-end
\\ No newline at end of file
@@ -20 +20 @@
-old
\\ No newline at end of file
+new
\\ No newline at end of file
"""


def test_the_hunks_of_a_section_have_their_lines_as_git_counts_them() -> None:
    first, last = patch.hunks(SECTION)
    assert (first.old_start, first.old_lines, first.new_start, first.new_lines) == (3, 4, 3, 4)
    assert [(line.origin, line.content) for line in first.lines] == [
        (" ", b"same\n"), ("-", b"-- gone\n"), ("+", b"++ come\n"), ("+", b"\r\n"), ("+", b"@@ -1,2 +3,4 @@\n"),
        (" ", b"same\n"), ("-", b"end"),
    ]  # fmt: skip
    assert (first.added, first.deleted, first.before) == (3, 2, b"same\n-- gone\nsame\nend")
    assert list(first.added_runs()) == [(4, b"++ come\n\r\n@@ -1,2 +3,4 @@\n")]
    assert (last.old_start, last.old_lines, last.before, list(last.added_runs())) == (
        20,
        1,
        b"old",
        [(20, b"new")],
    )


@pytest.mark.parametrize("number", [0, 1])
def test_a_hunk_of_lines_is_what_git_writes(number: int) -> None:
    hunk = patch.hunks(SECTION)[number]
    assert (
        Hunk.of(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, hunk.lines) == hunk
    )


def test_added_lines_with_others_between_them_are_two_runs() -> None:
    lines = [
        HunkLine("+", b"a\n"),
        HunkLine("-", b"b\n"),
        HunkLine(" ", b"c\n"),
        HunkLine("+", b"d\n"),
    ]
    assert list(Hunk.of(1, 2, 1, 3, lines).added_runs()) == [(1, b"a\n"), (3, b"d\n")]
