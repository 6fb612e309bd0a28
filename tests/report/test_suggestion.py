"""Suggestions: only what our own code knows for certain."""

from __future__ import annotations

import pytest

from vibe_gate.domain.verdict import Finding
from vibe_gate.report.report import anchors, suggest

HOLDS = "The line 2 of this file holds bidirectional control U+202E RIGHT-TO-LEFT OVERRIDE (1)."


def found(message: str = HOLDS, line: int = 2, **more) -> Finding:
    values = {"end_line": line, "level": "failure", "criterion": "no-invisible-unicode"} | more
    return Finding(path="a.py", line=line, message=message, **values)


def patch(line: bytes) -> bytes:
    return b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n x\n+" + line + b"\n"


def suggested(line: bytes, finding: Finding | None = None) -> str | None:
    made = suggest(finding or found(), anchors(patch(line)))
    return made.after if made else None


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("if a \u202e== b:", "if a == b:"),
        ("\tx = '\u200b'", "\tx = ''"),
        ("grüße \u2066 世界 👍🏽", "grüße  世界 👍🏽"),
        ("family 👨\u200d👩\u200d👧 \u200b", "family 👨\u200d👩\u200d👧 "),
    ],
)
def test_a_line_without_its_invisible_characters(line, after):
    made = suggested(line.encode())
    assert made == after if "👨" not in line else made is None  # what joins cannot be shown for certain


@pytest.mark.parametrize(
    "line",
    [
        b"nothing hidden",
        b"not text \xff \xe2\x80\xae",
        "\u202ekey = [redacted:token:12345678]".encode(),
        "\u202e\x1b[2J".encode(),
        "\u202ex\r".encode(),
        "\u202e".encode() + b"x" * 2000,
    ],
)
def test_nothing_where_it_is_not_certain(line):
    assert suggested(line) is None


@pytest.mark.parametrize(
    "finding",
    [
        found("This model says: remove it."),
        found(HOLDS.replace("line 2", "line 3")),
        found(HOLDS, end_line=3),
        found("overridden by Jo: " + HOLDS, level="notice"),
        found(HOLDS, line=1),
        found(HOLDS, line=0),
    ],
)
def test_nothing_for_any_other_finding(finding):
    assert suggested("a \u202e b".encode(), finding) is None
