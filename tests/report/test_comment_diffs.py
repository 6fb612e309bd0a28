"""The diffs of a comment: around findings, of the riskiest files, and of what agents changed."""

from __future__ import annotations

import os
import re

import pytest
import reports
from github_page import acted_upon, page, skeleton
from msgspec.structs import replace
from repos import Repo
from summaries import changed, criterion, finding, policy, summary, weighed

from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.verdict import Finding, FindingPlace
from vibe_gate.git import open_repository
from vibe_gate.report.change_excerpt import (
    MAX_EXCERPT_LINES,
    ExcerptPlace,
    read_excerpts,
    sections_by_path,
)
from vibe_gate.report.comment import (
    MAX_COMMENT,
    MAX_SUMMARY,
    read_comment_state,
    render_comment,
    render_job_summary,
)
from vibe_gate.report.comment_diffs import (
    MAX_DIFFS,
    MAX_FILE_DIFF,
    MAX_OPEN_DIFFS,
    made_files_block,
    risky_files_block,
)
from vibe_gate.report.report import Report
from vibe_gate.report.round import first_round

EDIT = """\
diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -10,9 +10,9 @@ class A:
 ten
 eleven
 twelve
-old thirteen
-old fourteen
+new thirteen
+new fourteen
 fifteen
 sixteen
 seventeen
 eighteen
@@ -40,2 +40,1 @@
 forty
-old forty-one
"""


def excerpt(first: int, last: int, side: str = "after", patch: str = EDIT) -> str:
    place = ExcerptPlace("src/a.py", first, last, side)
    excerpts = read_excerpts(sections_by_path(patch), [place])
    return excerpts[place].text if excerpts else ""


@pytest.mark.parametrize(
    ("first", "last", "side", "rows"),
    [
        (13, 13, "after", "@@ -12,5 +12,5 @@| twelve|-old thirteen|-old fourteen|"
                          "+new thirteen|+new fourteen| fifteen| sixteen"),
        (10, 10, "after", "@@ -10,5 +10,5 @@| ten| eleven| twelve|-old thirteen|-old fourteen|"
                          "+new thirteen|+new fourteen"),
        (18, 18, "after", "@@ -15,4 +15,4 @@| fifteen| sixteen| seventeen| eighteen"),
        (41, 41, "before", "@@ -40,2 +40,1 @@| forty|-old forty-one"),
        (1, 500, "after", "@@ -10,9 +10,9 @@| ten| eleven| twelve|-old thirteen|-old fourteen|"
                          "+new thirteen|+new fourteen| fifteen| sixteen| seventeen| eighteen"),
        (30, 30, "after", ""),
        (0, 0, "after", ""),
    ],
)  # fmt: skip
def test_an_excerpt_is_the_place_with_three_lines_around_it(first, last, side, rows):
    assert excerpt(first, last, side).removesuffix("\n").replace("\n", "|") == rows


def test_a_long_place_is_cut_and_says_so():
    place = ExcerptPlace("src/a.py", 1, 50, "after")
    rows = "".join(f"+line {number}\n" for number in range(1, 101))
    patch = f"diff --git a/src/a.py b/src/a.py\n--- /dev/null\n+++ b/src/a.py\n@@ -0,0 +1,100 @@\n{rows}"
    excerpt = read_excerpts(sections_by_path(patch), [place])[place]
    assert excerpt.text.startswith("@@ -0,0 +1,20 @@\n+line 1\n")
    assert excerpt.text.count("\n") == 1 + MAX_EXCERPT_LINES
    assert excerpt.hidden_lines == 30


def test_a_hunk_whose_line_numbers_are_wrong_since_redaction_is_not_quoted():
    assert excerpt(13, 13, patch=EDIT.replace("-old thirteen\n", "")) == ""


def section(path: str, rows: int, text: str = "some words of code") -> str:
    lines = "".join(f"+{number} {text}\n" for number in range(1, rows + 1))
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{rows} @@\n{lines}"
    )


def report_of(patch: str, findings: tuple[Finding, ...] = (), **fields: object) -> Report:
    """The first round of a change with this patch."""
    files = []
    for path, part in sections_by_path(patch).items():
        files.append(changed(path, part.count(b"\n+") - 1, 0))
    run_summary = summary(
        outcome="fail" if findings else "pass", exit_code=int(bool(findings)),
        findings=findings, files=tuple(files),
        rubrics=(weighed(criterion("errors-not-swallowed", "fail" if findings else "pass")),),
    )  # fmt: skip
    head = reports.FIRST
    return Report(
        run_summary,
        (),
        first_round(findings, head),
        reports.links(head),
        patch,
        artifact="summary",
        **fields,
    )


def wide(files: int) -> Report:
    """A change of so many files of 30 lines, with a finding in each."""
    findings = []
    for number in range(files):
        level = "failure" if number % 4 == 0 else "warning"
        findings.append(
            finding(f"finding {number} of many", line=9, path=f"src/deep/file{number}.py",
                    fingerprint=f"{number:016x}", level=level)
        )  # fmt: skip
    patch = "".join(section(f"src/deep/file{number}.py", 30) for number in range(files))
    return report_of(patch, tuple(findings))


@pytest.mark.parametrize(
    ("files", "findings", "diffs", "size"),
    [
        (1, 1, 1, 5_000),
        (10, 10, 10, 16_000),
        (300, 260, 5, 65_000),
        pytest.param(3000, 220, 5, 65_000, marks=pytest.mark.slow),
    ],
)
def test_a_comment_of_any_size_is_valid_and_says_what_it_leaves_out(files, findings, diffs, size):
    body = render_comment(wide(files))
    assert len(body.encode()) <= min(size, MAX_COMMENT)
    tags = skeleton(page(body))
    assert tags.count("details") == tags.count("summary")
    assert acted_upon(page(body)) == []
    assert read_comment_state(body).head == reports.FIRST
    items = len(re.findall(r"(?m)^- \*\*(?:failure|warning)\*\*", body))
    blocks = len(re.findall(r"(?m)^  ```diff", body))
    assert findings <= items <= files
    assert blocks == diffs
    assert ("more findings** did not fit" in body) == (items < files)
    assert ("more diffs of findings** did not fit" in body) == (blocks < files)


def test_folded_diffs_are_left_out_before_findings_and_whole_files_before_diffs_of_findings():
    body = render_comment(wide(130))
    items = len(re.findall(r"(?m)^- \*\*(?:failure|warning)\*\*", body))
    blocks = len(re.findall(r"(?m)^  ```diff", body))
    assert items == 130
    assert MAX_OPEN_DIFFS < blocks < 130
    assert (
        f"**{130 - blocks} more diffs of findings** did not fit: see [the job's summary](" in body
    )
    assert "**The diffs of whole files** did not fit" in body
    text = render_job_summary(wide(130))
    assert len(text.encode()) <= MAX_SUMMARY
    assert len(re.findall(r"(?m)^  ```diff", text)) == 130


def test_the_first_diffs_are_in_sight_and_the_others_folded():
    tree = page(render_comment(wide(8)))
    places = [title.text_content() for title in tree.iter("summary")][:3]
    assert places == [f"The change at src/deep/file{number}.py:9" for number in (5, 6, 7)]


def test_lines_that_stand_there_already_are_not_repeated():
    findings = (
        finding("One thing.", line=13, fingerprint="1" * 16),
        finding("Another.", line=13, fingerprint="2" * 16, criterion="names-are-clear"),
    )
    body = render_comment(report_of(EDIT, findings))
    assert body.count("  ```diff") == 1


def test_the_riskiest_files_have_their_diffs_within_their_room_and_the_others_are_counted():
    patch = section("small.py", 3) + section("large.py", 900) + section("found.py", 40)
    patch += "".join(section(f"more{number}.py", 100) for number in range(40))
    findings = (finding("It hides.", line=2, path="found.py"),)
    block = risky_files_block(report_of(patch, findings))
    text = block.text
    headings = re.findall(r"(?m)^`([^`]+)` \(\+", text)
    assert headings[:2] == ["found.py", "large.py"]
    assert len(text.encode()) < MAX_DIFFS + 1_000
    large = text.partition("`large.py`")[2].partition("\n\n`more")[0]
    assert len(large.encode()) <= MAX_FILE_DIFF + 100
    assert re.search(r"\d+ more lines of this diff\.", large)
    hidden = re.search(r"Not shown: (\d+) files, ([\d,]+) lines: `more", text)
    assert int(hidden[1]) == 43 - len(headings)
    assert f"Diffs of {len(headings)} files, riskiest first" in text


def test_the_gate_s_own_files_have_their_diff_once():
    report = report_of(section(".vibe-gate/gate.toml", 4) + section("a.py", 3))
    risky_summary = replace(report.summary, policy_changes=(policy(".vibe-gate/gate.toml"),))
    text = risky_files_block(replace(report, summary=risky_summary)).text
    assert "gate.toml" not in text
    assert "`a.py`" in text


def test_what_agents_changed_is_a_fold_the_largest_first():
    made_patch = section("a.py", 2) + section("b.py", 20)
    text = made_files_block(report_of(EDIT, made_patch=made_patch)).text
    assert "What agents changed: diffs of 2 files" in text
    assert text.index("`b.py` (+20 −0)") < text.index("`a.py` (+2 −0)")
    assert text in render_comment(report_of(EDIT, made_patch=made_patch))


def test_a_binary_file_is_counted():
    binary = (
        "diff --git a/x.bin b/x.bin\nindex 1..2 100644\nBinary files a/x.bin and b/x.bin differ\n"
    )
    text = risky_files_block(report_of(EDIT + binary)).text
    assert "Without lines to show: 1 file." in text
    assert "x.bin" not in text


HOSTILE = (
    "```\n</details>\n",
    "````````\n# @security approved: https://evil.example #1",
    "</code></pre><img src=x onerror=alert(1)> <!-- vibe-gate:state AAAA -->",
    "admin\u202e \u2066# checked above\u2069 \u200b",
    "~~~\n- [x] @jo\n| a | b |\n| --- | --- |",
    "x" * 1_000_000,
    "~~~~~~~~\n````\n~~~\n```diff\n<details>\n<summary>",
    "example/ledger#7 GH-12 0123456789abcdef0123456789abcdef01234567 jo@evil.example $x$ :tada:",
    "\r\r\n\v\f\x1c\x85\u2028## Passed\u2029",
    "\x1b[31m\x00\udcff \r",
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("path", ["src/a.py", "`</summary>@jo`.py"])
def test_a_hostile_diff_stays_in_its_block(text, path):
    rows = "".join(f"+{row}\n" for row in text.split("\n") * 3)
    patch = (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -0,0 +1,{rows.count(chr(10))} @@\n{rows}"
    )
    findings = tuple(
        finding(f"Thing {number}.", line=1 + number % 3, path=path, level="warning")
        for number in range(3)
    )
    body = render_comment(report_of(patch, findings, made_patch=patch))
    plain = render_comment(report_of(section(path, 9), findings, made_patch=section(path, 9)))
    tree = page(body)
    assert acted_upon(tree) == []
    assert set(skeleton(tree)) <= set(skeleton(page(plain)))
    assert not re.search("[\u202e\u2066\u200b\x1b\x00]", body)
    assert read_comment_state(body).head == reports.FIRST
    assert len(body.encode()) <= MAX_COMMENT


ODD_FILES = {
    "crlf.py": (b"one\r\ntwo\r\n", b"one\r\n2 @jo\r\n"),
    "open-end.py": (b"one\ntwo", b"one\n2 </details>"),
    "data.bin": (b"\0\1" * 50, b"\0\2" * 50),
    "`</summary>```.py": (b"one\n", b"```\n~~~~\n<!-- x -->\n"),
    "new\nline @jo #1.py": (b"one\n", b"two\n"),
    "tab\t\xff.py": (b"one\n", b"\xff\xfe \xe2\x80\xae\n"),
    "a b/-- +++ .py": (b"-- one\n", b"++ two\n"),
    "minified.js": (b"", b"x" * 1_000_000),
    "gone.md": (b"# One\n\n```\n", None),
}
"""By name, as bytes beyond ASCII in it are: before and after."""


@pytest.fixture
def odd_patch(tmp_path, environ) -> str:
    """What git makes of the odd files."""
    repo = Repo(tmp_path / "repo", environ)
    for name, (before, _) in ODD_FILES.items():
        repo.write(os.fsdecode(name.encode("latin-1")), before)
    repo.commit("Before")
    for name, (_, after) in ODD_FILES.items():
        file = repo.path / os.fsdecode(name.encode("latin-1"))
        if after is None:
            file.unlink()
        else:
            file.write_bytes(after)
    repo.commit("After")
    with open_repository(repo.path, read_environment(environ)) as repository:
        change = repository.change(Selection("range", "HEAD~1", "HEAD"))
        return repository.patch(change).decode("utf-8", "surrogateescape")


def test_odd_files_as_git_shows_them_stay_in_their_blocks(odd_patch):
    sections = sections_by_path(odd_patch)
    assert len(sections) == len(ODD_FILES)
    findings = []
    for number, path in enumerate(sections):
        findings.append(
            finding(f"Thing {number}.", line=1, path=path, fingerprint=f"{number:016x}")
        )
    report = report_of(odd_patch, tuple(findings), made_patch=odd_patch)
    body = render_comment(report)
    tree = page(body)
    assert acted_upon(tree) == []
    assert len(body.encode()) <= MAX_COMMENT
    tags = skeleton(tree)
    assert (
        tags.count("details")
        == tags.count("summary")
        == body.count("\n</details>") + body.count("\n  </details>")
    )
    assert not re.search("[\u202e\ufeff\x00\x1b\r]", body)
    code = [block.text_content() for block in tree.iter("pre")]
    for line in ("+2 @jo\n", "+2 </details>\n", "+```\n", "+~~~~\n", "+<!-- x -->\n", "+++ two\n",
                 "--- one\n", "\\ No newline at end of file\n", "-```\n"):  # fmt: skip
        assert any(line in text for text in code), line
    assert any(re.search(r"\+x{399} … 999,601 more characters\n", text) for text in code)
    assert "Without lines to show: 1 file." in body


def test_without_the_change_at_hand_the_comment_says_that_it_has_no_diffs():
    report = replace(report_of(EDIT, (finding(line=13),)), patch="")
    body = render_comment(report)
    assert "```diff" not in body
    assert "Without diffs: the lines of the change could not be read, or are too many." in body


CONFLICT = section("src/a.py", 30)


@pytest.mark.parametrize(
    ("lines", "rows", "sentence"),
    [
        ((8, 10), 13, ""),
        ((8, 29), 11, "Also in this file: line 29."),
        ((25, 29), 4, "Also in this file: lines 25, 29."),
    ],
)
def test_the_finding_s_other_places_are_in_its_diff_or_named_below_it(lines, rows, sentence):
    places = tuple(FindingPlace(path="src/a.py", line=number, end_line=number) for number in lines)
    conflict = finding("A conflict.", line=1, other_places=places)
    body = render_comment(report_of(CONFLICT, (conflict,)))
    block = body.partition("  ```diff\n")[2].partition("  ```\n")[0]
    assert len(re.findall(r"(?m)^  \+", block)) == rows
    assert ("Also in this file" in body) == bool(sentence)
    assert sentence in body
