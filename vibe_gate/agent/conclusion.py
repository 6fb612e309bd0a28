"""What a session's end means: pure, from what was seen to an Ending's status and sentence.

The CLI's own `subtype` says "success" for a refusal, a 401 and a cut stream alike, so
nothing here trusts it for that.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from vibe_gate.domain import wire
from vibe_gate.domain.verdict import DETAILS
from vibe_gate.domain.wire import Status

MAX_DETAIL = 300
"""Characters of a detail: one sentence in a terminal."""

ADVICE = {
    400: "the model's API does not accept the request; check the model's name",
    401: "the model's API does not accept the key; check it with `vibe-gate doctor`",
    403: "the model's API denies this key the request; check what it may use",
    404: "the model's API does not know this model or address; check both",
    413: "the request is too large for the model's API",
    429: "the model's API limits the rate of this key; try again later",
    500: "the model's API failed; try again later",
    501: "this address does not serve the model's API; check it with `vibe-gate doctor --ask`",
    505: "this address does not serve the model's API; check it with `vibe-gate doctor --ask`",
    529: "the model's API is overloaded; try again later",
}

UNAVAILABLE_STATUS = (404, 429, 500, 502, 503, 504, 529)
"""After these another model may answer."""

OTHER_STATUS = "the model's API refused the request"


class Observed(Struct):
    """What was observed of one session. `result` is the CLI's last message, as a plain dict.

    `starting`: the MCP servers that were waited for when it ended.
    """

    result: Mapping[str, Any] | None = None
    stop_reason: str = ""
    answers: int = 0
    timed_out: bool = False
    stderr: list[str] = field(default_factory=list)
    failure: str = ""
    stopped: str = ""
    free_text: bool = False
    starting: tuple[str, ...] = ()


def conclude(seen: Observed, timeout_s: float, redact: Callable[[str], str]) -> tuple[Status, str]:
    """The status and one sentence for people, redacted before it is cut."""
    status, detail = _conclude(seen, timeout_s)
    return status, plain(redact(detail))


def is_unavailable(seen: Observed) -> bool:
    """Whether the model stayed overloaded, or the API does not know it."""
    status = (seen.result or {}).get("api_error_status")
    return status in UNAVAILABLE_STATUS or _marked(seen.result, wire.UNAVAILABLE)


def plain(text: str) -> str:
    """As `one_line`, of at most MAX_DETAIL characters."""
    line = one_line(text)
    return line if len(line) <= MAX_DETAIL else line[: MAX_DETAIL - 1] + "…"


def one_line(text: str) -> str:
    """The text without control or invisible characters, and single spaces between its words."""
    shown = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    return " ".join(shown.split())


def _conclude(seen: Observed, timeout_s: float) -> tuple[Status, str]:
    if seen.stopped:
        return "aborted", seen.stopped
    if seen.timed_out:
        waited = f" It waited for the MCP server {', '.join(seen.starting)} to start." if seen.starting else ""
        return "timeout", f"The session was not finished after {timeout_s:.3g} s.{waited}"
    if _marked(seen.result, wire.BUDGET_REACHED):
        return "budget", "The budget of this run is reached."
    if _marked(seen.result, wire.CEILING_REACHED):
        return "budget", "The budget of this session is reached."
    if seen.stop_reason == "refusal":
        return "refused", "The model refused to answer."
    if seen.stop_reason == "max_tokens":
        return "max_tokens", "The model's answer was cut at its token limit."
    if seen.result is None:
        last = seen.failure or (seen.stderr[-1] if seen.stderr else "it said nothing")
        return "died", f"The agent's process ended before its conversation did.{DETAILS}{last}"
    return _from_result(seen, seen.result)


def _from_result(seen: Observed, result: Mapping[str, Any]) -> tuple[Status, str]:
    said = str(result.get("result") or "")
    match result.get("subtype"):
        case "error_max_turns":
            return "max_turns", "The session used up its turns without an answer."
        case "error_max_budget_usd":
            return "budget", "The budget of this session is reached."
        case "error_max_structured_output_retries":
            return "no_answer", f"The model gave no answer in the asked form.{DETAILS}{_first(result.get('errors'))}"
    if result.get("is_error") or result.get("terminal_reason") != "completed":
        return "api_error", _api_error(result, said)
    if seen.free_text:
        return "done", said or "The agent ended without a word."
    if seen.answers > 1:
        return "two_answers", f"The model gave {seen.answers} answers where one was asked."
    if not isinstance(result.get("structured_output"), dict):
        return "no_answer", "The model ended without an answer in the asked form."
    return "answered", "The model answered."


def _api_error(result: Mapping[str, Any], said: str) -> str:
    status = result.get("api_error_status")
    if _marked(result, wire.UNMATCHED):
        return "The cassette holds no answer to this request; record it again."
    if _marked(result, wire.UNAVAILABLE):
        return said.partition(wire.UNAVAILABLE)[2].strip()
    said = said or _first(result.get("errors")) or str(result.get("terminal_reason"))
    if not isinstance(status, int):
        return f"The conversation with the model's API broke off.{DETAILS}{said}"
    if status == 400 and "credit balance" in said.lower():
        return f"HTTP 400: the account of this API key has no credit left; add some or use another key.{DETAILS}{said}"
    said = said.replace(f"API Error: {status}", "")  # which is said already
    return f"HTTP {status}: {ADVICE.get(status, OTHER_STATUS)}.{DETAILS}{said}"


def _marked(result: Mapping[str, Any] | None, mark: str) -> bool:
    """Whether the gateway ended the session with this mark."""
    if result is None or result.get("api_error_status") != wire.REFUSED_STATUS:
        return False
    return mark in str(result.get("result") or "")


def _first(errors: object) -> str:
    return str(errors[0]) if isinstance(errors, list) and errors else ""
