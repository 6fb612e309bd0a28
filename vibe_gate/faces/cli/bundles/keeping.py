"""`vibe-gate bundles keep RUN`: cleaning leaves it alone."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from vibe_gate.errors import PASS
from vibe_gate.faces.cli.bundles.naming import named, provenance, root_of
from vibe_gate.faces.cli.bundles.showing import RUN_HELP
from vibe_gate.faces.cli.output import complain, emit
from vibe_gate.store import Bundles

SUMMARY = "Protect a run from cleaning."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bundles keep` takes."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP.partition(";")[0])
    parser.add_argument("--off", action="store_true", help="protect it no longer")


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Write or remove `.vibe-keep`."""
    root = root_of(environ)
    meant = named(root, args.run, environ)
    bundles = Bundles(root, provenance(root, environ))
    bundles.keep(meant.entry, off=args.off)
    emit(f"{meant.entry.run_id} is {'not kept any more' if args.off else 'kept'} (found by: {meant.matched}).\n")
    if args.off and bundles.is_kept(meant.entry):
        complain(f"note: a .vibe-keep beside it keeps every run of {meant.entry.key}.")
    return PASS
