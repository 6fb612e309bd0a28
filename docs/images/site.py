"""Makes the pictures of the site of all runs, and of the index of tests: `python
docs/images/site.py` (needs Chromium and playwright).
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import sync_playwright

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.label import Label
from vibe_gate.report.run_figures import FoundFinding, RunFigures
from vibe_gate.report.site import Site, SiteRun, render_index_page
from vibe_gate.report.statistics import compute_statistics

RUNS, FIRST = 240, datetime(2026, 9, 28, 9, tzinfo=UTC)
CRITERIA = (
    "quality/errors-not-swallowed",
    "quality/names-are-clear",
    "payments/idempotent",
    "safety/no-secrets",
)
MODELS = {"claude-sonnet-5": 0.03, "claude-haiku-4-5": 0.008}
AGENTS = ("Claude Code", "Codex", "Cursor")
PEOPLE = ("Ada Berg", "Bo Lind", "Cem Kaya")
FILES = (
    "src/pay.py",
    "src/bank.py",
    "src/ledger.py",
    "src/config.py",
    "src/log.py",
    "docs/payments.md",
)
TITLES = (
    "Retry a payment that timed out",
    "Load configuration lazily",
    "Log what the bank answers",
    "Split the ledger",
)


def run(number: int, rng: random.Random) -> tuple[SiteRun, list[Label]]:
    """A made-up run, and what people said of its findings."""
    at = FIRST + timedelta(hours=number * 5.8 + rng.random())
    agent, key = rng.random() < 0.65, f"{rng.getrandbits(160):040x}"
    failed = [name for name in CRITERIA if rng.random() < 0.09]
    model = rng.choice(list(MODELS))
    usd = MODELS[model] * (0.5 + rng.random())
    marks = {name: f"{rng.getrandbits(64):016x}" for name in failed}
    found = [
        FoundFinding(marks[name], name.split("/")[1], "src/pay.py", (name,), (), "kept")
        for name in failed
    ]
    run_id, outcome = (
        f"{at:%Y%m%dT%H%M%S}000Z-{rng.getrandbits(32):08x}",
        "fail" if failed else "pass",
    )
    entry = RunEntry(
        run_id, key, "sealed", outcome, int(bool(failed)),
        "agent" if agent else "human", "review", head_commit=key, files=rng.randrange(1, 6), added=rng.randrange(4, 90),
        deleted=rng.randrange(40), findings=len(failed), cost_usd=usd, cost_basis="known",
        duration_ms=rng.randrange(4_000, 60_000), rubrics=(("quality", "pass"),),
        paths=("src/pay.py", rng.choice(FILES[1:])) if failed and rng.random() < 0.6 else (rng.choice(FILES),),
    )  # fmt: skip
    agents = (rng.choice(AGENTS),) if agent else ()
    figures = RunFigures(
        agents,
        {model: usd},
        hits=rng.randrange(3),
        misses=rng.randrange(1, 4),
        findings=tuple(found),
    )
    labels = [
        Label(
            ts=at, finding=one.fingerprint, rubric=one.sources[0].split("/")[0], criterion=one.criterion,
            right=rng.random() < 0.75, by="Ada <ada@example.com>", digest="", source="cli",
        )
        for one in found
        if rng.random() < 0.7
    ]  # fmt: skip
    page = f"runs/{entry.run_id}.html"
    return SiteRun(entry, figures, rng.choice(TITLES), page, person=rng.choice(PEOPLE)), labels


def site() -> Site:
    """Two months of runs, the same each time."""
    rng = random.Random(29)  # noqa: S311 - nothing is secret
    made = [run(number, rng) for number in range(RUNS)]
    runs = tuple(one for one, _ in reversed(made))
    labels = tuple(label for _, its in made for label in its)
    figures = {one.entry.run_id: one.figures for one in runs}
    total = compute_statistics(
        (one.entry for one in runs), {}, lambda entry: figures[entry.run_id], labels
    )
    return Site(runs, total, labels)


TESTS = {
    "test_ledger.py::test_an_empty_ledger_is_a_list": 1.0,
    "test_ledger.py::test_a_torn_line_is_told": 0.9,
    "test_ledger.py::test_the_fixer_changes_the_source_alone": 0.75,
    "test_payments.py::test_a_payment_is_sent_once[timeout]": 0.5,
    "test_payments.py::test_a_payment_is_sent_once[refused]": 0.85,
    "test_payments.py::test_amounts_are_rounded_to_cents": 0.95,
    "test_review.py::test_the_repair_meets_the_rubric": 0.7,
}
"""How often a good model passes them."""

UNDER_TEST = {
    "claude-opus-5": (0.06, 0.98),
    "claude-sonnet-5": (0.02, 0.9),
    "claude-haiku-4-5": (0.006, 0.62),
}
"""US dollars, and how good a model is."""


def session() -> Site:
    """Seven tests, three models, five repetitions; the same each time."""
    rng, runs, number = random.Random(7), list[SiteRun](), 0  # noqa: S311 - nothing is secret
    for test, ease in TESTS.items():
        for model, (usd, skill) in UNDER_TEST.items():
            for repetition in range(1, 6):
                number += 1
                at, paid = FIRST + timedelta(seconds=number * 4), usd * (0.6 + rng.random())
                run_id = f"{at:%Y%m%dT%H%M%S}000Z-{rng.getrandbits(32):08x}"
                result = "passed" if rng.random() < ease * skill else "failed"
                tested = TestedRun(
                    test=test,
                    model=model,
                    attempt=run_id,
                    result=result,
                    repetition=repetition,
                    usd=paid,
                )
                entry = RunEntry(
                    run_id, "0" * 40, outcome="pass", author="fixer", workflow="fixer", files=1,
                    added=rng.randrange(9), deleted=rng.randrange(5), cost_usd=paid, cost_basis="known",
                    duration_ms=rng.randrange(3_000, 40_000),
                )  # fmt: skip
                runs.append(
                    SiteRun(entry, RunFigures(usd_by_model={model: paid}), page="", tested=tested)
                )
    runs.reverse()
    return Site(
        tuple(runs),
        compute_statistics([run.entry for run in runs], {}, lambda entry: None),
        is_session=True,
    )


PICTURES = {"site.png": (site, 1500), "tests.png": (session, 940)}
"""Names, what they show, and how high they are."""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (made, height) in PICTURES.items():
            index = Path(place, "index.html")
            index.write_text(render_index_page(made()), encoding="utf-8")
            tab = browser.new_page(viewport={"width": 1200, "height": height})
            tab.goto(index.as_uri())
            tab.screenshot(path=Path(__file__).parent / name)
            sys.stdout.write(f"docs/images/{name}\n")
