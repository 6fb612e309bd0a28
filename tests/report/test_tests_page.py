"""The table of tests in Chromium: sorted, filtered, led to by pictures; by mouse, keyboard and
reader of screens.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from checked_page import check
from playwright.sync_api import Browser, Page, expect, sync_playwright
from test_tests import FIX, HAIKU, READ, SONNET, attempt, results, session
from written_runs import ATTACK

from vibe_gate.domain.attempt import TestedRun
from vibe_gate.report.site import Site, render_index_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed here"),
]

OPUS = "claude-opus-5"


def small(attack: str = "") -> Site:
    numbers = count(1)
    fix, read, new = (f"{name}{attack}" for name in (FIX, READ, "test_new.py::test_new"))
    sonnet = f"{SONNET}{attack}"
    return session(
        *results(fix, sonnet, "++-+?", numbers, 0.02),
        *results(fix, HAIKU, "--E", numbers),
        *results(read, sonnet, "++", numbers),
        attempt(read, HAIKU, "failed", next(numbers), 0.01, "fail"),
        without_runs=(TestedRun(test=new, model="", attempt="0", result="skipped"),),
    )


def many() -> Site:
    numbers = count(1)
    words = ("+++++", "++-+-", "-----")
    models = (SONNET, HAIKU, OPUS)
    return session(
        *(runs for at in range(500) for shift, model in enumerate(models)
          for runs in results(f"tests/test_{at // 20}.py::test_case[{at}]", model, words[(at + shift) % 3], numbers))
    )  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tests")
    sites = {"small": small(), "hostile": small(ATTACK), "many": many(), "none": session()}
    for name, site in sites.items():
        (folder / f"{name}.html").write_text(render_index_page(site), "utf-8")
    for run in sites["small"].runs:
        (folder / "runs").mkdir(exist_ok=True)
        (folder / run.page).write_text(f"the page of {run.entry.run_id}", "utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in sites}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"))


def names(tab: Page) -> list[str]:
    return tab.locator("#grid tbody tr:visible td:first-child").all_inner_texts()


def test_heads_sort_and_fields_filter_the_tests(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["small"])
    assert names(tab) == [FIX, "test_new.py::test_new", READ]
    share = tab.locator("#grid").get_by_role("button", name="Share")
    share.focus()
    tab.keyboard.press("Enter")
    assert names(tab) == [FIX, READ, "test_new.py::test_new"], "what has no share stays last"
    expect(tab.locator("#grid th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    tab.keyboard.press("Enter")
    assert names(tab) == [READ, FIX, "test_new.py::test_new"]
    tab.locator("#grid").get_by_role("button", name="Test", exact=True).click()
    tab.get_by_label("State of the test").select_option("failed")
    assert names(tab) == [FIX, READ]
    tab.get_by_label("Filter tests").fill("READ")
    assert names(tab) == [READ]
    expect(tab.locator("#tests-tools")).to_contain_text("1 of 3 tests")


def test_a_mark_opens_the_page_of_its_run_and_a_figure_lists_the_runs_behind_it(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(pages["small"])
    expect(tab.locator(".told")).to_contain_text(
        "12 runs: 5 failed, 5 passed, 1 error, 1 undecided"
    )
    expect(tab.locator("#cost-and-rate a title").first).to_contain_text(
        f"{SONNET}: 5 of 6 passed (83%, 36% to 100%)"
    )
    tab.locator("#cost-and-rate circle").last.click()
    expect(tab.locator(".told")).to_contain_text("5 of 12 runs: 4 failed, 1 error")
    assert tab.evaluate("location.hash") == f"#model={HAIKU}"
    tab.locator("#grid").get_by_role("link", name=READ).click()
    expect(tab.locator(".told")).to_contain_text("4 of 12 runs: 2 failed, 2 passed")
    tab.get_by_label("Result", exact=True).select_option("failed")
    expect(tab.locator(".told")).to_contain_text("2 of 12 runs: 2 failed")
    tab.get_by_role("button", name=f"Remove the filter test: {READ}").click()
    expect(tab.locator(".told")).to_contain_text("5 of 12 runs: 5 failed")
    marks = tab.locator("#grid tbody tr").filter(has_text="test_read").locator("a.attempt.failed")
    marks.click()
    assert "the page of 20261127T120011001Z" in tab.content(), "of the judge, whose run failed"
    tab.go_back()
    tab.locator("#list tbody a").first.click()
    assert "the page of " in tab.content()


@pytest.mark.parametrize("name", ["small", "hostile", "none"])
def test_nothing_of_others_runs_and_axe_has_nothing_to_say(
    tab: Page, pages: dict[str, str], name: str
) -> None:
    check(tab, pages[name], "light", "dark")


def test_it_can_be_read_without_scripts_and_printed(
    bare: Page, tab: Page, pages: dict[str, str]
) -> None:
    for name in ("small", "hostile"):
        bare.goto(pages[name])
        tab.goto(pages[name])
        for rows in ("#grid tbody tr", "#list tbody tr"):
            assert bare.locator(rows).all_inner_texts() == tab.locator(rows).all_inner_texts()
        expect(bare.locator("#rate-by-test svg circle").first).to_be_visible()
    tab.emulate_media(media="print")
    expect(tab.locator("#tests-tools")).to_be_hidden()
    expect(tab.locator("#grid")).to_be_visible()


def test_five_hundred_tests_of_three_models_five_times_each(
    tab: Page, pages: dict[str, str]
) -> None:
    assert Path(pages["many"].removeprefix("file://")).stat().st_size < 5_000_000
    tab.goto(pages["many"])
    assert (
        tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        < 5_000
    )
    expect(tab.locator(".told")).to_contain_text("7,500 runs: 4,000 passed, 3,500 failed")
    assert tab.locator("#grid a.attempt").count() == 7_500
    tab.get_by_label("State of the test").select_option("failed")
    expect(tab.locator("#grid tbody tr:visible")).to_have_count(500)
    tab.get_by_label("Filter tests").fill("case[49")
    expect(tab.locator("#tests-tools")).to_contain_text("11 of 500 tests")
    tab.set_viewport_size({"width": 794, "height": 1123})  # A4
    tab.emulate_media(media="print")
    assert tab.evaluate("document.getElementById('grid').offsetWidth") < 794
