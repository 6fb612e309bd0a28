"""Which files of a working tree a session wrote, by its calls: those that it named, and those that
changed while one of its commands ran.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

LATENCY_S = 2.0
"""A call's line is written by a process that starts after the call, on a busy machine so late."""

_TICK_S = 0.001
"""The moment of a line is cut to whole milliseconds."""


class SessionWrites(Struct, frozen=True):
    """What a session wrote in one working tree."""

    root: str
    """The top of the working tree, with links resolved."""

    paths: frozenset[str]
    """Files that its tools named, with links resolved."""

    spans: tuple[tuple[float, float], ...]
    """When its commands ran: seconds since 1970, from and to."""

    def has(self, name: str) -> bool:
        """Whether the session wrote the file (below the root, as git has it), or deleted it."""
        path = os.path.join(self.root, name)  # noqa: PTH118
        if path in self.paths or os.path.realpath(path) in self.paths:
            return True
        return self._has_moment_of(Path(path))

    def _has_moment_of(self, path: Path) -> bool:
        """Whether a command ran when the file, or for a deleted one its folder, changed last."""
        for place in (path, *path.parents):
            try:
                status = place.lstat()
            except OSError:
                continue
            moments = (status.st_mtime, status.st_ctime)
            return any(self._is_within_a_command(moment) for moment in moments)
        return False

    def _is_within_a_command(self, moment: float) -> bool:
        return any(start <= moment <= end for start, end in self.spans)


def writes_by_calls(calls: Iterable[Mapping[str, object]], root: Path, now: float) -> SessionWrites:
    """What the calls of a session wrote below `root`; `now` is in seconds since 1970."""
    paths: set[str] = set()
    spans: list[tuple[float, float]] = []
    prompt_at = 0.0
    for call in calls:
        moment = call.get("ts")
        if not isinstance(moment, int):
            continue
        ended_at = moment / 1000
        if "paths" not in call:
            prompt_at = ended_at
            continue
        names = call["paths"]
        if isinstance(names, list) and names:
            paths.update(os.path.realpath(name) for name in names if isinstance(name, str))
            continue
        last_moment = now if call.get("goes_on") is True else ended_at + _TICK_S
        spans.append((_first_moment(call, ended_at, prompt_at), last_moment))
    return SessionWrites(os.path.realpath(root), frozenset(paths), tuple(spans))


def _first_moment(call: Mapping[str, object], ended_at: float, prompt_at: float) -> float:
    """When the call may have begun: at any moment since the prompt, if the agent does not tell how
    long it took.
    """
    duration_ms = call.get("ms")
    if isinstance(duration_ms, (int, float)):
        return ended_at - duration_ms / 1000 - LATENCY_S
    return prompt_at
