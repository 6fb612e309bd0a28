"""Start a walk, and show its progress on stderr: a line for each stage at work on a terminal, plain
lines elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from inspect import CO_COROUTINE
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from vibe_gate.context.listeners import unheard
from vibe_gate.domain.environment import Environment
from vibe_gate.domain.escape import safe

if TYPE_CHECKING:
    from rich.text import Text

    from vibe_gate.context.listeners import Meter, Progress, StageStep, Tick

T = TypeVar("T")

NAMES = {"change": "change", "checks": "checks", "judge": "judge", "seal": "bundle"}
"""Stage of the review -> the word that is shown."""


def is_lively(environment: Environment) -> bool:
    """True if stderr is a terminal that can redraw a line."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and environment.terminal.can_redraw


class ProgressDisplay(Struct, frozen=True):
    """How a walk is shown while it runs."""

    show: Progress
    """Shows the stages of the walk."""
    tick: Tick | None
    """Shows stages that have not begun, and each step of their agents."""
    meter: Meter | None
    """Shows what they cost."""
    aside: Callable[[], AbstractContextManager[object]]
    """A question is asked within it."""


@contextmanager
def display_progress(
    environment: Environment, *, quiet: bool = False, of_workflow: bool = False
) -> Iterator[ProgressDisplay]:
    """Show the stages of a review, or `of_workflow`, while it runs, unless `quiet`.

    On a terminal a line stands for each stage that runs, with its time, tokens, cost and step, and
    is gone at the end; elsewhere each begins and ends with a line, in CI with the time since the
    start.
    """
    if quiet or not is_lively(environment):
        yield ProgressDisplay(_line_progress(environment, quiet=quiet), None, None, nullcontext)
        return
    from rich.console import Console
    from rich.live import Live

    running = RunningStages(of_workflow=of_workflow)
    console = Console(stderr=True, highlight=False)
    with Live(running, console=console, transient=True, refresh_per_second=4) as live:

        @contextmanager
        def aside() -> Iterator[None]:
            """Nothing moves on the screen meanwhile."""
            live.stop()
            try:
                yield
            finally:
                live.start(refresh=True)

        yield ProgressDisplay(running.show, running.tick, running.meter, aside)


def _line_progress(environment: Environment, *, quiet: bool) -> Progress:
    """Lines where nothing can be redrawn."""
    if quiet:
        return unheard
    if environment.in_ci:
        return _timed(time.monotonic())
    return _plain


@contextmanager
def counting(total: int, environment: Environment) -> Iterator[Callable[[], object]]:
    """On a terminal a bar of `total` tasks, with their rate and the time left; call what is given
    for each that ends.

    What is printed meanwhile stands above it.
    """
    if not (total and is_lively(environment)):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:  # noqa: ANN401
            return Text(f"{task.speed:.1f}/s" if task.speed else "")

    with Progress(
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False),
        transient=True,
        speed_estimate_period=_RATE_S,
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


class RunningStages:
    """The lines of stages that run: a workflow's until they said how they ended, a review's until
    the next begins.

    A workflow's first is no stage, but the reading of the change. Its stages may have the names of
    a review's.
    """

    def __init__(self, *, of_workflow: bool = False) -> None:
        self._of_workflow, self._heard = of_workflow, 0
        self._began: dict[str, float] = {}
        self._text: dict[str, str] = {}
        self._ready: dict[str, None] = {}
        """Stages that have not begun."""
        self._spent: dict[str, Spent] = {}

    def show(self, stage: str, text: str) -> None:
        """A stage begins, goes on or comes to its end."""
        if not self._of_workflow:
            self._forget(*self._text.keys() - {stage})
        elif self._heard == 1:
            self._forget(*self._text)
        self._heard += 1
        self._ready.pop(stage, None)
        self._began.setdefault(stage, time.monotonic())
        self._text[stage] = text

    def tick(self, step: StageStep) -> None:
        """A stage is to come or has ended, or the agent of one has made a step."""
        if step.kind == "ready":
            self._ready[step.node] = None
        elif step.kind == "ended":
            self._forget(step.node)
        else:
            self.show(step.node, str(step))

    def _forget(self, *stages: str) -> None:
        for stage in stages:
            del self._text[stage], self._began[stage]

    def meter(self, node: str, tokens: int, usd: float) -> None:
        """A model answered, in a conversation of this node."""
        self._spent[node] = self._spent.get(node, Spent()).add(tokens, usd)

    def __rich__(self) -> Text:
        from rich.text import Text

        now, texts = (
            time.monotonic(),
            dict(self._text),
        )  # this is another thread than those that show
        spent = spent_by(texts, dict(self._spent), "" if self._of_workflow else "judge")
        lines = [
            f"{_elapsed(now - self._began.get(stage, now))}  {spent.get(stage, '')}{_line(stage, text)}"
            for stage, text in texts.items()
        ]
        if ready := ", ".join(map(safe, list(self._ready))):
            lines.append(f"{' ' * len(_elapsed(0))}  ready: {ready}")
        return Text("\n".join(lines), overflow="ellipsis", no_wrap=True)


class Spent(Struct, frozen=True):
    """Tokens and USD."""

    tokens: int = 0
    usd: float = 0.0

    def add(self, tokens: int, usd: float) -> Spent:
        """With one answer more."""
        return Spent(self.tokens + tokens, self.usd + usd)

    def __str__(self) -> str:
        tokens = f"{self.tokens:,}" if self.tokens < 10_000 else f"{self.tokens / 1000:,.1f}k"
        return f"{tokens:>6} tokens ${self.usd:.4f}  "


def spent_by(stages: Iterable[str], spent: Mapping[str, Spent], other: str) -> dict[str, Spent]:
    """What stages spent, by nodes: a stage's own, and those whose names begin with its; `other`
    spent the rest.
    """
    stage_names, total = list(stages), dict[str, Spent]()
    for node, node_spent in spent.items():
        stage = max(
            (name for name in stage_names if f"{node}-".startswith(f"{name}-")),
            key=len,
            default=other,
        )
        total[stage] = total.get(stage, Spent()).add(node_spent.tokens, node_spent.usd)
    return total


_RATE_S = 300.0
"""Over which the rate of many tasks is taken: a judge may take a minute for one."""


def _line(stage: str, text: str) -> str:
    return f"{NAMES.get(stage, stage)}: {safe(text)}"


def _plain(stage: str, text: str) -> None:
    _write(_line(stage, text))


def _write(line: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError):  # progress is not worth failing for
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _timed(start: float) -> Progress:
    """Plain lines that say when."""

    def show(stage: str, text: str, /) -> None:
        _write(f"{_elapsed(time.monotonic() - start)}  {_line(stage, text)}")

    return show


def _elapsed(seconds: float) -> str:
    return f"{seconds:5.0f} s"


MOST_NESTED = 10
"""Tasks of which each waits for the next; there are five."""

HANDED_ON_S = 5.0
"""How long Ctrl-C may take from the task that it ended to the walk: each task on the way ends its
processes first.
"""


def run_walk(walk: Coroutine[Any, Any, T]) -> T:
    """The result of a walk, in this process and to its end.

    It runs without an event loop until it first waits (with `asyncio.sleep(0)`, just before a judge
    is asked), and is then handed to one: most reviews at a commit never wait, and `asyncio` takes
    as long to load as their checks.
    """
    try:
        walk.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return run_in_loop(walk)


def run_in_loop(walk: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, for a walk that Ctrl-C may end inside of one of its tasks.

    Only the walk itself is cancelled then, and passes that on to its tasks. `asyncio.run` cancels
    all at once, those of a task group for a second time through their group: that interrupts what
    ends their processes. A task that Ctrl-C ended hands it to the one that waits for it, which ends
    its others, and each time it leaves the loop; so the walk is cancelled only if that does not end
    it. Where `asyncio.run` gives up, tasks would be ended with the interpreter, and wait for
    threads that are gone. Nobody asks such a task how it ended, and asyncio would print its
    traceback below our sentence.
    """
    import asyncio

    def on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(on_error)
        task = loop.create_task(walk)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt as stop:
            loop.call_later(HANDED_ON_S if _is_of_a_task(stop) else 0, task.cancel)
            for _ in range(MOST_NESTED):
                if not task.done():  # one that Ctrl-C ended does not stop the loop
                    with suppress(BaseException):  # a second Ctrl-C, too
                        loop.run_until_complete(task)
            raise


def _is_of_a_task(error: BaseException) -> bool:
    """Whether it was raised in a coroutine, and not between two steps of the event loop."""
    return any(frame.f_code.co_flags & CO_COROUTINE for frame, _ in walk_tb(error.__traceback__))
