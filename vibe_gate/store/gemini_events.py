"""What Gemini CLI's events say of the files that a call wrote, and of a command's end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_gate.domain.escape import expression
from vibe_gate.store.event_parts import CommandEnd, WrittenFile, object_in, text_in

_STATUS = expression(r"Exit Code: (\d{1,3})")
_FRAME = expression(r"\A<untrusted_context>\n|\n</untrusted_context>\s*\Z")


def read_gemini_end(data: Mapping[str, Any]) -> CommandEnd:
    """How the event says that a command ended: in the lines behind the output, a status if it is
    not 0.
    """
    text = text_in(object_in(data, "tool_response"), "llmContent") or ""
    rows = _FRAME.sub("", text).split("\n")
    if rows[0].startswith("Command moved to background"):
        return CommandEnd(goes_on=True)
    if not rows[0].startswith("Output: ") or not rows[-1].startswith("Process Group PGID: "):
        return CommandEnd()
    rows.pop()
    if rows and rows[-1].startswith("Background PIDs: "):
        rows.pop()
    last_row = rows[-1] if rows else ""
    if last_row.startswith(("Signal: ", "Error: ")):
        return CommandEnd()
    status = _STATUS.fullmatch(last_row)
    return CommandEnd(int(status[1]) if status else 0)


def read_gemini_write(
    tool_input: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[WrittenFile, ...]:
    """The file that the call wrote; `returnDisplay` is a text, and no object, if it failed."""
    display = object_in(response, "returnDisplay")
    path = text_in(display, "filePath")
    if path is None:
        return ()
    is_new = display.get("isNewFile") is True
    before = "" if is_new else text_in(display, "originalContent")
    return (WrittenFile(path, before, text_in(display, "newContent")),)
