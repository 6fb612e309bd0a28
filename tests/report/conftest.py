"""A tab for tests of pages; each module starts its own browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 100_000
"""For what a page is to become, where others use the machine."""


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Page]:
    """The tab that a module's tests look at one after the other: a new one is two processes."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


@pytest.fixture
def tab(window: Page) -> Iterator[Page]:
    """An empty tab in which nothing may go wrong, and nothing may be asked of a network."""
    faults: list[str] = []
    listeners = {
        "console": lambda message: faults.append(message.text),
        "pageerror": lambda error: faults.append(str(error)),
        "request": lambda request: (
            None if request.url.startswith(("file:", "about:")) else faults.append(request.url)
        ),
    }
    window.goto("about:blank")
    window.set_viewport_size({"width": 1300, "height": 800})
    window.emulate_media(media="screen", color_scheme="light")
    for event, listener in listeners.items():
        window.on(event, listener)  # type: ignore[call-overload]
    yield window
    for event, listener in listeners.items():
        window.remove_listener(event, listener)
    assert not faults


@pytest.fixture(scope="module")
def bare(browser: Browser) -> Iterator[Page]:
    """A tab without scripts."""
    context = browser.new_context(
        java_script_enabled=False, viewport={"width": 1300, "height": 900}
    )
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()
