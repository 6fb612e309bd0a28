"""Workflows: stages and what leads from one to the next, as `workflows/ID.toml` says them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from vibe_gate.domain.rubric import Identifier, Schema

UntilEnd = Literal["passed", "capped", "stalled", "oscillating"]
"""How a loop ended. Stalled: an iteration left the tree as it was; oscillating: it made a tree seen
before.
"""

Condition = Literal["passed", "failed", "inconclusive", "error", "skipped", "changed", "unchanged"]
"""What `when` may say of a stage, behind its id and a dot."""


IMAGE_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
"""Images that a model is given, by the ending of their names."""

MAX_IMAGE_BYTES = 5_000_000
"""The Messages API refuses larger ones."""

MAX_STAGES = 200
"""Of one workflow: people write it, and whether two stages can meet is asked of every pair."""


def _require_join(value: object) -> None:
    if value not in ("all", "any") and (
        not isinstance(value, int) or isinstance(value, bool) or value < 1
    ):
        raise ValueError(
            'must be "all", "any" or the number of stages in needs that must have passed'
        )


class UntilRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Repeat the stage until its rubrics pass on what it made."""

    rubrics: Annotated[
        tuple[Identifier, ...], Meta(min_length=1, description="Rubrics that must pass.")
    ]
    max_iterations: Annotated[
        int, Meta(ge=1, le=100, description="How often the agent works at most.")
    ] = 3


class StageRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent with a prompt, or rubrics. It is skipped if too few of `needs` passed, or if `when`
    does not hold.
    """

    id: Annotated[Identifier, Meta(description="Names the stage; once in a workflow.")]
    agent: Annotated[
        Identifier | None, Meta(description="This or `rubrics`: the agent that works.")
    ] = None
    rubrics: Annotated[
        tuple[Identifier, ...],
        Meta(description="This or `agent`: checks and judges of the change as it is by then."),
    ] = ()
    prompt: Annotated[
        str | None, Meta(description="One of three for an agent: what it is asked.")
    ] = None
    prompt_file: Annotated[
        str | None, Meta(description="One of three: the path of a file that has the prompt.")
    ] = None
    prompt_command: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="One of three: a command that prints the prompt; it runs behind the wall."
        ),
    ] = None
    images: Annotated[
        tuple[str, ...],
        Meta(
            max_length=20,
            description="Paths of at most 20 png, jpeg, gif or webp files, each up to 5 MB, shown to the agent.",
        ),
    ] = ()
    needs: Annotated[
        tuple[Identifier, ...],
        Meta(description="Stages that must have ended, or were skipped, before it begins."),
    ] = ()
    join: Annotated[
        Literal["all", "any"] | int,
        Meta(
            description="How many of `needs` must have passed; one that `when` names counts whatever its outcome.",
            extra={"check": _require_join},
        ),
    ] = "all"
    when: Annotated[
        tuple[str, ...] | str,
        Meta(description="`STAGE.passed`, or another outcome; of several all must hold."),
    ] = ()
    context: Annotated[
        tuple[Identifier, ...],
        Meta(description="Stages whose last message, todos, patch and verdict the agent is given."),
    ] = ()
    until: Annotated[UntilRule | None, Meta(description="Repeats an agent.")] = None

    def __post_init__(self) -> None:
        """Of one condition, which may stand without brackets, make a list."""
        if isinstance(self.when, str):
            force_setattr(self, "when", (self.when,))

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """What `when` says: each a stage's id and a Condition."""
        conditions = []
        for condition in self.when:
            stage, _, outcome = condition.rpartition(".")
            conditions.append((stage, outcome))
        return tuple(conditions)

    @property
    def required(self) -> int:
        """How many of `needs` must have passed."""
        if isinstance(self.join, int):
            return self.join
        if self.join == "all":
            return len(self.needs)
        return min(1, len(self.needs))


class WorkflowFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`workflows/ID.toml` as written."""

    schema: Schema
    id: Annotated[Identifier, Meta(description="The file's name without `.toml`.")]
    timeout_s: Annotated[
        Annotated[float, Meta(gt=0, le=86_400)] | None,
        Meta(description="Seconds of wall clock for a run (default: the budget's)."),
    ] = None
    stage: Annotated[
        tuple[StageRule, ...], Meta(min_length=1, max_length=MAX_STAGES, description="The stages.")
    ]


class WorkflowDefinition(Struct, frozen=True):
    """A workflow of the gate."""

    id: str

    path: str
    """Where it stands below the repository's root, as read."""

    digest: str
    """Of its bytes."""

    file: WorkflowFile | None = None
    """Of one in TOML."""

    source: bytes = b""
    """Of one in Python; b"" else."""

    files: tuple[tuple[str, bytes], ...] = ()
    """The prompt files and images that its stages name, each with its content there."""
