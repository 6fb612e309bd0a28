"""A run as the clone in which it began keeps it, outside of the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

RESUMED_FIELDS = (
    "run_id",
    "key",
    "workflow",
    "mode",
    "prompt",
    "change",
    "definitions",
    "trusted",
    "request",
    "agent_run",
)
"""Fields of run.json by which a run is resumed, or repeated, as they were when it began."""


class BegunRun(Struct, frozen=True):
    """A run that began in this clone."""

    worktree: str
    """Git's name of the linked worktree in which it began; "" of the main one."""

    request: str
    """`resume_request` of its run.json when it began."""


def resume_request(run_document: Mapping[str, Any]) -> str:
    """The fields of a run.json by which the run is resumed, as JSON; "" of a run that cannot be."""
    if "request" not in run_document:
        return ""
    fields = {name: run_document[name] for name in RESUMED_FIELDS if name in run_document}
    return json.dumps(fields, sort_keys=True)
