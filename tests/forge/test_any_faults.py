"""Whatever breaks off in between: what is said is said once and whole, or not and a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract.github import LoopbackGitHub, loopback_github
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vibe_gate.errors import ForgeError
from vibe_gate.forge import Forge, LineComment, open_forge

MARKER, HEAD = "<!-- gate -->", "a" * 40

FAULTS: tuple[dict[str, Any], ...] = (
    {"delay": 0.0001},
    {"cut": "before"},
    {"cut": "after"},
    {"status": 502},
    {"status": 502, "after": True},
    {"status": 201, "after": True, "body": b"{"},
    {"status": 429, "headers": {"retry-after": "1"}},
    {"status": 403, "headers": {"retry-after": "1"}},
)
HARMLESS = ({"delay": 0.0001},) * 3


def told(github: LoopbackGitHub, act: Callable[[Forge], object]) -> bool:
    """Whether it went well."""
    with open_forge(github.url, github.token, github.repository, environ={}, pause=lambda _: None) as forge:
        try:
            act(forge)
        except ForgeError:
            return False
        return True


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(st.sampled_from(FAULTS + HARMLESS), max_size=9), pushes=st.integers(1, 2))
@pytest.mark.slow
@pytest.mark.parametrize("what", ["comment", "check run", "review"])
def test_everything_stands_once_and_whole_or_is_refused(
    what: str, faults: list[dict[str, Any]], pushes: int, run: Callable[..., Any], diff: str
) -> None:
    with loopback_github() as github:
        github.add_pull(7, diff=diff)
        for fault in faults:
            github.fail("*", "*", **fault)
        acts: dict[str, Callable[[Forge], object]] = {
            "comment": lambda forge: forge.put_comment(7, f"{MARKER} words", marker=MARKER),
            "check run": lambda forge: forge.check_run(HEAD, "gate", run(120)),
            "review": lambda forge: forge.review(7, HEAD, [LineComment("a.py", "finding", 2, "RIGHT")]),
        }
        went_well = [told(github, acts[what]) for _ in range(pushes)]
        well = sum(went_well)
        if what == "comment":
            assert bool(well) <= len(github.comments) <= 1
        elif what == "review":
            assert well <= len(github.review_comments) <= pushes
        else:
            whole = [made for made in github.check_runs if made.sent.get("conclusion") == "failure"]
            assert well <= len(whole)
            assert len(github.check_runs) <= pushes
            for made in github.check_runs:
                shown = [each["start_line"] for each in made.annotations]
                assert shown == sorted(set(shown))
