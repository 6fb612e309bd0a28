"""Makes the README's picture: `python docs/images/make.py`. It is what `vibe-gate demo` prints, at a fixed time."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from datetime import UTC, datetime
from importlib import resources
from io import StringIO
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from vibe_gate.domain.change import Selection
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.faces.cli.demo import DATA, make_demo
from vibe_gate.report import terminal
from vibe_gate.run.review import review

WIDTH = 110
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def picture() -> str:
    """The verdict screen of the demo as SVG: the same bytes each time."""
    with tempfile.TemporaryDirectory() as folder, resources.as_file(DATA / "cassette") as cassette:
        make_demo(Path(folder) / "ledger")
        walk = review(
            ReviewRequest(Selection("commit"), wire="replay", cassette=cassette, definitions="HEAD~1"),
            start=Path(folder) / "ledger",
            environ=os.environ,
            clock=lambda: NOON,
            progress=lambda stage, text: None,
        )
        done = asyncio.run(walk)
    # The end of a run id is a hash that covers the versions of what ran; the picture must outlive those.
    run_id = re.sub(r"[0-9a-f]{8}$", "7c1e52d0", done.summary.run_id)
    summary = replace(done.summary, run_id=run_id)
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ vibe-gate review --commit HEAD\n", style="bold"))
    console.print(terminal.render(summary, done.notes, WIDTH))
    return console.export_svg(title="vibe-gate", unique_id="vibe-gate-demo")


if __name__ == "__main__":
    (Path(__file__).parent / "demo.svg").write_text(picture(), encoding="utf-8")
    sys.stdout.write("docs/images/demo.svg\n")
