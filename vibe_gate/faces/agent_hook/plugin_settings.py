"""Whether an agent's settings enable a plugin that brings the hooks of vibe-gate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from vibe_gate.errors import UsageError
from vibe_gate.faces.agent_hook.hooked_agents import HookedAgent
from vibe_gate.faces.agent_hook.settings import read_settings


def find_plugin(agent: HookedAgent, root: Path | None, environ: Mapping[str, str]) -> str:
    """The enabled plugin, as the agent's commands name it; "" if there is none.

    Args:
        agent: Whose settings are read; what cannot be read enables nothing.
        root: The top of the working tree; None: the user's own settings alone.
        environ: Says where these are.
    """
    places: list[tuple[Path, Path]] = []
    with suppress(UsageError):  # no home
        user_file = agent.user_settings(environ)
        places.append((user_file, user_file.parent))
    if root is not None:
        places += [(root / agent.shared, root), (root / agent.local, root)]
    choices: dict[str, bool] = {}
    for path, below in places:  # the last that names a plugin decides
        with suppress(UsageError):
            choices |= _plugin_choices(agent, read_settings(path, below) or "{}")
    return next((name for name, is_enabled in choices.items() if is_enabled), "")


def _plugin_choices(agent: HookedAgent, text: str) -> dict[str, bool]:
    """Our plugins that the settings name, and whether they enable them."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    plugins = document.get("enabledPlugins") if isinstance(document, dict) else None
    if not agent.plugin or not isinstance(plugins, dict):
        return {}
    choices: dict[str, bool] = {}
    for name, is_enabled in plugins.items():
        if name.startswith(f"{agent.plugin}@"):
            choices[name] = is_enabled is True
    return choices
