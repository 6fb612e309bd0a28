"""Files that Edit and Write may not change: the gate's definitions, git's hooks, our hooks in
agents' settings.
"""

import json
import os
import os.path

DEFINITIONS = "{0} defines the gate; say what should change and why, and let the user edit it"
EVIDENCE = "{0} holds evidence that only vibe-gate writes; look at it with `vibe-gate bundles`"
HOOK_FILES = (
    "{0} belongs to git's hooks, which run the gate; leave it, and ask the user if it should change"
)
SETTINGS = "{0} {1}; leave the hooks of vibe-gate there as they are, and ask the user if they should change"

_SETTINGS_FILES = ("settings.json", "settings.local.json", "hooks.json")


def refused(tool: str, tool_input: dict, path: str, common_dir: str) -> str:  # type: ignore[type-arg]
    """Why the tool may not write at `path` (absolute, links resolved); "" if it may. `common_dir`:
    git's folder.
    """
    root, file_name = os.path.dirname(common_dir), os.path.basename(path)  # noqa: PTH119, PTH120
    below = os.path.relpath(path, common_dir)
    if below.split("/")[0] in ("hooks", "vibe-gate") or below in ("config", "config.worktree"):
        return HOOK_FILES.format(file_name)
    if below.split("/")[0] == ".vibe-artifacts":  # the store of a bare repository's worktrees
        return EVIDENCE.format(below)
    if file_name in _SETTINGS_FILES and _is_settings_folder(os.path.dirname(path)):  # noqa: PTH120
        reason = _settings(tool, tool_input, path)
        return SETTINGS.format(file_name, reason) if reason else ""
    above = path[: path.find("/.vibe-")] if "/.vibe-" in path else ""
    if not above or not (above == root or os.path.isfile(above + "/.git")):  # noqa: PTH113  (a linked worktree)
        return ""
    name = path[len(above) + 1 :].split("/")[0]
    if name == ".vibe-artifacts":
        return EVIDENCE.format(path[len(above) + 1 :])
    # Where no gate is defined yet, the first definitions soften nothing.
    exists = (
        name == ".vibe-gate"
        and os.path.isdir(above + "/.vibe-gate")  # noqa: PTH112
        and os.listdir(above + "/.vibe-gate")  # noqa: PTH208
    )
    return DEFINITIONS.format(path[len(above) + 1 :]) if exists else ""


def _is_settings_folder(folder: str) -> bool:
    """Whether an agent reads settings there, by the folder's name, or as the user's own of Claude
    Code.
    """
    user_folder = os.environ.get("CLAUDE_CONFIG_DIR")
    return os.path.basename(folder) in (".claude", ".gemini", ".codex") or bool(  # noqa: PTH119
        user_folder and folder == os.path.realpath(user_folder)
    )


def _settings(tool: str, tool_input: dict, path: str) -> str:  # type: ignore[type-arg]
    """What is wrong with the settings that the tool would leave: everything but our hooks may
    change.
    """
    try:
        with open(path, "rb") as file:
            before = file.read().decode("utf-8", "replace")
    except OSError:
        before = ""
    was = _parsed(before)
    if tool == "apply_patch":  # of which only Codex knows what it leads to
        return "holds hooks of vibe-gate" if _hooks(was) else ""
    becomes = _parsed(_after(tool, tool_input, before))
    if any(hook not in _hooks(becomes) for hook in _hooks(was)):
        return "would lose hooks of vibe-gate"
    if _are_off(becomes) and not _are_off(was):
        return "would switch all hooks off"
    return ""


def _are_off(document: dict) -> bool:  # type: ignore[type-arg]
    """Whether the settings switch off all hooks, or by their names those of vibe-gate."""
    config = document.get("hooksConfig")  # Gemini CLI's
    config = config if isinstance(config, dict) else {}
    disabled = config.get("disabled")
    is_disabled = (
        any("vibe-gate" in str(name) for name in disabled) if isinstance(disabled, list) else False
    )
    return bool(document.get("disableAllHooks")) or config.get("enabled") is False or is_disabled


def _after(tool: str, tool_input: dict, text: str) -> str:  # type: ignore[type-arg]
    if tool == "Write":
        return str(tool_input.get("content", ""))
    for edit in tool_input.get("edits", [tool_input]):
        old, new = str(edit.get("old_string", "")), str(edit.get("new_string", ""))
        text = text.replace(old, new, -1 if edit.get("replace_all") else 1) if old else new
    return text


def _parsed(text: str) -> dict:  # type: ignore[type-arg]
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _hooks(document: dict) -> list[str]:  # type: ignore[type-arg]
    """Our hooks, each with its event and matcher, as text to compare."""
    from vibe_gate.faces.agent_hook.spool import SCRIPT_NAMES, runs, words_of

    hook_texts = []
    events = document.get("hooks")
    for event, groups in events.items() if isinstance(events, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            for hook in group.get("hooks", ()) if isinstance(group, dict) else ():
                words = words_of(hook) if isinstance(hook, dict) else []
                if any(runs(words, script) for script in SCRIPT_NAMES):
                    hook_texts.append(
                        json.dumps([event, group.get("matcher"), hook], sort_keys=True)
                    )
    return hook_texts
