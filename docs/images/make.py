"""Makes pictures of the terminal: `python docs/images/make.py`.

The README's is what `vibe-gate demo` prints, at a fixed time; that of `stats` is drawn of made-up
figures.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from importlib import resources
from io import StringIO
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from vibe_gate.context.review_request import ReviewRequest
from vibe_gate.domain.calibration import share
from vibe_gate.domain.change import Selection
from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.model_wire import Wire
from vibe_gate.faces.cli.demo import DATA, make_demo
from vibe_gate.report import verdict_screen
from vibe_gate.report.feedback import CriterionFeedback
from vibe_gate.report.statistics import AuthorRuns, Statistics, draw_statistics
from vibe_gate.run.review import review_around

WIDTH = 110
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def picture() -> str:
    """The verdict screen of the demo as SVG: the same bytes each time."""
    with tempfile.TemporaryDirectory() as folder, resources.as_file(DATA / "cassette") as cassette:
        make_demo(Path(folder) / "ledger")
        walk = review_around(
            ReviewRequest(Selection("commit"), wire=Wire("replay", cassette), definitions="HEAD~1"),
            start=Path(folder) / "ledger",
            environment=read_environment(os.environ),
            clock=lambda: NOON,
            progress=lambda stage, text: None,
        )
        done = asyncio.run(walk)
    # The end of a run id is a hash that covers the versions of what ran; the picture must outlive
    # those.
    run_id = re.sub(r"[0-9a-f]{8}$", "7c1e52d0", done.summary.run_id)
    summary = replace(done.summary, run_id=run_id)
    return drawing(
        "vibe-gate review --commit HEAD",
        verdict_screen.render_screen(summary, done.notes, WIDTH),
        WIDTH,
        "demo",
    )


def drawing(command: str, printed: Text, width: int, name: str) -> str:
    """A command ("" for none) and what it prints, as SVG."""
    console = Console(
        record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    if command:
        console.print(Text(f"$ {command}\n", style="bold"))
    console.print(printed)
    return console.export_svg(title="vibe-gate", unique_id=f"vibe-gate-{name}")


def figures() -> str:
    """What `vibe-gate stats` draws of a month of made-up runs."""
    feedback = [
        CriterionFeedback(
            "quality", name, found, right, wrong, found - right - wrong, share(right, right + wrong)
        )
        for name, found, right, wrong in (
            ("errors-not-swallowed", 14, 9, 2),
            ("names-are-clear", 6, 1, 4),
        )
    ]
    days = [
        ((NOON - timedelta(days=ago)).date().isoformat(), (ago * 7 + ago // 3) % 9)
        for ago in range(30, 0, -1)
    ]
    total = Statistics(
        runs=sum(runs for _, runs in days),
        outcomes={"pass": 90, "fail": 24, "inconclusive": 7, "approval": 3},
        usd=8.68,
        usd_by_day={day: runs * 0.07 for day, runs in days if runs},
        usd_by_model={"claude-sonnet-5": 6.92, "claude-haiku-5-5": 1.76},
        usd_by_rubric={"quality": 6.4, "payments": 2.28},
        findings={"kept": 17, "overridden": 3, "suppressed": 0},
        hits=41,
        misses=123,
        saved_usd=2.31,
        criteria=feedback,
        outcomes_by_day={
            day: {"pass": runs - runs // 4, "fail": runs // 4} for day, runs in days if runs
        },
        authors={"agent": AuthorRuns(85, 19, 6.3), "human": AuthorRuns(39, 5, 2.38)},
        agents={"Claude Code": AuthorRuns(53, 9, 3.6), "Codex": AuthorRuns(32, 10, 2.7)},
    )
    return drawing("vibe-gate stats", draw_statistics(total, 80), 80, "stats")


PICTURES = {"demo.svg": picture, "stats.svg": figures}

if __name__ == "__main__":
    for name, make in PICTURES.items():
        (Path(__file__).parent / name).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"docs/images/{name}\n")
