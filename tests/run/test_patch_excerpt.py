"""What of a long patch an agent is shown: files and hunks with findings first, the others named."""

from __future__ import annotations

import pytest

from vibe_gate.run.patch_excerpt import fit_patch

FINDINGS = {("b.py", 30), ("d.py", 0)}


def hunk(start: int, rows: int, word: str) -> str:
    """A hunk that adds rows."""
    body = "".join(f"+{word} {number}\n" for number in range(start, start + rows))
    return f"@@ -{start - 1},0 +{start},{rows} @@\n{body}"


def section(path: str, *hunks: str) -> str:
    header = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return header + "".join(hunks)


def excerpt(max_length: int, *sections: str, findings=FINDINGS) -> str:
    return fit_patch("".join(sections).encode(), findings, max_length)


A = section("a.py", hunk(1, 300, "first"))
B = section("b.py", hunk(10, 10, "low"), hunk(30, 10, "wrong"), hunk(50, 10, "high"))
C = section("c.py", hunk(1, 2, "small"))
D = section("d.py", hunk(1, 2, "about"))


def test_a_patch_that_fits_is_as_it_was():
    assert excerpt(20_000, A, B, C, D) == A + B + C + D


def test_files_with_findings_come_first_and_those_left_out_are_named():
    text = excerpt(len(B + D + C) + 100, A, B, C, D)
    assert text == D + B + C + "[not shown: 1 file: a.py]\n"


def test_of_a_file_that_does_not_fit_the_hunks_with_findings_are_shown():
    text = excerpt(len(B) - 40, B, D, findings={("b.py", 30)})
    assert "+wrong 39" in text
    assert "+low" not in text
    assert "[11 rows of this file's patch left out here]" in text
    assert text.endswith("[not shown: 1 file: d.py]\n")


def test_without_findings_in_it_the_middle_of_a_file_is_left_out_between_hunks():
    hunks = [hunk(start, 10, "row") for start in range(1, 200, 20)]
    text = excerpt(900, section("a.py", *hunks), findings=set())
    assert text.startswith(section("a.py", hunks[0]))
    assert text.endswith(hunks[-1])
    assert text.count(" left out here]") == 1


def test_a_long_hunk_is_cut_between_rows_around_its_finding():
    text = excerpt(6_000, section("b.py", hunk(1, 2_000, "row")), findings={("b.py", 1_234)})
    assert "+row 1234\n" in text
    assert all(row.startswith(("+", "-", "@", "[", "diff")) for row in text.splitlines())


def test_a_long_file_takes_no_room_from_another_with_a_finding():
    findings = {("a.py", 250), ("b.py", 30)}
    text = excerpt(len(B) + 4_000, A, B, findings=findings)
    assert B in text
    assert "+first 250\n" in text


@pytest.mark.parametrize("max_length", [0, 1, 50, 400, 1_500, 5_000])
def test_it_is_never_much_longer_than_its_limit(max_length):
    text = excerpt(max_length, A, B, C, D)
    assert len(text) <= max_length + len("[not shown: 4 files: a.py, b.py, c.py, d.py]\n")


def test_the_names_of_files_left_out_are_bounded():
    sections = [section(f"{'x' * 200}{number}.py", hunk(1, 1, "y")) for number in range(500)]
    text = excerpt(100, *sections)
    assert text.startswith("[not shown: 500 files: ")
    assert len(text) < 4_200


def test_bytes_that_are_no_text_and_files_without_hunks_are_shown_or_named():
    binary = b"diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n"
    bad = section("e.py", "@@ -0,0 +1 @@\n+").encode() + b"\xff\n"
    patch = binary + bad + A.encode()
    text = fit_patch(patch, set(), len(binary + bad) + 20)
    assert "p.png differ" in text
    assert "+�" in text
    assert "[not shown: 1 file: a.py]" in text
