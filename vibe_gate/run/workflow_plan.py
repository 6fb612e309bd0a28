"""What a run carries out: a workflow in TOML or in Python, one agent, or one gate; and the source
of those in Python.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated

from msgspec import Meta, Struct, field

from vibe_gate.domain.agent import Isolation
from vibe_gate.domain.rubric import Identifier, ModelName
from vibe_gate.domain.tables import require_right
from vibe_gate.domain.workflow import WorkflowDefinition
from vibe_gate.errors import DefinitionError
from vibe_gate.run.handed_over import HandedTurn
from vibe_gate.run.resume import KeptAgentRun
from vibe_gate.run.workflow_steps import Defaults, WorkflowContext

Steps = Callable[[WorkflowContext], Awaitable[object]]
"""The function of a workflow."""


class Workflow(Struct, frozen=True, kw_only=True):
    """A workflow in Python, as `@workflow` makes it."""

    id: Identifier

    steps: Steps

    timeout_s: Annotated[float, Meta(gt=0)] | None = None
    """Seconds for the whole run; None takes the gate's."""

    model: ModelName | None = None
    """Of agents that name none."""

    workspace: str | Path | None = None
    """Another repository, in which stages work that name none."""

    def __post_init__(self) -> None:
        """Check what code gave. ValueError names the key."""
        require_right(self, ("steps", "workspace"))
        if not callable(self.steps):
            raise ValueError("steps: must be an async function that takes the workflow's context")

    @property
    def defaults(self) -> Defaults:
        """What stages take that name none of their own."""
        return Defaults(self.model, self.workspace)


class Plan(Struct, frozen=True, kw_only=True):
    """What a run carries out."""

    id: str

    steps: Steps

    timeout_s: float | None = None
    """Seconds for the whole run."""

    defaults: Defaults = field(default_factory=Defaults)

    prompt: str = ""
    """As run.json says it."""

    isolation: Isolation = "none"
    """As run.json says it."""

    path: str = ""
    """That of a Python source."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """By path those of the trusted revision that stages name, if they were read already."""

    handed_turns: tuple[HandedTurn, ...] = ()
    """Of other runs, whose files it begins with."""

    agent_run: KeptAgentRun | None = None
    """What a script's run of one agent can be repeated with; None if it is no such run, or needs
    more than plain data.
    """

    asks_agents: bool = False
    """Whether it has a stage of an agent; False of a Python workflow, which nobody knows before it
    runs.
    """


def workflow(
    id: str,
    *,
    timeout: float | None = None,
    model: str | None = None,
    workspace: str | Path | None = None,
) -> Callable[[Steps], Workflow]:
    """Declare the function below as the workflow `id`: `async def steps(wf)`.

    `timeout`: seconds for the whole run. `model` and `workspace` are for stages that name none.
    ValueError names what is wrong.
    """

    def make_workflow(steps: Steps) -> Workflow:
        return Workflow(id=id, steps=steps, timeout_s=timeout, model=model, workspace=workspace)

    return make_workflow


def load_workflow(definition: WorkflowDefinition) -> Workflow:
    """The workflow that the source declares, run in this process. DefinitionError, with the line,
    if there is none.
    """
    module = ModuleType(f"vibe_gate_workflow_{definition.digest[:16]}")
    module.__file__ = definition.path
    sys.modules[module.__name__] = module  # dataclasses and annotations look their module up
    try:
        code = compile(definition.source.decode(), definition.path, "exec")
        exec(code, module.__dict__)  # noqa: S102 - read at the trusted revision
    except Exception as error:
        raise DefinitionError([describe_error(error, definition.path)]) from error
    for value in vars(module).values():
        if isinstance(value, Workflow) and value.id == definition.id:
            return value
    raise DefinitionError([f'{definition.path}:1: declares no @workflow("{definition.id}")'])


def describe_error(error: Exception, path: str) -> str:
    """The error with the line of the workflow's source where it was raised."""
    line: int | None = 1
    if isinstance(error, SyntaxError):
        line = error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            line = frame.lineno
    return f"{path}:{line}: {type(error).__name__}: {error}"
