"""Which rubrics, which agent, which workflow is meant: by the gate's own choice, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from vibe_gate.domain import nearest
from vibe_gate.domain.change import Change
from vibe_gate.domain.gate import Gate
from vibe_gate.domain.rubric import Rubric
from vibe_gate.errors import DefinitionError, UsageError
from vibe_gate.gate.fixing import FIX, FIXER, fix_workflow
from vibe_gate.gate.loading import OFFERED, offered_rubric
from vibe_gate.gate.trusted import WORKTREE

if TYPE_CHECKING:
    from vibe_gate.domain.agent import Agent
    from vibe_gate.domain.workflow import WorkflowDefinition

T = TypeVar("T")


def rubrics_for(gate: Gate, change: Change, rubric_ids: tuple[str, ...]) -> tuple[Rubric, ...]:
    """The rubrics of this review: those the gate names for the change, or those the user wants.

    Raises UsageError for a rubric that the gate does not have.
    """
    if not rubric_ids:
        return gate.for_change(change)
    return tuple(rubric_named(gate, rubric_id) for rubric_id in dict.fromkeys(rubric_ids))


def refuse_code(gate: Gate, rubrics: Iterable[Rubric]) -> None:
    """UsageError if a review by these rubrics may run code of the change, which would reach ports
    of Dask's.
    """
    if gate.file.counterexample or any(rubric.has_command for rubric in rubrics):
        raise UsageError(
            "The gate runs code of the change (a command check, or [counterexample]), and without "
            "TLS whoever reaches a port of a Dask cluster runs anything there; "
            "use --cluster tls://HOST:PORT, or --cluster local."
        )


def rubric_named(gate: Gate, name: str) -> Rubric:
    """The rubric of this id, of the gate or built in. UsageError: there is none."""
    rubrics = {rubric.id: rubric for rubric in gate.rubrics}
    if name in OFFERED and name not in rubrics:
        return offered_rubric(name)
    return _choose("rubric", name, rubrics, gate)


def agent_named(gate: Gate, name: str) -> Agent:
    """The agent of this id, of the gate or built in. UsageError: there is none; DefinitionError: it
    has one that cannot be honoured.
    """
    refusals = [reason for agent_id, reason in gate.refused if agent_id == name]
    if refusals:
        raise DefinitionError(refusals)
    agents = {agent.id: agent for agent in (FIXER, *gate.agents)}
    return _choose("agent", name, agents, gate)


def workflow_named(gate: Gate, name: str, rubrics: Sequence[str] = ()) -> WorkflowDefinition:
    """The workflow of this id, of the gate or built in. UsageError: there is none.

    `rubrics`: those by which a built-in one reviews.
    """
    workflows = {FIX: fix_workflow(rubrics)}
    workflows |= {workflow.id: workflow for workflow in gate.workflows}
    return _choose("workflow", name, workflows, gate)


def _choose(kind: str, name: str, definitions: Mapping[str, T], gate: Gate) -> T:
    """The definition of that id. UsageError, with what may have been meant."""
    if name in definitions:
        return definitions[name]
    near = nearest(name, definitions)
    if near:
        advice = f"did you mean {near!r}?"
    elif definitions:
        advice = f"there are: {', '.join(sorted(definitions))}."
    else:
        advice = f"write .vibe-gate/{kind}s/{name}.toml."
    if gate.origin == "bootstrap":
        advice += " Those that a commit brings run once they are merged, or with --definitions REV."
    elif gate.revision not in ("", WORKTREE):
        revision = gate.revision[:12]
        advice += f" Definitions were read at {revision}; --definitions worktree reads yours."
    raise UsageError(f"There is no {kind} {name!r}; {advice}")
