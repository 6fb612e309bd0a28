"""How the language model is reached: asked, asked and recorded, or replayed from a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast, get_args

from msgspec import Struct

from vibe_gate.errors import UsageError

WireMode = Literal["live", "record", "replay"]
"""How the model is reached: asked, asked and recorded into a cassette, or replayed from one."""


class Wire(Struct, frozen=True):
    """How the model is reached."""

    mode: WireMode = "live"

    cassette: Path | None = None
    """The folder of recorded requests and answers; only `live` needs none."""


def read_wire(environ: Mapping[str, str]) -> Wire:
    """What VIBE_GATE_WIRE and VIBE_GATE_CASSETTE say, else live. UsageError if that is not
    complete.
    """
    mode = environ.get("VIBE_GATE_WIRE") or "live"
    if mode not in get_args(WireMode):
        raise UsageError(f"VIBE_GATE_WIRE is {mode!r}; use {', '.join(get_args(WireMode))}.")
    cassette = environ.get("VIBE_GATE_CASSETTE") or ""
    if mode != "live" and not cassette:
        raise UsageError(
            f"VIBE_GATE_WIRE={mode} needs the folder of recorded answers in VIBE_GATE_CASSETTE."
        )
    return Wire(cast(WireMode, mode), Path(cassette) if cassette else None)
