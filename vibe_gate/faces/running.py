"""Awaiting what is asynchronous, for faces that are not: the one place that starts an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(walk: Coroutine[Any, Any, T]) -> T:
    """The result of a walk, in this process and to its end.

    It runs without an event loop until it first waits (with `asyncio.sleep(0)`, just before a judge is asked), and is
    then handed to one: most reviews at a commit never wait, and `asyncio` takes as long to load as their checks.
    """
    try:
        walk.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    import asyncio

    return asyncio.run(walk)
