"""Which versions of a file are in memory, and when two of them need not be matched."""

from __future__ import annotations

import weakref

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.matching import match_lines, reshaped
from vibe_gate.git import open_repository
from vibe_gate.run.file_texts import MAX_SEARCHED, MAX_TEXTS, FileText, FileTexts
from vibe_gate.store.stored_writes import LineDigests

OLD = b"first = load(one, 'two')\n\tsecond = 2\n"

PIECES = (
    b"first_name = load(one_of_them, 'two')",
    b'first_name = load(\n    one_of_them,\n    "two",\n)',
    b"second_name = load(three_of_them)",
    b"second_name = load(\n\tthree_of_them\n)",
    b"name",
    b"(",
    b")",
    b",",
    b" ",
    b"\t",
    b"\x0c",
    b"\r\n",
    b"\r",
    b"\n",
    b"\xff",
    b"\xc3",
    "é\u2028".encode(),
)
CONTENTS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\tsecond = 2", True),
        ("    second=2", True),
        ('first = load(one, "two",)', True),
        ('    "two",', True),
        ("second = 3", False),
        ("first = load(two, one)", False),
    ],
)
def test_a_line_may_be_an_older_one_if_a_formatter_can_have_made_it_of_that(line, expected):
    assert FileText(OLD, "").may_have_any(["something else", line]) is expected


@pytest.mark.parametrize(("count", "expected"), [(MAX_SEARCHED, False), (MAX_SEARCHED + 1, True)])
def test_many_lines_are_matched_and_not_searched_for_one_by_one(count, expected):
    new_lines = [f"new_{number} = 1" for number in range(count)]
    assert FileText(OLD, "").may_have_any(new_lines) is expected


@given(CONTENTS, CONTENTS)
@example(b"x = 1\n", b"x = 1\r\n")
@example(b"x = 1\n", b"x =\x1f1")
def test_a_text_without_any_of_the_lines_matches_none_of_them(old_content, new_content):
    old, new = FileText(old_content, ""), FileText(new_content, "")
    digests = LineDigests(b"k" * 32)
    old_number_by_new = match_lines(digests.of(old.lines), digests.of(new.lines))
    reshaped_numbers = reshaped(old.lines, new.lines, old_number_by_new)
    for number, line in enumerate(new.lines):
        if not old.may_have_any([line]):
            assert old_number_by_new[number] == -1
            assert number not in reshaped_numbers


@pytest.mark.slow
def test_no_more_than_a_few_versions_of_a_long_history_are_in_memory(tmp_path, environ):
    repo = Repo(tmp_path / "r", environ)
    commits = []
    for number in range(MAX_TEXTS + 4):
        repo.write("a.py", f"number = {number}\n")
        repo.git("add", "-A")
        repo.git("commit", "-q", "-m", f"Change {number}")
        commits.append(repo.git("rev-parse", "HEAD"))
    with open_repository(repo.path, read_environment(environ)) as repository:
        texts = FileTexts(repository, LineDigests(b"k" * 32))
        references = [weakref.ref(texts.text(commit, "a.py")) for commit in commits]
        held_texts = [reference for reference in references if reference() is not None]
    assert len(held_texts) == MAX_TEXTS < len(commits)
