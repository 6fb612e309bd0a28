"""What Python scripts call: `run_agent`, with this process's environment and clock."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vibe_gate.agent import Stop
from vibe_gate.domain.agent import Agent
from vibe_gate.domain.change import Selection
from vibe_gate.domain.context import ReviewRequest
from vibe_gate.faces import progress
from vibe_gate.faces.cli.output import now
from vibe_gate.run.conclusion import WorkflowRun
from vibe_gate.run.execution import AgentExecution
from vibe_gate.run.prompts import Context, Watcher
from vibe_gate.run.walk import RunRequest, one_agent, run_workflow
from vibe_gate.run.workflow import workflow

__all__ = ["Agent", "AgentExecution", "run_agent", "workflow"]


def run_agent(
    agent: Agent | str,
    prompt: str,
    *,
    context: Context = (),
    workspace: Path | str | None = None,
    resume: str | None = None,
    schema: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
) -> AgentExecution:
    """Start an agent at once, as a run of its own; await what comes back for its turn's RunResult.

    `agent`: an Agent, or the id of one of the gate. `context`: results whose last message, todos and patch are handed
    over. `workspace`: a folder of the repository to work on (default: the current one); its files are not touched, the
    agent has a clone. `resume`: the session to go on with, by its id or an unambiguous beginning. `schema`: the JSON
    schema of an answer. USD and seconds; None takes the agent's own, then the gate's.
    """
    start, environ = Path(workspace or Path.cwd()), dict(os.environ)

    async def begin(watchers: Sequence[Watcher], stop: Stop) -> WorkflowRun:
        plan = one_agent(
            agent, prompt, context=context, resume=resume or "", schema=schema, timeout_s=timeout_s,
            max_cost_usd=max_cost_usd, watchers=watchers, stop=stop,
        )  # fmt: skip
        review = ReviewRequest(Selection("worktree"), max_cost_usd=max_cost_usd, deadline_s=timeout_s)
        request = RunRequest(review=review, plan=plan)
        return await run_workflow(request, start=start, environ=environ, clock=now, progress=progress.unheard)

    return AgentExecution(begin)
