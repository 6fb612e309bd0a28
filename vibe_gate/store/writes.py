"""What the hook events of each known agent say: which are prompts, and which tool calls wrote files.

`AGENTS` is the one place that knows how an agent's events are spelled. Whole texts of a file are known only where the
agent tells them; the blob ids are all that git may have stored for the file after the call.
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

from vibe_gate.store.folder import Folder

MAX_FILE_BYTES = 10 << 20
"""Of a file whose content is read back from disk, and letters that an edit may lead to: a bundle keeps none larger."""

MAX_FILES = 2_000
"""Files of one call whose lines are followed: a patch may name any number, and the next command folds it."""

MAX_HUNKS = 200
"""Hunks of one file by which its text before a call is worked out."""

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


class _PatchedLines(Struct, frozen=True):
    """Neighbouring lines of a patch, those around a change included, before and after it."""

    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


class _Told(Struct, frozen=True):
    """What a call says of one file: its path, and its text before and after, as far as they are told."""

    path: str
    before: str | None = None
    after: str | None = None
    hunks: tuple[_PatchedLines, ...] = ()
    """What it changed, from the top of the file down."""


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

    Reads the file back, if nothing has changed it since; of more than `MAX_FILES` in one call no text is told.
    """
    tool = _text(event.data, "tool_name") or ""
    files = _told_by(event)
    followed = [_write(file, event, tool) for file in files[:MAX_FILES]]
    return *followed, *(_write_of_many(file, event, tool) for file in files[MAX_FILES:])


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
    before = told.before
    if before is None and told.hunks:
        text = told.after if settled is None else settled.decode("utf-8", "replace")
        before = None if text is None else _text_before(text, told.hunks)
    contents = {settled, *(_as_stored(told.after) if told.after else ())}
    blobs = frozenset(blob_id(data) for data in contents if data)  # whoever makes an empty file makes the same one
    call = _text(event.data, "tool_use_id") or ""
    return FileWrite(str(path), tool, call, before, told.after, blobs, settled)


def _write_of_many(told: _Told, event: CapturedEvent, tool: str) -> FileWrite:
    """A file of a call that wrote very many: where it is, and the ids that git may give to its content."""
    path = os.path.join(_text(event.data, "cwd") or "/", told.path)  # noqa: PTH118
    blobs = frozenset(blob_id(data) for data in _as_stored(told.after)) if told.after else frozenset[str]()
    call = _text(event.data, "tool_use_id") or ""
    return FileWrite(os.path.normpath(path), tool, call, None, None, blobs)


def _path_of(told: _Told, event: CapturedEvent) -> Path:
    """Where the file is: agents write through links and `..`, and git knows neither."""
    path = os.path.join(_text(event.data, "cwd") or "/", told.path)  # noqa: PTH118
    with contextlib.suppress(ValueError):  # a NUL, which no path has
        return Path(os.path.realpath(path))
    return Path(path)


def _text_before(text: str, hunks: tuple[_PatchedLines, ...]) -> str | None:
    """The text of which the hunks made this one; None if they do not fit, or fit in several places."""
    padded = "\n" + text.replace("\r\n", "\n").removesuffix("\n") + "\n"
    parts: list[str] = []
    start = 0
    for hunk in hunks[: MAX_HUNKS + 1]:
        new = "".join(f"\n{line}" for line in hunk.new) + "\n"
        place = padded.find(new, start)
        if place < 0 or not hunk.new or padded.find(new, place + 1) >= 0:
            return None
        parts += [padded[start:place], *(f"\n{line}" for line in hunk.old)]
        start = place + len(new) - 1
    parts.append(padded[start:])
    return None if len(hunks) > MAX_HUNKS else "".join(parts)[1:]


def _claude_write(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    before = "" if answer.get("type") == "create" else _text(answer, "originalFile")
    return _at("file_path", asked, before, _text(answer, "content") or _text(asked, "content"))


def _claude_edit(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    # What the answer tells is what was done: the user may have changed the proposal.
    original, old, new = (_text(answer, name) for name in ("originalFile", "oldString", "newString"))
    old = _text(asked, "old_string") if old is None else old
    new = _text(asked, "new_string") if new is None else new
    everywhere = asked.get("replace_all") is True
    after = _edited(original, old, new, everywhere=everywhere)
    return _at("file_path", asked, original, after, _structured_patch(answer))


def _structured_patch(answer: Mapping[str, Any]) -> tuple[_PatchedLines, ...]:
    """The hunks that Claude Code tells of an edit. In a subagent it tells nothing else of the file."""
    hunks = answer.get("structuredPatch")
    patched: list[_PatchedLines] = []
    for hunk in hunks if isinstance(hunks, list) else ():
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return ()
        patched.append(_patched_lines(lines))
    return tuple(patched)


def _patched_lines(lines: Iterable[str]) -> _PatchedLines:
    """Of lines that begin with " ", "-" or "+", as in a patch; what else stands there is no line of the file."""
    old = tuple(line[1:] for line in lines if line[:1] in (" ", "-"))
    new = tuple(line[1:] for line in lines if line[:1] in (" ", "+"))
    return _PatchedLines(old, new)


def _edited(original: str | None, old: str | None, new: str | None, *, everywhere: bool) -> str | None:
    if original is None or old is None or new is None or old not in original:
        return None
    if not old:
        return None if original else new
    times = original.count(old) if everywhere else 1
    if len(original) + times * (len(new) - len(old)) > MAX_FILE_BYTES:
        return None
    return original.replace(old, new, times)


def _claude_multi_edit(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    names = ("originalFile", "originalFileContents")
    original = next((text for name in names if (text := _text(answer, name)) is not None), None)
    edits = asked.get("edits")
    after = original if isinstance(edits, list) else None
    for edit in edits if isinstance(edits, list) else ():
        if not isinstance(edit, dict):
            return _at("file_path", asked, original)
        everywhere = edit.get("replace_all") is True
        after = _edited(after, _text(edit, "old_string"), _text(edit, "new_string"), everywhere=everywhere)
    return _at("file_path", asked, original, after, _structured_patch(answer))


def _claude_notebook(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    # It leaves out both for a notebook that is too large.
    before, after = _text(answer, "original_file"), _text(answer, "updated_file")
    return _at("notebook_path", asked, before or None, after or None)


def _gemini_file(_: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[_Told, ...]:
    """`returnDisplay` is a text, and no object, of a call that failed."""
    shown = answer.get("returnDisplay")
    if not isinstance(shown, dict):
        return ()
    before = "" if shown.get("isNewFile") is True else _text(shown, "originalContent")
    return _at("filePath", shown, before, _text(shown, "newContent"))


def _codex_patch(asked: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[_Told, ...]:
    """A patch tells the whole text of a file that it adds, and what it changes in a file that it updates."""
    parts_of: dict[str, list[list[str]]] = {}
    added_paths = set()
    path = ""
    for line in (_text(asked, "command") or "").split("\n"):
        mark, _colon, name = line.partition(": ")
        if mark in ("*** Add File", "*** Update File"):
            path = name.strip()
            parts_of[path] = [[]]
            if mark == "*** Add File":
                added_paths.add(path)
        elif mark == "*** Delete File":
            path = ""
        elif mark == "*** Move to":
            moved = parts_of.pop(path, [[]])
            path = name.strip()
            parts_of[path] = moved
        elif path and line.startswith("@@"):
            parts_of[path].append([])
        elif path:
            parts_of[path][-1].append(line)
    return tuple(_patched_file(path, parts, path in added_paths) for path, parts in parts_of.items())


def _patched_file(path: str, parts: list[list[str]], is_new: bool) -> _Told:
    """A file of a patch, of the lines between its marks."""
    hunks = [_patched_lines(lines) for lines in parts]
    if is_new:
        return _Told(path, "", "".join(f"{line}\n" for hunk in hunks for line in hunk.new))
    return _Told(path, hunks=tuple(hunk for hunk in hunks if hunk.old or hunk.new))


def _at(
    key: str,
    values: Mapping[str, Any],
    before: str | None = None,
    after: str | None = None,
    hunks: tuple[_PatchedLines, ...] = (),
) -> tuple[_Told, ...]:
    path = _text(values, key)
    return () if path is None else (_Told(path, before, after, hunks),)


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
            "MultiEdit": _claude_multi_edit,
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
