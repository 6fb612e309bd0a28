"""What the agent's program gets of this program's environment: an exact list, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

PASSED_NAMES = ("PATH", "LANG", "LANGUAGE", "TZ")
"""Besides LC_*: enough to run, nothing to learn."""


class AgentEnvironment(Struct, frozen=True):
    """What the agent's program may know of this program's environment."""

    variables: Mapping[str, str]
    """Search path, locale and time zone, as far as they are set: PATH, LANG, LANGUAGE, TZ and
    LC_*.
    """

    @property
    def search_path(self) -> str:
        """Where programs are looked for."""
        return self.variables.get("PATH", os.defpath)


def agent_environment_from(environ: Mapping[str, str]) -> AgentEnvironment:
    """Read what reaches the agent's program, and nothing else."""
    passed = {
        name: value
        for name, value in environ.items()
        if name in PASSED_NAMES or name.startswith("LC_")
    }
    return AgentEnvironment(passed)
