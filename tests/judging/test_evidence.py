"""Evidence is believed only where its bytes stand, in changed lines."""

from __future__ import annotations

import pytest

from vibe_gate.domain.change import Change, FileDiff, FileVersion, Hunk, HunkLine
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.verdict import CheckedEvidence
from vibe_gate.judging import evidence as found
from vibe_gate.judging.brief import MAX_QUOTE, QuotedLine
from vibe_gate.judging.evidence import (
    MIN_RELOCATED,
    changed_lines,
    quote_in_change,
    quote_in_tree,
)

BEFORE = b"import os\n\n\ndef load(path):\n    check(path)\n    return open(path).read()\n"
AFTER = b"import os\n\n\ndef load(path):\n    try:\n        return open(path).read()\n    except OSError:\n        pass\n"


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


def quote_in_file(claimed: QuotedLine, file: FileDiff | None, content: bytes) -> CheckedEvidence:
    return found.quote_in_file(
        claimed, "before" if claimed.side == "before" else "after", file, content
    )


@pytest.mark.parametrize(
    ("claimed", "standing", "place"),
    [
        (evidence("except OSError:", 7), "holds", 7),
        (evidence("    except OSError:\r\n", 7), "holds", 7),
        (evidence("    except OSError:", 2), "relocated", 7),
        (evidence("def load(path):", 4), "void", None),
        (evidence("except ValueError:", 7), "void", None),
        (evidence("`except OSError:`", 7), "holds", 7),
        (evidence('"    except OSError:"', 7), "holds", 7),
        (evidence("            7 +|    except OSError:", 7), "holds", 7),
        (evidence("except OSError:", 0), "relocated", 7),
        (evidence('" "', 7), "void", None),
        (evidence("pass", 0), "void", None),
        (evidence("pass", 8), "holds", 8),
        (evidence("pass", 3), "void", None),
        (evidence("", 7), "void", None),
        (evidence("x" * (MAX_QUOTE + 1), 7), "void", None),
    ],
)
def test_a_quote_holds_is_relocated_or_is_void(claimed, standing, place):
    checked = quote_in_file(claimed, FILE, AFTER)
    assert checked.standing == standing
    assert place is None or (checked.line, checked.end_line) == (place, place)
    assert bool(checked.why) == (standing == "void")


def test_removed_lines_are_looked_for_on_the_before_side():
    assert (
        quote_in_file(evidence("    check(path)", 5, side="before"), FILE, BEFORE).standing
        == "holds"
    )
    assert quote_in_file(evidence("    check(path)", 5), FILE, AFTER).standing == "void"


def test_evidence_in_a_file_that_the_change_does_not_touch_is_void():
    assert (
        quote_in_file(evidence("anything at all", 1), None, b"").why
        == "the file is not part of the change"
    )


def test_invisible_characters_are_quoted_as_they_were_shown():
    content = "admin = user == 'root\u200b'\n".encode()
    hunk = Hunk.of(0, 0, 1, 1, (HunkLine("+", content),))
    file = FileDiff("a", None, "added", None, FileVersion("a", 0o100644, 9), False, 1, 0, (hunk,))
    quote = "user == 'root⟦U+200B⟧'"
    assert (
        quote_in_file(
            QuotedLine(path="a", line=1, quote=quote, side="after"), file, content
        ).standing
        == "holds"
    )


def test_a_quote_that_stands_on_every_line_of_a_huge_file_is_answered_at_once():
    content = b"x = 1\n" * 100_000
    hunk = Hunk.of(0, 0, 1, 1, (HunkLine("+", b"x = 1\n"),))
    file = FileDiff("a", None, "added", None, FileVersion("a", 0o100644, 9), False, 1, 0, (hunk,))
    assert quote_in_file(evidence("x = 1", 1), file, content).standing == "holds"


def changed(path: str, *rows: str, old_path: str | None = None, start: int = 1) -> FileDiff:
    """A file with one hunk from line `start` on; its blobs are named after its paths."""
    hunk = Hunk.of(start, 0, start, 0, [HunkLine(row[0], row[1:].encode() + b"\n") for row in rows])
    has_context, has_old, has_new = (any(row[0] == origin for row in rows) for origin in " -+")
    before = (
        FileVersion(f"{old_path or path} before", 0o100644, 1) if has_old or has_context else None
    )
    after = FileVersion(f"{path} after", 0o100644, 1) if has_new or has_context else None
    return FileDiff(path, old_path, "modified", before, after, False, 0, 0, (hunk,))


FILES = {
    "src/a.py": changed("src/a.py", " import os", "-    check(path)", "+    guard(path)"),
    "new/b.py": changed(
        "new/b.py", " import os", "-    old_one(path)", "+    new_one(path)", old_path="old/b.py"
    ),
    "gone.py": changed("gone.py", "-    removed(path)"),
    "come.py": changed("come.py", "+    created(path)"),
    "a\tb.py": changed("a\tb.py", "+    tabbed(path)"),
    "after/c.py": changed("after/c.py", "+    inside(path)"),
    "docs/a.md": changed("docs/a.md", "+    written(path)"),
}
"""The change of the next table, and its contents."""


def content_of(version: FileVersion) -> bytes:
    path, _, side = version.blob.rpartition(" ")
    file = next(file for file in FILES.values() if path in (file.path, file.old_name))
    skipped = "+" if side == "before" else "-"
    return b"".join(line.content for line in file.hunks[0].lines if line.origin != skipped)


NOT_CHANGED, NOT_THERE = "the file is not part of the change", "the quoted text is not in the file"


@pytest.mark.parametrize(
    ("path", "side", "line", "quote", "flaw"),
    [
        ("src/a.py", "after", 2, "guard(path)", ""),
        ("src/a.py", "before", 2, "check(path)", ""),
        ("./src/a.py", "after", 2, "guard(path)", ""),
        # As the judge's tools name the sides.
        ("after/src/a.py", "after", 2, "guard(path)", ""),
        ("before/src/a.py", "before", 2, "check(path)", ""),
        ("before/src/a.py", "after", 2, "guard(path)", NOT_CHANGED),
        ("after/c.py", "after", 1, "inside(path)", ""),
        # A renamed file has both names before the change, and the new one after it.
        ("old/b.py", "before", 2, "old_one(path)", ""),
        ("new/b.py", "before", 2, "old_one(path)", ""),
        ("new/b.py", "after", 2, "new_one(path)", ""),
        ("old/b.py", "after", 2, "new_one(path)", NOT_CHANGED),
        ("other/b.py", "before", 2, "old_one(path)", NOT_CHANGED),
        # A side that is not there.
        ("gone.py", "before", 1, "removed(path)", ""),
        ("come.py", "after", 1, "created(path)", ""),
        # A path as it is shown, and one that the criterion is not asked about.
        (r'"a\tb.py"', "after", 1, "tabbed(path)", ""),
        ("docs/a.md", "after", 1, "written(path)", NOT_CHANGED),
        ("nowhere.py", "before", 1, "import os", NOT_CHANGED),
    ],
)
def test_evidence_is_looked_for_in_the_file_and_on_the_side_that_it_names(
    path, side, line, quote, flaw
):
    change = Change("commit", "before", "after", "base", "head", "", "", tuple(FILES.values()))
    criterion = Criterion(id="c", kind="judge", question="?", paths=("**/*.py",))
    checked = quote_in_change(
        criterion, QuotedLine(path=path, line=line, quote=quote, side=side), change, content_of
    )
    assert (checked.standing, checked.why) == ("void" if flaw else "holds", flaw)
    assert (checked.side, checked.line, checked.quote) == (side, line, quote)


@pytest.mark.parametrize(
    ("path", "side", "line", "quote", "expected"),
    [
        ("./src/a.py", "after", 2, "guard(path)", "src/a.py"),
        ("./after/src/a.py", "after", 2, "guard(path)", "src/a.py"),
        ('"src/a.py"', "after", 2, "guard(path)", "src/a.py"),
        ("before/src/a.py", "before", 2, "check(path)", "src/a.py"),
        ("old/b.py", "before", 2, "old_one(path)", "new/b.py"),
        ("a\tb.py", "after", 1, "tabbed(path)", r'"a\tb.py"'),
        ("x\n::error::y", "after", 1, "tabbed(path)", r'"x\n::error::y"'),
    ],
)
def test_evidence_has_the_path_of_the_file_that_was_found_as_it_is_shown(
    path, side, line, quote, expected
):
    claimed = QuotedLine(path=path, line=line, quote=quote, side=side)
    assert quote_in_change(ANY, claimed, CHANGE, content_of).path == expected


ANY = Criterion(id="c", kind="judge", question="?")
CHANGE = Change("commit", "before", "after", "base", "head", "", "", tuple(FILES.values()))


@pytest.mark.parametrize(
    ("path", "side", "line", "quote", "standing", "place"),
    [
        ("src/a.py", "", 2, "guard(path)", "holds", ("after", 2)),
        ("src/a.py", "", 2, "check(path)", "holds", ("before", 2)),
        ("src/a.py", "after", 2, "check(path)", "relocated", ("before", 2)),
        ("src/a.py", "new", 0, "guard(path)", "relocated", ("after", 2)),
        ("gone.py", "after", 1, "removed(path)", "relocated", ("before", 1)),
        ("come.py", "before", 7, "created(path)", "relocated", ("after", 1)),
        ("src/a.py", "after", 1, "import os\nguard(path)\n", "holds", ("after", 2)),
        ("src/a.py", "after", 0, "\r\n    guard(path)\r\n\r\n", "relocated", ("after", 2)),
        ("src/a.py", "after", 1, "import os\n...\nguard(path)", "relocated", ("after", 2)),
        ("src/a.py", "after", 1, "import sys\nguard(path)", "void", ("after", 1)),
        ("src/a.py", "", 2, "other(path)", "void", ("after", 2)),
    ],
)
def test_form_alone_loses_no_evidence(path, side, line, quote, standing, place):
    """A missing or wrong side and number are looked up, and a quote over several lines is cut into
    them.
    """
    claimed = QuotedLine(path=path, line=line, quote=quote, side=side)
    checked = quote_in_change(ANY, claimed, CHANGE, content_of)
    assert (checked.standing, (checked.side, checked.line)) == (standing, place)
    assert "\n" not in checked.quote


REPEATED = changed(
    "src/a.py", *["+    load(path)", " other"] * 2, " ", *["+    load(path)", "+}"] * 2, start=11
)
"""Changed lines 11, 13, 16 and 18 read alike; so do 2 and 20, which are not changed."""
WHOLE = ["", "    load(path)", *[""] * 8]
WHOLE += [line.content.decode().rstrip("\n") for line in REPEATED.hunks[0].lines] + [
    "    load(path)"
]
CONTENT = "\n".join(WHOLE).encode()


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        (11, 11),
        (13, 13),
        (18, 18),
        (1, 11),
        (2, 11),
        (12, 11),
        (14, 13),
        (15, 16),
        (17, 16),
        (19, 18),
        (20, 18),
        (99, 18),
    ],
)
def test_of_several_changed_lines_that_read_alike_the_nearest_is_meant(claimed, expected):
    checked = quote_in_file(evidence("load(path)", claimed), REPEATED, CONTENT)
    assert (checked.line, checked.end_line) == (expected, expected)
    assert checked.standing == ("holds" if claimed == expected else "relocated")


@pytest.mark.parametrize(
    ("quote", "line", "flaw"),
    [
        ("  ", 11, "the quote is empty"),
        ("\n  load(path)\n", 11, ""),
        ("load (path)", 11, NOT_THERE),
        ("\tload(path) ", 11, ""),
        ("other", 12, "the quoted line was not changed"),
        ("}", 17, ""),
        ("}", 16, "the quote is not at that line, and too short to be looked for elsewhere"),
        (
            "load(pa"[: MIN_RELOCATED - 1],
            10,
            "the quote is not at that line, and too short to be looked for elsewhere",
        ),
        ("}", 0, "the quote comes without its line, and is too short to be looked for elsewhere"),
        ("load(pat"[:MIN_RELOCATED], 10, ""),
    ],
)
def test_evidence_that_does_not_stand_says_why(quote, line, flaw):
    checked = quote_in_file(evidence(quote, line), REPEATED, CONTENT)
    assert (checked.standing == "void", checked.why, checked.quote) == (
        bool(flaw),
        flaw,
        quote.strip(),
    )


def test_white_space_counts_as_one_space_on_both_sides_and_not_as_characters_to_be_looked_for():
    file = changed("src/a.py", "+x  =\t1", "+a b c d e")
    content = b"x  =\t1\na b c d e\n"
    assert quote_in_file(evidence("x = \t 1", 1), file, content).standing == "holds"
    assert quote_in_file(evidence("a b c d e", 1), file, content).standing == "void"


def test_a_quote_is_as_long_as_a_row_that_the_judge_is_shown():
    long = "x" * MAX_QUOTE
    file, content = changed("src/a.py", f"+{long}y"), f"{long}y\n".encode()
    assert quote_in_file(evidence(long, 1), file, content).standing == "holds"
    too_long = quote_in_file(evidence(f"{long}y", 1), file, content)
    assert (too_long.why, too_long.quote) == (
        f"the quote is longer than {MAX_QUOTE} characters",
        long,
    )


def test_the_lines_of_a_change_are_counted_on_either_side():
    later = Hunk.of(17, 2, 20, 2, [line(text) for text in (b"+one", b" kept", b"-gone")])
    hunks = (*FILE.hunks, later)
    file = FileDiff("src/a.py", None, "modified", FILE.before, FILE.after, False, 0, 0, hunks)
    assert changed_lines(file, "after") == {5, 6, 7, 8, 20}
    assert changed_lines(file, "before") == {5, 6, 18}


@pytest.mark.parametrize(
    ("quote", "line", "standing", "place", "flaw"),
    [
        ("def load(path):", 4, "holds", 4, ""),  # a line that did not change
        ("def load(path):", 1, "relocated", 4, ""),
        ("def load(path):\n    try:", 4, "holds", 4, ""),
        ("def load(path):\n\n    try:", 4, "holds", 4, ""),
        ("def load(path):\n    except ValueError:", 4, "void", 5, NOT_THERE),
        ("except ValueError:\n    try:", 4, "void", 4, NOT_THERE),
        ("except ValueError:", 4, "void", 4, NOT_THERE),
        (" \n ", 4, "void", 4, "the quote is empty"),
        ("x" * (MAX_QUOTE + 1), 4, "void", 4, f"the quote is longer than {MAX_QUOTE} characters"),
        ('"(p"', 4, "holds", 4, ""),
        ("`p`", 4, "holds", 4, ""),
        ("``", 4, "void", 4, NOT_THERE),
    ],
)
def test_lines_of_a_tree_stand_if_all_of_them_are_there_changed_or_not(
    quote, line, standing, place, flaw
):
    checked = quote_in_tree(evidence(quote, line), AFTER)
    assert (checked.standing, checked.line, checked.why) == (standing, place, flaw)


def test_lines_of_a_file_that_the_tree_does_not_have_are_void():
    checked = quote_in_tree(evidence("def load(path):", 4, "before"), None)
    assert (checked.standing, checked.side, checked.why) == (
        "void",
        "before",
        "there is no such file",
    )
