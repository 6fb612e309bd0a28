"""What the hook events of each known agent say: which are prompts, and which tool calls wrote
files.

`AGENTS` is the one place that knows how an agent's events are spelled. Whole texts of a file are
known only where the agent tells them; the blob ids are all that git may have stored for the file
after the call.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct, field

from vibe_gate.domain.escape import expression
from vibe_gate.store.folder import Folder

MAX_FILE_BYTES = 10 << 20
"""Of a file whose content is read back from disk, and letters that an edit may lead to: a bundle
keeps none larger.
"""

MAX_FILES = 2_000
"""Files of one call whose lines are followed: a patch may name any number, and the next command
folds it.
"""

MAX_HUNKS = 200
"""Hunks of one file by which its text before a call is worked out."""

SETTLING_S = 2.0
"""A file that changed no later than this after a call is still the agent's (formatters run as
hooks, too).
"""

CLAUDE = "claude"
"""The agent of a session whose name says no other."""


class CapturedEvent(Struct, frozen=True):
    """One event of the spool."""

    at: datetime
    data: Mapping[str, Any]
    """What the agent gave its hook."""
    agent: str = CLAUDE
    """A key of `AGENTS`."""
    worktree: str = ""
    """The top of the linked worktree in which the agent was; "" in the main one, or if that is not
    known.
    """

    @property
    def kind(self) -> str:
        """The agent's own name of the event."""
        return str(self.data.get("hook_event_name", ""))


class FileWrite(Struct, frozen=True):
    """One file that one tool call wrote."""

    path: str
    tool: str
    tool_use_id: str
    before: str | None
    """The whole text before the call; "" of a new file, None if the event does not have it. Some
    agents give all line ends as LF.
    """
    after: str | None
    """The whole text after the call, as `before`."""
    blobs: frozenset[str]
    """The ids that git may give to what the call left."""
    settled: bytes | None = None
    """What lay on the disk right after the call, formatters included, if nothing has changed it
    since.
    """


class _PatchedLines(Struct, frozen=True):
    """Neighbouring lines of a patch, those around a change included, before and after it."""

    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


class _WrittenFile(Struct, frozen=True):
    """What a call's event says of one file: its path, and its text before and after, None if it
    does not have them.
    """

    path: str
    before: str | None = None
    after: str | None = None
    hunks: tuple[_PatchedLines, ...] = ()
    """What the call changed, from the top of the file down."""


_Reader = Callable[[Mapping[str, Any], Mapping[str, Any]], "tuple[_WrittenFile, ...]"]
"""Input and response of a tool -> the files that it wrote."""


class RunCommand(Struct, frozen=True):
    """What an event says of a command that an agent ran."""

    line: str
    tool_use_id: str
    exit_status: int | None
    """Of the whole line; None if the event does not tell it."""
    duration_ms: int | None
    goes_on: bool = False
    """Whether it was left to go on in the background."""


class BackgroundEnd(Struct, frozen=True):
    """What Claude Code says of the end of a command in the background."""

    tool_use_id: str
    exit_status: int | None


class _CommandEnd(Struct, frozen=True):
    """How an event says that a command ended."""

    exit_status: int | None = None
    goes_on: bool = False


_NOTIFICATION = "<task-notification>"
"""How a prompt begins that Claude Code itself gives its agent."""

_NOTIFIED_CALL = expression(r"<tool-use-id>([^<]*)</tool-use-id>")
_NOTIFIED_STATUS = expression(
    r"(?:completed \(exit code (\d{1,3})\)|failed with exit code (\d{1,3}))</summary>\s*"
    r"</task-notification>\s*\Z"
)
"""Within a summary `<` is escaped, so that a command cannot end it."""

_FAILED_STATUS = expression(r"Exit code (\d{1,3})(?:\n|\Z)")
_GEMINI_STATUS = expression(r"Exit Code: (\d{1,3})")
_GEMINI_FRAME = expression(r"\A<untrusted_context>\n|\n</untrusted_context>\s*\Z")


class AgentEvents(Struct, frozen=True):
    """How the events of one agent are read."""

    title: str
    """What people call the agent."""
    prompt: str
    """The kind of event that has what a person typed, as its member "prompt"."""
    started: str
    """The kind of event before a tool call."""
    ended: str
    """The kind of event after a tool call; it has the call's input and response."""
    writes: Mapping[str, _Reader] = field(default_factory=dict)
    """By tool, how the files that a call wrote are read."""
    failed: str = ""
    """The kind of event after a tool call that failed; "" if `ended` tells of those, too."""
    command_tool: str = ""
    """The tool that runs commands."""
    read_end: Callable[[Mapping[str, Any]], _CommandEnd] = lambda data: _CommandEnd()
    """How an event of that tool says that its command ended."""
    stopped: str = "Stop"
    """The kind of event at the end of a turn."""
    last_words: str = "last_assistant_message"
    """Its member that has what the agent said last."""


def read_prompt(event: CapturedEvent) -> str | None:
    """What a person typed, if the event says so."""
    if event.kind != AGENTS[event.agent].prompt:
        return None
    text = _text(event.data, "prompt")
    return None if text and text.startswith(_NOTIFICATION) else text


def read_command(event: CapturedEvent) -> RunCommand | None:
    """The command that the agent ran, if the event tells of its end, or that it goes on."""
    agent = AGENTS[event.agent]
    if not agent.command_tool or event.data.get("tool_name") != agent.command_tool:
        return None
    tool_input = event.data.get("tool_input")
    line = _text(tool_input, "command") if isinstance(tool_input, dict) else None
    if line is None or event.kind not in filter(None, (agent.ended, agent.failed)):
        return None
    end = agent.read_end(event.data)
    duration_ms = event.data.get("duration_ms")
    return RunCommand(
        line=line,
        tool_use_id=_text(event.data, "tool_use_id") or "",
        exit_status=end.exit_status,
        duration_ms=duration_ms if isinstance(duration_ms, int) and duration_ms >= 0 else None,
        goes_on=end.goes_on,
    )


def read_background_end(event: CapturedEvent) -> BackgroundEnd | None:
    """That a command in the background ended, if the event says so."""
    text = _text(event.data, "prompt") or ""
    if event.agent != CLAUDE or event.kind != AGENTS[CLAUDE].prompt:
        return None
    call = _NOTIFIED_CALL.search(text)
    if not text.startswith(_NOTIFICATION) or call is None:
        return None
    status = _NOTIFIED_STATUS.search(text)
    return BackgroundEnd(call[1], int(status[1] or status[2]) if status else None)


def read_last_words(event: CapturedEvent) -> str:
    """What the agent said last in a turn that ends; "" of another event."""
    agent = AGENTS[event.agent]
    return (_text(event.data, agent.last_words) or "") if event.kind == agent.stopped else ""


def read_writes(event: CapturedEvent) -> tuple[FileWrite, ...]:
    """The files that the call wrote; one call of some tools writes several. () of an event that
    tells of none.

    Reads the file back, if nothing has changed it since; of more than `MAX_FILES` in one call no
    text is told.
    """
    tool = _text(event.data, "tool_name") or ""
    files = _files_of(event)
    writes = [_write(file, event, tool) for file in files[:MAX_FILES]]
    writes += [_write_of_many(file, event, tool) for file in files[MAX_FILES:]]
    return tuple(writes)


def _files_of(event: CapturedEvent) -> tuple[_WrittenFile, ...]:
    """The files that the call wrote, as its event has them; () of another event."""
    agent = AGENTS[event.agent]
    tool = event.data.get("tool_name")
    tool_input = event.data.get("tool_input")
    response = event.data.get("tool_response")
    if event.kind != agent.ended or not isinstance(tool, str) or not isinstance(tool_input, dict):
        return ()
    read = agent.writes.get(tool)
    if read is None:
        return ()
    return read(tool_input, response if isinstance(response, dict) else {})


def paths_written(event: CapturedEvent) -> tuple[str, ...]:
    """The absolute paths of the files that the call wrote. Reads none of them."""
    return tuple(str(_path_of(file, event)) for file in _files_of(event))


def written_blobs_of(event: CapturedEvent) -> set[str]:
    """Git's ids of what a call wrote; nothing for one that wrote nothing."""
    blobs: set[str] = set()
    for write in read_writes(event):
        blobs.update(write.blobs)
    return blobs


def blob_id(data: bytes) -> str:
    """The id that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def open_file(path: Path) -> BinaryIO:
    """The regular file, for reading; a link is not followed. OSError, ValueError."""
    return open(Folder.at(path.parent).reading(path.name), "rb")


def _write(file: _WrittenFile, event: CapturedEvent, tool: str) -> FileWrite:
    path = _path_of(file, event)
    settled = _on_disk(path, event.at)
    before = file.before
    if before is None and file.hunks:
        text = file.after if settled is None else settled.decode("utf-8", "replace")
        before = None if text is None else _text_before(text, file.hunks)
    contents = {settled} if settled else set()  # whoever makes an empty file makes the same one
    if file.after:
        contents.update(_as_stored(file.after))
    blobs = frozenset(blob_id(content) for content in contents if content)
    call_id = _text(event.data, "tool_use_id") or ""
    return FileWrite(str(path), tool, call_id, before, file.after, blobs, settled)


def _write_of_many(file: _WrittenFile, event: CapturedEvent, tool: str) -> FileWrite:
    """A file of a call that wrote very many: where it is, and the ids that git may give to its
    content.
    """
    path = os.path.join(_text(event.data, "cwd") or "/", file.path)  # noqa: PTH118
    contents = _as_stored(file.after) if file.after else iter(())
    blobs = frozenset(blob_id(content) for content in contents)
    call_id = _text(event.data, "tool_use_id") or ""
    return FileWrite(os.path.normpath(path), tool, call_id, None, None, blobs)


def _path_of(file: _WrittenFile, event: CapturedEvent) -> Path:
    """Where the file is: agents write through links and `..`, and git knows neither."""
    path = os.path.join(_text(event.data, "cwd") or "/", file.path)  # noqa: PTH118
    with contextlib.suppress(ValueError):  # a NUL, which no path has
        return Path(os.path.realpath(path))
    return Path(path)


def _text_before(text: str, hunks: tuple[_PatchedLines, ...]) -> str | None:
    """The text of which the hunks made this one; None if they do not fit, or fit in several
    places.
    """
    padded = "\n" + text.replace("\r\n", "\n").removesuffix("\n") + "\n"
    parts: list[str] = []
    start = 0
    for hunk in hunks[: MAX_HUNKS + 1]:
        new = "".join(f"\n{line}" for line in hunk.new) + "\n"
        offset = padded.find(new, start)
        if offset < 0 or not hunk.new or padded.find(new, offset + 1) >= 0:
            return None
        parts += [padded[start:offset], *(f"\n{line}" for line in hunk.old)]
        start = offset + len(new) - 1
    parts.append(padded[start:])
    return None if len(hunks) > MAX_HUNKS else "".join(parts)[1:]


def _claude_end(data: Mapping[str, Any]) -> _CommandEnd:
    """A call that failed tells the status at the beginning of its error. Of some commands (grep)
    Claude Code takes another status than 0 for a success, and says what it means.
    """
    response = data.get("tool_response")
    if not isinstance(response, dict):
        match = _FAILED_STATUS.match(_text(data, "error") or "")
        is_interrupted = data.get("is_interrupt") is True
        return _CommandEnd(int(match[1]) if match and not is_interrupted else None)
    if response.get("backgroundTaskId"):
        return _CommandEnd(goes_on=True)
    if response.get("interrupted") is not False or response.get("returnCodeInterpretation"):
        return _CommandEnd()
    return _CommandEnd(0)


def _gemini_end(data: Mapping[str, Any]) -> _CommandEnd:
    """Gemini CLI tells a status that is not 0, in the lines behind the output."""
    response = data.get("tool_response")
    text = _text(response, "llmContent") if isinstance(response, dict) else None
    rows = _GEMINI_FRAME.sub("", text or "").split("\n")
    if rows[0].startswith("Command moved to background"):
        return _CommandEnd(goes_on=True)
    if not rows[0].startswith("Output: ") or not rows[-1].startswith("Process Group PGID: "):
        return _CommandEnd()
    rows = rows[:-1]
    if rows and rows[-1].startswith("Background PIDs: "):
        rows.pop()
    last_row = rows[-1] if rows else ""
    if last_row.startswith(("Signal: ", "Error: ")):
        return _CommandEnd()
    match = _GEMINI_STATUS.fullmatch(last_row)
    return _CommandEnd(int(match[1]) if match else 0)


def _claude_write(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[_WrittenFile, ...]:
    before = _text(response, "originalFile")
    if response.get("type") == "create":
        before = ""
    after = _text(response, "content") or _text(tool_input, "content")
    return _at("file_path", tool_input, before, after)


def _claude_edit(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[_WrittenFile, ...]:
    # What the response has is what was done: the user may have changed the proposal.
    original = _text(response, "originalFile")
    old = _text(response, "oldString")
    if old is None:
        old = _text(tool_input, "old_string")
    new = _text(response, "newString")
    if new is None:
        new = _text(tool_input, "new_string")
    everywhere = tool_input.get("replace_all") is True
    after = _edited(original, old, new, everywhere=everywhere)
    return _at("file_path", tool_input, original, after, _structured_patch(response))


def _structured_patch(response: Mapping[str, Any]) -> tuple[_PatchedLines, ...]:
    """The hunks that Claude Code tells of an edit. In a subagent it tells nothing else of the
    file.
    """
    hunks = response.get("structuredPatch")
    patched: list[_PatchedLines] = []
    for hunk in hunks if isinstance(hunks, list) else ():
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return ()
        patched.append(_patched_lines(lines))
    return tuple(patched)


def _patched_lines(lines: Iterable[str]) -> _PatchedLines:
    """Of lines that begin with " ", "-" or "+", as in a patch; what else stands there is no line of
    the file.
    """
    old = tuple(line[1:] for line in lines if line[:1] in (" ", "-"))
    new = tuple(line[1:] for line in lines if line[:1] in (" ", "+"))
    return _PatchedLines(old, new)


def _edited(
    original: str | None, old: str | None, new: str | None, *, everywhere: bool
) -> str | None:
    if original is None or old is None or new is None or old not in original:
        return None
    if not old:
        return None if original else new
    times = original.count(old) if everywhere else 1
    if len(original) + times * (len(new) - len(old)) > MAX_FILE_BYTES:
        return None
    return original.replace(old, new, times)


def _claude_multi_edit(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[_WrittenFile, ...]:
    original = _text(response, "originalFile")
    if original is None:
        original = _text(response, "originalFileContents")
    edits = tool_input.get("edits")
    after = original if isinstance(edits, list) else None
    for edit in edits if isinstance(edits, list) else ():
        if not isinstance(edit, dict):
            return _at("file_path", tool_input, original)
        everywhere = edit.get("replace_all") is True
        after = _edited(
            after, _text(edit, "old_string"), _text(edit, "new_string"), everywhere=everywhere
        )
    return _at("file_path", tool_input, original, after, _structured_patch(response))


def _claude_notebook(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[_WrittenFile, ...]:
    # It leaves out both for a notebook that is too large.
    before, after = _text(response, "original_file"), _text(response, "updated_file")
    return _at("notebook_path", tool_input, before or None, after or None)


def _gemini_file(_: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[_WrittenFile, ...]:
    """`returnDisplay` is a text, and no object, of a call that failed."""
    display = response.get("returnDisplay")
    if not isinstance(display, dict):
        return ()
    before = "" if display.get("isNewFile") is True else _text(display, "originalContent")
    return _at("filePath", display, before, _text(display, "newContent"))


def _codex_patch(tool_input: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[_WrittenFile, ...]:
    """A patch tells the whole text of a file that it adds, and what it changes in a file that it
    updates.
    """
    parts_of: dict[str, list[list[str]]] = {}
    added_paths = set()
    path = ""
    for line in (_text(tool_input, "command") or "").split("\n"):
        mark, _colon, name = line.partition(": ")
        if mark in ("*** Add File", "*** Update File"):
            path = name.strip()
            parts_of[path] = [[]]
            if mark == "*** Add File":
                added_paths.add(path)
        elif mark == "*** Delete File":
            path = ""
        elif mark == "*** Move to":
            parts = parts_of.pop(path, [[]])
            path = name.strip()
            parts_of[path] = parts
        elif path and line.startswith("@@"):
            parts_of[path].append([])
        elif path:
            parts_of[path][-1].append(line)
    return tuple(
        _patched_file(path, parts, path in added_paths) for path, parts in parts_of.items()
    )


def _patched_file(path: str, parts: list[list[str]], is_new: bool) -> _WrittenFile:
    """A file of a patch, of the lines between its marks."""
    hunks = [_patched_lines(lines) for lines in parts]
    if is_new:
        lines: list[str] = []
        for hunk in hunks:
            lines += hunk.new
        return _WrittenFile(path, "", "".join(f"{line}\n" for line in lines))
    changed_hunks = [hunk for hunk in hunks if hunk.old or hunk.new]
    return _WrittenFile(path, hunks=tuple(changed_hunks))


def _at(
    key: str,
    values: Mapping[str, Any],
    before: str | None = None,
    after: str | None = None,
    hunks: tuple[_PatchedLines, ...] = (),
) -> tuple[_WrittenFile, ...]:
    path = _text(values, key)
    return () if path is None else (_WrittenFile(path, before, after, hunks),)


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None


def _as_stored(text: str) -> Iterator[bytes]:
    """The bytes that git may have stored: the events tell line ends as LF whatever the file has."""
    plain = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    yield from (plain, plain.replace(b"\n", b"\r\n"), text.encode("utf-8", "surrogatepass"))


def _on_disk(path: Path, at: datetime) -> bytes | None:
    """The file's content, if nobody has changed it since the call."""
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            if status.st_size > MAX_FILE_BYTES or status.st_mtime > at.timestamp() + SETTLING_S:
                return None
            return file.read()
    except (OSError, ValueError):
        return None


AGENTS: Mapping[str, AgentEvents] = {
    CLAUDE: AgentEvents(
        title="Claude Code",
        prompt="UserPromptSubmit",
        started="PreToolUse",
        ended="PostToolUse",
        writes={
            "Write": _claude_write,
            "Edit": _claude_edit,
            "MultiEdit": _claude_multi_edit,
            "NotebookEdit": _claude_notebook,
        },
        failed="PostToolUseFailure",
        command_tool="Bash",
        read_end=_claude_end,
    ),
    "gemini": AgentEvents(
        title="Gemini CLI",
        prompt="BeforeAgent",
        started="BeforeTool",
        ended="AfterTool",
        writes={"write_file": _gemini_file, "replace": _gemini_file},
        command_tool="run_shell_command",
        read_end=_gemini_end,
        stopped="AfterAgent",
        last_words="prompt_response",
    ),
    "codex": AgentEvents(
        title="Codex",
        prompt="UserPromptSubmit",
        started="PreToolUse",
        ended="PostToolUse",
        writes={"apply_patch": _codex_patch},
        command_tool="Bash",  # its events have what a command printed, and not how it ended
    ),
}
"""The agents whose sessions are captured, by the name that `vibe-gate install` has for them."""
