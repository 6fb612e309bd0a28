"""The normal form of a request: what it means, without what changes from run to run.

Left out: everything that the agent's program adds by itself and that its version, the machine, the
clock or the session decide (its reminders about system and date, its identity and billing lines,
the texts of its tool descriptions and of its error messages, its line numbers before what it read,
cache marks, limits, thinking). Kept: the model's name, our system prompt, the names of the tools,
the form of the answer, the digests of a project's set-up that is loaded, and the conversation. Ids
of tool calls become their number; results of parallel calls stand in the order of the calls, lists
of found files in alphabetical order: both come in the order of completion. What Bash, WebFetch,
WebSearch and MCP tools gave is another thing every time (a time, a count, a commit's id): it is
kept as `said`, and whether they failed is all that is compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from vibe_gate.domain.verdict import ANSWER_TOOL

_CLI_SYSTEM = (
    "x-anthropic-billing-header:",
    "You are a Claude agent, built on",
    "You are Claude Code, ",
)
_REMINDERS_ONLY = re.compile(r"\s*(<system-reminder>.*?</system-reminder>\s*)+", re.DOTALL)
_LAST_REMINDER = re.compile(
    r"\s*<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>\s*\Z", re.DOTALL
)
_CLI_TEXT = "[structured-output-enforce]"
_LINE_NUMBER = re.compile(r"^ *\d+[\t→]?", re.MULTILINE)
_SUBAGENT_REPORT = re.compile(r"The report follows:\n(.*?)(?:\nagentId: .*)?\Z", re.DOTALL)
"""What a subagent said, without the frame, its id and its use of tokens and time."""
_SUBAGENT_TOOLS = ("Agent", "Task")
_UNORDERED_TOOLS = ("Glob", "Grep")
_LOOSE_TOOLS = ("Bash", "BashOutput", "WebFetch", "WebSearch", "mcp__")

Json = dict[str, Any]


def normal_request(
    body: Mapping[str, Any], placeholders: Mapping[str, str], setup: Mapping[str, str] = {}
) -> Json:
    """The normal form of a Messages API request; `placeholders` maps literals to what stands for
    them. `setup`: digests by path of what was loaded, which the program tells in reminders, and
    the agent's `system_prompt`, around which it writes much of its own.
    """
    system_texts = _texts(body.get("system"))
    tools = _dicts(body.get("tools"))
    normal = {
        "model": body.get("model"),
        "system": [text for text in system_texts if not text.startswith(_CLI_SYSTEM)],
        "tools": sorted(str(tool.get("name")) for tool in tools),
        "answer": _form_of_answer(tools),
        "messages": _normal_messages(body.get("messages")),
    }
    if setup:
        normal |= {"setup": dict(setup), "system": []}
    fill = fill_template(placeholders)
    result: Json = map_texts(normal, lambda text, _: fill(text))
    return result


def _form_of_answer(tools: list[Json]) -> object:
    """The schema of our own tool, by which an answer is given; None without it."""
    for tool in tools:
        if tool.get("name") == ANSWER_TOOL:
            return tool.get("input_schema")
    return None


def _normal_messages(messages: object) -> list[Json]:
    """The messages of the conversation in which something is said."""
    calls: dict[str, tuple[int, str]] = {}
    normal_messages = []
    for message in _dicts(messages):
        if message.get("role") == "system":
            continue
        normal = _message(message, calls)
        if normal["content"]:
            normal_messages.append(normal)
    return normal_messages


def digest_request(normal: Mapping[str, Any]) -> str:
    """sha-256 of the normal form, without what is kept as `said`."""
    messages = [_message_to_compare(message) for message in normal["messages"]]
    document = {**normal, "messages": messages}
    text = json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def loose_results(normal: Mapping[str, Any]) -> dict[int, str]:
    """What the newest message keeps as `said`, by the number of the call."""
    if not normal["messages"]:
        return {}
    blocks = normal["messages"][-1]["content"]
    return {block["result_of"]: block["said"] for block in blocks if _is_loose(block)}


def _is_loose(block: Json) -> bool:
    return "result_of" in block and "said" in block


def _message_to_compare(message: Json) -> Json:
    content = []
    for block in message["content"]:
        content.append(_without_key(block, "said") if _is_loose(block) else block)
    return {**message, "content": content}


def _without_key(block: Json, key: str) -> Json:
    return {name: value for name, value in block.items() if name != key}


def fill_template(literals: Mapping[str, str]) -> Callable[[str], str]:
    """What replaces every literal in a text, longer literals first."""
    longest_first = sorted(literals, key=len, reverse=True)
    nothing = "(?!)"
    pattern = re.compile("|".join(map(re.escape, longest_first)) or nothing)
    return lambda text: pattern.sub(lambda match: literals[match[0]], text)


def map_texts(value: Any, change: Callable[[str, str], str], field: str = "") -> Any:  # noqa: ANN401 any JSON
    """`value` with `change(text, name of its member)` in place of every string in it; a name has no
    name itself.
    """
    if isinstance(value, str):
        return change(value, field)
    if isinstance(value, dict):
        return {change(name, ""): map_texts(member, change, name) for name, member in value.items()}
    if isinstance(value, list):
        return [map_texts(member, change) for member in value]
    return value


def _message(message: Json, calls: dict[str, tuple[int, str]]) -> Json:
    content = message.get("content")
    blocks = _dicts(content)
    if isinstance(content, str):
        blocks = [{"type": "text", "text": content}]
    normal_blocks = []
    for block in blocks:
        normal_block = _block(block, calls)
        if normal_block:
            normal_blocks.append(normal_block)
    if any("result_of" in block for block in normal_blocks):
        normal_blocks.sort(key=lambda block: block.get("result_of", len(calls) + 1))
    return {"role": message.get("role"), "content": normal_blocks}


def _block(block: Json, calls: dict[str, tuple[int, str]]) -> Json:
    """One block of a message in its normal form; {} for what is left out."""
    kind = block.get("type")
    if kind == "text":
        return _text_block(str(block.get("text", "")))
    if kind == "tool_use":
        number = len(calls) + 1
        calls[str(block.get("id"))] = (number, str(block.get("name")))
        return {"call": number, "tool": block.get("name"), "input": block.get("input")}
    if kind == "tool_result":
        number, tool = calls.get(str(block.get("tool_use_id")), (0, ""))
        return _result_block(number, tool, block)
    if kind in ("thinking", "redacted_thinking"):
        return {}
    return _without_data(_without_key(block, "cache_control"))


def _text_block(text: str) -> Json:
    """{} for what the agent's program says by itself."""
    if text.startswith(_CLI_TEXT) or _REMINDERS_ONLY.fullmatch(text):
        return {}
    return {"text": text}


def _result_block(number: int, tool: str, block: Json) -> Json:
    """What the call of this number gave."""
    if block.get("is_error"):
        return {"result_of": number, "error": True}
    text = "\n".join(_texts(block.get("content")))
    if tool.startswith(_LOOSE_TOOLS):
        return {"result_of": number, "said": text}
    return {"result_of": number, "text": _text_of_result(tool, text)}


def _without_data(block: Json) -> Json:
    """A picture with its sha-256 in place of its bytes."""
    source = block.get("source")
    if not isinstance(source, dict) or not isinstance(source.get("data"), str):
        return block
    digest = hashlib.sha256(source["data"].encode()).hexdigest()
    return {**block, "source": {**source, "data": digest}}


def _text_of_result(tool: str, text: str) -> str:
    """What a tool gave, without the manner in which the CLI presents it."""
    text = _LAST_REMINDER.sub("", text)
    if tool == "Read":
        return _LINE_NUMBER.sub("", text).rstrip()
    if tool in _SUBAGENT_TOOLS:
        match = _SUBAGENT_REPORT.search(text)
        return match[1] if match else text
    if tool in _UNORDERED_TOOLS:
        return "\n".join(sorted(text.split("\n")))
    return text


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    texts = []
    for block in _dicts(content):
        if "text" in block:
            texts.append(str(block["text"]))
        else:
            texts.append(json.dumps(_without_data(block), sort_keys=True))
    return texts


def _dicts(value: object) -> list[Json]:
    if not isinstance(value, list):
        return []
    return [member for member in value if isinstance(member, dict)]
