"""Options that several commands have, each group with the value that is made of it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.model_wire import WIRE_MODES, WireOptions
from vibe_gate.errors import UsageError
from vibe_gate.faces.cli.command import argument
from vibe_gate.run.shard import WHOLE, Shard, shard_of


class RunLimits(Struct, frozen=True):
    """What a run may cost, and how long it may take; None takes the gate's own limit."""

    max_cost_usd: float | None = None
    """US dollars."""
    deadline_s: float | None = None
    """Seconds."""


def add_limits(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare the options that limit cost and time."""
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-cost-usd", type=parse_positive, metavar="X", help="spend at most X US dollars"
    )
    limits.add_argument(
        "--deadline", type=parse_positive, metavar="SECONDS", help="time limit of the whole run"
    )
    return limits


def parse_limits(args: argparse.Namespace) -> RunLimits:
    """The value of the options of `add_limits`."""
    return RunLimits(args.max_cost_usd, args.deadline)


def add_wire(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say how the model is reached."""
    wire = parser.add_argument_group("model requests")
    wire.add_argument(
        "--wire",
        choices=WIRE_MODES,
        help="record to a cassette, or replay one offline (default: live)",
    )
    wire.add_argument(
        "--cassette", metavar="DIR", help="the folder of recorded requests and answers"
    )


def parse_wire(args: argparse.Namespace) -> WireOptions:
    """The value of the options of `add_wire`."""
    return WireOptions(args.wire, Path(args.cassette) if args.cassette else None)


class WorkerOptions(Struct, frozen=True):
    """Who carries out many tasks, and which of them."""

    jobs: int | None = None
    """How many tasks side by side on this machine; None: as many as it has cores, at most 4."""
    shard: Shard = WHOLE
    """The part of the tasks that is this machine's."""
    cluster: str | None = None
    """The address of a Dask scheduler, or `local`; None: this machine's processes."""

    @property
    def has_open_ports(self) -> bool:
        """Whether the cluster runs whatever reaches a port of it."""
        return self.cluster not in (None, LOCAL) and not str(self.cluster).startswith("tls://")


LOCAL = "local"
"""The cluster that is started for this command alone."""

SHARD = argument(
    "--shard",
    type=shard_of,
    default=WHOLE,
    metavar="K/N",
    help="only part K of N equal parts, for N machines",
)


def parse_scheduler(text: str) -> str:
    """The value of `--cluster`.

    UsageError if it is not an address: Dask would wait for it for two minutes.
    """
    try:
        url = urlsplit(text)
        has_address = bool(url.hostname and url.port) and not url.path
        is_address = url.scheme in ("tcp", "tls") and has_address
    except ValueError:  # a port that is not a number
        is_address = False
    if not (is_address or text == LOCAL):
        raise UsageError(
            f"--cluster {paths.quote(text)} is not an address; use tcp://HOST:PORT, tls://HOST:PORT or local."
        )
    return text


CLUSTER = argument(
    "--cluster",
    type=parse_scheduler,
    metavar="URL",
    help="hand the work to a Dask cluster: tls:// or tcp://HOST:PORT of its scheduler, or local",
)


def parse_workers(args: argparse.Namespace) -> WorkerOptions:
    """The value of `--jobs`, `--shard` and `--cluster`."""
    return WorkerOptions(args.jobs, args.shard, args.cluster)


def parse_positive(text: str) -> float:
    """The value of an option that is a number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above zero")
    return value
