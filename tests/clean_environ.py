"""The environment of a test: nothing of this machine's."""

from __future__ import annotations

import os
from pathlib import Path

import sdk_alone

from vibe_gate.domain import CI_VARIABLES

# PYTHON: with PYTHONDONTWRITEBYTECODE, as containers set it, each program that a test starts would
# compile the product.
_FOREIGN = ("GIT_", "ANTHROPIC_", "CLAUDE", "AWS_", "VIBE_GATE_", "PRE_COMMIT", "GITHUB_", "PYTHON")


def clean_environ(home: Path) -> dict[str, str]:
    """An environment without keys, git variables, proxies or agents' marks, and with its own
    home.
    """
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN)
        and not name.upper().endswith("_PROXY")
        and name not in CI_VARIABLES
    }
    return variables | {
        "HOME": str(home),
        "PATH": f"{sdk_alone.REAL}:{os.environ.get('PATH', os.defpath)}",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
        "LC_ALL": "C.UTF-8",
        "NO_PROXY": "127.0.0.1",
    }
