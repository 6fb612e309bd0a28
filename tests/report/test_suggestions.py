"""Suggested changes: committed on GitHub, they make of the file what the agent made of it; else
there is none.
"""

from __future__ import annotations

import re

import pytest
from domain.changes import file_change

from vibe_gate.domain.change import EXECUTABLE_MODE, REGULAR_MODE
from vibe_gate.report.anchors import read_anchors
from vibe_gate.report.suggestions import make_suggestions, read_suggestion_marker

HEAD = b"".join(b"line %d\n" % number for number in range(1, 9))
BLOCK = re.compile(r"^(`{3,})suggestion\n(.*?)^\1$", re.DOTALL | re.MULTILINE)


def brought(lines: int = 8, path: str = "a.py"):
    """The lines of a pull request that brought the file's first lines."""
    body = b"".join(b"+" + line for line in HEAD.splitlines(keepends=True)[:lines])
    name = path.encode()
    header = b"diff --git a/%s b/%s\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n" % (
        name,
        name,
        name,
        lines,
    )
    return read_anchors(header + body)


def committed(head: bytes, comment) -> bytes:
    """What GitHub makes of the file when somebody commits the suggestion."""
    lines = head.decode().splitlines(keepends=True)
    (block,) = BLOCK.finditer(comment.body)
    start = comment.start_line or comment.line
    return "".join([*lines[: start - 1], block[2], *lines[comment.line :]]).encode()


@pytest.mark.parametrize(
    "after",
    [
        HEAD.replace(b"line 4\n", b"LINE 4\n"),
        HEAD.replace(b"line 4\n", b"line 4\nmore\n\nand more\n"),
        b"first\n" + HEAD,
        HEAD + b"last\n",
        HEAD.replace(b"line 4\nline 5\n", b""),
        HEAD.replace(b"line 4\n", b"\n"),
        HEAD.replace(b"line 3\n", b"3\n").replace(b"line 6\n", b""),
        HEAD.replace(
            b"line 4\n",
            b"```suggestion\n@ada <!-- vibe-gate:suggestion 0123456789abcdef -->\n````\n",
        ),
        HEAD.replace(b"line 4\n", b"\ttab and \xc3\xa9\n"),
    ],
    ids=[
        "a line",
        "after a line",
        "at the top",
        "at the end",
        "removed",
        "emptied",
        "two places",
        "fences",
        "a tab",
    ],
)
def test_a_committed_suggestion_is_what_the_agent_made(after):
    (comment,) = make_suggestions(
        (file_change("a.py", HEAD, after),), (), brought(), "is elsewhere"
    ).comments
    assert committed(HEAD, comment) == after
    assert read_suggestion_marker(comment.body) == comment.fingerprint


@pytest.mark.parametrize(
    ("file", "steering", "lines"),
    [
        (file_change("a.py", HEAD, HEAD.replace(b"line 4\n", b"4\r\n")), (), brought()),
        (file_change("a.py", HEAD, HEAD.replace(b"line 8\n", b"8")), (), brought()),
        (file_change("a.py", HEAD, HEAD.replace(b"4\n", "4 \u202e\n".encode())), (), brought()),
        (file_change("a.py", HEAD, HEAD.replace(b"4\n", b"\xff\n")), (), brought()),
        (file_change("a.py", HEAD, HEAD.replace(b"4\n", b"4" * 30_000 + b"\n")), (), brought()),
        (file_change("a.py", HEAD, b"4\n" + HEAD, modes=(REGULAR_MODE, EXECUTABLE_MODE)), (), brought()),
        (file_change("a.py", HEAD, b"4\n" + HEAD, old_path="b.py"), (), brought()),
        (file_change("a.py", None, HEAD), (), brought()),
        (file_change("a.py", HEAD, None), (), brought()),
        (file_change("a.py", HEAD, HEAD.replace(b"line 8\n", b"8\n")), (), brought(lines=7)),
        (file_change("a.py", HEAD, HEAD.replace(b"line 4\n", b"4\n")), (), brought(path="b.py")),
        (file_change("CLAUDE.md", HEAD, HEAD.replace(b"line 4\n", b"4\n")), ("CLAUDE.md",), brought(path="CLAUDE.md")),
    ],
    ids=[
        "CR LF", "no newline", "hidden", "no text", "long", "mode", "renamed", "new", "deleted", "past the hunk",
        "another file", "steering",
    ],
)  # fmt: skip
def test_what_cannot_be_committed_so_is_not_suggested_but_counted(file, steering, lines):
    suggestions = make_suggestions((file,), steering, lines, "is made.patch")
    assert (
        suggestions.comments == ()
        and suggestions.note.startswith("0 of 1 change ")
        and "the whole patch is made.patch" in suggestions.note
    )
    assert all(name in suggestions.note for name in steering)
