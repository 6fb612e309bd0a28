"""Tests of agents that are coroutines, run here if no other plugin takes them."""

from __future__ import annotations

import asyncio
import inspect

import pytest


def run_coroutine_test(item: pytest.Function) -> bool | None:
    """Run the test in an event loop of its own; None if it is no coroutine.

    pytest-asyncio in its default mode takes tests with its marker alone, and pytest fails those
    that nobody takes. What another plugin runs is no coroutine any more when this is called, or
    that plugin was called before.
    """
    if not inspect.iscoroutinefunction(item.obj):
        return None
    arguments = {}
    for name in item._fixtureinfo.argnames:
        arguments[name] = item.funcargs[name]
    asyncio.run(item.obj(**arguments))
    return True
