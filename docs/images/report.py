"""Makes the pictures of the report: `python docs/images/report.py` (needs Chromium and
playwright).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from playwright.sync_api import sync_playwright

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.model_wire import Wire
from vibe_gate.faces.cli.demo import DATA, make_demo
from vibe_gate.report.html import render_run_page
from vibe_gate.report.html.authors import Authors, WritingTurn, WrittenLines
from vibe_gate.run.review import review_around
from vibe_gate.store.run_result import read_bundle

PICTURES = {
    "report.png": "",
    "report-changes.png": "#f=src/ledger.py:25",
    "report-activity.png": "#e=nodes/judge-quality/turn-001/sdk-8",
    "report-graph.png": "#run",
    "report-cost.png": "#cost",
}
"""Names, and the link that is shown."""


def who_wrote(added: Mapping[str, Sequence[int]]) -> Authors:
    """One turn of a captured session that wrote every added line of the demo's change."""
    prompt = "Make sending a payment robust: try again if the bank does not answer.\n\nThree attempts are enough."
    turn = WritingTurn(
        "Claude Code",
        "0f3c9a1e-6b1d-4c55-9d0a-2f7b3e6a8c41",
        2,
        None,
        prompt.split("\n")[0],
        prompt,
    )
    runs = [
        WrittenLines(path, lines[0], lines[-1], 0, "Edit", f"toolu_{number}")
        for number, (path, lines) in enumerate(added.items(), start=1)
    ]
    return Authors((turn,), tuple(runs))


def report(folder: Path) -> Path:
    """The page of the demo's review."""
    with resources.as_file(DATA / "cassette") as cassette:
        make_demo(folder / "ledger")
        walk = review_around(
            ReviewRequest(Selection("commit"), wire=Wire("replay", cassette), definitions="HEAD~1"),
            start=folder / "ledger",
            environment=read_environment(os.environ),
            clock=lambda: datetime.now(UTC),
            progress=lambda stage, text: None,
        )
        done = asyncio.run(walk)
    made, bundle = folder / "report.html", folder / "ledger" / done.summary.bundle
    made.write_text(asyncio.run(render_run_page(read_bundle(bundle), who_wrote)), encoding="utf-8")
    return made


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        made = report(Path(place))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for name, link in PICTURES.items():
                tab = browser.new_page(viewport={"width": 1200, "height": 640})
                tab.goto(made.as_uri() + link)
                tab.wait_for_timeout(500)
                tab.screenshot(path=Path(__file__).parent / name)
                sys.stdout.write(f"docs/images/{name}\n")
                tab.close()
