"""What holds for every page with texts of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

COLOURS = ("color-contrast",)
"""The rules whose findings can differ between two themes, which differ in colours alone."""


def check(tab: Page, page: str, *schemes: Literal["light", "dark"]) -> None:
    """Open the page, and all that folds, and look at it in these themes: nothing of others runs or
    hides, and axe has nothing to say.
    """
    tab.emulate_media(color_scheme=schemes[0])
    tab.goto(page)
    tab.locator("summary").evaluate_all("folds => folds.forEach(fold => fold.click())")
    assert tab.evaluate("window.ran") is None
    assert find_violations(tab) == []
    for scheme in schemes[1:]:
        tab.emulate_media(color_scheme=scheme)
        assert find_violations(tab, COLOURS) == []
    assert "\u202e" not in tab.locator("body").inner_text()


def find_violations(tab: Page, rules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What axe says against the page as it stands, by all rules unless some are named."""
    if not tab.evaluate("'axe' in window"):
        tab.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    violations: list[dict[str, Any]] = tab.evaluate(
        "options => axe.run(document, options).then(results => results.violations)", options
    )
    return violations
