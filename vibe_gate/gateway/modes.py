"""How requests reach the model: live, recorded, or replayed from a cassette."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from vibe_gate.errors import UsageError

Mode = Literal["live", "record", "replay"]


@dataclass(frozen=True, slots=True)
class Wire:
    """The mode, and the cassette's directory; only `live` needs none."""

    mode: Mode = "live"
    cassette: Path | None = None


def wire_from(environ: Mapping[str, str], mode: str | None = None, cassette: Path | None = None) -> Wire:
    """What was asked for, else VIBE_GATE_WIRE and VIBE_GATE_CASSETTE, else live. UsageError if that is no whole."""
    chosen = mode or environ.get("VIBE_GATE_WIRE") or "live"
    if chosen not in get_args(Mode):
        raise UsageError(f"The wire is one of live, record and replay, not {chosen!r}.")
    place = cassette or (Path(environ["VIBE_GATE_CASSETTE"]) if environ.get("VIBE_GATE_CASSETTE") else None)
    if chosen != "live" and place is None:
        raise UsageError(f"To {chosen}, name the cassette's directory: --cassette DIR or VIBE_GATE_CASSETTE.")
    return Wire(cast(Mode, chosen), place)
