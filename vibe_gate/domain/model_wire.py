"""How the language model is reached: asked, asked and recorded, or replayed from a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from vibe_gate.errors import UsageError

WireMode = Literal["live", "record", "replay"]
"""How the model is reached: asked, asked and recorded into a cassette, or replayed from one."""

WIRE_MODES: tuple[WireMode, ...] = get_args(WireMode)

SETUP_DIFFERENCE = "set-up: "
"""Begins the line of a difference to the recorded request that names what changed of a set-up."""


class Wire(Struct, frozen=True):
    """How the model is reached."""

    mode: WireMode = "live"

    cassette: Path | None = None
    """The folder of recorded requests and answers; only `live` needs none."""

    recordings: Path | None = None
    """The folder in which other runs record meanwhile, those of a test suite; None: none do."""


class WireOptions(Struct, frozen=True):
    """How the model is reached, as the user's options say it."""

    mode: WireMode | None = None
    """None: as VIBE_GATE_WIRE says, else live."""

    cassette: Path | None = None
    """The folder of recorded requests and answers; None: as VIBE_GATE_CASSETTE says, or none."""


NO_OPTIONS = WireOptions()


def read_wire(variables: Mapping[str, str], options: WireOptions = NO_OPTIONS) -> Wire:
    """What the options say, else VIBE_GATE_WIRE and VIBE_GATE_CASSETTE, else live.

    UsageError if that is not complete.
    """
    mode = options.mode or variables.get("VIBE_GATE_WIRE") or "live"
    folder = options.cassette or variables.get("VIBE_GATE_CASSETTE") or ""
    if mode not in WIRE_MODES:
        raise UsageError(f"VIBE_GATE_WIRE is {mode!r}; use {', '.join(WIRE_MODES)}.")
    if mode != "live" and not folder:
        if options.mode:
            raise UsageError(f"--wire {mode} needs --cassette DIR (or VIBE_GATE_CASSETTE).")
        raise UsageError(
            f"VIBE_GATE_WIRE={mode} needs the folder of recorded answers in VIBE_GATE_CASSETTE."
        )
    if options.cassette and mode == "live":
        raise UsageError("--cassette DIR needs --wire record or --wire replay.")
    return Wire(mode, Path(folder) if folder else None)
