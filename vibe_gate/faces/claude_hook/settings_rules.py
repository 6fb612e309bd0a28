"""Edits of Claude Code's settings: anything may change but our hooks, and whether hooks run at all."""

import os.path

from vibe_gate.faces.claude_hook import git_settings
from vibe_gate.faces.claude_hook.guarded import SETTINGS_FILES, Project

ASK = "the hooks of vibe-gate stand there, leave them as they are; ask the user if they should change"

_MAX_SETTINGS = 1 << 20
_OURS = ("claude_hook/guard.py", "claude_hook/capture.py")


def is_settings(path: str, project: Project) -> bool:
    """Whether a path means a settings file that Claude Code reads."""
    folder, name = os.path.split(os.path.normpath(path))
    if name.casefold() not in SETTINGS_FILES:
        return False
    own = project.settings and os.path.realpath(folder) == os.path.realpath(project.settings)
    return bool(own) or os.path.basename(folder).casefold() == ".claude"  # noqa: PTH119


def refused(path: str, tool: str, asked: dict, read) -> str | None:  # type: ignore[no-untyped-def,type-arg]  # noqa: ANN001
    """Why a tool may not edit the settings at `path` so, if it may not. `read` parses JSON; ValueError, IndexError."""
    before = _text(path)
    after = _result(tool, asked, before)
    if after is None:
        return None  # the tool itself will refuse it
    was, ours = _parsed(before, read), []
    if was is not None:
        ours = _ours(was)
    becomes = _parsed(after, read)
    if becomes is None:
        return _said(path, "would be no valid JSON, and its hooks would not run") if ours else None
    if any(group not in _ours(becomes) for group in ours):
        return _said(path, "would lose hooks of the gate")
    if becomes.get("disableAllHooks") and not (was or {}).get("disableAllHooks"):
        return _said(path, "would switch all hooks off")
    changed = becomes.get("env")
    for name, value in changed.items() if isinstance(changed, dict) else ():
        known = (was or {}).get("env")
        if isinstance(known, dict) and known.get(name) == value:
            continue
        if git_settings.refused_variable(name, str(value)) or git_settings.refused_surroundings({name: str(value)}):
            return _said(path, f"would set {name}")
    return None


def _said(path: str, what: str) -> str:
    return f"vibe-gate: {os.path.basename(path)} {what}; {ASK}."  # noqa: PTH119


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return ""


def _result(tool: str, asked: dict, before: str) -> str | None:  # type: ignore[type-arg]
    """The text that the tool would leave; None where it would fail."""
    if tool == "Write":
        return str(asked.get("content", ""))
    edits = asked.get("edits") if tool == "MultiEdit" else [asked]
    for edit in edits if isinstance(edits, list) else []:
        old, new = str(edit.get("old_string", "")), str(edit.get("new_string", ""))
        if old and old not in before:
            return None
        before = before.replace(old, new, -1 if edit.get("replace_all") is True else 1) if old else new
    return before


def _parsed(text: str, read) -> dict | None:  # type: ignore[no-untyped-def,type-arg]  # noqa: ANN001
    try:
        document = read(text.strip().removeprefix("\ufeff"))
    except (ValueError, IndexError, StopIteration, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _ours(document: dict) -> list[tuple[object, object, object]]:  # type: ignore[type-arg]
    """Our hooks as (event, matcher, hook)."""
    hooks = document.get("hooks")
    found = []
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            inner = group.get("hooks") if isinstance(group, dict) else None
            for hook in inner if isinstance(inner, list) else ():
                arguments = hook.get("args") if isinstance(hook, dict) else None
                if isinstance(arguments, list) and any(str(word).endswith(_OURS) for word in arguments):
                    found.append((event, group.get("matcher"), hook))
    return found
