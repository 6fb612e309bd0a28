"""How a session ended, in one table."""

from __future__ import annotations

from typing import get_args

from vibe_gate.agent.turn_runner import NODE_STATUS
from vibe_gate.domain.wire import EndKind, Status, end_kind
from vibe_gate.faces.pytest_plugin.vibe import UNDECIDED
from vibe_gate.run.stage_result import OUTCOMES


def test_every_end_of_a_session_has_one_meaning_and_everybody_goes_by_it() -> None:
    kinds = {status: end_kind(status) for status in get_args(Status)}
    assert {*kinds.values()} == {*get_args(EndKind)}
    assert {
        status for status, kind in kinds.items() if kind in ("limit", "unanswered")
    } == UNDECIDED.keys()
    assert {**NODE_STATUS, **OUTCOMES}.keys() == {"finished", "stopped", "limit"}
    assert {status for status, kind in kinds.items() if kind == "broken"} == {
        "api_error",
        "died",
        "interrupted",
    }
    assert end_kind("of a later version") == "broken"
