"""A forge against a loopback GitHub, with waits that take no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from contract.github import LoopbackGitHub, loopback_github

from vibe_gate.domain.network import read_network
from vibe_gate.forge import CheckAnnotation, CheckRun, Forge, open_forge

DIFF = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,2 +1,4 @@
 one
+two
+three
 four
"""


@pytest.fixture
def diff() -> str:
    """A pull request's: lines 1 to 4 of a.py can be commented on."""
    return DIFF


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    with loopback_github() as github:
        github.add_pull(7, author="ada", diff=DIFF)
        yield github


@pytest.fixture
def waits() -> list[float]:
    """What the forge waited, in seconds."""
    return []


@pytest.fixture
def opened(github: LoopbackGitHub, waits: list[float]) -> Iterator[Callable[..., Forge]]:
    """Forges for a token; the job's own unless another is given."""
    forges: list[Forge] = []

    def opened(token: str = "") -> Forge:
        forge = open_forge(
            github.url,
            token or github.token,
            github.repository,
            network=read_network({}),
            pause=waits.append,
        )
        forges.append(forge)
        return forge

    yield opened
    for forge in forges:
        forge.__exit__()


@pytest.fixture
def forge(opened: Callable[..., Forge]) -> Forge:
    """A forge with the job's own token (an app's)."""
    return opened()


@pytest.fixture
def run() -> Callable[..., CheckRun]:
    """Makes a check run with so many annotations."""

    def run(count: int = 0, **fields: Any) -> CheckRun:
        annotations = tuple(
            CheckAnnotation("a.py", line, line, "warning", f"finding {line}")
            for line in range(1, count + 1)
        )
        texts = {
            "title": "1 criterion failed",
            "summary": "Details",
            "text": "",
            "conclusion": "failure",
        }
        return CheckRun(**(texts | fields), annotations=annotations)

    return run
