"""Holding one conversation with the real CLI, in the tightest form it offers.

Why each option: docs of `options` below; what happens otherwise was seen to happen.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    HookContext,
    HookMatcher,
    ResultMessage,
    StreamEvent,
)
from claude_agent_sdk.types import HookEvent, HookInput, HookJSONOutput

from vibe_gate.agent import transcript
from vibe_gate.agent.conclusion import Observed, conclude, plain
from vibe_gate.agent.process import Launch
from vibe_gate.agent.task import Recorder, Task
from vibe_gate.domain.wire import ANSWER_TOOL, FINAL_STOPS, Ending, ModelCost, SessionCost
from vibe_gate.errors import AgentError

# What the SDK logs of a process that we ended ourselves is no news; how the session ended is an Ending.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())
logging.getLogger("claude_agent_sdk").propagate = False

MAX_MESSAGE_BYTES = 16 << 20
"""One message of the CLI; the SDK's default of 1 MB is less than one large tool result."""

MAX_STDERR_LINES = 50

CLOSING_S = 1.0
"""How long the CLI may take to leave by itself (30 ms as a rule) before it is ended."""

OBSERVED: tuple[HookEvent, ...] = (
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop",
    "PreCompact", "Notification", "PermissionRequest",
)  # fmt: skip

_PATH_KEYS = ("file_path", "path", "notebook_path")
_PATTERN_KEYS = {"Glob": ("pattern",), "Grep": ("glob",)}
_WILDCARD = re.compile(r"[*?\[{]")


async def converse(task: Task, record: Recorder) -> Ending:
    """One session from start to end; see `turns.session`."""
    started = time.monotonic()
    seen = Observed()
    try:
        launch = Launch(task)
        client = ClaudeSDKClient(options(task, record, launch, seen))
    except OSError as error:
        raise AgentError(f"The agent's home {task.home} cannot be written: {error.strerror}.") from error
    try:
        async with asyncio.timeout(task.timeout_s):
            await _listen(client, task, record, seen)
    except TimeoutError:
        seen.timed_out = True
    except Exception as error:
        # For a process that died mid-sentence the SDK raises no class of its own, only Exception.
        if type(error) is not Exception and not isinstance(error, ClaudeSDKError | OSError):
            raise
        seen.failure = str(error)
    finally:
        await _close(client, launch, graceful=seen.result is not None)
    return _ending(task, seen, duration_ms=round((time.monotonic() - started) * 1000))


async def _listen(client: ClaudeSDKClient, task: Task, record: Recorder, seen: Observed) -> None:
    await client.connect()
    record.event({"type": "message", "role": "user", "content": task.prompt, "ts": _ms(task)})
    await client.query(task.prompt)
    asked: set[str] = set()
    async for message in client.receive_response():
        if isinstance(message, StreamEvent):
            stop = str((message.event.get("delta") or {}).get("stop_reason") or "")
            if stop in FINAL_STOPS:
                seen.stop_reason = seen.stop_reason or stop
            continue
        for item in transcript.items(message):
            record.event(item | {"ts": _ms(task)})
        asked.update(transcript.answer_ids(message))
        seen.answers += len(asked.intersection(transcript.succeeded_ids(message)))
        if isinstance(message, ResultMessage):
            seen.result = transcript.raw(message)


def options(task: Task, record: Recorder, launch: Launch, seen: Observed) -> ClaudeAgentOptions:
    """The read-only form.

    `dontAsk` without `allowed_tools`: naming a tool there opens the whole file system
    to it. No setting sources, strict MCP, restricted: else the reviewed repository's
    hooks, servers and key helpers run. Verbatim prompts: else `@/path` in a diff reads
    that file and a leading `/` runs a command. The system prompt goes through a file:
    arguments end at 128 KB and everybody on the machine can read them.
    """
    system_prompt = task.home / "system-prompt.txt"
    system_prompt.write_text(task.system_prompt, encoding="utf-8")
    return ClaudeAgentOptions(
        tools=list(task.tools),
        permission_mode="dontAsk",
        setting_sources=[],
        strict_mcp_config=True,
        verbatim_prompts=True,
        system_prompt={"type": "file", "path": str(system_prompt)},
        output_format={"type": "json_schema", "schema": dict(task.schema)},
        model=task.model,
        max_turns=task.max_turns,
        max_budget_usd=None if task.base_url else task.max_cost_usd,
        max_buffer_size=MAX_MESSAGE_BYTES,
        include_partial_messages=True,
        cwd=task.cwd,
        cli_path=launch.executable,
        hooks=_hooks(task, record),
        stderr=lambda line: seen.stderr.append(line) if len(seen.stderr) < MAX_STDERR_LINES else None,
        extra_args={"restricted": None, "disable-slash-commands": None, "no-session-persistence": None},
    )


def _hooks(task: Task, record: Recorder) -> dict[HookEvent, list[HookMatcher]]:
    count = iter(range(1 << 62))

    async def observe(event: HookInput, tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        raw: dict[str, Any] = transcript.json_safe(dict(event))
        name = raw.get("hook_event_name")
        record.hook({"seq": next(count), "ts": _ms(task), "hook": name, **raw, "tool_use_id": tool_use_id})
        return {}

    async def guard(event: HookInput, _id: str | None, _context: HookContext) -> HookJSONOutput:
        call: dict[str, Any] = dict(event)
        why = refusal(str(call.get("tool_name")), call.get("tool_input") or {}, task.tools, task.cwd)
        if why is None:
            return {}
        denied = {"permissionDecision": "deny", "permissionDecisionReason": why}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **denied}}  # type: ignore[typeddict-item]

    hooks = {name: [HookMatcher(hooks=[observe])] for name in OBSERVED}
    hooks["PreToolUse"].append(HookMatcher(hooks=[guard], on_failure="block"))
    return hooks


async def _close(client: ClaudeSDKClient, launch: Launch, *, graceful: bool) -> None:
    """No process is left, whatever interrupts this."""
    try:
        if not graceful:
            await launch.end()
        with contextlib.suppress(TimeoutError, ClaudeSDKError, OSError):
            async with asyncio.timeout(CLOSING_S):
                await client.disconnect()
    finally:
        await launch.end()


def _ending(task: Task, seen: Observed, *, duration_ms: int) -> Ending:
    status, detail = conclude(seen, task.timeout_s)
    result = dict(seen.result or {})
    answer = result.get("structured_output") if status == "answered" else None
    return Ending(
        status=status,
        answer=answer,
        detail=detail,
        cost=_cost(result),
        session_id=str(result.get("session_id") or ""),
        duration_ms=duration_ms,
        permission_denials=tuple(result.get("permission_denials") or ()),
    )


def _cost(result: dict[str, Any]) -> SessionCost:
    """What the CLI says that the session cost; only a price with basis "list" is one that it knows."""
    used: dict[str, int] = result.get("usage") or {}
    read, written, rest = (used.get(f"{kind}input_tokens") or 0 for kind in ("cache_read_", "cache_creation_", ""))
    models: dict[str, dict[str, Any]] = result.get("model_usage") or {}
    by_model = {
        plain(name): ModelCost(float(of.get("costUSD") or 0.0), "known" if of.get("costBasis") == "list" else "unknown")
        for name, of in models.items()
    }
    return SessionCost(read + written + rest, used.get("output_tokens") or 0, by_model)


def _ms(task: Task) -> int:
    return int(task.clock() * 1000)


# Which tool calls may run: listed tools, inside the directory


def refusal(name: str, tool_input: Mapping[str, Any], tools: tuple[str, ...], cwd: Path) -> str | None:
    """Why this call must not run, or None if it may.

    Paths are followed through symlinks, as the tool would; a call whose input is not
    understood is refused.
    """
    if name == ANSWER_TOOL:
        return None
    if name not in tools:
        return f"The tool {name} is not available in this session."
    root = Path(os.path.realpath(cwd))
    for value in _paths(name, tool_input):
        if not isinstance(value, str) or "\0" in value or not _inside(value, root):
            return "Only files below the working directory can be read."
    return None


def _paths(name: str, tool_input: Mapping[str, Any]) -> list[object]:
    """Every path that the call reaches for, with patterns up to their first wildcard."""
    found = [tool_input[key] for key in _PATH_KEYS if tool_input.get(key) is not None]
    base = tool_input.get("path") or "."
    for key in _PATTERN_KEYS.get(name, ()):
        pattern = tool_input.get(key)
        if pattern is None:
            continue
        if not isinstance(pattern, str) or not isinstance(base, str):
            found.append(None)
        else:
            found.append(str(PurePosixPath(base) / _literal_part(pattern)))
    return found


def _literal_part(pattern: str) -> str:
    """The folder that a pattern starts from; all of it where ".." could climb out behind a wildcard."""
    if ".." in PurePosixPath(pattern).parts and _WILDCARD.search(pattern):
        return "/"
    start = _WILDCARD.split(pattern, maxsplit=1)[0]
    return start if start == pattern else start.rpartition("/")[0] or ("/" if start.startswith("/") else ".")


def _inside(value: str, root: Path) -> bool:
    if value.startswith("~"):
        return False  # the tool would expand it
    target = Path(os.path.realpath(root / value))
    return target == root or root in target.parents
