"""Run one turn of an agent: the only way in which any agent, judges included, gets to speak.

`run_turn` opens the turn's record, takes an address for the model, makes a home, keeps the time
limit, settles what the session cost and seals the record.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vibe_gate.agent.agent_environment import AgentEnvironment
from vibe_gate.agent.answer_costs import AnswerCosts
from vibe_gate.agent.cli_process import CliProcess, gateway_variables, program_variables
from vibe_gate.agent.protocols import ModelGateway, RunRecord, SessionRecord
from vibe_gate.agent.sdk import find_cli
from vibe_gate.agent.session_end import ObservedSession, conclude, is_unavailable, session_cost
from vibe_gate.agent.setup_home import SETUP_VARIABLES
from vibe_gate.agent.turn_request import TurnRequest
from vibe_gate.domain.cause import NoConversation
from vibe_gate.domain.turn import TurnChange
from vibe_gate.domain.wire import SessionCost, TurnResult, end_kind
from vibe_gate.errors import AgentError, UsageError

LEAST_SECONDS = 1.0
"""A turn with less time left than this is not begun."""

NO_TIME = TurnResult("timeout", None, "The deadline was reached.")
"""Of a turn that was not begun."""

NODE_STATUS = {"finished": "DONE", "stopped": "CANCELLED"}
"""Of a node, by how its turn ended; ERROR after any other end."""


async def run_turn(
    turn: TurnRequest,
    *,
    record: RunRecord,
    gateway: ModelGateway,
    environment: AgentEnvironment,
    redact: Callable[[str], str],
) -> TurnResult:
    """Run one turn to its end.

    Whatever goes wrong with the model, the wire or the agent's program is a TurnResult, and so are
    files that `turn.change` cannot read; what else that raises is raised, behind the turn's seal.
    """
    if turn.stop.reason:
        return TurnResult("aborted", None, turn.stop.reason, error=turn.stop.error)
    if turn.timeout_s < LEAST_SECONDS:
        return NO_TIME
    turn_record = record.turn(turn.node)
    record.event("node.status", turn.node, status="RUNNING")
    ceiling_usd = turn.max_cost_usd if turn.working else None
    setup: dict[str, str] = {}
    if turn.setup is not None:
        setup = {**turn.setup.digests, "system_prompt": turn.system_prompt}
    url = gateway.url(
        turn.node,
        ceiling_usd=ceiling_usd,
        working=turn.working,
        setup=setup,
        timeout_s=min(turn.timeout_s, turn.patience_s),
    )
    model = gateway_variables(url) if url else gateway.cloud
    costs = AnswerCosts(turn_record, gateway.price)
    session = await _observed(
        turn, model, costs if url else turn_record, environment, redact, metered=bool(url)
    )
    cost = gateway.settle(turn.node, url, session_cost(session.result))
    if url:
        costs.write_rest(cost)
    turn_record.event(_usage_item(cost))
    change = TurnChange()
    unreadable = ""
    try:
        if turn.change is not None:
            change = turn.change(turn_record)
    except UsageError as error:
        unreadable = str(error)
    finally:
        result = conclude_turn(
            turn,
            session,
            cost,
            redact=redact,
            change=change,
            unreadable=unreadable,
            folder=turn_record.relative,
        )
        turn_record.seal(result)
        status = NODE_STATUS.get(result.kind, "ERROR")
        record.event("node.status", turn.node, status=status, reason=result.detail)
    return result


async def _observed(
    turn: TurnRequest,
    model: Mapping[str, str],
    record: SessionRecord,
    environment: AgentEnvironment,
    redact: Callable[[str], str],
    *,
    metered: bool,
) -> ObservedSession:
    """What was observed of the turn's session, in a home of its own. `model`: variables that lead
    to the model.
    """
    with _private_home(turn) as home:
        try:
            cli = find_cli(environment.search_path)  # before the SDK, which may be missing, too
            # The SDK takes a second to load.
            from vibe_gate.agent.cli_session import observe_session

            variables = program_variables(home, environment.variables, model, turn.timeout_s)
            if turn.setup is not None:
                variables |= SETUP_VARIABLES
            process = CliProcess(home, cli, variables, turn.wall)
            return await observe_session(turn, process, record, redact, metered=metered)
        except AgentError as error:
            cause = NoConversation(message=str(error), details=error.details)
            return ObservedSession(not_begun=cause)
        except OSError as error:
            reason = f"The agent's home {home} cannot be written: {error.strerror}."
            return ObservedSession(not_begun=NoConversation(message=reason))


@contextmanager
def _private_home(turn: TurnRequest) -> Iterator[Path]:
    """A folder for the agent's home, deleted afterwards.

    With a setup it is named after the node: the agent is told where its skills are, and a recorded
    conversation must not depend on a random name.
    """
    if turn.setup is None:
        with tempfile.TemporaryDirectory(dir=turn.homes, ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    home = turn.homes / f".home-{turn.node}"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def conclude_turn(
    turn: TurnRequest,
    session: ObservedSession,
    cost: SessionCost,
    *,
    change: TurnChange,
    redact: Callable[[str], str],
    unreadable: str = "",
    folder: str = "",
) -> TurnResult:
    """What came of the turn.

    Args:
        turn: What was asked.
        session: What was observed of it.
        cost: What it cost, settled.
        change: What the agent changed.
        redact: Takes secrets out of a text.
        unreadable: Why that is not known; "" if it is.
        folder: The turn's place in the run's bundle.
    """
    end = conclude(session, turn.timeout_s, redact)
    answer = None
    if end.status == "answered":
        answer = session.result.get("structured_output")
    last_message = ""
    if end_kind(end.status) == "finished":
        last_message = str(session.result.get("result") or "")
    return TurnResult(
        status="died" if unreadable else end.status,
        answer=answer,
        detail=unreadable or end.detail,
        cause=end.cause,
        text=last_message,
        cost=cost,
        session_id=str(session.result.get("session_id") or ""),
        duration_ms=session.duration_ms,
        permission_denials=tuple(session.result.get("permission_denials") or ()),
        used_tools=session.used_tools,
        is_unavailable=is_unavailable(session),
        change=change,
        folder=folder,
        error=turn.stop.error,
        setup=turn.setup,
    )


def _usage_item(cost: SessionCost) -> dict[str, Any]:
    """The turn's total, after it was settled: what the run's summary says of it, too."""
    tokens = {"input": cost.input_tokens, "output": cost.output_tokens}
    item: dict[str, Any] = {
        "type": "usage",
        "total": True,
        "tokens": tokens,
        "cost": cost.usd,
        "basis": cost.basis,
    }
    if cost.waits:
        item["waits"] = cost.waits
    return item
