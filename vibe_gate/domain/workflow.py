"""Workflows: stages and what leads from one to the next, as `workflows/ID.toml` says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from vibe_gate.domain.model import Field, Model, checked_by
from vibe_gate.domain.rubric import Identifier, Schema

UntilEnd = Literal["passed", "capped", "stalled", "oscillating"]
"""How a loop ended. Stalled: an iteration left the tree as it was; oscillating: it made a tree seen before."""

Condition = Literal["passed", "failed", "inconclusive", "error", "skipped", "changed", "unchanged"]
"""What `when` may say of a stage, behind its id and a dot."""


IMAGE_TYPES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
"""Images that a model is given, by the ending of their names."""

MAX_IMAGE_BYTES = 5_000_000
"""The Messages API refuses larger ones."""

MAX_STAGES = 200
"""Of one workflow: people write it, and whether two stages can meet is asked of every pair."""


def _as_list(value: object) -> object:
    """TOML's array, or its one item, as what converts nothing reads it."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _join(value: object) -> object:
    if value in ("all", "any") or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError('must be "all", "any" or the number of stages in needs that must have passed')


_WORDS = {"type": "union", "choices": [{"type": "str"}, {"type": "list", "items_schema": {"type": "str"}}]}


class UntilRule(Model):
    """Repeat the stage until its rubrics pass on what it made."""

    rubrics: tuple[Identifier, ...] = Field(min_length=1, description="Rubrics that must pass.")
    max_iterations: int = Field(default=3, ge=1, le=100, description="How often the agent works at most.")


class StageRule(Model):
    """An agent with a prompt, or rubrics. It is skipped if too few of `needs` passed, or if `when` does not hold."""

    id: Identifier = Field(description="Names the stage; once in a workflow.")
    agent: Identifier | None = Field(default=None, description="This or `rubrics`: the agent that works.")
    rubrics: tuple[Identifier, ...] = Field(
        default=(), description="This or `agent`: checks and judges of the change as it is by then."
    )
    prompt: str | None = Field(default=None, description="One of three for an agent: what it is asked.")
    prompt_file: str | None = Field(default=None, description="One of three: the path of a file that has the prompt.")
    prompt_command: tuple[str, ...] | None = Field(
        default=None, description="One of three: a command that prints the prompt; it runs behind the wall."
    )
    images: Annotated[tuple[str, ...], Field(max_length=20)] = Field(
        default=(), description="Paths of at most 20 png, jpeg, gif or webp files, each up to 5 MB, shown to the agent."
    )
    needs: tuple[Identifier, ...] = Field(
        default=(), description="Stages that must have ended, or were skipped, before it begins."
    )
    join: Annotated[Literal["all", "any"] | int, checked_by(_join, "before")] = Field(
        default="all",
        description="How many of `needs` must have passed; one that `when` names counts whatever its outcome.",
    )
    when: Annotated[tuple[str, ...], checked_by(_as_list, "before")] = Field(
        default=(),
        json_schema_input_schema=_WORDS,
        description="`STAGE.passed`, or another outcome; of several all must hold.",
    )
    context: tuple[Identifier, ...] = Field(
        default=(), description="Stages whose last message, todos, patch and verdict the agent is given."
    )
    until: UntilRule | None = Field(default=None, description="Repeats an agent.")

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """What `when` says: each a stage's id and a Condition."""
        return tuple((stage, what) for stage, _, what in (one.rpartition(".") for one in self.when))

    @property
    def required(self) -> int:
        """How many of `needs` must have passed."""
        if isinstance(self.join, int):
            return self.join
        return len(self.needs) if self.join == "all" else min(1, len(self.needs))


class WorkflowFile(Model):
    """`workflows/ID.toml` as written."""

    schema_: Schema = Field(alias="schema")
    id: Identifier = Field(description="The file's name without `.toml`.")
    timeout_s: float | None = Field(
        default=None, gt=0, le=86_400, description="Seconds of wall clock for a run (default: the budget's)."
    )
    stage: tuple[StageRule, ...] = Field(min_length=1, max_length=MAX_STAGES, description="The stages.")


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    """A workflow of the gate: `file` of one in TOML, `source` of one in Python (b"" else); `digest` of its bytes.

    `path` is where it stands below the repository's root, as read. `files`: the prompt files and images that its
    stages name, each with its content there.
    """

    id: str
    path: str
    digest: str
    file: WorkflowFile | None = None
    source: bytes = b""
    files: tuple[tuple[str, bytes], ...] = ()
