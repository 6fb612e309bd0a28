"""Holding one conversation with the real CLI, in the tightest form it offers.

Why each option: docs of `options` below; what happens otherwise was seen to happen.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import inspect
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    HookContext,
    HookMatcher,
    ResultMessage,
    StreamEvent,
    project_key_for_directory,
)
from claude_agent_sdk.types import HookEvent, HookInput, HookJSONOutput

from vibe_gate.agent import servers, transcript
from vibe_gate.agent.allowed import PROTECTED, built_in, refusal
from vibe_gate.agent.conclusion import Observed, conclude, is_unavailable, plain
from vibe_gate.agent.process import Launch
from vibe_gate.agent.task import Conversation, ProgressKind, Recorder, Task, TurnProgress
from vibe_gate.domain.turn import TodoChanges
from vibe_gate.domain.verdict import ANSWER_TOOL
from vibe_gate.domain.wire import FINAL_STOPS, MAX_USD, Ending, ModelCost, SessionCost, end_kind
from vibe_gate.errors import AgentError

# What the SDK logs of a process that we ended ourselves is no news; how the session ended is an Ending.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())
logging.getLogger("claude_agent_sdk").propagate = False

MAX_MESSAGE_BYTES = 16 << 20
"""One message of the CLI; the SDK's default of 1 MB is less than one large tool result."""

MAX_STDERR_LINES = 50

CLOSING_S = 1.0
"""How long the CLI may take to leave by itself (30 ms as a rule) before it is ended."""

STOPPING_S = 5.0
"""How long an interrupted CLI may take to say what the session cost (50 ms as a rule)."""

HELD_S = 1.0
"""How long a hook of a stopped session holds its call back, for the interrupt to come first."""

OBSERVED: tuple[HookEvent, ...] = (
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop",
    "PreCompact", "Notification", "PermissionRequest",
)  # fmt: skip


async def converse(task: Task, record: Recorder) -> Ending:
    """One session from start to end; see `turns.run_conversation`."""
    started = time.monotonic()
    session = _Session(task, record)
    try:
        launch = Launch(task)
        if task.conversation is not None:
            await _restore(task, task.conversation)
        client = ClaudeSDKClient(options(session, launch))
    except OSError as error:
        raise AgentError(f"The agent's home {task.home} cannot be written: {error.strerror}.") from error
    seen = session.seen
    try:
        async with asyncio.timeout(task.timeout_s) as clock:
            await session.listen(client, clock)
    except TimeoutError:
        seen.timed_out = True
    except Exception as error:
        # For a process that died mid-sentence the SDK raises no class of its own, only Exception.
        if type(error) is not Exception and not isinstance(error, ClaudeSDKError | OSError):
            raise
        seen.failure = str(error)
    finally:
        await _close(client, launch, graceful=seen.result is not None)
    seen.stopped = task.stop.reason
    duration_ms = round((time.monotonic() - started) * 1000)
    return _ending(task, seen, duration_ms=duration_ms, used_tools=session.transcript.used_tools)


def options(session: _Session, launch: Launch) -> ClaudeAgentOptions:
    """The read-only form, and that of a working agent.

    `dontAsk` without `allowed_tools`: naming a tool there opens the whole file system
    to it. A working agent's calls are allowed one by one by the guard, which answers both of the CLI's questions: below
    a folder named .git or .claude, where a workspace may lie, it asks twice, and `dontAsk` refuses everything. What
    nobody answers is refused in both forms. No setting sources, strict MCP, restricted: else the reviewed repository's
    hooks, servers and key helpers run. Verbatim prompts: else `@/path` in a diff reads
    that file and a leading `/` runs a command. The system prompt and the MCP servers go through files:
    arguments end at 128 KB and everybody on the machine can read them.
    """
    task, seen = session.task, session.seen
    system_prompt = task.home / "system-prompt.txt"
    system_prompt.write_text(task.system_prompt, encoding="utf-8")
    configured = task.home / "mcp.json"
    configured.write_text(json.dumps({"mcpServers": servers.kept(task.mcp_servers, task.home / "tmp")}))
    kept = task.conversation
    extra: dict[str, str | None] = {"restricted": None, "disable-slash-commands": None}
    extra |= _kept(kept) if kept else {"no-session-persistence": None}
    return ClaudeAgentOptions(
        tools=built_in(task.tools),
        disallowed_tools=list(task.disallowed_tools),
        permission_mode="default" if task.working else "dontAsk",
        setting_sources=[],
        mcp_servers=configured if task.mcp_servers else {},
        strict_mcp_config=True,
        verbatim_prompts=True,
        system_prompt={"type": "file", "path": str(system_prompt)},
        output_format=None if task.schema is None else {"type": "json_schema", "schema": dict(task.schema)},
        model=task.model,
        max_turns=task.max_turns,
        max_budget_usd=None if task.base_url else task.max_cost_usd,
        max_buffer_size=MAX_MESSAGE_BYTES,
        include_partial_messages=True,
        cwd=task.cwd,
        env=launch.blanked() | ({"CLAUDE_CONFIG_DIR": str(task.home / "config")} if kept else {}),
        session_store=kept.store if kept else None,
        session_store_flush="eager",
        cli_path=launch.executable,
        hooks=_hooks(session),
        stderr=lambda line: seen.stderr.append(line) if len(seen.stderr) < MAX_STDERR_LINES else None,
        extra_args=extra,
    )


async def _restore(task: Task, kept: Conversation) -> None:
    """Put the session that goes on where the CLI looks for its own.

    The SDK would do this in a folder of its own in our TMPDIR, which a sudden death leaves there and a wall closes.
    """
    if not kept.resume:
        return
    key, name = project_key_for_directory(task.cwd), str(uuid.UUID(kept.resume))
    entries = await kept.store.load({"project_key": key, "session_id": name})
    if not entries:
        raise AgentError(f"The session {name} is not there, or has no messages.")
    folder = task.home / "config" / "projects" / key
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(entry) + "\n" for entry in _leading_to(kept.resume_at, entries))
    (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def _leading_to(last: str, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries that the CLI needs to go on after the message `last` ("": after the newest).

    The CLI finds its way from the leaf that the newest "last-prompt" names. As the program ends, that is at times a
    note about hooks beside `last`, from which no later turn is found. Without such entries it begins at the newest.
    """
    end = next((number for number, entry in enumerate(entries, 1) if entry.get("uuid") == last), len(entries))
    return [entry for entry in entries[:end] if entry.get("type") != "last-prompt"]


def _kept(kept: Conversation) -> dict[str, str | None]:
    """The CLI's arguments for a session that is kept. Not the SDK's options: `resume` there is `_restore`."""
    given = {"session-id": kept.session_id, "resume": kept.resume, "resume-session-at": kept.resume_at}
    return {name: str(uuid.UUID(value)) for name, value in given.items() if value}


class _Session:
    """What one session shares between its messages, its hooks and who watches or stops it."""

    def __init__(self, task: Task, record: Recorder) -> None:
        self.task = task
        self.record = record
        self.seen = Observed(free_text=task.schema is None)
        self.transcript = transcript.Transcript()
        self._todos = TodoChanges()
        named = {tool.split("__")[1] for tool in task.tools if tool.startswith("mcp__")}
        self.tools = (*task.tools, *(f"mcp__{server}" for server in task.mcp_servers if server not in named))
        self._telling = asyncio.Lock()
        self._asked: set[str] = set()
        self._denied: dict[str, dict[str, Any]] = {}
        self._objected = False
        self._begun: dict[str, dict[str, Any]] = {}  # calls that the watcher heard begin, and not end

    def ms(self) -> int:
        """The time, in milliseconds since 1970."""
        return int(self.task.clock() * 1000)

    def note(self, item: transcript.Item) -> None:
        """Write it down."""
        self.record.event(item | {"ts": self.ms()})

    async def tell(self, kind: ProgressKind, **about: Any) -> None:  # noqa: ANN401  fields of TurnProgress
        """Tell the watcher; what it raises stops the session."""
        if self.task.watch is None:
            return
        async with self._telling:
            if self.task.stop.reason:
                return
            try:
                said = self.task.watch(TurnProgress(kind=kind, ts=self.ms(), **about))
                if inspect.isawaitable(said):
                    await said
            except Exception as error:  # noqa: BLE001  the watcher's own; who awaits the turn gets it
                self.task.stop.abort(f"Its watcher stopped it: {error}", error)

    async def listen(self, client: ClaudeSDKClient, clock: asyncio.Timeout) -> None:
        """Ask, and hear the session to its end."""
        await client.connect()
        if self.task.mcp_servers:
            await self._servers_started(client)
        if self.task.stop.reason:
            return
        images = [{"media_type": image.media_type, "bytes": len(image.data)} for image in self.task.images]
        self.note(
            {"type": "message", "role": "user", "content": self.task.prompt} | ({"images": images} if images else {})
        )
        await client.query(_with_images(self.task) if images else self.task.prompt)
        stopping = asyncio.create_task(self._interrupt(client, clock))
        try:
            async for message in client.receive_response():
                await self._hear(message)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _servers_started(self, client: ClaudeSDKClient) -> None:
        """Wait until every MCP server has started: without one, the agent would do its work without those tools.

        AgentError: one did not start.
        """
        began, told = time.monotonic(), tuple[str, ...]()
        while not self.task.stop.reason:
            status = await client.get_mcp_status()
            place, redact = self.task.home / "tmp", self.task.redact
            now = servers.states(self.task.mcp_servers, status["mcpServers"], place, redact)
            self.seen.starting = now.starting
            if now.failed:
                raise AgentError(servers.failure(now.failed))
            if not now.starting:
                return
            if now.starting != told and time.monotonic() - began > servers.SHOWN_AFTER_S:
                told = now.starting
                await self.tell("notification", text=f"waiting for the MCP server {', '.join(told)} to start")
            await asyncio.sleep(servers.POLL_S)

    async def _interrupt(self, client: ClaudeSDKClient, clock: asyncio.Timeout) -> None:
        await self.task.stop.wanted()
        limit = asyncio.get_running_loop().time() + STOPPING_S
        clock.reschedule(min(limit, clock.when() or limit))
        await client.interrupt()

    async def _hear(self, message: object) -> None:
        if isinstance(message, StreamEvent):
            await self._hear_part(message)
            return
        if isinstance(message, ResultMessage):
            self._end_with(transcript.raw(message))
            return
        for item in self.transcript.items(message):
            self.note(item)
        self._asked.update(transcript.answer_ids(message))
        for ended in transcript.results(message):
            if not ended.is_error:
                self.seen.answers += ended.tool_use_id in self._asked
            elif ended.tool_use_id in self._begun:  # refused by the CLI behind the guard: no hook tells of its end
                await self.tell("tool.ended", **self._begun.pop(ended.tool_use_id), ok=False)

    def _end_with(self, result: transcript.Item) -> None:
        """Of the calls that our guard refused, an interrupted CLI tells only those whose answer it awaited."""
        denied = {str(each.get("tool_use_id")): each for each in result.get("permission_denials") or ()}
        self.seen.result = result | {"permission_denials": list((denied | self._denied).values())}
        self.note({"type": "result", **self.seen.result})

    async def _hear_part(self, message: StreamEvent) -> None:
        """A judge's first cut answer or refusal decides; a working agent goes on, and its last answer decides."""
        stop = str((message.event.get("delta") or {}).get("stop_reason") or "")
        if stop and self.task.working:
            self.seen.stop_reason = stop
        elif stop in FINAL_STOPS:
            self.seen.stop_reason = self.seen.stop_reason or stop
        usage = self.transcript.usage(message)
        if usage:
            self.note(usage)
            await self.tell("usage", tokens=usage["tokens"])

    def why_not(self, call: dict[str, Any]) -> str | None:
        """Why this call must not run, or None if it may."""
        protected = PROTECTED if self.task.working else frozenset()
        return refusal(str(call.get("tool_name")), call.get("tool_input") or {}, self.tools, self.task.cwd, protected)

    def objection(self, call: dict[str, Any]) -> str | None:
        """What is wrong with an answer that is about to be given; None of the second one, which stands as it is."""
        if self.task.objection is None or self._objected or call.get("tool_name") != ANSWER_TOOL:
            return None
        why = self.task.objection(call.get("tool_input") or {})
        self._objected = bool(why)
        return why or None

    async def begin(self, call: dict[str, Any]) -> str | None:
        """As `why_not`, for a call that is about to run."""
        if why := self.objection(call):
            return why
        why = self.why_not(call)
        if call.get("tool_name") != ANSWER_TOOL:
            about = _about(call)
            await self.tell("tool.started", **about)
            if why is None:
                self._begun[about["tool_use_id"]] = about
            else:
                await self.tell("tool.ended", **about, ok=False, result=why)
        why = "The session was stopped." if self.task.stop.reason else why
        if why is not None:
            denied = {name: call.get(name) for name in ("tool_name", "tool_use_id", "tool_input")}
            self._denied[str(call.get("tool_use_id"))] = denied
        if self.task.stop.reason:
            await asyncio.sleep(HELD_S)
        return why

    async def end(self, call: dict[str, Any]) -> None:
        """Tell of a call that has ended, and of the todos that it changed."""
        if call.get("tool_name") == ANSWER_TOOL:
            return
        self._begun.pop(str(call.get("tool_use_id")), None)
        ok = call.get("hook_event_name") == "PostToolUse"
        result = call.get("tool_response") if ok else call.get("error")
        await self.tell("tool.ended", **_about(call), ok=ok, result=result)
        for todo in self._todos.of(str(call.get("tool_name")), call.get("tool_input"), result) if ok else ():
            await self.tell("todo", text=todo["text"], status=todo["status"])
        if self.task.stop.reason:
            await asyncio.sleep(HELD_S)


def _about(call: dict[str, Any]) -> dict[str, Any]:
    names = {"tool": "tool_name", "tool_use_id": "tool_use_id"}
    return {name: str(call.get(key) or "") for name, key in names.items()} | {"input": call.get("tool_input") or {}}


async def _with_images(task: Task) -> AsyncIterator[dict[str, Any]]:
    """The prompt behind its pictures, as the one message of a stream."""
    content: list[dict[str, Any]] = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": image.media_type, "data": base64.b64encode(image.data).decode()},
        }
        for image in task.images
    ]
    content.append({"type": "text", "text": task.prompt})
    yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}


def _hooks(session: _Session) -> dict[HookEvent, list[HookMatcher]]:
    count = iter(range(1 << 62))

    async def observe(event: HookInput, tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        raw: dict[str, Any] = transcript.json_safe(dict(event))
        name = raw.get("hook_event_name")
        session.record.hook({"seq": next(count), "ts": session.ms(), "hook": name, **raw, "tool_use_id": tool_use_id})
        return {}

    async def guard(event: HookInput, _id: str | None, _context: HookContext) -> HookJSONOutput:
        why = await session.begin(dict(event))
        if why is None and not session.task.working:
            return {}
        decision = {"permissionDecision": "allow"}
        if why is not None:
            decision = {"permissionDecision": "deny", "permissionDecisionReason": why}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}  # type: ignore[typeddict-item]

    async def allow(event: HookInput, _id: str | None, _context: HookContext) -> HookJSONOutput:
        why = session.why_not(dict(event))
        decision = {"behavior": "allow"} if why is None else {"behavior": "deny", "message": why}
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    async def after(event: HookInput, _id: str | None, _context: HookContext) -> HookJSONOutput:
        await session.end(dict(event))
        return {}

    async def notify(event: HookInput, _id: str | None, _context: HookContext) -> HookJSONOutput:
        await session.tell("notification", text=str(dict(event).get("message") or ""))
        return {}

    hooks = {name: [HookMatcher(hooks=[observe])] for name in OBSERVED}
    hooks["PreToolUse"].append(HookMatcher(hooks=[guard], on_failure="block"))
    if session.task.working:
        hooks["PermissionRequest"].append(HookMatcher(hooks=[allow], on_failure="block"))
    if session.task.watch is not None:
        hooks["PostToolUse"].append(HookMatcher(hooks=[after]))
        hooks["PostToolUseFailure"].append(HookMatcher(hooks=[after]))
        hooks["Notification"].append(HookMatcher(hooks=[notify]))
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


def _ending(task: Task, seen: Observed, *, duration_ms: int, used_tools: bool) -> Ending:
    status, detail = conclude(seen, task.timeout_s, task.redact)
    result = dict(seen.result or {})
    answer = result.get("structured_output") if status == "answered" else None
    text = str(result.get("result") or "") if end_kind(status) == "finished" else ""
    return Ending(
        status=status,
        answer=answer,
        detail=detail,
        cost=_cost(result),
        session_id=str(result.get("session_id") or ""),
        duration_ms=duration_ms,
        permission_denials=tuple(result.get("permission_denials") or ()),
        text=text,
        used_tools=used_tools,
        is_unavailable=is_unavailable(seen),
    )


def _cost(result: dict[str, Any]) -> SessionCost:
    """What the CLI says that the session cost; only a price with basis "list" is one that it knows."""
    usage: dict[str, object] = result.get("usage") or {}
    counts = (usage.get(f"{kind}input_tokens") for kind in ("cache_read_", "cache_creation_", ""))
    read, written, rest = map(transcript.counted_tokens, counts)
    models: dict[str, dict[str, Any]] = result.get("model_usage") or {}
    by_model: dict[str, ModelCost] = {}
    for name, model_usage in models.items():
        usd = min(float(model_usage.get("costUSD") or 0.0), MAX_USD)
        by_model[plain(name)] = ModelCost(usd, "known" if model_usage.get("costBasis") == "list" else "unknown")
    output = transcript.counted_tokens(usage.get("output_tokens"))
    return SessionCost(read + written + rest, output, by_model, cache_read_tokens=read)
