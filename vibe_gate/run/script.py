"""A Python workflow: source of the trusted revision, run in this process."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from vibe_gate.domain.workflow import WorkflowDefinition
from vibe_gate.errors import DefinitionError
from vibe_gate.run.workflow import Defaults, Plan, Steps


def workflow(
    id: str, *, timeout: float | None = None, model: str | None = None, workspace: str | Path | None = None
) -> Callable[[Steps], Plan]:
    """Declare the function below as the workflow `id`: `async def steps(wf)`.

    `timeout`: seconds for the whole run. `model` and `workspace` are for stages that name none.
    """
    return lambda steps: Plan(id=id, steps=steps, timeout_s=timeout, defaults=Defaults(model, workspace))


def load(definition: WorkflowDefinition) -> Plan:
    """The workflow that the source declares. DefinitionError, with the line, for a source that does not."""
    module = ModuleType(f"vibe_gate_workflow_{definition.digest[:16]}")
    module.__file__ = definition.path
    sys.modules[module.__name__] = module  # dataclasses and annotations look their module up
    try:
        source = definition.source.decode()
        exec(compile(source, definition.path, "exec"), module.__dict__)  # noqa: S102 - read at the trusted revision
    except Exception as error:
        raise DefinitionError([place_of(error, definition.path)]) from error
    declared = [one for one in vars(module).values() if isinstance(one, Plan)]
    found = next((one for one in declared if one.id == definition.id), None)
    if found is None:
        raise DefinitionError([f'{definition.path}:1: declares no @workflow("{definition.id}")'])
    return replace(found, path=definition.path)


def place_of(error: Exception, path: str) -> str:
    """The error with the line of the workflow's source where it was raised."""
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    lines += [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = lines[-1] if lines else 1
    return f"{path}:{line}: {type(error).__name__}: {error}"
