"""Which versions of a file are in memory, and when two of them need not be matched."""

from __future__ import annotations

import weakref

import pytest
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.git import open_repository
from vibe_gate.run.file_texts import MAX_TEXTS, FileText, FileTexts
from vibe_gate.store.stored_writes import LineDigests

OLD = b"first = load(one, 'two')\n\tsecond = 2\n"


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
