"""Tools of MCP servers: which of their arguments name files that they write, and lines that they run."""

from vibe_gate.faces.claude_hook.git_settings import NO_VERIFY
from vibe_gate.faces.claude_hook.guarded import SETTINGS, Project, protected_from_tool, shown
from vibe_gate.faces.claude_hook.rules import refused_command
from vibe_gate.faces.claude_hook.settings_rules import is_settings

_WRITING = ("write", "edit", "create", "update", "delete", "remove", "move", "rename", "patch", "append", "insert",
            "replace", "put", "save", "mkdir", "copy", "set", "modify", "apply", "unlink", "trash", "touch",
            "chmod")  # fmt: skip
"""Words of a tool's name, where it may write."""

_PATHS = ("path", "file", "uri", "source", "destination", "target", "dest", "dst", "src", "from", "to", "dir", "folder")
"""Words of a key, where its value is a path."""

_AROUND = ("noverify", "skiphooks", "nohooks", "bypasshooks")

_LINES = ("command", "cmd", "script", "commandline", "shellcommand")
_MAX_VALUES = 1000
_MAX_PATH = 4096


def refused(tool: str, asked: dict, cwd: str, project: Project) -> str | None:  # type: ignore[type-arg]
    """Why a call of `mcp__SERVER__TOOL` is refused, if it is. Unreadable."""
    name = _plain(tool.rpartition("__")[2])
    writes = any(word in name for word in _WRITING)
    for key, value in _values(asked):
        plain = _plain(key)
        if plain in _LINES and isinstance(value, str):
            line = " ".join([value, *_words(asked.get("args", asked.get("arguments")))])
            if refusal := refused_command(line, str(asked.get("cwd") or cwd), project):
                return refusal
        if (plain in _AROUND and value is True) or (value == "--no-verify" and ("commit" in name or "push" in name)):
            return NO_VERIFY.format(f"{shown(tool)} with {shown(key)}")
        if writes and isinstance(value, str) and any(plain.endswith((word, word + "s")) for word in _PATHS):
            path = value.removeprefix("file://")
            if len(path) > _MAX_PATH or "\n" in path:
                continue
            if is_settings(path, project) and not project.elsewhere(cwd):
                return f"vibe-gate: {shown(path)} is refused; {SETTINGS}."
            if refusal := protected_from_tool(
                path, cwd, project, removes=any(word in name for word in ("delete", "remove", "move"))
            ):
                return refusal
    return None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _words(given: object) -> list[str]:
    return ["'" + str(word).replace("'", "'\\''") + "'" for word in given] if isinstance(given, list) else []


def _values(asked: object, key: str = "") -> list[tuple[str, object]]:
    """Every value with the key that it stands at, of the objects and lists inside, too."""
    found: list[tuple[str, object]] = []
    unfinished = [(key, asked)]
    while unfinished and len(found) < _MAX_VALUES:
        key, value = unfinished.pop()
        if isinstance(value, dict):
            unfinished += value.items()
        elif isinstance(value, list):
            unfinished += [(key, part) for part in value]
        else:
            found.append((key, value))
    return found
