"""The door to coding agents: one conversation, read-only, with an answer in a given form.

    ending = await agent.session(task, record)

Importing this package is cheap; the SDK (half a second) is loaded by the first session.
"""

from __future__ import annotations

import importlib

from vibe_gate.agent.launch import find_cli
from vibe_gate.agent.task import READ_ONLY_TOOLS, Ending, Recorder, Status, Task

__all__ = ["READ_ONLY_TOOLS", "Ending", "Recorder", "Status", "Task", "find_cli", "session"]


async def session(task: Task, record: Recorder) -> Ending:
    """Hold the conversation to its end and say how it ended.

    Whatever the model, the wire or the agent's process does is an `Ending`; only a
    missing agent program raises (AgentError). Cancelling it leaves no process behind.
    """
    conversation = importlib.import_module("vibe_gate.agent.conversation")
    ending: Ending = await conversation.hold(task, record)
    return ending
