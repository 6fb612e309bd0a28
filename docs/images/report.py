"""Makes the pictures of the report: `python docs/images/report.py` (needs Chromium and playwright)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from playwright.sync_api import sync_playwright

from vibe_gate.domain.change import Selection
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.faces.cli.demo import DATA, make_demo
from vibe_gate.report.html import page
from vibe_gate.run.review import review
from vibe_gate.store import read_bundle

PICTURES = {
    "report.png": "",
    "report-changes.png": "#f=src/ledger.py:25",
    "report-activity.png": "#e=nodes/judge-quality/turn-001/sdk-8",
}
"""Names, and the link that is shown."""


def report(folder: Path) -> Path:
    """The page of the demo's review."""
    with resources.as_file(DATA / "cassette") as cassette:
        make_demo(folder / "ledger")
        walk = review(
            ReviewRequest(Selection("commit"), wire="replay", cassette=cassette, definitions="HEAD~1"),
            start=folder / "ledger",
            environ=os.environ,
            clock=lambda: datetime.now(UTC),
            progress=lambda stage, text: None,
        )
        done = asyncio.run(walk)
    made = folder / "report.html"
    made.write_text(asyncio.run(page(read_bundle(folder / "ledger" / done.summary.bundle))), encoding="utf-8")
    return made


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        made = report(Path(place))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, link in PICTURES.items():
                tab = browser.new_page(viewport={"width": 1200, "height": 640})
                tab.goto(made.as_uri() + link)
                tab.wait_for_timeout(500)
                tab.screenshot(path=Path(__file__).parent / name)
                sys.stdout.write(f"docs/images/{name}\n")
                tab.close()
