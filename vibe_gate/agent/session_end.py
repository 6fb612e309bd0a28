"""What a session's end means: pure, from what was observed to a status, a sentence and a cost.

The CLI's own `subtype` says "success" for a refusal, a 401 and a cut stream alike, so nothing here
trusts it for that.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from vibe_gate.domain import wire
from vibe_gate.domain.cause import (
    AnswerCut,
    ApiStatus,
    ApiUnavailable,
    BrokeOff,
    ConversationCause,
    ManyAnswers,
    ModelRefused,
    NoAnswer,
    NoConversation,
    NoCredit,
    NoForm,
    NotRecorded,
    ProcessEnded,
    TurnsUsedUp,
    Unreachable,
)
from vibe_gate.domain.escape import shorten_text
from vibe_gate.domain.summary import CostBasis
from vibe_gate.domain.wire import MAX_TOKENS, MAX_USD, ModelCost, SessionCost, Status

MAX_DETAIL = 300
"""Characters of a detail: one sentence in a terminal."""

_API_ERROR = re.compile(r"(?:[A-Z][^.]{0,100}\. )?API Error")
"""How the CLI begins what it says in place of an answer."""

UNAVAILABLE_STATUS = (404, 429, 500, 502, 503, 504, 529)
"""After these another model may answer."""


class ObservedSession(Struct):
    """What is observed of one session of the agent's program, from its start to its end."""

    free_text: bool = False
    """Whether no schema was given, so that the last message is the answer."""
    command: str = ""
    """The slash command that it began with; "" for none."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """The CLI's last message, as a plain dict; {} if there was none."""
    stop_reason: str = ""
    """Of the model's answer that decides."""
    answers: int = 0
    """Calls of the answer tool that fitted the schema."""
    used_tools: bool = False
    """Whether the model called another tool."""
    stderr: list[str] = field(default_factory=list)
    """The first lines of the CLI's stderr."""
    starting: tuple[str, ...] = ()
    """MCP servers that were waited for."""
    timed_out: bool = False
    stopped: str = ""
    """Why its watcher or caller stopped it."""
    failure: str = ""
    """What the SDK raised."""
    not_begun: NoConversation | None = None
    """Why there was no conversation."""
    duration_ms: int = 0


class Conclusion(Struct, frozen=True):
    """What a session's end means."""

    status: Status

    detail: str
    """One sentence for people."""

    cause: ConversationCause | None = None
    """Why there is no answer; None if there is one, if the session was stopped, or if a limit was
    reached.
    """


def conclude(
    session: ObservedSession, timeout_s: float, redact: Callable[[str], str]
) -> Conclusion:
    """What the end means, redacted before it is cut."""
    if session.not_begun is not None:
        return Conclusion("died", session.not_begun.reason, session.not_begun)
    status, end = _conclude(session, timeout_s)
    if isinstance(end, str):
        return Conclusion(status, shortened(redact(end)))
    end_cause = replace(end, details=shortened(redact(end.details)))
    if isinstance(end_cause, ApiUnavailable):
        end_cause = replace(end_cause, message=shortened(redact(end_cause.message)))
    return Conclusion(status, shortened(redact(end.reason)), end_cause)


def is_unavailable(session: ObservedSession) -> bool:
    """Whether the model stayed overloaded, or the API does not know it."""
    status = session.result.get("api_error_status")
    if status in UNAVAILABLE_STATUS or _has_mark(session.result, wire.UNAVAILABLE):
        return True
    return _has_mark(session.result, wire.UNREACHABLE)


def session_cost(result: Mapping[str, Any]) -> SessionCost:
    """What the CLI says that the session cost; only a price with basis "list" is one that it
    knows.
    """
    usage: dict[str, object] = result.get("usage") or {}
    read_tokens = counted_tokens(usage.get("cache_read_input_tokens"))
    written_tokens = counted_tokens(usage.get("cache_creation_input_tokens"))
    other_tokens = counted_tokens(usage.get("input_tokens"))
    models: dict[str, dict[str, Any]] = result.get("model_usage") or {}
    by_model: dict[str, ModelCost] = {}
    for name, model_usage in models.items():
        usd = min(float(model_usage.get("costUSD") or 0.0), MAX_USD)
        basis: CostBasis = "known" if model_usage.get("costBasis") == "list" else "unknown"
        by_model[shortened(name)] = ModelCost(usd, basis)
    return SessionCost(
        input_tokens=read_tokens + written_tokens + other_tokens,
        output_tokens=counted_tokens(usage.get("output_tokens")),
        by_model=by_model,
        cache_read_tokens=read_tokens,
    )


def counted_tokens(value: object) -> int:
    """A count of tokens as an endpoint gave it: 0 for what is none, and at most `MAX_TOKENS`."""
    if not isinstance(value, int) or value <= 0:
        return 0
    return min(value, MAX_TOKENS)


def shortened(text: str) -> str:
    """As `one_line`, of at most MAX_DETAIL characters."""
    return shorten_text(one_line(text), MAX_DETAIL)


def one_line(text: str) -> str:
    """The text without control or invisible characters, and single spaces between its words."""
    visible = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join(visible.split())


def _conclude(session: ObservedSession, timeout_s: float) -> tuple[Status, str | ConversationCause]:
    if session.stopped:
        return "aborted", session.stopped
    if session.timed_out:
        detail = f"The session was not finished after {timeout_s:.3g} s."
        if session.starting:
            detail += f" It waited for the MCP server {', '.join(session.starting)} to start."
        return "timeout", detail
    if _has_mark(session.result, wire.BUDGET_REACHED):
        return "budget", "The budget of this run is reached."
    if _has_mark(session.result, wire.CEILING_REACHED):
        return "budget", "The budget of this session is reached."
    if session.stop_reason == "refusal":
        return "refused", ModelRefused()
    if session.stop_reason == "max_tokens":
        return "max_tokens", AnswerCut()
    if not session.result:
        return "died", ProcessEnded(details=_last_words(session))
    return _from_result(session, session.result)


def _last_words(session: ObservedSession) -> str:
    if session.failure:
        return session.failure
    if session.stderr:
        return session.stderr[-1]
    return "it said nothing"


def _from_result(
    session: ObservedSession, result: Mapping[str, Any]
) -> tuple[Status, str | ConversationCause]:
    message = str(result.get("result") or "")
    match result.get("subtype"):
        case "error_max_turns":
            return "max_turns", TurnsUsedUp()
        case "error_max_budget_usd":
            return "budget", "The budget of this session is reached."
        case "error_max_structured_output_retries":
            return "no_answer", NoForm(details=_first_error(result))
    if session.command and not result.get("is_error") and not result.get("model_usage"):
        name = session.command.split()[0]
        details = message or "Claude Code did not say why."
        return "died", NoConversation(message=f"The command {name} did not run.", details=details)
    if result.get("is_error") or not _has_completed(session, message):
        return "api_error", _api_error(result, message)
    if session.free_text:
        return "done", message or "The agent ended without a word."
    if session.answers > 1:
        return "two_answers", ManyAnswers(count=session.answers)
    if not isinstance(result.get("structured_output"), dict):
        return "no_answer", NoAnswer()
    return "answered", "The model answered."


def _has_completed(session: ObservedSession, message: str) -> bool:
    """Whether the conversation came to its end. Of a command in a context of its own (`context:
    fork`) the CLI gives no reason, and a failure as words of its own.
    """
    reason = session.result.get("terminal_reason")
    if session.command and reason is None:
        return not _API_ERROR.match(message)
    return bool(reason == "completed")


def _api_error(result: Mapping[str, Any], message: str) -> ConversationCause:
    status = result.get("api_error_status")
    if _has_mark(result, wire.UNMATCHED):
        return NotRecorded()
    if _has_mark(result, wire.UNAVAILABLE):
        return ApiUnavailable(message=message.partition(wire.UNAVAILABLE)[2].strip())
    if _has_mark(result, wire.UNREACHABLE):
        return Unreachable(message=message.partition(wire.UNREACHABLE)[2].strip())
    message = message or _first_error(result) or str(result.get("terminal_reason"))
    if not isinstance(status, int):
        return BrokeOff(details=message)
    if status == 400 and "credit balance" in message.lower():
        return NoCredit(details=message)
    # The cause has the status already.
    return ApiStatus(status=status, details=message.replace(f"API Error: {status}", ""))


def _has_mark(result: Mapping[str, Any], mark: str) -> bool:
    """Whether the gateway ended the session with this mark."""
    if result.get("api_error_status") != wire.REFUSED_STATUS:
        return False
    return mark in str(result.get("result") or "")


def _first_error(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    return str(errors[0]) if isinstance(errors, list) and errors else ""
