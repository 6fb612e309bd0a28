"""The model's side of a test, in a line: a scripted Messages API behind the real CLI.

    with answering({"changes": "", "answers": [...]}) as model:
        environ |= model.environ            # ANTHROPIC_BASE_URL and a key, as a user would have them
        ...
    assert len(model.script.requests) == 1

Each value given to `answering` is one turn: a dict is the answer, through the tool
that the CLI offers for it; steps of `scripted_messages_api` are taken as they are.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from scripted_messages_api import Script, ScriptedMessagesApi, StepOrFunction, ToolUse, Turn, Usage

from vibe_gate.agent import Task
from vibe_gate.agent.turns import run_conversation
from vibe_gate.domain.wire import Ending

KEY = "sk-ant-api03-scripted-key-never-to-be-seen-elsewhere"


@dataclass(frozen=True)
class Model:
    """A scripted model: where it listens, and the script that says afterwards what was asked."""

    script: Script
    api: ScriptedMessagesApi

    @property
    def base_url(self) -> str:
        return self.script.base_url

    @property
    def environ(self) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": self.base_url, "ANTHROPIC_API_KEY": KEY}


def answer(value: Mapping[str, Any], **turn: Any) -> Turn:
    """A turn that gives `value` as the structured answer."""
    return Turn(ToolUse("StructuredOutput", value), **turn)


def costing(output_tokens: int, input_tokens: int = 100) -> Usage:
    """A usage for a turn, to be priced."""
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens)


@contextmanager
def answering(*steps: Mapping[str, Any] | StepOrFunction, repeat_last: bool = False) -> Iterator[Model]:
    """A model that says these things in this order, on a port of its own."""
    turns = [answer(step) if isinstance(step, Mapping) else step for step in steps]
    with ScriptedMessagesApi() as api:
        yield Model(api.script(*turns, repeat_last=repeat_last), api)


SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
"""The smallest form of an answer."""


@dataclass
class Notes:
    """A recorder that keeps what it is told."""

    events: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def event(self, data: dict[str, Any]) -> None:
        json.dumps(data)
        self.events.append(data)

    def hook(self, data: dict[str, Any]) -> None:
        json.dumps(data)
        self.hooks.append(data)


def task_in(place: Path, base_url: str, environ: Mapping[str, str], **changes: Any) -> Task:
    """A small task with a home of its own; its working directory is `place/tree`."""
    tree = place / "tree"
    tree.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(dir=place))
    task = Task(
        prompt="Is it ok?",
        system_prompt="You judge.",
        schema=SCHEMA,
        cwd=tree,
        model="claude-sonnet-5",
        home=home,
        base_url=base_url,
        environ=environ,
        timeout_s=30,
    )
    return replace(task, **changes)


def hold(task: Task) -> tuple[Ending, Notes]:
    """The whole session, with the real CLI."""
    notes = Notes()
    return asyncio.run(run_conversation(task, notes)), notes
