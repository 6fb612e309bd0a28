"""What a job uploads: its report and the run's papers, or with `artifact: full` the whole bundle as well."""

from __future__ import annotations

import shutil
from pathlib import Path

from vibe_gate.domain.bundles import Provenance
from vibe_gate.errors import GateError
from vibe_gate.faces.action.inputs import Kept
from vibe_gate.faces.action.runner import Runner
from vibe_gate.git import open_repository
from vibe_gate.store import STORE, Bundles

PAPERS = ("summary.json", "receipt.json", "run.json", "events.ndjson")
"""Files of a bundle that hold no content of the repository but what a finding quotes."""

REPORT = "report.md"
BUNDLE = "bundle.tar.gz"


def prepare(runner: Runner, folder: Path, bundle: Path | None, kept: Kept) -> str:
    """Put into `folder`, beside the report, what is to be uploaded; "" or a sentence about what could not be."""
    if kept == "none" or bundle is None:
        return ""
    try:
        for name in PAPERS:
            if (bundle / name).is_file():
                shutil.copyfile(bundle / name, folder / name)
        if kept == "full":
            _export(runner, bundle, folder / BUNDLE)
    except (OSError, GateError) as error:
        return f"The artifact is not complete: {error}"
    return ""


def _export(runner: Runner, bundle: Path, target: Path) -> None:
    with open_repository(runner.start, runner.environ) as repository:
        bundles = Bundles(repository.root, Provenance(runner.clock(), repository.tracked(STORE)))
        bundles.export(bundles.find(run=bundle.name), target)


def write_report(folder: Path, text: str) -> Path | None:
    """The report's file; None on a full disk: the verdict stands all the same."""
    place = folder / REPORT
    try:
        place.write_text(text, encoding="utf-8", errors="replace")
    except OSError:
        return None
    return place
