"""What a stage came to, how a loop over stages ended, and how much a run's models were used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from vibe_gate.domain.turn import TurnTodo, is_usage_total
from vibe_gate.domain.verdict import RunOutcome
from vibe_gate.domain.wire import EndKind
from vibe_gate.domain.workflow import UntilEnd
from vibe_gate.errors import StorageError
from vibe_gate.store.changed_files import FileChange
from vibe_gate.store.run_result import RunResult, read_bundle

if TYPE_CHECKING:
    from vibe_gate.judging.run_verdict import RunVerdict

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
    """One run of a stage: of an agent, of rubrics, or of a TOML stage with `until`, which has
    both.
    """

    id: str

    node: str
    """Its place in the run's graph."""

    outcome: StageOutcome

    reason: str = ""
    """Why it did not pass, or was skipped."""

    before: str = ""
    """The tree id of the workspace before it."""

    after: str = ""
    """The tree id of the workspace after it."""

    agent: str = ""
    """The agent's id; "" of rubrics."""

    status: str = ""
    """How the agent's session ended."""

    message: str = ""
    """The agent's last one."""

    answer: Mapping[str, Any] | None = None
    """What fills the schema that the agent was given."""

    session_id: str = ""

    patch: bytes = b""
    """What the agent changed."""

    verdict: RunVerdict | None = None
    """Of rubrics."""

    bundle: Path | None = None
    """Where the agent's turn is recorded; None if it is not."""

    error: Exception | None = None
    """What a watcher raised."""

    lacks: Literal["", "unchanged", "nothing"] = ""
    """Shown in place of a pass: "unchanged" of an agent with tools that edit, "nothing" of rubrics
    by which nothing was reviewed.
    """

    def __repr__(self) -> str:
        fields = {name: getattr(self, name) for name in ("id", "node", "outcome", "reason")}
        shown_fields = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        return f"StageResult({shown_fields})"

    @property
    def passed(self) -> bool:
        """Whether it ended well."""
        return self.outcome == "pass"

    @property
    def displayed_outcome(self) -> str:
        """The outcome, or what a pass lacks."""
        if self.passed and self.lacks:
            return self.lacks
        return self.outcome

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


class ModelUse(Struct, frozen=True):
    """How much the agents and judges of a run used their models."""

    models: tuple[str, ...]
    """By their names, each once."""

    answers: int

    tokens: int

    usd: float

    is_exact: bool
    """False if it may have cost less than `usd`."""


async def model_use_in(result: RunResult) -> ModelUse:
    """How much a run used its models; of a replayed one, when it was recorded. StorageError."""
    models: list[str] = []
    tokens = 0
    usd: float = 0
    is_exact = True
    async for event in result.timeline.events():
        if event.source != "sdk" or event.type != "usage":
            continue
        content = event.load()
        if "model" in content:
            models.append(str(content["model"]))
        if is_usage_total(content):
            tokens += content["tokens"]["input"] + content["tokens"]["output"]
            usd += content["cost"]
            is_exact = is_exact and content["basis"] != "unknown"
    return ModelUse(
        models=tuple(dict.fromkeys(models)),
        answers=len(models),
        tokens=tokens,
        usd=usd,
        is_exact=is_exact,
    )


class Until(Struct, frozen=True):
    """How a loop ended."""

    results: tuple[StageResult, ...]
    """Of each iteration."""

    converged: bool
    """Whether the last one passed."""

    reason: UntilEnd

    repeats: int = 0
    """Of an oscillating loop: the iteration after which the files were as they are; 0: before the
    first.
    """

    def why_unfinished(self, max_iterations: int) -> str:
        """Why a loop that did not converge ended, as a clause."""
        count = f"{self.reason} after {len(self.results)} of {max_iterations}"
        if self.reason == "stalled":
            return f"{count}, because the last round changed no file"
        if self.reason == "oscillating":
            when = f"after round {self.repeats}" if self.repeats else "before the first round"
            return f"{count}, because the files are again as they were {when}"
        return count

    @property
    def last(self) -> StageResult:
        """The last iteration's result."""
        return self.results[-1]
