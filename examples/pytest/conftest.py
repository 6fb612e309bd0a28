"""The repository that every test of this folder lets its agent work on."""

import pytest

LEDGER = """\
import json


def load(path):
    with open(path) as file:
        return json.load(file)
"""


@pytest.fixture
def vibe_repo(vibe_repo):
    vibe_repo.write("src/ledger.py", LEDGER)
    vibe_repo.write("tests/test_ledger.py", "from ledger import load\n")
    vibe_repo.commit("A ledger")
    return vibe_repo
