"""Patches for people: each file has its section."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gitoracle import Oracle

from vibe_gate.domain.change import Change, Selection
from vibe_gate.git import Repository, open_repository

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(generated: Path, environ: dict[str, str]) -> Iterator[Repository]:
    with open_repository(generated, environ) as opened:
        yield opened


def change_of(repository: Repository, subject: str) -> Change:
    return repository.change(Selection("commit", f":/^{subject}$"))


def text_of(repository: Repository, subject: str, path: str) -> str:
    change = change_of(repository, subject)
    file = change.file(path)
    assert file is not None
    return repository.file_patch(change, file)


def test_one_file_reads_as_in_git_diff(repository: Repository, environ: dict[str, str]) -> None:
    change = change_of(repository, "Edit")
    expected = Oracle(repository.git_dir, environ).diff(change.before, change.after, "--full-index").decode()
    assert text_of(repository, "Edit", "src/app.py") == expected


def test_a_binary_file_is_told_in_one_line(repository: Repository) -> None:
    text = text_of(repository, "Edit contents", "c/large-binary")
    assert text.splitlines()[-1] == "Binary files a/c/large-binary and b/c/large-binary differ"


def test_a_file_that_became_a_symlink_is_told_as_both(repository: Repository) -> None:
    text = text_of(repository, "File to symlink, the same bytes", "k/target")
    assert "deleted file mode 100644" in text
    assert "new file mode 120000" in text


def test_nothing_that_differs_is_no_patch_and_no_id(repository: Repository) -> None:
    change = change_of(repository, "Empty commit")
    assert (repository.patch(change), change.range_patch_id, change.files) == (b"", "", ())
