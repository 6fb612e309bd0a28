"""What holds for every page with texts of others."""

from __future__ import annotations

from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def check(tab: Page, page: str, scheme: Literal["light", "dark"]) -> None:
    """Open the page in a theme, and all that folds: nothing of others runs or hides, and axe has
    nothing to say.
    """
    tab.emulate_media(color_scheme=scheme)
    tab.goto(page)
    for fold in tab.locator("summary").all():
        fold.click()
    assert tab.evaluate("window.ran") is None
    axe_result = Axe().run(tab)
    assert axe_result.violations_count == 0, axe_result.generate_report()
    assert "\u202e" not in tab.locator("body").inner_text()
