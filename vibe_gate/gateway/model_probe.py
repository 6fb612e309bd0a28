"""One small request to the model's API, to learn whether it answers this key: what `doctor --ask`
sends.

Loaded only for that: it imports `requests`.
"""

from __future__ import annotations

import json
import time
from typing import Any, Literal

from msgspec import Struct

from vibe_gate.gateway.forward import Client
from vibe_gate.gateway.upstream import Cut, Unavailable, Upstream

ANSWER_S = 30.0
"""Seconds for the whole answer; a model that says one word takes a few."""

MAX_ANSWER_BYTES = 65_536
MAX_WORDS = 120
"""Characters of an error's message that are shown."""

Refusal = Literal["key", "model", "address", "limit", "request"]
"""What to look at when there was no answer."""

_REFUSALS: dict[int, Refusal] = {401: "key", 403: "key", 404: "model", 429: "limit", 529: "limit"}

# An API refuses a subscription's token to a program that does not name itself so.
_SYSTEM = "You are Claude Code, Anthropic's official CLI for Claude."


class ModelReply(Struct, frozen=True):
    """What came back: an answer and its time, or what went wrong and what to look at."""

    text: str
    """A clause for people."""
    refusal: Refusal | None = None
    """None: the model answered."""


def ask_model(upstream: Upstream, model: str, answer_s: float = ANSWER_S) -> ModelReply:
    """Send one request of a few tokens with the real key."""
    body: dict[str, object] = {
        "model": model,
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "Answer with one word: ready"}],
    }
    if "anthropic-beta" in upstream.credentials:
        body["system"] = _SYSTEM
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    client = Client(upstream, silence_s=answer_s)
    host = client.host or ""
    started = time.monotonic()
    try:
        response = client.post("/v1/messages", headers, json.dumps(body).encode())
        answer = bytearray()
        for chunk in client.chunks(response):
            answer += chunk
            if time.monotonic() - started > answer_s or len(answer) > MAX_ANSWER_BYTES:
                return ModelReply(f"{client.host} sent an answer without an end", "address")
    except Unavailable as error:
        is_limited = _REFUSALS.get(error.status) == "limit"
        return ModelReply(str(error), "limit" if is_limited else "address")
    except Cut as error:
        return ModelReply(f"the answer of {client.host} broke off ({error})", "address")
    finally:
        client.close()
    seconds = time.monotonic() - started
    document = _json_object(bytes(answer))
    if response.status_code != 200:
        return _refusal(response.status_code, document, host)
    return _success(document, model, host, seconds)


def _refusal(status: int, document: dict[str, Any], host: str) -> ModelReply:
    error = document.get("error")
    message = str(error.get("message", "")) if isinstance(error, dict) else ""
    refusal = _REFUSALS.get(status, "request")
    if status == 404 and "model" not in message.lower():
        refusal = "address"
    details = f": {message[:MAX_WORDS]}" if message else ""
    return ModelReply(f"{host} refused the request (HTTP {status}{details})", refusal)


def _success(document: dict[str, Any], model: str, host: str, seconds: float) -> ModelReply:
    if document.get("type") != "message" or not isinstance(document.get("content"), list):
        return ModelReply(f"{host} answered, but not as the Messages API does", "address")
    return ModelReply(f"{model} answered at {host} in {seconds:.1f} s")


def _json_object(answer: bytes) -> dict[str, Any]:
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
