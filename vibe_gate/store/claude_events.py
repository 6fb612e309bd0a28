"""What Claude Code's events say of the files that a call wrote, and of a command's end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from vibe_gate.domain.escape import expression
from vibe_gate.store.event_parts import (
    MAX_FILE_BYTES,
    CommandEnd,
    PatchedLines,
    WrittenFile,
    split_patched_lines,
    text_in,
)

_NOTIFICATION = "<task-notification>"
"""How a prompt begins that Claude Code itself gives its agent."""

_NOTIFIED_CALL = expression(r"<tool-use-id>([^<]*)</tool-use-id>")
_NOTIFIED_STATUS = expression(
    r"(?:completed \(exit code (\d{1,3})\)|failed with exit code (\d{1,3}))</summary>\s*"
    r"</task-notification>\s*\Z"
)
"""Within a summary `<` is escaped, so that a command cannot end it."""

_FAILED_STATUS = expression(r"Exit code (\d{1,3})(?:\n|\Z)")


class BackgroundEnd(Struct, frozen=True):
    """What Claude Code says of the end of a command in the background."""

    tool_use_id: str
    exit_status: int | None


# Commands


def is_notification(prompt: str) -> bool:
    """Whether Claude Code wrote the prompt itself."""
    return prompt.startswith(_NOTIFICATION)


def read_notification(prompt: str) -> BackgroundEnd | None:
    """The end of a command in the background, if the prompt tells of one."""
    call = _NOTIFIED_CALL.search(prompt)
    if not is_notification(prompt) or call is None:
        return None
    status = _NOTIFIED_STATUS.search(prompt)
    if status is None:
        return BackgroundEnd(call[1], None)
    return BackgroundEnd(call[1], int(status[1] or status[2]))


def read_claude_end(data: Mapping[str, Any]) -> CommandEnd:
    """How the event says that a command ended.

    A call that failed tells the status at the beginning of its error. Of some commands (grep)
    Claude Code takes another status than 0 for a success, and says what it means.
    """
    response = data.get("tool_response")
    if not isinstance(response, dict):
        return _read_failure(data)
    if response.get("backgroundTaskId"):
        return CommandEnd(goes_on=True)
    if response.get("interrupted") is not False or response.get("returnCodeInterpretation"):
        return CommandEnd()
    return CommandEnd(0)


def _read_failure(data: Mapping[str, Any]) -> CommandEnd:
    status = _FAILED_STATUS.match(text_in(data, "error") or "")
    if status is None or data.get("is_interrupt") is True:
        return CommandEnd()
    return CommandEnd(int(status[1]))


# Files


def read_claude_write(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[WrittenFile, ...]:
    """The file that Write wrote."""
    path = text_in(tool_input, "file_path")
    if path is None:
        return ()
    is_new = response.get("type") == "create"
    before = "" if is_new else text_in(response, "originalFile")
    after = text_in(response, "content") or text_in(tool_input, "content")
    return (WrittenFile(path, before, after),)


def read_claude_edit(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[WrittenFile, ...]:
    """The file that Edit changed."""
    path = text_in(tool_input, "file_path")
    if path is None:
        return ()
    # The response has what was done: the user may have changed the proposal.
    old = text_in(response, "oldString")
    if old is None:
        old = text_in(tool_input, "old_string")
    new = text_in(response, "newString")
    if new is None:
        new = text_in(tool_input, "new_string")
    before = text_in(response, "originalFile")
    after = _replace_text(before, old, new, everywhere=tool_input.get("replace_all") is True)
    return (WrittenFile(path, before, after, _read_structured_patch(response)),)


def read_claude_multi_edit(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[WrittenFile, ...]:
    """The file that MultiEdit changed."""
    path = text_in(tool_input, "file_path")
    if path is None:
        return ()
    before = text_in(response, "originalFile")
    if before is None:
        before = text_in(response, "originalFileContents")
    edits = tool_input.get("edits")
    if not isinstance(edits, list):
        return (WrittenFile(path, before, None, _read_structured_patch(response)),)
    after = before
    for edit in edits:
        if not isinstance(edit, dict):
            return (WrittenFile(path, before),)
        old = text_in(edit, "old_string")
        new = text_in(edit, "new_string")
        after = _replace_text(after, old, new, everywhere=edit.get("replace_all") is True)
    return (WrittenFile(path, before, after, _read_structured_patch(response)),)


def read_claude_notebook(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[WrittenFile, ...]:
    """The notebook that NotebookEdit changed."""
    path = text_in(tool_input, "notebook_path")
    if path is None:
        return ()
    # Both are empty for a notebook that is too large.
    before = text_in(response, "original_file") or None
    after = text_in(response, "updated_file") or None
    return (WrittenFile(path, before, after),)


def _replace_text(
    text: str | None, old: str | None, new: str | None, *, everywhere: bool
) -> str | None:
    """The text after an edit; None if the edit does not fit it, or makes it too large."""
    if text is None or old is None or new is None or old not in text:
        return None
    if not old:
        return None if text else new
    count = text.count(old) if everywhere else 1
    if len(text) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
        return None
    return text.replace(old, new, count)


def _read_structured_patch(response: Mapping[str, Any]) -> tuple[PatchedLines, ...]:
    """The hunks that Claude Code tells of an edit. In a subagent it tells nothing else of the
    file.
    """
    hunks = response.get("structuredPatch")
    if not isinstance(hunks, list):
        return ()
    patched_hunks: list[PatchedLines] = []
    for hunk in hunks:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return ()
        patched_hunks.append(split_patched_lines(lines))
    return tuple(patched_hunks)
