"""What a commit costs that asks no judge, counted where time would be a matter of the machine."""

from __future__ import annotations

import sys

import pytest
from hooked import start_repository

NOT_NEEDED = {
    "claude_agent_sdk", "concurrent.futures", "github3", "importlib.metadata", "pydantic",
    "requests", "rich", "tomli_w", "vibe_gate.agent.turn_runner", "vibe_gate.gateway",
    "vibe_gate.sandbox", "vibe_gate.store.store_cleaning",
}  # fmt: skip
"""What belongs to judges, the forge, screens and cleaning, reads documents, or has something
lighter.
"""


@pytest.mark.slow
def test_a_commit_that_asks_no_judge_loads_no_more_than_it_needs(tmp_path, environ):
    repository = start_repository(tmp_path / "r", environ)
    repository.write(a="changed\n")
    repository.git("add", "a")
    for _ in "ab":  # the first of a day also cleans
        result = repository.run(
            sys.executable, "-P", "-X", "importtime", "-m", "vibe_gate", "hook", "pre-commit", "--"
        )
        assert result.code == 0, result.text
    loaded = {
        line.rpartition("|")[2].strip()
        for line in result.text.splitlines()
        if line.startswith("import time:")
    }
    assert "vibe_gate.run.review" in loaded
    assert sorted(loaded & NOT_NEEDED) == []
