"""Workflows: stages and what leads from one to the next, as `workflows/ID.toml` says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from vibe_gate.domain.model import Model
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
    """TOML's array, or its one item, as pydantic wants it when it converts nothing."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _join(value: object) -> object:
    if value in ("all", "any") or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError('must be "all", "any" or the number of stages in needs that must have passed')


_WORDS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


class UntilRule(Model):
    """Repeat the stage until its rubrics pass on what it made."""

    rubrics: tuple[Identifier, ...] = Field(min_length=1)
    max_iterations: int = Field(default=3, ge=1, le=100)


class StageRule(Model):
    """One `[[stage]]`: an agent with a prompt, or rubrics. `when`: `STAGE.CONDITION`, or a list of which all must hold.

    A stage begins when each of its `needs` has ended or was skipped. `join`: how many of them must have passed, where
    one that `when` names counts whatever its outcome; too few, or a condition that does not hold, and it is skipped.
    `context` names stages whose results are handed over.
    """

    id: Identifier
    agent: Identifier | None = None
    rubrics: tuple[Identifier, ...] = ()
    prompt: str | None = None
    prompt_file: str | None = None
    prompt_command: tuple[str, ...] | None = None
    images: Annotated[tuple[str, ...], Field(max_length=20)] = ()
    context: tuple[Identifier, ...] = ()
    needs: tuple[Identifier, ...] = ()
    when: Annotated[tuple[str, ...], BeforeValidator(_as_list), WithJsonSchema(_WORDS)] = ()
    join: Annotated[Literal["all", "any"] | int, BeforeValidator(_join)] = "all"
    until: UntilRule | None = None

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
    """`workflows/ID.toml` as written. `timeout_s`: wall clock of a run, in place of the budget's deadline."""

    schema_: Schema = Field(alias="schema")
    id: Identifier
    timeout_s: float | None = Field(default=None, gt=0, le=86_400)
    stage: tuple[StageRule, ...] = Field(min_length=1, max_length=MAX_STAGES)


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
