"""How the model is reached, as the environment says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_gate.domain.model_wire import Wire, read_wire
from vibe_gate.errors import UsageError


def test_the_wire_is_what_the_environment_says_or_live() -> None:
    assert read_wire({}) == Wire("live", None)
    assert read_wire({"VIBE_GATE_WIRE": "replay", "VIBE_GATE_CASSETTE": "c"}) == Wire(
        "replay", Path("c")
    )
    for wrong in ({"VIBE_GATE_WIRE": "tape"}, {"VIBE_GATE_WIRE": "record"}):
        with pytest.raises(UsageError):
            read_wire(wrong)
