"""The repository that every test lets its agent work on: this folder's own files.

In a project of your own leave this out: without `vibe_repo` the repository under test is yours.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = ("CLAUDE.md", "CHANGELOG.md", ".claude/**/*.md", "src/*.py")


@pytest.fixture
def vibe_repo(vibe_repo):
    for pattern in PROJECT:
        for path in HERE.glob(pattern):
            vibe_repo.write(path.relative_to(HERE).as_posix(), path.read_text())
    vibe_repo.commit("A ledger")
    return vibe_repo
