"""Evidence is believed only where its bytes stand, in changed lines."""

from __future__ import annotations

import pytest

from vibe_gate.domain.change import FileDiff, FileVersion, Hunk, HunkLine
from vibe_gate.judging.brief import MAX_QUOTE, QuotedLine
from vibe_gate.judging.evidence import check_evidence

BEFORE = b"import os\n\n\ndef load(path):\n    check(path)\n    return open(path).read()\n"
AFTER = (
    b"import os\n\n\ndef load(path):\n    try:\n        return open(path).read()\n    except OSError:\n        pass\n"
)


def line(text: bytes) -> HunkLine:
    return HunkLine(chr(text[0]), text[1:] + b"\n")


FILE = FileDiff(
    path="src/a.py",
    old_path=None,
    change_type="modified",
    before=FileVersion("b", 0o100644, len(BEFORE)),
    after=FileVersion("a", 0o100644, len(AFTER)),
    binary=False,
    added=4,
    deleted=2,
    hunks=(
        Hunk.of(
            2, 5, 2, 7,
            tuple(line(t) for t in (
                b" ", b" ", b" def load(path):", b"-    check(path)", b"-    return open(path).read()",
                b"+    try:", b"+        return open(path).read()", b"+    except OSError:", b"+        pass",
            )),
        ),
    ),
)  # fmt: skip


def evidence(quote: str, line: int, side: str = "after") -> QuotedLine:
    return QuotedLine(path="src/a.py", line=line, quote=quote, side=side)


@pytest.mark.parametrize(
    ("claimed", "standing", "place"),
    [
        (evidence("except OSError:", 7), "holds", 7),
        (evidence("    except OSError:\r\n", 7), "holds", 7),
        (evidence("    except OSError:", 2), "relocated", 7),
        (evidence("def load(path):", 4), "void", None),
        (evidence("except ValueError:", 7), "void", None),
        (evidence("    except OSError:\n        pass", 7), "void", None),
        (evidence("pass", 8), "holds", 8),
        (evidence("pass", 3), "void", None),
        (evidence("", 7), "void", None),
        (evidence("x" * (MAX_QUOTE + 1), 7), "void", None),
    ],
)
def test_a_quote_holds_is_relocated_or_is_void(claimed, standing, place):
    checked = check_evidence(claimed, FILE, AFTER)
    assert checked.standing == standing
    assert place is None or (checked.line, checked.end_line) == (place, place)
    assert bool(checked.why) == (standing == "void")


def test_removed_lines_are_looked_for_on_the_before_side():
    assert check_evidence(evidence("    check(path)", 5, side="before"), FILE, BEFORE).standing == "holds"
    assert check_evidence(evidence("    check(path)", 5), FILE, AFTER).standing == "void"


def test_evidence_in_a_file_that_the_change_does_not_touch_is_void():
    assert check_evidence(evidence("anything at all", 1), None, b"").why == "the file is not part of the change"


def test_invisible_characters_are_quoted_as_they_were_shown():
    content = "admin = user == 'root\u200b'\n".encode()
    hunk = Hunk.of(0, 0, 1, 1, (HunkLine("+", content),))
    file = FileDiff("a", None, "added", None, FileVersion("a", 0o100644, 9), False, 1, 0, (hunk,))
    quote = "user == 'root⟦U+200B⟧'"
    assert check_evidence(QuotedLine(path="a", line=1, quote=quote, side="after"), file, content).standing == "holds"


def test_a_quote_that_stands_on_every_line_of_a_huge_file_is_answered_at_once():
    content = b"x = 1\n" * 100_000
    hunk = Hunk.of(0, 0, 1, 1, (HunkLine("+", b"x = 1\n"),))
    file = FileDiff("a", None, "added", None, FileVersion("a", 0o100644, 9), False, 1, 0, (hunk,))
    assert check_evidence(evidence("x = 1", 1), file, content).standing == "holds"
