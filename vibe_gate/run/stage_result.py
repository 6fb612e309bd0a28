"""What a stage came to, how a loop over stages ended, and what a run's models were used for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from vibe_gate.domain.turn import TurnTodo
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.domain.wire import EndKind
from vibe_gate.domain.workflow import UntilEnd
from vibe_gate.errors import StorageError
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import RunResult, read_bundle

if TYPE_CHECKING:
    from vibe_gate.judging.verdict import RunVerdict

StageOutcome = Literal["pass", "fail", "inconclusive", "error", "skipped"]

OUTCOMES: Mapping[EndKind, RunOutcome] = {"finished": "pass", "limit": "inconclusive"}
"""Of a stage by how its agent's session ended; "error" for any other end."""

CONDITIONS: Mapping[str, StageOutcome] = {
    "passed": "pass",
    "failed": "fail",
    "inconclusive": "inconclusive",
    "error": "error",
    "skipped": "skipped",
}
"""What `when` says of a stage, and the outcome that it means; "changed" and "unchanged" are about
its trees.
"""


class Todos(list[TurnTodo]):
    """An agent's own list at the end of its turn."""

    @property
    def all_completed(self) -> bool:
        """Whether nothing is left to do; true of an empty list."""
        return all(todo.status == "completed" for todo in self)


class StageResult(Struct, frozen=True, kw_only=True):
    """One run of a stage: of an agent, of rubrics, or of a TOML stage with `until`, which has both.

    `node` is its place in the run's graph. `before` and `after` are tree ids of the workspace. Of
    an agent: `status` and `reason` say how its session ended, `message` is its last one, `answer`
    fills the schema it was given, `patch` is what it changed. Of rubrics: `verdict`. `error` is
    what a watcher raised. `lacks` is shown in place of a pass: "unchanged" of an agent with tools
    that edit, "nothing" of rubrics by which nothing was reviewed.
    """

    id: str
    node: str
    outcome: StageOutcome
    reason: str = ""
    before: str = ""
    after: str = ""
    agent: str = ""
    status: str = ""
    message: str = ""
    answer: Mapping[str, Any] | None = None
    session_id: str = ""
    patch: bytes = b""
    verdict: RunVerdict | None = None
    bundle: Path | None = None
    error: Exception | None = None
    lacks: Literal["", "unchanged", "nothing"] = ""

    def __repr__(self) -> str:
        return f"StageResult(id={self.id!r}, node={self.node!r}, outcome={self.outcome!r}, reason={self.reason!r})"

    @property
    def passed(self) -> bool:
        """Whether it ended well."""
        return self.outcome == "pass"

    @property
    def shown(self) -> str:
        """The outcome, or what a pass lacks."""
        return (self.passed and self.lacks) or self.outcome

    @property
    def changed(self) -> bool:
        """Whether it left another tree than it found."""
        return self.before != self.after

    def fulfils(self, condition: str) -> bool:
        """Whether a Condition of `when` holds for it."""
        if condition in ("changed", "unchanged"):
            return self.outcome != "skipped" and self.changed == (condition == "changed")
        return self.outcome == CONDITIONS[condition]

    @property
    def result(self) -> RunResult:
        """What the agent's turn did, from its bundle. StorageError: no agent ran, or nothing could
        be recorded.
        """
        if self.bundle is None:
            raise StorageError(f"The stage {self.node} has no recorded turn.")
        return read_bundle(self.bundle)

    @property
    def todos(self) -> Todos:
        """The agent's own list at the end of its turn; empty if no turn was recorded."""
        return Todos(self.result.todos if self.bundle else ())

    @property
    def files(self) -> list[FileChange]:
        """The files that the agent changed."""
        return self.result.files.changed() if self.bundle else []


class Used(Struct, frozen=True):
    """Models by their names, their answers and tokens, USD (`known`: or at most that many)."""

    models: tuple[str, ...]
    answers: int
    tokens: int
    usd: float
    known: bool


async def used_in(result: RunResult) -> Used:
    """What the agents and judges of a run used; of a replayed one, when it was recorded.
    StorageError.
    """
    events = [
        event
        async for event in result.timeline.events()
        if event.source == "sdk" and event.type == "usage"
    ]
    used = [event.load() for event in events]
    models = [str(answer["model"]) for answer in used if "model" in answer]
    totals = [answer for answer in used if "basis" in answer]  # one a turn, when it was settled
    return Used(
        models=tuple(dict.fromkeys(models)),
        answers=len(models),
        tokens=sum(total["tokens"]["input"] + total["tokens"]["output"] for total in totals),
        usd=sum(total["cost"] for total in totals),
        known=all(total["basis"] != "unknown" for total in totals),
    )


class Until(Struct, frozen=True):
    """How a loop ended: each iteration's result, whether it `converged`, and the reason."""

    results: tuple[StageResult, ...]
    converged: bool
    reason: UntilEnd

    @property
    def last(self) -> StageResult:
        """The last iteration's result."""
        return self.results[-1]
