"""The one place where a face reads the environment of its process.

Nothing of vibe-gate is loaded here before it is asked for: an installation that is broken reports
itself by way of this module.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vibe_gate.domain.environment import Environment


def read_process_environment() -> Environment:
    """Read the environment of this process, as it is now."""
    from vibe_gate.domain.environment import read_environment

    return read_environment(dict(os.environ))


def is_in_actions_step() -> bool:
    """Whether this process runs in a step of GitHub Actions, whose runner obeys lines of output."""
    return bool(os.environ.get("GITHUB_ACTIONS"))
