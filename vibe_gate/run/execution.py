"""One agent on its own: started at once, awaited, watched, stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from datetime import datetime
from pathlib import Path

from vibe_gate.agent import Stop
from vibe_gate.checks.conduct_checks import describe_capture_gaps
from vibe_gate.context.deadline import DeadlineReached
from vibe_gate.domain.escape import safe
from vibe_gate.errors import AgentFailed, StorageError, UsageError
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.stage_request import Watcher
from vibe_gate.secrets import Redactor
from vibe_gate.store.run_result import RunResult, read_bundle, read_ended_turn

NO_TIME = "The time was used up before the agent's session began; give it more."
"""Of a turn that was not begun."""


class AgentExecution:
    """An agent at work. `await` gives its turn's RunResult; asyncio.gather takes it as it is.

    Awaiting raises what a watcher raised, with the turn's RunResult as its `result`, and
    GateErrors.
    """

    def __init__(
        self,
        begin: Callable[[list[Watcher], Stop], Awaitable[WorkflowRun]],
        redact: Redactor,
        clock: Callable[[], datetime],
    ) -> None:
        """`redact` and `clock` are for annotations of the result, as of read_bundle."""
        self._redact = redact
        self._clock = clock
        self._watchers: list[Watcher] = []
        self._stop = Stop()
        self.result: RunResult | None = None
        """The turn's, once it has ended and was recorded."""
        self.run: WorkflowRun | None = None
        """The whole run, once it has ended."""
        try:
            self._task = asyncio.get_running_loop().create_task(self._run_agent(begin))
        except RuntimeError:
            raise UsageError(
                "run_agent needs a running event loop: call it inside of `async def`."
            ) from None

    def __await__(self) -> Generator[object, None, RunResult]:
        return self._task.__await__()

    def watch(self, watcher: Watcher) -> AgentExecution:
        """Call `watcher` with each step of the agent before it goes on; what it raises stops the
        agent.
        """
        self._watchers.append(watcher)
        return self

    def abort(self, reason: str) -> None:
        """Stop the agent within one tool call; its status is "aborted", and its bundle whole."""
        self._stop.abort(reason)
        # Nobody need await it now.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    async def _run_agent(
        self, begin: Callable[[list[Watcher], Stop], Awaitable[WorkflowRun]]
    ) -> RunResult:
        try:
            self.run = await begin(self._watchers, self._stop)
        except DeadlineReached as error:
            raise AgentFailed(NO_TIME, "timeout") from error
        if not self.run.results:  # the deadline ended the run before the agent's stage
            raise AgentFailed(f"{self.run.problem} {NO_TIME}".strip(), "timeout")
        (stage,) = self.run.results
        self.result = None
        if stage.bundle:
            self.result = self._read_turn(self.run, stage.bundle)
        if stage.error is not None:
            stage.error.result = self.result  # type: ignore[attr-defined]
            raise stage.error
        if self.result is not None:
            return self.result
        if stage.status == "timeout":
            raise AgentFailed(f"{stage.node}: {stage.reason} {NO_TIME}", stage.status)
        raise StorageError(" ".join(self.run.review.notes) or "The agent's turn was not recorded.")

    def _read_turn(self, run: WorkflowRun, folder: Path) -> RunResult:
        """The turn; what of it was not recorded is logged as a warning. StorageError."""
        unrecorded = run.review.unrecorded
        result = read_ended_turn(
            folder, redact=self._redact, clock=self._clock, unrecorded=unrecorded
        )
        if unrecorded:
            _warn(unrecorded)
        elif not result.hook_capture_status.complete:
            _warn(describe_capture_gaps(read_bundle(run.bundle)))
        return result


def _warn(sentence: str) -> None:
    """Log a warning; Python shows it on stderr unless the program has configured logging."""
    logging.getLogger("vibe_gate").warning("vibe-gate: %s", safe(sentence))
