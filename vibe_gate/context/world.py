"""The world around a run, and what everything in one run shares."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from vibe_gate.context.deadline import Deadline
    from vibe_gate.context.listeners import Meter
    from vibe_gate.domain.environment import Environment
    from vibe_gate.secrets import Redactor
    from vibe_gate.store.clone_state import CloneState
    from vibe_gate.store.run_recorder import RunRecorder
    from vibe_gate.store.store import Store


class World(Struct, frozen=True):
    """What a run has of the world outside."""

    environment: Environment
    """What was found in the environment of this process."""

    clock: Callable[[], datetime]
    """The time, in UTC."""

    state: CloneState
    """state.db, which all working trees of the clone share."""

    store: Store
    """The folder of bundles."""

    redactor: Redactor
    """Replaces what is secret."""

    worktree: str
    """Git's name of the linked worktree that the run is in; "" of the main one."""


class RunContext(World, frozen=True):
    """What everything in one run shares."""

    record: RunRecorder
    """Where the run is written down."""

    deadline: Deadline

    meter: Meter | None = None
    """Hears what the run costs while it runs."""
