"""What the hook events of each known agent say: which are prompts, and which tool calls wrote files.

`AGENTS` is the one place that knows how an agent's events are spelled. Whole texts of a file are known only where the
agent tells them; the blob ids are all that git may have stored for the file after the call.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct, field

from vibe_gate.store.folder import Folder

MAX_FILE_BYTES = 10 << 20
"""Of a file whose content is read back from disk, and letters that an edit may lead to: a bundle keeps none larger."""

SETTLING_S = 2.0
"""A file that changed no later than this after a call is still the agent's (formatters run as hooks, too)."""

CLAUDE = "claude"
"""The agent of a session whose name says no other."""


class CapturedEvent(Struct, frozen=True):
    """One event of the spool: when it was, what the agent said, and which agent (a key of `AGENTS`).

    `worktree`: the top of the linked worktree in which the agent was; "" in the main one, or if that is not known.
    """

    at: datetime
    data: Mapping[str, Any]
    agent: str = CLAUDE
    worktree: str = ""

    @property
    def kind(self) -> str:
        """The agent's own name of the event."""
        return str(self.data.get("hook_event_name", ""))


class FileWrite(Struct, frozen=True):
    """One file that one tool call wrote.

    `before` and `after` are its whole text, None where the event does not tell it ("" of a new file's `before`); some
    agents tell all line ends as LF. `settled` is what lay on the disk right after the call, formatters included, if
    nothing has changed it since. `blobs` are the ids that git may give to what the call left.
    """

    path: str
    tool: str
    tool_use_id: str
    before: str | None
    after: str | None
    blobs: frozenset[str]
    settled: bytes | None = None


class _Told(Struct, frozen=True):
    """What a call says of one file: its path, and its text before and after, as far as they are told."""

    path: str
    before: str | None = None
    after: str | None = None


_Reader = Callable[[Mapping[str, Any], Mapping[str, Any]], "tuple[_Told, ...]"]
"""Input and response of a tool -> the files that it wrote."""


class AgentEvents(Struct, frozen=True):
    """How the events of one agent are read.

    `prompt` is the kind of event that has what a person typed, as its member "prompt"; `started` and `ended` are those
    before and after a call, which the second tells of; `writes`: by tool, the file that a call wrote.
    """

    title: str
    prompt: str
    started: str
    ended: str
    writes: Mapping[str, _Reader] = field(default_factory=dict)


def prompt_of(event: CapturedEvent) -> str | None:
    """What a person typed, if the event says so."""
    is_prompt = event.kind == AGENTS[event.agent].prompt
    return _text(event.data, "prompt") if is_prompt else None


def writes_of(event: CapturedEvent) -> tuple[FileWrite, ...]:
    """The files that the call wrote; one call of some tools writes several. () of an event that tells of none.

    Reads the file back, if nothing has changed it since.
    """
    return tuple(_write(told, event, _text(event.data, "tool_name") or "") for told in _told_by(event))


def _told_by(event: CapturedEvent) -> tuple[_Told, ...]:
    agent = AGENTS[event.agent]
    tool, asked, answer = (event.data.get(name) for name in ("tool_name", "tool_input", "tool_response"))
    if event.kind != agent.ended or not isinstance(tool, str) or not isinstance(asked, dict):
        return ()
    read = agent.writes.get(tool)
    return read(asked, answer if isinstance(answer, dict) else {}) if read else ()


def paths_written(event: CapturedEvent) -> tuple[str, ...]:
    """The absolute paths of the files that the call wrote. Reads none of them."""
    return tuple(str(_path_of(told, event)) for told in _told_by(event))


def blobs_of(event: CapturedEvent) -> set[str]:
    """Git's ids of what a call wrote; nothing for one that wrote nothing."""
    return {blob for write in writes_of(event) for blob in write.blobs}


def blob_id(data: bytes) -> str:
    """The id that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def open_file(path: Path) -> BinaryIO:
    """The regular file, for reading; a link is not followed. OSError, ValueError."""
    return open(Folder.at(path.parent).reading(path.name), "rb")


def _write(told: _Told, event: CapturedEvent, tool: str) -> FileWrite:
    path = _path_of(told, event)
    settled = _on_disk(path, event.at)
    every = {settled, *(_as_stored(told.after) if told.after else ())}
    blobs = frozenset(blob_id(data) for data in every if data)  # whoever makes an empty file makes the same one
    call = _text(event.data, "tool_use_id") or ""
    return FileWrite(str(path), tool, call, told.before, told.after, blobs, settled)


def _path_of(told: _Told, event: CapturedEvent) -> Path:
    return Path(_text(event.data, "cwd") or "/", told.path)


def _claude_write(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    before = "" if answer.get("type") == "create" else _text(answer, "originalFile")
    return _at("file_path", asked, before, _text(answer, "content") or _text(asked, "content"))


def _claude_edit(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    # What the answer tells is what was done: the user may have changed the proposal.
    original, old, new = (_text(answer, name) for name in ("originalFile", "oldString", "newString"))
    old = _text(asked, "old_string") if old is None else old
    new = _text(asked, "new_string") if new is None else new
    everywhere = asked.get("replace_all") is True
    return _at("file_path", asked, original, _edited(original, old, new, everywhere=everywhere))


def _edited(original: str | None, old: str | None, new: str | None, *, everywhere: bool) -> str | None:
    if original is None or old is None or new is None or old not in original:
        return None
    if not old:
        return None if original else new
    times = original.count(old) if everywhere else 1
    if len(original) + times * (len(new) - len(old)) > MAX_FILE_BYTES:
        return None
    return original.replace(old, new, times)


def _claude_path(asked: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[_Told, ...]:
    return _at("file_path", asked)


def _claude_notebook(asked: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[_Told, ...]:
    return _at("notebook_path", asked)


def _gemini_file(_: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    """`returnDisplay` is a text, and no object, of a call that failed."""
    shown = answer.get("returnDisplay")
    if not isinstance(shown, dict):
        return ()
    before = "" if shown.get("isNewFile") is True else _text(shown, "originalContent")
    return _at("filePath", shown, before, _text(shown, "newContent"))


def _codex_patch(asked: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[_Told, ...]:
    """A patch tells a whole text only of a file that it adds."""
    texts: dict[str, list[str] | None] = {}
    path = ""
    for line in (_text(asked, "command") or "").split("\n"):
        mark, _colon, name = line.partition(": ")
        if mark in ("*** Add File", "*** Update File", "*** Delete File", "*** Move to"):
            if mark == "*** Move to":
                texts.pop(path, None)
            path = name.strip()
            if mark != "*** Delete File":
                texts[path] = [] if mark == "*** Add File" else None
        elif line.startswith("+") and (added := texts.get(path)) is not None:
            added.append(f"{line[1:]}\n")
    return tuple(_Told(path) if text is None else _Told(path, "", "".join(text)) for path, text in texts.items())


def _at(key: str, values: Mapping[str, Any], before: str | None = None, after: str | None = None) -> tuple[_Told, ...]:
    path = _text(values, key)
    return () if path is None else (_Told(path, before, after),)


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
            about = os.fstat(file.fileno())
            if about.st_size > MAX_FILE_BYTES or about.st_mtime > at.timestamp() + SETTLING_S:
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
            "MultiEdit": _claude_path,
            "NotebookEdit": _claude_notebook,
        },
    ),
    "gemini": AgentEvents(
        title="Gemini CLI",
        prompt="BeforeAgent",
        started="BeforeTool",
        ended="AfterTool",
        writes={"write_file": _gemini_file, "replace": _gemini_file},
    ),
    "codex": AgentEvents(
        title="Codex",
        prompt="UserPromptSubmit",
        started="PreToolUse",
        ended="PostToolUse",
        writes={"apply_patch": _codex_patch},
    ),
}
"""The agents whose sessions are captured, by the name that `vibe-gate install` has for them."""
