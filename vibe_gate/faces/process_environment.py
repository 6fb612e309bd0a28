"""The one place where a face reads the environment of its process."""

from __future__ import annotations

import os

from vibe_gate.domain.environment import Environment, read_environment


def read_process_environment() -> Environment:
    """Read the environment of this process, as it is now."""
    return read_environment(dict(os.environ))
