"""How long a large report takes to open in Chromium, and how many rows it builds: interleaved
loads, medians, a ratio.

    python bench/report.py [--files 200] [--lines 500] [--calls 500] [--parts 18] [--pairs 11]

Opening ends when the second frame after the load could be drawn; the empty page is opened the same
way. So is the page of a workflow of `parts` times 17 nodes, with the pictures of its graph and its
time and without. Needs chromium on PATH and the `test` extra.

Goals: it opens in less than a second, never holds more than 300 rows of a list, and pictures make it no more than
1.5 times slower.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "report")]

from drawn_runs import workflow  # noqa: E402 (a module of the tests)
from written_runs import write  # noqa: E402 (another)

from vibe_gate.domain.event import Graph  # noqa: E402
from vibe_gate.report.html import render_page  # noqa: E402
from vibe_gate.report.html import render_run_page as report_of  # noqa: E402
from vibe_gate.store.run_result import read_bundle  # noqa: E402

SECONDS_GOAL = 1.0
ROWS_GOAL = 300
PICTURES_GOAL = 1.5

DRAWN = (
    "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
)

LISTS = {"changes": ".code", "activity": ".events", "e=nodes/fix/turn-001": ".events"}
"""Places, and the list of each that is scrolled."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--parts", type=int, default=18)
    parser.add_argument("--pairs", type=int, default=11, help="after one to warm up")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report, empty, drawn, listed = (
            Path(name, f"{of}.html") for of in ("report", "empty", "drawn", "listed")
        )
        bundle = write(Path(name), files=args.files, lines=args.lines, calls=args.calls)
        report.write_text(asyncio.run(report_of(read_bundle(bundle))), "utf-8")
        empty.write_text("<!doctype html><title>empty</title>", "utf-8")
        graph = workflow(args.parts)
        drawn.write_text(render_page(graph), "utf-8")
        listed.write_text(render_page(replace(graph, graph=Graph(), times={})), "utf-8")
        print(
            f"{args.files} files of {args.lines} lines, {args.calls} calls: {report.stat().st_size / 1e6:.1f} MB"
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
            tab = browser.new_page(viewport={"width": 1400, "height": 900})
            opened = (report, empty, drawn, listed)
            times = [[opening(tab, file) for file in opened] for _ in range(args.pairs + 1)]
            times = times[1:] or times
            rows = {place: most_rows(tab, report, place, rows) for place, rows in LISTS.items()}
            browser.close()
    full, bare, pictures, tables = (statistics.median(each) for each in zip(*times, strict=True))
    print(
        f"opens in {full:.2f} s; an empty page in {bare:.2f} s: {full / bare:.1f} x  (goal: {SECONDS_GOAL} s)"
    )
    print(
        f"{len(graph.graph.nodes)} nodes: opens in {pictures:.2f} s; without its pictures {tables:.2f} s: "
        f"{pictures / tables:.2f} x  (goal: {PICTURES_GOAL} x)"
    )
    print(
        f"rows at once: {', '.join(f'{place} {count}' for place, count in rows.items())}  (goal: {ROWS_GOAL})"
    )
    slow = full > SECONDS_GOAL or pictures > PICTURES_GOAL * tables
    return int(slow or max(rows.values()) > ROWS_GOAL)


def opening(tab: Page, file: Path) -> float:
    """Seconds until a page can be read."""
    tab.goto("about:blank")
    began = time.perf_counter()
    tab.goto(file.as_uri())
    tab.evaluate(DRAWN)
    return time.perf_counter() - began


def most_rows(tab: Page, file: Path, place: str, rows: str) -> int:
    """The most rows that the page holds while a list is scrolled from its beginning to its end."""
    tab.goto("about:blank")
    tab.goto(f"{file.as_uri()}#{place}")
    tab.wait_for_selector(f"{rows} .rows > *")
    most = 0
    for part in range(11):
        tab.eval_on_selector(
            rows, "(list, part) => list.scrollTop = list.scrollHeight * part", part / 10
        )
        tab.evaluate(DRAWN)
        most = max(most, tab.locator(".rows > *").count())
    return most


if __name__ == "__main__":
    sys.exit(main())
