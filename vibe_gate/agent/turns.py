"""Turns: the only way in which any agent, judges included, gets to speak.

`hold` opens the turn's record, takes an address for the model, makes a home, keeps the
deadline, settles what the session cost and seals the record. What it needs of the store
and of the gateway comes in as values of these forms.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace

from vibe_gate.agent.sdk import find_cli
from vibe_gate.agent.task import Recorder, Stop, Task, Turn, Watch
from vibe_gate.domain.change import Side
from vibe_gate.domain.turn import Content, TurnChange
from vibe_gate.domain.wire import Ending, SessionCost
from vibe_gate.errors import AgentError, UsageError

LEAST_SECONDS = 1.0
"""A turn with less time left than this is not begun."""

NO_TIME = Ending("timeout", None, "The deadline was reached.")
"""Of a turn that was not begun."""


class TurnRecord(Recorder, Protocol):
    """Where one turn is written; `relative` is its folder in the run's bundle, "" if it is not recorded."""

    relative: str

    def content(self, side: Side, data: bytes) -> Content | None:
        """Keep one side of a file that the agent changed; None if the turn is not recorded."""

    def seal(self, ending: Ending, made: TurnChange = ...) -> None:
        """Write the turn's summary, and the patch of what the agent made; nothing is written afterwards."""


Made = Callable[[TurnRecord], TurnChange]
"""Says what the agent changed, when its session has ended, and keeps the contents in the turn's record."""


class RunRecord(Protocol):
    """Where the run is written."""

    def event(self, type: Literal["node.status"], node_id: str | None = None, **data: Any) -> None:  # noqa: ANN401
        """Append an event to the run's log."""

    def turn(self, node_id: str) -> TurnRecord:
        """Open the node's next turn."""


class ModelGateway(Protocol):
    """The way to the model."""

    @property
    def cloud(self) -> Mapping[str, str]:
        """Variables with which agents reach a cloud themselves; {} as a rule."""

    def url(self, node_id: str, *, ceiling_usd: float | None = None, working: bool = False, timeout_s: float) -> str:
        """The address of the model for one session; "" if agents reach their cloud themselves.

        The session may spend `ceiling_usd` of the run's budget, and waits `timeout_s` for an overloaded API. A
        `working` agent may go on after a cut answer.
        """

    def settle(self, node_id: str, url: str, counted: SessionCost) -> SessionCost:
        """What the session at `url` cost, given what the agent's program counted. The run's one answer to that."""


class TurnEnd(Struct, frozen=True):
    """How a turn ended; `folder` is where it is recorded, relative to the run's bundle, "" if nowhere.

    `error` is what a watcher raised, of a turn that was aborted by it.
    """

    ending: Ending
    folder: str = ""
    error: Exception | None = None


async def hold(
    turn: Turn,
    *,
    record: RunRecord,
    wire: ModelGateway,
    environ: Mapping[str, str],
    redact: Callable[[str], str],
    homes: Path,
    timeout_s: float,
    watch: Watch | None = None,
    stop: Stop | None = None,
    made: Made | None = None,
) -> TurnEnd:
    """Hold one turn to its end. `homes` is a private folder for agents' homes; `timeout_s` is what is left of the run.

    `watch` hears of every step before the agent goes on. Whatever goes wrong with the model, the wire or the agent's
    program is an `Ending`, and so are files that `made` cannot read (UsageError); what else it raises is raised,
    behind the turn's seal.
    """
    stop = stop or Stop()
    if stop.reason:
        return TurnEnd(Ending("aborted", None, stop.reason), error=stop.error)
    if timeout_s < LEAST_SECONDS:
        return TurnEnd(NO_TIME)
    opened = record.turn(turn.node)
    record.event("node.status", turn.node, status="RUNNING")
    ceiling = turn.max_cost_usd if turn.working else None
    patience_s = min(timeout_s, turn.patience_s)
    url = wire.url(turn.node, ceiling_usd=ceiling, working=turn.working, timeout_s=patience_s)
    with tempfile.TemporaryDirectory(dir=homes, ignore_cleanup_errors=True) as home:
        task = Task(
            **asdict(turn), home=Path(home), base_url=url, cloud=wire.cloud, environ=environ, timeout_s=timeout_s,
            watch=watch, stop=stop, redact=redact,
        )  # fmt: skip
        try:
            ending = await run_conversation(task, opened)
        except AgentError as error:
            ending = Ending("died", None, str(error))
    ending = replace(ending, cost=wire.settle(turn.node, url, ending.cost))
    opened.event(_usage(ending))
    change = TurnChange()
    try:
        change = made(opened) if made else change
    except UsageError as error:  # a file that the agent left cannot be read
        ending = replace(ending, status="died", detail=str(error))
    finally:
        opened.seal(ending, change)
        record.event("node.status", turn.node, status=_STATUS.get(ending.kind, "ERROR"), reason=ending.detail)
    return TurnEnd(ending, opened.relative, stop.error)


_STATUS = {"finished": "DONE", "stopped": "CANCELLED"}
"""A node's, after a session that ended so; ERROR after any other."""


async def run_conversation(task: Task, record: Recorder) -> Ending:
    """Hold one conversation with the agent's program to its end; `hold` is its one caller.

    Whatever the model, the wire or the agent's process does is an `Ending`; only a
    missing agent program or SDK raises (AgentError). Cancelling it leaves no process behind.
    """
    if task.cli_path is None:
        find_cli(task.environ)  # before the SDK, which may be missing, too
    from vibe_gate.agent.conversation import converse  # the SDK takes a second to load

    return await converse(task, record)


def _usage(ending: Ending) -> dict[str, Any]:
    """The turn's total, after it was settled: what the run's summary says of it, too."""
    tokens = {"input": ending.cost.input_tokens, "output": ending.cost.output_tokens}
    waits = {"waits": ending.cost.waits} if ending.cost.waits else {}
    return {"type": "usage", "tokens": tokens, "cost": ending.cost.usd, "basis": ending.cost.basis, **waits}
