"""From a PreToolUse event to a refusal."""

from vibe_gate.faces.claude_hook.guard import EDITING
from vibe_gate.faces.claude_hook.rules import refused_command, refused_edit


class Reading:
    """What CPython's scanner of JSON wants to be told."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def refusal(event: bytes) -> str | None:
    """Why the tool may not run, if it may not. An exception where the event or its command cannot be understood."""
    call = read(event.decode().strip())
    tool, asked, cwd = call.get("tool_name"), call.get("tool_input"), call.get("cwd") or "/"
    if tool == "Bash":
        return refused_command(asked["command"], cwd)
    if tool in EDITING:
        return refused_edit(asked[EDITING[tool]], cwd)
    return None


def read(text: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - JSON
    """The JSON document. To import `json` takes as long as all the rest of the call: it brings `re` with it."""
    try:
        document, _ = __import__("_json").make_scanner(Reading)(text, 0)
    except (ImportError, TypeError, AttributeError):  # it is not public, and may want something else one day
        document = __import__("json").loads(text)
    return document
