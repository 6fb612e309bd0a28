"""How a command of the repository ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended in an export of the head tree.

    `exit_code` is None when it was not finished: `failure` then says why
    (not found, timed out after N s). `output` is stdout and stderr together, its
    tail at most, undecodable bytes replaced. `lacks` says what of the wall around
    commands this system does not have; "" where it stands.
    """

    exit_code: int | None
    output: str
    failure: str = ""
    duration_ms: int = 0
    lacks: str = ""
