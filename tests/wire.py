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
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripted_messages_api import Script, ScriptedMessagesApi, StepOrFunction, ToolUse, Turn, Usage

from vibe_gate.agent import TurnRequest, agent_environment_from, find_cli
from vibe_gate.agent.cli_process import CliProcess, gateway_variables, program_variables
from vibe_gate.agent.cli_session import observe_session
from vibe_gate.agent.session_end import session_cost
from vibe_gate.agent.turn_runner import conclude_turn
from vibe_gate.domain.turn import TurnChange
from vibe_gate.domain.wire import TurnResult

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
def answering(
    *steps: Mapping[str, Any] | StepOrFunction, repeat_last: bool = False
) -> Iterator[Model]:
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


@dataclass(frozen=True)
class AgentSession:
    """A turn, and the place in which its agent's program runs."""

    turn: TurnRequest
    home: Path
    base_url: str
    environ: Mapping[str, str]
    cloud: Mapping[str, str] = field(default_factory=dict)
    cli_path: Path | None = None
    clock: Callable[[], float] = time.time
    redact: Callable[[str], str] = str


def session_in(
    place: Path, base_url: str, environ: Mapping[str, str], **changes: Any
) -> AgentSession:
    """A small session with a home of its own; its working directory is `place/tree`.

    `changes`: fields of TurnRequest, and of AgentSession.
    """
    tree = place / "tree"
    tree.mkdir(exist_ok=True)
    turn = {
        "node": "",
        "prompt": "Is it ok?",
        "system_prompt": "You judge.",
        "model": "claude-sonnet-5",
    }
    turn |= {"schema": SCHEMA, "folder": tree, "homes": place, "timeout_s": 30}
    turn |= {name: changes.pop(name) for name in TurnRequest.__struct_fields__ if name in changes}
    session = {"home": None, "base_url": base_url, "environ": environ, **changes}
    session["home"] = session["home"] or Path(tempfile.mkdtemp(dir=place))
    return AgentSession(TurnRequest(**turn), **session)


async def conversing(session: AgentSession, notes: Notes) -> TurnResult:
    """The whole session, with the real CLI, as `run_turn` holds it."""
    turn, environment = session.turn, agent_environment_from(session.environ)
    model = gateway_variables(session.base_url) if session.base_url else session.cloud
    variables = program_variables(session.home, environment.variables, model, turn.timeout_s)
    cli = session.cli_path or find_cli(environment.search_path)
    process = CliProcess(session.home, cli, variables, turn.wall)
    observed = await observe_session(
        turn, process, notes, session.redact, metered=bool(session.base_url), clock=session.clock
    )
    cost = session_cost(observed.result)
    return conclude_turn(turn, observed, cost, change=TurnChange(), redact=session.redact)


def hold(session: AgentSession) -> tuple[TurnResult, Notes]:
    """Hold the whole session with the real CLI; its result, and the notes that were taken."""
    notes = Notes()
    return asyncio.run(conversing(session, notes)), notes
