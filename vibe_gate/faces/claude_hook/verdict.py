"""From a PreToolUse event to a refusal."""

from vibe_gate.faces.claude_hook.guard import EDITING
from vibe_gate.faces.claude_hook.guarded import Project
from vibe_gate.faces.claude_hook.rules import refused_command, refused_edit


class Reading:
    """What CPython's scanner of JSON wants to be told."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def refusal(event: bytes, environ) -> str | None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - a mapping
    """Why the tool may not run, if it may not. An exception where the event or its command cannot be understood."""
    call = read(event.decode().strip())
    tool, asked, cwd = call.get("tool_name"), call.get("tool_input"), call.get("cwd") or "/"
    home = environ.get("HOME", "")
    project = Project(environ.get("CLAUDE_PROJECT_DIR") or cwd, home, environ.get("CLAUDE_CONFIG_DIR", ""))
    if tool == "Bash":
        return refused_command(asked["command"], cwd, project)
    if tool in EDITING:
        return edit(asked[EDITING[tool]], tool, asked, cwd, project)
    if str(tool).startswith("mcp__"):
        refused: str | None = load("tool_rules").refused(tool, asked, cwd, project)
        return refused
    return None


def edit(path: str, tool: str, asked, cwd: str, project: Project) -> str | None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Why a tool may not edit the file, if it may not: of Claude Code's settings the result counts."""
    if "settings" in path.casefold():
        rules, os = load("settings_rules"), __import__("os")
        where = os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))
        if rules.is_settings(path, project) or rules.is_settings(where, project):
            refused: str | None = rules.refused(where, tool, asked, read)
            return refused
    return refused_edit(path, cwd, project)


def load(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """A module of this package that few calls need."""
    return __import__("vibe_gate.faces.claude_hook." + name, fromlist=["_"])


def read(text: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - JSON
    """The JSON document. To import `json` takes as long as all the rest of the call: it brings `re` with it."""
    try:
        document, end = __import__("_json").make_scanner(Reading)(text, 0)
    except (ImportError, TypeError, AttributeError):  # it is not public, and may want something else one day
        document = __import__("json").loads(text)
    else:
        if text[end:].strip():
            raise ValueError("more than one document")
    return document
