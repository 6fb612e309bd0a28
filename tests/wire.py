"""The model's side of a test, in a line: a scripted Messages API behind the real CLI.

    with answering({"answers": [...]}) as model:
        environ |= model.environ            # ANTHROPIC_BASE_URL and a key, as a user would have them
        ...
    assert len(model.script.requests) == 1

Each value given to `answering` is one turn: a dict is the answer, through the tool
that the CLI offers for it; steps of `scripted_messages_api` are taken as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scripted_messages_api import Script, ScriptedMessagesApi, StepOrFunction, ToolUse, Turn, Usage

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
