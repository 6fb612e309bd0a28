"""One session with the real CLI, in the tightest form it offers.

Why each option: `cli_options` below; what happens otherwise was seen to happen.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import inspect
import itertools
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    HookContext,
    HookMatcher,
    ResultMessage,
    SdkMcpTool,
    SettingSource,
    StreamEvent,
    create_sdk_mcp_server,
)
from claude_agent_sdk.types import (
    HookEvent,
    HookInput,
    HookJSONOutput,
    McpServerConfig,
    SystemPromptPreset,
)

from vibe_gate.agent import mcp_servers, transcript
from vibe_gate.agent.allowed import SKILL_TOOL, SUBAGENT_TOOLS, built_in, refusal_of_call
from vibe_gate.agent.cli_process import CliProcess
from vibe_gate.agent.hidden_folder import HiddenFolder
from vibe_gate.agent.protocols import SessionRecord
from vibe_gate.agent.sdk_sessions import sdk_project_key
from vibe_gate.agent.session_end import ObservedSession
from vibe_gate.agent.setup_home import (
    part_of_outer_path,
    project_folder,
    readable_folders,
    write_setup,
)
from vibe_gate.agent.turn_request import (
    Image,
    ProgressKind,
    RunTests,
    StoredSession,
    TurnProgress,
    TurnRequest,
)
from vibe_gate.domain.agent import PROTECTED, TESTS_TOOL
from vibe_gate.domain.project_setup import command_name
from vibe_gate.domain.turn import TodoChanges
from vibe_gate.domain.verdict import ANSWER_TOOL
from vibe_gate.domain.wire import FINAL_STOPS
from vibe_gate.errors import AgentError

# What the SDK logs of a process that we ended ourselves is no news; how the session ended is an
# ObservedSession.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())
logging.getLogger("claude_agent_sdk").propagate = False

MAX_MESSAGE_BYTES = 16 << 20
"""One message of the CLI; the SDK's default of 1 MB is less than one large tool result."""

MAX_STDERR_LINES = 50

CLOSING_S = 1.0
"""How long the CLI may take to leave by itself (30 ms as a rule) before it is ended."""

STOPPING_S = 5.0
"""How long an interrupted CLI may take to say what the session cost (50 ms as a rule)."""

TESTS_DESCRIPTION = (
    "Run one test file of the working directory, in a copy of the files as they are now, without "
    "network. Answers with the exit code and the end of the output. It does not tell what failed "
    "before the change, too, and a command that stops at its first failure may never reach yours."
)

TESTS_SCHEMA = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {
            "type": "string",
            "description": "The test file, from the root of the working directory.",
        }
    },
}

HELD_S = 1.0
"""How long a hook of a stopped session holds its call back, for the interrupt to come first."""

OBSERVED: tuple[HookEvent, ...] = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Notification",
    "PermissionRequest",
)

# The SDK's list of events lacks these; the CLI has them.
OBSERVED_OF_SETUP = cast("tuple[HookEvent, ...]", ("InstructionsLoaded", "UserPromptExpansion"))
"""Which files were loaded as instructions, and that a command was expanded."""

JsonValue = TypeVar("JsonValue", str, transcript.Item)


async def observe_session(
    turn: TurnRequest,
    process: CliProcess,
    record: SessionRecord,
    redact: Callable[[str], str] = str,
    *,
    metered: bool,
    clock: Callable[[], float] = time.time,
) -> ObservedSession:
    """Hold the session of a turn from start to end. AgentError: an MCP server did not start, or the
    command's arguments may name a file outside of the folder.

    `redact` takes secrets out of what servers said. `metered`: a gateway minds the turn's ceiling.
    `clock` gives seconds since 1970. Whatever the model, the wire or the agent's process does is
    observed, not raised. Cancelling it leaves no process behind.
    """
    _require_inner_paths(turn.command)
    started = time.monotonic()
    session = _Session(turn, process, record, redact, clock)
    observed = session.observed
    if turn.session is not None:
        await _restore_session(turn.session, turn.folder, process.home)
    client = ClaudeSDKClient(cli_options(session, metered=metered))
    try:
        async with asyncio.timeout(turn.timeout_s) as timeout:
            await session.listen(client, timeout)
    except TimeoutError:
        observed.timed_out = True
    except Exception as error:
        # For a process that died mid-sentence the SDK raises no class of its own, only Exception.
        if type(error) is not Exception and not isinstance(error, ClaudeSDKError | OSError):
            raise
        observed.failure = session.hide_folder(str(error))
    finally:
        await _close(client, process, graceful=bool(observed.result))
    observed.stopped = turn.stop.reason
    observed.used_tools = session.transcript.used_tools
    observed.duration_ms = round((time.monotonic() - started) * 1000)
    return observed


def _require_inner_paths(command: str) -> None:
    """AgentError: Claude Code could read a file outside of the folder for the command."""
    name = command_name(command)
    part = part_of_outer_path(command.removeprefix(f"/{name}"), with_references=True)
    if part:
        raise AgentError(
            f"The command /{name} was not run: its arguments have {part}, and Claude Code could read "
            "a file outside of the working directory for it. Name files by plain paths from the "
            "repository's root, as in src/ledger.py or @src/ledger.py."
        )


def cli_options(session: _Session, *, metered: bool) -> ClaudeAgentOptions:
    """The read-only form, and that of a working agent.

    `dontAsk` without `allowed_tools`: naming a tool there opens the whole file system to it. A
    working agent's calls are allowed one by one by the guard, which answers both of the CLI's
    questions: below a folder named .git or .claude, where a workspace may lie, it asks twice, and
    `dontAsk` refuses everything. What nobody answers is refused in both forms. No setting sources,
    strict MCP, restricted: else the reviewed repository's hooks, servers and key helpers run. With
    a setup the one source is the agent's own home, where we wrote it; `restricted` would close that.
    Verbatim prompts: else `@/path` in a diff reads that file and a leading `/` runs a command. The
    system prompt and the MCP servers go through files: arguments end at 128 KB and everybody on the
    machine can read them.
    """
    turn = session.turn
    home = session.process.home
    system_prompt = home / "system-prompt.txt"
    system_prompt.write_text(turn.system_prompt, encoding="utf-8")
    servers = home / "mcp.json"
    watched_servers = mcp_servers.watched_servers(turn.mcp_servers, home / "tmp")
    servers.write_text(json.dumps({"mcpServers": watched_servers}))
    variables = session.process.blanked()
    arguments: dict[str, str | None] = {}
    setting_sources: list[SettingSource] = []
    added_folders: list[str | Path] = []
    if turn.setup is None:
        arguments |= {"restricted": None, "disable-slash-commands": None}
    else:
        write_setup(turn.setup, home, turn.folder)
        setting_sources.append("user")
        added_folders.append(project_folder(home))
    session_store = None
    if turn.session is None:
        arguments["no-session-persistence"] = None
    else:
        session_store = turn.session.store
        arguments |= _session_arguments(turn.session)
        # Where the SDK looks for the transcript to mirror.
        variables["CLAUDE_CONFIG_DIR"] = str(home / "config")
    program_prompt: SystemPromptPreset | None = None
    if turn.has_program_prompt:
        program_prompt = {"type": "preset", "preset": "claude_code", "append": turn.system_prompt}
    output_format: dict[str, Any] | None = None
    if turn.schema is not None:
        output_format = {"type": "json_schema", "schema": dict(turn.schema)}
    max_cost_usd = turn.max_cost_usd
    if metered:
        max_cost_usd = None
    return ClaudeAgentOptions(
        tools=built_in(turn.tools),
        allowed_tools=_tools_of_commands(turn),
        disallowed_tools=list(turn.disallowed_tools),
        permission_mode="default" if turn.working else "dontAsk",
        setting_sources=setting_sources,
        add_dirs=added_folders,
        mcp_servers=servers if turn.mcp_servers else _tests_server(turn.run_tests),
        strict_mcp_config=True,
        verbatim_prompts=not turn.command,
        system_prompt=program_prompt or {"type": "file", "path": str(system_prompt)},
        output_format=output_format,
        model=turn.model,
        max_turns=turn.max_turns,
        max_budget_usd=max_cost_usd,
        max_buffer_size=MAX_MESSAGE_BYTES,
        include_partial_messages=True,
        cwd=turn.folder,
        env=variables,
        session_store=session_store,
        session_store_flush="eager",
        cli_path=session.process.executable,
        hooks=_SessionHooks(session).matchers(),
        stderr=session.keep_stderr,
        extra_args=arguments,
    )


def _tools_of_commands(turn: TurnRequest) -> list[str]:
    """Bash, if the agent lists it and has a setup: lines of commands that begin with "!" are asked
    about in no hook.
    """
    if turn.setup is not None and "Bash" in turn.tools:
        return ["Bash"]
    return []


async def _restore_session(session: StoredSession, folder: Path, home: Path) -> None:
    """Put the session that goes on where the CLI looks for its own.

    The SDK would do this in a folder of its own in our TMPDIR, which a sudden death leaves there
    and a wall closes.
    """
    if not session.resume:
        return
    key = sdk_project_key(folder)
    session_id = str(uuid.UUID(session.resume))
    entries = await session.store.load({"project_key": key, "session_id": session_id})
    if not entries:
        raise AgentError(f"The session {session_id} is not there, or has no messages.")
    transcripts = home / "config" / "projects" / key
    transcripts.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(entry)}\n" for entry in _leading_to(session.resume_at, entries)]
    (transcripts / f"{session_id}.jsonl").write_text("".join(lines), encoding="utf-8")


def _leading_to(last: str, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries that the CLI needs to go on after the message `last` ("": after the newest).

    The CLI finds its way from the leaf that the newest "last-prompt" names. As the program ends,
    that is at times a note about hooks beside `last`, from which no later turn is found. Without
    such entries it begins at the newest.
    """
    leading_entries: list[dict[str, Any]] = []
    for entry in entries:
        if entry.get("type") != "last-prompt":
            leading_entries.append(entry)
        if entry.get("uuid") == last:
            break
    return leading_entries


def _session_arguments(session: StoredSession) -> dict[str, str | None]:
    """The CLI's arguments for a session that is kept; the SDK's `resume` would be another way."""
    ids = {
        "session-id": session.session_id,
        "resume": session.resume,
        "resume-session-at": session.resume_at,
    }
    return {name: str(uuid.UUID(value)) for name, value in ids.items() if value}


class _Session:
    """What one session shares between its messages, its hooks and who watches or stops it."""

    def __init__(
        self,
        turn: TurnRequest,
        process: CliProcess,
        record: SessionRecord,
        redact: Callable[[str], str],
        clock: Callable[[], float],
    ) -> None:
        self.turn = turn
        self.process = process
        self.record = record
        self.observed = ObservedSession(free_text=turn.schema is None, command=turn.command)
        self.transcript = transcript.Transcript()
        self._redact = redact
        self._clock = clock
        self._tools = _listed_tools(turn)
        self._todos = TodoChanges()
        self._telling = asyncio.Lock()
        self._answer_ids: set[str] = set()
        """Calls of the answer tool."""
        self._denied: dict[str, dict[str, Any]] = {}
        """By id, calls that the guard refused."""
        self._objected = False
        self._running: dict[str, dict[str, Any]] = {}
        """By id, calls that the watcher heard begin, and not end."""
        self._hidden_folder: HiddenFolder | None = None
        if turn.hides_folder:
            key = sdk_project_key(turn.folder)
            self._hidden_folder = HiddenFolder(turn.folder, key)

    def keep_stderr(self, line: str) -> None:
        """Keep a line of the CLI's stderr, if it is one of the first."""
        if len(self.observed.stderr) < MAX_STDERR_LINES:
            self.observed.stderr.append(self.hide_folder(line))

    def ms(self) -> int:
        """The time, in milliseconds since 1970."""
        return int(self._clock() * 1000)

    def note(self, item: transcript.Item) -> None:
        """Write it down."""
        self.record.event(self.hide_folder(item) | {"ts": self.ms()})

    def hide_folder(self, value: JsonValue) -> JsonValue:
        """The value without the working directory, if that is hidden."""
        if self._hidden_folder is None:
            return value
        hidden_value: JsonValue = self._hidden_folder.hide_in(value)
        return hidden_value

    async def tell(self, kind: ProgressKind, **details: Any) -> None:  # noqa: ANN401  fields of TurnProgress
        """Tell the watcher; what it raises stops the session."""
        if self.turn.watch is None:
            return
        async with self._telling:
            if self.turn.stop.reason:
                return
            try:
                result = self.turn.watch(TurnProgress(kind=kind, ts=self.ms(), **details))
                if inspect.isawaitable(result):
                    await result
            except Exception as error:  # noqa: BLE001  the watcher's own; who awaits the turn gets it
                self.turn.stop.abort(f"Its watcher stopped it: {error}", error)

    async def listen(self, client: ClaudeSDKClient, timeout: asyncio.Timeout) -> None:
        """Ask, and hear the session to its end."""
        await client.connect()
        if self.turn.mcp_servers:
            await self._servers_started(client)
        if self.turn.stop.reason:
            return
        text = "\n\n".join(filter(None, (self.turn.prompt, self.turn.command)))
        prompt: transcript.Item = {"type": "message", "role": "user", "content": text}
        if self.turn.images:
            prompt["images"] = [_image_note(image) for image in self.turn.images]
        self.note(prompt)
        has_blocks = self.turn.images or self.turn.command
        await client.query(_prompt_blocks(self.turn) if has_blocks else self.turn.prompt)
        stopping = asyncio.create_task(self._interrupt(client, timeout))
        try:
            async for message in client.receive_response():
                await self._hear(message)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _servers_started(self, client: ClaudeSDKClient) -> None:
        """Wait until every MCP server has started: without one, the agent would do its work without
        those tools.

        AgentError: one did not start.
        """
        reported_from = time.monotonic() + mcp_servers.REPORTED_AFTER_S
        reported: tuple[str, ...] = ()
        while not self.turn.stop.reason:
            status = await client.get_mcp_status()
            folder = self.process.home / "tmp"
            states = mcp_servers.server_states(
                self.turn.mcp_servers, status["mcpServers"], folder, self._redact
            )
            self.observed.starting = states.starting
            if states.failed:
                raise mcp_servers.start_failure(states.failed)
            if not states.starting:
                return
            if states.starting != reported and time.monotonic() > reported_from:
                reported = states.starting
                names = ", ".join(reported)
                await self.tell("notification", text=f"waiting for the MCP server {names} to start")
            await asyncio.sleep(mcp_servers.POLL_S)

    async def _interrupt(self, client: ClaudeSDKClient, timeout: asyncio.Timeout) -> None:
        """When the turn is stopped: interrupt the CLI, and let it say what the session cost."""
        await self.turn.stop.wait_for_abort()
        limit = asyncio.get_running_loop().time() + STOPPING_S
        timeout.reschedule(min(limit, timeout.when() or limit))
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
        self._answer_ids.update(transcript.answer_ids(message))
        for block in transcript.results(message):
            if not block.is_error:
                self.observed.answers += block.tool_use_id in self._answer_ids
            elif block.tool_use_id in self._running:
                # Refused by the CLI behind the guard: no hook tells of its end.
                await self.tell("tool.ended", **self._running.pop(block.tool_use_id), ok=False)

    def _end_with(self, result: transcript.Item) -> None:
        """An interrupted CLI names only those refused calls whose answer it awaited: add the
        others.
        """
        denials: dict[str, dict[str, Any]] = {}
        for denial in result.get("permission_denials") or ():
            denials[str(denial.get("tool_use_id"))] = denial
        denials |= self._denied
        self.observed.result = self.hide_folder(
            result | {"permission_denials": list(denials.values())}
        )
        self.note({"type": "result", **self.observed.result})

    async def _hear_part(self, message: StreamEvent) -> None:
        """A judge's first cut answer or refusal decides; of a working agent, the last answer."""
        stop_reason = str((message.event.get("delta") or {}).get("stop_reason") or "")
        if stop_reason and self.turn.working:
            self.observed.stop_reason = stop_reason
        elif stop_reason in FINAL_STOPS:
            self.observed.stop_reason = self.observed.stop_reason or stop_reason
        usage = self.transcript.usage(message)
        if usage:
            self.note(usage)
            await self.tell("usage", tokens=usage["tokens"])

    def why_refused(self, call: dict[str, Any]) -> str | None:
        """Why this call must not run, or None if it may."""
        protected = PROTECTED if self.turn.working else frozenset()
        name = str(call.get("tool_name"))
        tool_input = call.get("tool_input") or {}
        if reason := _refusal_of_expansion(name, tool_input):
            return reason
        readable: tuple[Path, ...] = ()
        if self.turn.setup is not None:
            readable = readable_folders(self.process.home)
        return refusal_of_call(name, tool_input, self._tools, self.turn.folder, protected, readable)

    def objection(self, call: dict[str, Any]) -> str | None:
        """What is wrong with an answer that is about to be given; None of the second one, which
        stands as it is.
        """
        if self.turn.objection is None or self._objected or call.get("tool_name") != ANSWER_TOOL:
            return None
        objection = self.turn.objection(call.get("tool_input") or {})
        self._objected = bool(objection)
        return objection or None

    async def begin_call(self, call: dict[str, Any]) -> str | None:
        """As `why_refused`, for a call that is about to run."""
        if objection := self.objection(call):
            return objection
        reason = self.why_refused(call)
        if call.get("tool_name") != ANSWER_TOOL:
            details = _call_details(call)
            await self.tell("tool.started", **details)
            if reason is None:
                self._running[details["tool_use_id"]] = details
            else:
                await self.tell("tool.ended", **details, ok=False, result=reason)
        if self.turn.stop.reason:
            reason = "The session was stopped."
        if reason is not None:
            denial = {name: call.get(name) for name in ("tool_name", "tool_use_id", "tool_input")}
            self._denied[str(call.get("tool_use_id"))] = denial
        await self._hold_back()
        return reason

    async def end_call(self, call: dict[str, Any]) -> None:
        """Tell of a call that has ended, and of the todos that it changed."""
        tool = str(call.get("tool_name"))
        if tool == ANSWER_TOOL:
            return
        self._running.pop(str(call.get("tool_use_id")), None)
        succeeded = call.get("hook_event_name") == "PostToolUse"
        result = call.get("tool_response") if succeeded else call.get("error")
        await self.tell("tool.ended", **_call_details(call), ok=succeeded, result=result)
        if succeeded:
            for todo in self._todos.of(tool, call.get("tool_input"), result):
                await self.tell("todo", text=todo["text"], status=todo["status"])
        await self._hold_back()

    async def _hold_back(self) -> None:
        """Hold a stopped session's hook back, so that the interrupt comes first."""
        if self.turn.stop.reason:
            await asyncio.sleep(HELD_S)


def _refusal_of_expansion(name: str, tool_input: Mapping[str, Any]) -> str | None:
    """Why a skill or subagent must not begin with this input, or None if it may."""
    if name in SUBAGENT_TOOLS and tool_input.get("isolation"):
        return "A subagent works in the same files: leave out isolation."
    if name != SKILL_TOOL:
        return None
    for key, value in tool_input.items():
        text = str(value).removeprefix("/") if key == "skill" else str(value)
        if part := part_of_outer_path(text):
            return (
                "Arguments of a skill can only name files below the working directory, by plain "
                f"paths without @; these have {part}."
            )
    return None


def _listed_tools(turn: TurnRequest) -> tuple[str, ...]:
    """The tools of the turn, with all of a server's tools unless some of them are named."""
    servers_with_names = {tool.split("__")[1] for tool in turn.tools if tool.startswith("mcp__")}
    whole_servers = [
        f"mcp__{server}" for server in turn.mcp_servers if server not in servers_with_names
    ]
    served = [TESTS_TOOL] if turn.run_tests else []
    return (*turn.tools, *whole_servers, *served)


def _tests_server(run_tests: RunTests | None) -> dict[str, McpServerConfig]:
    """The server of the tool that runs tests, in the SDK's form; none without such a tool."""
    if run_tests is None:
        return {}
    _, server, name = TESTS_TOOL.split("__")

    async def answer(tool_input: Any) -> dict[str, Any]:  # noqa: ANN401  what the model gave
        file = tool_input.get("file") if isinstance(tool_input, dict) else None
        text = await run_tests(str(file or ""))
        return {"content": [{"type": "text", "text": text}]}

    tool = SdkMcpTool(name, TESTS_DESCRIPTION, TESTS_SCHEMA, answer)
    return {server: create_sdk_mcp_server(server, tools=[tool])}


def _call_details(call: dict[str, Any]) -> dict[str, Any]:
    """Of a hook's event about a tool call, the fields of TurnProgress."""
    return {
        "tool": str(call.get("tool_name") or ""),
        "tool_use_id": str(call.get("tool_use_id") or ""),
        "input": call.get("tool_input") or {},
    }


def _image_note(image: Image) -> transcript.Item:
    return {"media_type": image.media_type, "bytes": len(image.data)}


def _image_block(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode()
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": image.media_type, "data": data},
    }


async def _prompt_blocks(turn: TurnRequest) -> AsyncIterator[dict[str, Any]]:
    """Pictures, prompt and command as the one message of a stream. Only the last block is expanded,
    so what others said is not.
    """
    content = [_image_block(image) for image in turn.images]
    for text in filter(None, (turn.prompt, turn.command)):
        content.append({"type": "text", "text": text})
    yield {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": None,
    }


class _SessionHooks:
    """What the CLI asks and tells in one session."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._numbers = itertools.count()

    def matchers(self) -> dict[HookEvent, list[HookMatcher]]:
        """What is called at each event, in order."""
        turn = self._session.turn
        events = OBSERVED if turn.setup is None else (*OBSERVED, *OBSERVED_OF_SETUP)
        matchers = {event: [HookMatcher(hooks=[self._record_event])] for event in events}
        matchers["PreToolUse"].append(HookMatcher(hooks=[self._guard], on_failure="block"))
        if turn.working:
            permit = HookMatcher(hooks=[self._permit], on_failure="block")
            matchers["PermissionRequest"].append(permit)
        if turn.watch is not None:
            matchers["PostToolUse"].append(HookMatcher(hooks=[self._tell_end]))
            matchers["PostToolUseFailure"].append(HookMatcher(hooks=[self._tell_end]))
            matchers["Notification"].append(HookMatcher(hooks=[self._tell_notification]))
        return matchers

    async def _record_event(
        self, event: HookInput, tool_use_id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        session = self._session
        event_fields: transcript.Item = transcript.json_safe(dict(event))
        fields = session.hide_folder(event_fields)
        header = {
            "seq": next(self._numbers),
            "ts": session.ms(),
            "hook": fields.get("hook_event_name"),
        }
        session.record.hook({**header, **fields, "tool_use_id": tool_use_id})
        return {}

    async def _guard(
        self, event: HookInput, _id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        reason = await self._session.begin_call(dict(event))
        if reason is None and not self._session.turn.working:
            return {}
        decision = {"permissionDecision": "allow"}
        if reason is not None:
            decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}  # type: ignore[typeddict-item]

    async def _permit(
        self, event: HookInput, _id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        reason = self._session.why_refused(dict(event))
        decision = {"behavior": "allow"}
        if reason is not None:
            decision = {"behavior": "deny", "message": reason}
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    async def _tell_end(
        self, event: HookInput, _id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        await self._session.end_call(dict(event))
        return {}

    async def _tell_notification(
        self, event: HookInput, _id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        text = str(dict(event).get("message") or "")
        await self._session.tell("notification", text=text)
        return {}


async def _close(client: ClaudeSDKClient, process: CliProcess, *, graceful: bool) -> None:
    """No process is left, whatever interrupts this."""
    try:
        if not graceful:
            await process.end()
        with contextlib.suppress(TimeoutError, ClaudeSDKError, OSError):
            async with asyncio.timeout(CLOSING_S):
                await client.disconnect()
    finally:
        await process.end()
