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


def refusal_of_write(tool: str, tool_input: dict, path: str, common_dir: str) -> str:  # type: ignore[type-arg]
    """Why the tool may not write at `path` (absolute, links resolved); "" if it may. `common_dir`:
    git's folder.
    """
    file_name = os.path.basename(path)  # noqa: PTH119
    below = os.path.relpath(path, common_dir)
    top_folder = below.split("/")[0]
    if top_folder in ("hooks", "vibe-gate") or below in ("config", "config.worktree"):
        return HOOK_FILES.format(file_name)
    if top_folder == ".vibe-artifacts":  # the store of a bare repository's worktrees
        return EVIDENCE.format(below)
    if file_name in _SETTINGS_FILES and _is_settings_folder(os.path.dirname(path)):  # noqa: PTH120
        problem = _settings_problem(tool, tool_input, path)
        return SETTINGS.format(file_name, problem) if problem else ""
    return _refusal_in_worktree(path, os.path.dirname(common_dir))  # noqa: PTH120


def _refusal_in_worktree(path: str, main_root: str) -> str:
    """Why the tool may not write at `path`, which is outside of git's folder; "" if it may."""
    root, mark, rest_of_path = path.partition("/.vibe-")
    is_linked_worktree = os.path.isfile(root + "/.git")  # noqa: PTH113
    if not mark or not (root == main_root or is_linked_worktree):
        return ""
    name_in_tree = ".vibe-" + rest_of_path
    folder = name_in_tree.split("/")[0]
    if folder == ".vibe-artifacts":
        return EVIDENCE.format(name_in_tree)
    if folder == ".vibe-gate" and _has_files(root + "/.vibe-gate"):
        return DEFINITIONS.format(name_in_tree)
    return ""  # if no gate is defined yet, the first definitions soften nothing


def _has_files(folder: str) -> bool:
    return os.path.isdir(folder) and bool(os.listdir(folder))  # noqa: PTH112, PTH208


def _is_settings_folder(folder: str) -> bool:
    """Whether an agent reads settings there, by the folder's name, or as the user's own of Claude
    Code.
    """
    if os.path.basename(folder) in (".claude", ".gemini", ".codex"):  # noqa: PTH119
        return True
    user_folder = os.environ.get("CLAUDE_CONFIG_DIR", "")
    return user_folder != "" and folder == os.path.realpath(user_folder)


def _settings_problem(tool: str, tool_input: dict, path: str) -> str:  # type: ignore[type-arg]
    """What is wrong with the settings that the tool would leave: everything but our hooks may
    change.
    """
    old_text = _read_text(path)
    old_settings = _parse_settings(old_text)
    old_hooks = _hooks(old_settings)
    if tool == "apply_patch":  # only Codex knows the result of its patch
        return "holds hooks of vibe-gate" if old_hooks else ""
    new_settings = _parse_settings(_edited_text(tool, tool_input, old_text))
    new_hooks = _hooks(new_settings)
    if any(hook not in new_hooks for hook in old_hooks):
        return "would lose hooks of vibe-gate"
    if _are_hooks_off(new_settings) and not _are_hooks_off(old_settings):
        return "would switch all hooks off"
    return ""


def _read_text(path: str) -> str:
    """The file's text; "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _are_hooks_off(document: dict) -> bool:  # type: ignore[type-arg]
    """Whether the settings switch off all hooks, or by their names those of vibe-gate."""
    if document.get("disableAllHooks"):
        return True
    config = document.get("hooksConfig")  # Gemini CLI's
    if not isinstance(config, dict):
        return False
    if config.get("enabled") is False:
        return True
    disabled_names = config.get("disabled")
    if not isinstance(disabled_names, list):
        return False
    return any("vibe-gate" in str(name) for name in disabled_names)


def _edited_text(tool: str, tool_input: dict, text: str) -> str:  # type: ignore[type-arg]
    """The file's text after the tool wrote."""
    if tool == "Write":
        return str(tool_input.get("content", ""))
    for edit in tool_input.get("edits", [tool_input]):
        old = str(edit.get("old_string", ""))
        new = str(edit.get("new_string", ""))
        if not old:
            text = new
        elif edit.get("replace_all"):
            text = text.replace(old, new)
        else:
            text = text.replace(old, new, 1)
    return text


def _parse_settings(text: str) -> dict:  # type: ignore[type-arg]
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _hooks(document: dict) -> list[str]:  # type: ignore[type-arg]
    """Our hooks, each with its event and matcher, as text to compare."""
    events = document.get("hooks")
    if not isinstance(events, dict):
        return []
    hook_texts = []
    for event, groups in events.items():
        if not isinstance(groups, list):
            continue
        for group in groups:
            for hook in _hooks_of_group(group):
                entry = [event, group.get("matcher"), hook]
                hook_texts.append(json.dumps(entry, sort_keys=True))
    return hook_texts


def _hooks_of_group(group: object) -> "list[dict]":  # type: ignore[type-arg]
    """The hooks of a group that run a script of ours."""
    from vibe_gate.faces.agent_hook.spool import SCRIPT_NAMES, runs, words_of

    if not isinstance(group, dict):
        return []
    our_hooks = []
    for hook in group.get("hooks", ()):
        if not isinstance(hook, dict):
            continue
        words = words_of(hook)
        if any(runs(words, script) for script in SCRIPT_NAMES):
            our_hooks.append(hook)
    return our_hooks
