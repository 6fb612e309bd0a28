"""Tests of agents on the site: a cell for each time, how often each passed and what that cost, by
test and model.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from lxml import html
from written_runs import ATTACK

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.calibration import share
from vibe_gate.report.run_figures import RunFigures
from vibe_gate.report.site import Site, SiteRun, render_index_page
from vibe_gate.report.statistics import compute_statistics

FIRST = datetime(2026, 11, 27, 12, tzinfo=UTC)
KEY = "a" * 40
SONNET, HAIKU = "claude-sonnet-5", "claude-haiku-4-5"
FIX, READ = "test_fix.py::test_fix[empty]", "test_read.py::test_read"


def attempt(
    test: str, model: str, result: str, number: int, usd: float | None = 0.01, *judged: str
) -> list[SiteRun]:
    """The runs of one attempt: the agent's, and those of judges, by their outcomes."""
    runs: list[SiteRun] = []
    for at, outcome in enumerate(("pass", *judged)):
        run_id = f"{FIRST + timedelta(seconds=number):%Y%m%dT%H%M%S}{at:03d}Z-{number:08x}"
        first = runs[0].entry.run_id if runs else run_id
        tested = TestedRun(test=test, model=model, attempt=first, result=result, repetition=number, judges=at > 0,
                           usd=usd)  # fmt: skip
        entry = RunEntry(
            run_id, KEY, outcome=outcome, author="fixer", workflow="fixer", duration_ms=1_500
        )
        runs.append(SiteRun(entry, RunFigures(), page=f"runs/{run_id}-ab12.html", tested=tested))
    return runs


def session(*attempts: Sequence[SiteRun], **fields) -> Site:
    runs = sorted(
        (run for attempt_runs in attempts for run in attempt_runs),
        key=lambda run: run.entry,
        reverse=True,
    )
    return Site(
        tuple(runs),
        compute_statistics([run.entry for run in runs], {}, lambda entry: None),
        is_session=True,
        **fields,
    )


def results(
    test: str, model: str, words: str, numbers: count, usd: float = 0.01
) -> list[list[SiteRun]]:
    outcomes = {"+": "passed", "-": "failed", "?": "undecided", "E": "error"}
    return [attempt(test, model, outcomes[word], next(numbers), usd) for word in words]


@pytest.fixture
def site() -> Site:
    numbers = count(1)
    return session(
        *results(FIX, SONNET, "++-+?", numbers, 0.02),
        *results(FIX, HAIKU, "--E", numbers),
        *results(READ, SONNET, "++", numbers),
    )


def grid(page: html.HtmlElement) -> list[list[str]]:
    return [[cell.text_content() for cell in row] for row in page.xpath("//table[@id='grid']//tr")]


def figure(page: html.HtmlElement, name: str) -> list[list[str]]:
    return [
        [cell.text_content() for cell in row] for row in page.xpath(f"//figure[@id='{name}']//tr")
    ]


def interval(passed: int, decided: int) -> list[str]:
    ratio = share(passed, decided)
    assert ratio is not None
    return [
        f"{passed} of {decided}",
        f"{ratio.value:.0%}",
        f"{ratio.low:.0%} to {ratio.high:.0%}",
    ]


def test_a_test_is_a_row_a_model_a_column_and_an_attempt_a_link_to_its_page(site):
    page = html.fromstring(render_index_page(site))
    assert grid(page) == [
        ["Test", SONNET, HAIKU, "Passed", "Share", "95 % interval", "USD an attempt"],
        [FIX, "✓✓✗✓?3 of 4", "✗✗E0 of 2", *interval(3, 6), "0.0163"],
        [READ, "✓✓2 of 2", "", *interval(2, 2), "0.0100"],
        ["All", "5 of 6" + "{1} ({2})".format(*interval(5, 6)), "0 of 2" + "{1} ({2})".format(*interval(0, 2)),
         *interval(5, 8), "0.0150"],
    ]  # fmt: skip
    pages = {run.page for run in site.runs}
    marks = page.xpath("//a[starts-with(@class, 'attempt')]")
    assert {mark.get("href") for mark in marks} == pages
    assert marks[1].get("title") == "repetition 2: passed, $0.0200, 1.5 s"
    assert "2 tests: 1 passed, 1 failed." in page.text_content()


def test_the_pictures_tell_cost_against_pass_rate_and_lead_to_the_runs(site):
    page = html.fromstring(render_index_page(site))
    assert figure(page, "cost-and-rate")[1:] == [
        [SONNET, "2", *interval(5, 6), "0.0171", "0.1200"], [HAIKU, "1", *interval(0, 2), "0.0100", "0.0300"],
    ]  # fmt: skip
    assert [row[:2] for row in figure(page, "rate-by-test")[1:]] == [
        [FIX, "3 of 6"],
        [READ, "2 of 2"],
    ]
    titles = page.xpath("//figure[@id='cost-and-rate']//title/text()")
    assert titles[0] == f"{SONNET}: 5 of 6 passed (83%, 36% to 100%), $0.0171 an attempt"
    links = page.xpath("//figure//svg//a/@href")
    assert {f"#model={SONNET}", "#test=test_read.py%3A%3Atest_read"} <= {*links}
    assert "The models had different tests." in page.text_content()


def test_an_attempt_costs_what_its_agents_did_and_leads_to_the_judge_that_failed_it(site):
    page = html.fromstring(
        render_index_page(session(attempt(FIX, SONNET, "failed", 1, 0.5, "pass", "fail")))
    )
    (mark,) = page.xpath("//a[starts-with(@class, 'attempt')]")
    assert mark.get("title") == "failed, $0.5000, 4.5 s"
    assert mark.get("href").startswith("runs/20261127T120001002Z")
    assert figure(page, "cost-and-rate")[1][-2:] == ["0.5000", "0.5000"]
    unpriced = html.fromstring(render_index_page(session(attempt(FIX, SONNET, "failed", 1, None))))
    assert (figure(unpriced, "cost-and-rate"), grid(unpriced)[1][-1]) == ([], "")
    both_session = session(
        attempt(FIX, SONNET, "failed", 1, None), attempt(FIX, SONNET, "passed", 2)
    )
    assert figure(html.fromstring(render_index_page(both_session)), "cost-and-rate")[1][-2:] == [
        "0.0100",
        "0.0100 + ?",
    ]


def test_what_came_to_no_run_stands_with_the_models_of_the_test():
    numbers = count(1)
    bare = tuple(TestedRun(test=test, model="", attempt="0", result="undecided", repetition=2)
                 for test in (READ, "test_new.py::test_new"))  # fmt: skip
    site = session(*results(READ, SONNET, "+", numbers), without_runs=bare)
    assert [row[:3] for row in grid(html.fromstring(render_index_page(site)))] == [
        ["Test", SONNET, "no model"], ["test_new.py::test_new", "", "?"], [READ, "✓?1 of 1", ""],
        ["All", "1 of 1100% (3% to 100%)", ""],
    ]  # fmt: skip
    assert render_index_page(site) == render_index_page(
        session(*results(READ, SONNET, "+", count(1)), without_runs=bare[::-1])
    )


def test_no_attempt_and_a_store_without_tests_have_no_grid():
    page = html.fromstring(render_index_page(session()))
    assert page.xpath("//section/@id") == ["runs"]
    assert "No agent ran." in page.text_content()


def test_numbers_stand_by_their_value_and_long_ids_are_told_apart():
    names = [f"t.py::t[{number}]" for number in (10, 9)] + [
        f"t.py::t[{'x' * 400}{end}]" for end in "ab"
    ]
    site = session(*(attempt(name, SONNET, "passed", at) for at, name in enumerate(names)))
    test_names = [row[0] for row in grid(html.fromstring(render_index_page(site)))[1:-1]]
    assert test_names[:2] == ["t.py::t[9]", "t.py::t[10]"]
    assert [name[-5:] for name in test_names[2:]] == ["xxxx…", "… (2)"]


def test_names_of_others_are_text_cut_and_visible():
    hostile = f"t.py::t[{ATTACK}\ud800{'x' * 1_000_000}]"
    runs = attempt(hostile, ATTACK * 50, "passed", 1)
    text = render_index_page(
        session(
            runs, without_runs=(TestedRun(test=ATTACK, model=ATTACK, attempt="", result="error"),)
        )
    )
    assert len(text) < 100_000
    page = html.fromstring(text)
    assert page.xpath("//img") == []
    assert len(page.xpath("//script")) == 2
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert text.encode()
    dear = [
        attempt(READ, SONNET, "passed", number, 1e308) for number in (1, 2)
    ]  # infinity, added up
    assert "cost-and-rate" in render_index_page(session(*dear))
