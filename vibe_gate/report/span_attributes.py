"""What spans say: attributes in forms that every collector takes, and messages as OpenTelemetry's
conventions for generative AI have them. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vibe_gate.domain.document import read_text_of
from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import Summary

MAX_NAME = 200
"""Characters of a name."""

MAX_CONTENT = 10_000
"""Characters of one text."""

MAX_PARTS = 10
"""Texts of one message: with `MAX_CONTENT`, a span stays below half a megabyte."""

MAX_COUNT = (1 << 63) - 1
"""Of a number of 64 bits."""

_PROVIDERS = (
    ("anthropic.claude", "aws.bedrock"),
    ("claude", "anthropic"),
    ("gemini", "gcp.gemini"),
)
"""Who serves a model, by what its name has; Vertex has an @ before the version. Open models are
anybody's.
"""

_TOKENS = {
    "input": "input",
    "output": "output",
    "cache_read": "cache_read.input",
    "cache_write": "cache_creation.input",
}
"""Kinds of tokens, as the conventions name them."""


def verdict_attributes(summary: Summary) -> dict[str, Any]:
    """What a verdict adds to the attributes of its run."""
    cost, change = summary.cost, summary.change
    return {
        "vibe_gate.outcome": summary.outcome,
        "vibe_gate.exit_code": summary.exit_code,
        "vibe_gate.findings": len(summary.findings),
        "vibe_gate.agent_authored": summary.agent_authored.decision,
        "vibe_gate.change.files": len(change.files),
        "vibe_gate.change.added": change.added,
        "vibe_gate.change.deleted": change.deleted,
        "vibe_gate.cost.usd": cost.usd,
        "vibe_gate.cost.basis": cost.basis,
        "vibe_gate.input_tokens": cost.input_tokens,
        "vibe_gate.output_tokens": cost.output_tokens,
        "vibe_gate.cache_read_tokens": cost.cache_read_tokens,
        "vibe_gate.answers.reused": summary.cache.hits,
        "vcs.ref.head.revision": change.head_commit,
        "vcs.ref.base.revision": change.base_commit,
    }


def message_parts(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a message, as the conventions have them."""
    if text := read_text_of(data, "thinking"):
        yield {"type": "reasoning", "content": cut_content(text)}
    if text := read_text_of(data, "content"):
        yield text_part(text)
    if tool := read_text_of(data, "tool"):
        yield {
            "type": "tool_call",
            "id": safe(read_text_of(data, "tool_use_id"))[:MAX_NAME],
            "name": safe(tool)[:MAX_NAME],
            "arguments": content_text(data.get("input")),
        }


def text_part(text: str) -> dict[str, Any]:
    """A text as a part of a message."""
    return {"type": "text", "content": cut_content(text)}


def build_message(role: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A message of at most `MAX_PARTS` parts."""
    return {"role": role, "parts": list(parts[:MAX_PARTS])}


def token_attributes(tokens: Mapping[str, int]) -> dict[str, Any]:
    """Counts of tokens by kind, as attributes."""
    attributes = {}
    for kind, count in tokens.items():
        attributes[f"gen_ai.usage.{_TOKENS[kind]}_tokens"] = count
    return attributes


def provider_of_model(model: str) -> str:
    """Who serves the model, as the conventions name it, by the model's name; "" if that does not
    tell.
    """
    if "claude" in model and "@" in model:
        return "gcp.vertex_ai"
    for part, provider in _PROVIDERS:
        if part in model.lower():
            return provider
    return ""


def limit_number(number: int, most: int) -> int:
    """The number, no less than 0 and no more than `most`."""
    return min(max(number, 0), most)


def cut_content(text: str) -> str:
    """The beginning, in characters that UTF-8 has."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= MAX_CONTENT:
        return text
    return f"{text[:MAX_CONTENT]}… ({len(text):,} characters)"


def content_text(value: object) -> str:
    """A text as it is, anything else as JSON; cut to `MAX_CONTENT`."""
    if isinstance(value, str):
        return cut_content(value)
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):  # messages, whose texts are cut
        return text
    return cut_content(text)


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are known, in a form that every collector takes."""
    plain = {}
    for name, value in attributes.items():
        if value not in ("", None):
            plain[name] = _plain_value(value)
    return plain


def _plain_value(value: str | int | float | bool) -> str | int | float | bool:
    if isinstance(value, str):
        return safe(value)[:MAX_NAME]
    if isinstance(value, (bool, float)):
        return value
    return limit_number(value, MAX_COUNT)
