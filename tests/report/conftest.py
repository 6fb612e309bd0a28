"""A tab for tests of pages; each module starts its own browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 100_000
"""For what a page is to become, where others use the machine."""


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in which nothing may go wrong, and nothing may be asked of a network."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    context = browser.new_context(viewport={"width": 1300, "height": 800}, color_scheme="light")
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on(
        "request", lambda asked: None if asked.url.startswith("file:") else faults.append(asked.url)
    )
    yield opened
    context.close()
    assert not faults
