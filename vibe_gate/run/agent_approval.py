"""A person is asked before each agent of an interactive run."""

from __future__ import annotations

from collections.abc import Callable

from vibe_gate.domain.agent import Agent
from vibe_gate.errors import ApprovalNeeded
from vibe_gate.store.run_recorder import RunRecorder

Approve = Callable[[str, Agent, str, float], bool | None]
"""Asks a person whether the agent may begin at this node, given its prompt and the USD that the run
has cost until now.

None: nobody is there, or the answer is left for later.
"""

DENIAL = "a person denied it"
"""Why a stage did not run that was left out so."""


def leave_unanswered(node: str, agent: Agent, prompt: str, usd: float) -> None:
    """An Approve where nobody is there to be asked."""


def ask_approval(
    approve: Approve, record: RunRecorder, node: str, agent: Agent, prompt: str, usd: float
) -> bool:
    """Whether a person lets the agent begin. ApprovalNeeded: nobody is there."""
    record.event("node.status", node, status="BLOCKED", reason="approval")
    answer = approve(node, agent, prompt, usd)
    if answer is None:
        record.close()  # no end is written: the run waits, and can be resumed
        resume_command = f"`vibe-gate resume {record.run_id} --approve {node}`"
        raise ApprovalNeeded(
            f"blocked: {node}. {resume_command} lets it begin, `--deny {node}` leaves it out."
        )
    return answer
