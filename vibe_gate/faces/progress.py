"""Start a walk, and show its progress on stderr: one moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from vibe_gate.domain.escape import safe

if TYPE_CHECKING:
    from vibe_gate.review import Progress

T = TypeVar("T")

NAMES = {"change": "change", "checks": "checks", "judge": "judge", "seal": "bundle"}
"""Stage of the review -> the word that is shown."""


def is_lively(environ: Mapping[str, str]) -> bool:
    """True if stderr is a terminal that can redraw a line."""
    return sys.stderr is not None and sys.stderr.isatty() and environ.get("TERM", "") not in ("", "dumb")


@contextmanager
def shown(environ: Mapping[str, str], *, quiet: bool = False) -> Iterator[Progress]:
    """Yield a callable (stage, text) that shows the progress, unless `quiet`. The moving line is removed at the end."""
    if quiet:
        yield lambda stage, text: None
        return
    if not is_lively(environ):
        yield _plain
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stderr, no_color="NO_COLOR" in environ and environ["NO_COLOR"] != "", highlight=False)
    with console.status(Text("starting"), spinner="dots") as status:

        def move(stage: str, text: str) -> None:
            status.update(Text(_line(stage, text), overflow="ellipsis", no_wrap=True))

        yield move


def _line(stage: str, text: str) -> str:
    return f"{NAMES.get(stage, stage)}: {safe(text)}"


def _plain(stage: str, text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError):  # progress is not worth failing for
            sys.stderr.write(_line(stage, text) + "\n")
            sys.stderr.flush()


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
