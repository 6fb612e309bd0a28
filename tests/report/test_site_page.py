"""The index of a site in Chromium: sorted, filtered, led to by pictures; by mouse, keyboard and
reader of screens.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_page import check
from playwright.sync_api import Browser, Page, expect, sync_playwright
from summaries import summary
from test_site import BOTH, entry, failed, label, site_of
from written_runs import ATTACK

from vibe_gate.domain.summary import Cost
from vibe_gate.receipts.commit_status import ChangeIdentity, CommitStatus
from vibe_gate.receipts.verify_range import Verification
from vibe_gate.report.site import Site, render_index_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed here"),
]

MANY = 10_000

PRINTED = 1_000
"""How many rows are on paper at most."""


def small(attack: str = "") -> Site:
    runs = [
        (
            entry(
                number,
                cost_usd=number / 10,
                cost_basis="known",
                duration_ms=number * 100,
                added=number,
            ),
            summary(),
        )
        for number in range(3, 8)
    ]
    commits = tuple(
        (
            ChangeIdentity(name * 40, "", "", "", title=f"title {name}{attack}"),
            CommitStatus(word, why=f"why{attack}"),
        )
        for name, word in (("a", "reviewed"), ("b", "missing"))
    )
    model = f"m{attack}"
    odd = (
        entry(33, cost_usd=1.0, author="agent"),
        summary(cost=Cost(usd=1.0, basis="known", by_model={model: 1.0})),
    )
    paths = ("src/pay/a.py", "docs/a.md", f"b{attack}.md")
    late = entry(40, outcome="fail", author="agent", cost_usd=0.25, duration_ms=3_000, paths=paths)
    return site_of(
        *BOTH, odd, *runs, (late, failed("f" * 16)), labels=[label(right=False)], title=f"a title{attack}",
        commits="HEAD", people={late.run_id: f"Ada{attack}"},
        coverage=Verification(commits, "", "", strict=False),
    )  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("site")
    many = site_of(*((entry(at % 400, outcome="fail" if at % 9 == 0 else "pass", cost_usd=at / 1e4), summary())
                     for at in range(MANY)), title="a title of a commit, as long as people write them")  # fmt: skip
    printed = site_of(*((entry(at % 400), summary()) for at in range(PRINTED + 200)))
    sites = {"small": small(), "hostile": small(ATTACK), "many": many, "printed": printed}
    for name, site in sites.items():
        (folder / f"{name}.html").write_text(render_index_page(site), "utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in sites}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"))


def column(tab: Page, number: int) -> list[str]:
    return tab.locator(f"#list tbody td:nth-child({number})").all_inner_texts()


def test_a_bar_leads_to_its_runs_and_back(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["small"])
    expect(tab.locator(".told")).to_contain_text("9 runs: 7 pass, 2 fail")
    tab.locator("#runs-over-time rect.fail").last.click()
    expect(tab.locator(".told")).to_contain_text("1 of 9 runs: 1 fail · $0.2500 (a-model $0.2500)")
    expect(tab.locator("#runs h2")).to_be_in_viewport()
    expect(tab.locator("#list tbody tr")).to_have_count(1)
    assert column(tab, 2) == ["fail"]
    tab.get_by_role("button", name="Remove the filter 2026-11-14").click()
    expect(tab.locator(".told")).to_contain_text("2 of 9 runs")
    tab.go_back()
    expect(tab.locator(".told")).to_contain_text("1 of 9 runs")
    tab.get_by_role("button", name="all runs").click()
    expect(tab.locator(".told")).to_contain_text("9 runs: 7 pass")


def test_the_figures_below_a_picture_lead_there_for_the_keyboard(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(pages["small"])
    fold = tab.locator("#findings summary")
    fold.focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "quality/types"
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    expect(tab.locator(".told")).to_contain_text("1 of 9 runs")
    assert tab.evaluate("location.hash") == "#criterion=quality%2Ftypes&said=wrong"
    expect(tab.get_by_role("button", name="Remove the filter said: wrong")).to_be_visible()
    assert tab.locator("svg a[tabindex='-1']").count() == tab.locator("svg a").count() > 0


def test_heads_sort_and_say_so(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["small"])
    times = column(tab, 1)
    assert times == sorted(times, reverse=True)
    cost = tab.get_by_role("button", name="USD")
    cost.focus()
    tab.keyboard.press("Enter")
    head = tab.locator("th:has-text('USD')")
    expect(head).to_have_attribute("aria-sort", "descending")
    costs = [float(text) for text in column(tab, 7)]
    assert costs == sorted(costs, reverse=True)
    expect(tab.locator("th[aria-sort]")).to_have_count(1)
    tab.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert [float(text) for text in column(tab, 7)] == sorted(costs)
    assert tab.evaluate("location.hash") == "#sort=usd"
    expect(cost).to_be_focused()


def test_fields_filter_and_the_address_keeps_it(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["small"])
    tab.get_by_label("Filter runs").fill("claude code")
    expect(tab.locator(".told")).to_contain_text("2 of 9 runs")
    tab.get_by_label("Outcome", exact=True).select_option("fail")
    tab.get_by_label("From", exact=True).fill("2026-11-14")
    expect(tab.locator(".told")).to_contain_text("1 of 9 runs")
    tab.reload()
    expect(tab.locator(".told")).to_contain_text("1 of 9 runs")
    expect(tab.get_by_label("Filter runs")).to_have_value("claude code")
    tab.goto(f"{pages['small']}#outcome=nothing&from=%E0&x=y")
    expect(tab.locator(".told")).to_contain_text("0 of 9 runs")
    tab.goto(f"{pages['small']}#commits-reviewed")
    expect(tab.locator("#commits-reviewed")).to_contain_text("title a")
    expect(tab.locator("#commits-reviewed table")).to_be_visible()


def test_ten_thousand_runs_scroll(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["many"])
    assert Path(pages["many"].removeprefix("file://")).stat().st_size < 5_000_000
    assert (
        tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        < 5_000
    )
    expect(tab.locator(".told")).to_contain_text("10,000 runs: 8,888 pass, 1,112 fail")
    assert 0 < tab.locator("#list tbody tr").count() <= 400
    expect(tab.locator("#told")).not_to_contain_text("The newest")
    for most in (400, 600, 800):
        tab.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(tab.locator("#list tbody tr").nth(most - 1)).to_be_attached()
    tab.get_by_role("button", name="USD").click()
    expect(tab.locator("#list tbody td:nth-child(7)").first).to_have_text("0.9999")


@pytest.mark.parametrize(
    ("name", "scheme"), [("small", "light"), ("hostile", "dark")]
)  # axe takes a second for each
def test_nothing_of_others_runs_and_axe_has_nothing_to_say(
    tab: Page, pages: dict[str, str], name: str, scheme
) -> None:
    check(tab, pages[name], scheme)
    tab.get_by_label("Model", exact=True).select_option(index=2)
    expect(tab.locator(".told")).to_contain_text("1 of 9 runs")


def test_it_can_be_read_without_scripts_and_printed(
    bare: Page, tab: Page, pages: dict[str, str]
) -> None:
    bare.goto(pages["printed"])
    expect(bare.locator("#list tbody tr")).to_have_count(300)
    expect(bare.locator("#told")).to_contain_text("The newest 300; scripts show all")
    expect(bare.locator("#runs-over-time svg rect").first).to_be_visible()
    tab.goto(pages["small"])
    static = [row.inner_text() for row in tab.locator("#list tbody tr").all()]
    tab.emulate_media(media="print")
    expect(tab.get_by_label("Filter runs")).to_be_hidden()
    expect(tab.locator(".told")).to_be_visible()
    expect(tab.get_by_label("Outcome", exact=True)).to_be_hidden()
    expect(tab.get_by_label("From", exact=True)).to_be_hidden()
    tab.goto(f"{pages['small']}#outcome=fail")
    expect(tab.get_by_label("Outcome", exact=True)).to_be_visible()
    expect(tab.locator("#runs-over-time svg")).to_be_visible()
    assert len(static) == 9
    tab.goto(pages["printed"])
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("#list tbody tr").count() == PRINTED
    assert tab.locator("#list + div").inner_text() == "200 more"


def test_filters_join_and_what_they_leave_is_added_up(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["small"])
    tab.get_by_label("Person").select_option("Ada")
    tab.get_by_label("File or folder").fill("src/pay")
    tab.get_by_label("Outcome", exact=True).select_option("fail")
    expect(tab.locator(".told")).to_have_text(
        "1 of 9 runs: 1 fail · $0.2500 (a-model $0.2500) · median 3.0 s of 1 review that asked a model"
    )
    assert column(tab, 3) == ["Ada (Claude Code)"]
    assert tab.evaluate("location.hash") == "#outcome=fail&person=Ada&path=src%2Fpay"
    tab.get_by_role("button", name="all runs").click()
    tab.get_by_label("Filter runs").fill("ada src/pay/ fail")
    expect(tab.locator(".told")).to_contain_text("1 of 9 runs: 1 fail")
    tab.get_by_role("button", name="all runs").click()
    tab.get_by_label("From", exact=True).focus()
    tab.keyboard.type("11092026")
    tab.get_by_label("To", exact=True).fill("2026-11-15")
    tab.get_by_label("Model", exact=True).select_option("a-model")
    expect(tab.locator(".told")).to_contain_text(
        "1 of 9 runs: 1 fail · a-model $0.2500 of $0.2500 · median"
    )
    tab.reload()
    expect(tab.get_by_label("From", exact=True)).to_have_value("2026-11-09")
    assert tab.evaluate("location.hash") == "#model=a-model&from=2026-11-09&to=2026-11-15"


def test_on_a_phone_nothing_is_wider_than_the_screen(tab: Page, pages: dict[str, str]) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    for name in ("small", "hostile"):
        tab.goto(pages[name])
        assert tab.evaluate("document.documentElement.scrollWidth") == 400
    tab.goto(pages["small"])
    box = tab.locator("#list tbody tr").first.bounding_box()
    assert box is not None and box["height"] < 130


def test_a_row_is_the_same_with_scripts_and_without(
    bare: Page, tab: Page, pages: dict[str, str]
) -> None:
    bare.goto(pages["hostile"])
    tab.goto(pages["hostile"])
    rows = "#list tbody tr"
    assert tab.locator(rows).all_inner_texts() == bare.locator(rows).all_inner_texts()
