"""Whether all that a session did was captured: the agent's own transcript names the calls that were done.

Hooks in the background end with the program that started them, and where it is
killed, or a call of capture takes longer than the wait at the end, its last events are lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from vibe_gate.domain.expressions import expression
from vibe_gate.store.captures.opened import appending, reading

MAX_TRANSCRIPT_BYTES = 256 << 20
MAX_CALLS_BYTES = 16 << 20
MAX_NAMED = 100
"""Missing calls that are named; their number tells of the others."""

SETTLING_S = 2.0
"""The event of a call that was done no longer ago may still be on its way."""

_ID = expression(r"[A-Za-z0-9_-]{1,100}")


def call_of(event: Mapping[str, Any]) -> str | None:
    """The id of the tool call whose end an event tells."""
    number = event.get("tool_use_id")
    ends = event.get("hook_event_name") in ("PostToolUse", "PostToolUseFailure")
    return number if ends and isinstance(number, str) and _ID.fullmatch(number) else None


def note_calls(folder: Path, calls: Iterable[str]) -> None:
    """Remember calls whose events were captured, by digests of their ids; twice is once. OSError."""
    data = "".join(f"{_digest(number)}\n" for number in calls).encode()
    if data:
        with appending(folder / "calls") as file:
            file.write(data)


def status(folder: Path, transcript: str, ended: bool, now: datetime) -> dict[str, Any]:
    """`hookCaptureStatus` of a session, in the seed's words."""
    warnings = [] if ended else ["the session has not ended yet, or was killed"]
    done = _done(transcript, now)
    noted = _noted(folder)
    missing = sorted(number for number in done or () if not noted & {_digest(number), number})
    if done is None:
        warnings.append("the agent's transcript cannot be read: nothing tells which events are missing")
    aside = sum(1 for _ in folder.glob("damaged-*.ndjson"))
    if aside:
        warnings.append(f"events that could not be read were set aside ({aside} times)")
    if len(missing) > MAX_NAMED:
        warnings.append(f"{len(missing)} calls have no event")
    return {
        "complete": done is not None and ended and not missing and not aside,
        "missingEvents": [f"PostToolUse {number}" for number in missing[:MAX_NAMED]],
        "warnings": warnings,
    }


def _digest(number: str) -> str:
    """An id says whatever its sender likes, a secret too, and stays after the redacted events are gone."""
    return hashlib.sha256(number.encode()).hexdigest()[:32]


def _noted(folder: Path) -> set[str]:
    """Digests of ids; the ids themselves as earlier versions noted them."""
    try:
        with reading(folder / "calls") as file:
            return set(file.read(MAX_CALLS_BYTES).decode("ascii", "replace").split())
    except OSError:
        return set()


def _done(transcript: str, now: datetime) -> set[str] | None:
    """Calls that the transcript says were done without an error; None where it cannot be read."""
    if not transcript.endswith(".jsonl"):
        return None
    try:
        descriptor = os.open(transcript, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    found: set[str] = set()
    kept = os.fstat(descriptor)
    if not stat.S_ISREG(kept.st_mode) or kept.st_size > MAX_TRANSCRIPT_BYTES:
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        for line in file:
            if b'"tool_result"' in line:
                with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
                    found |= _results(json.loads(line), now)
    return found


def _results(document: Any, now: datetime) -> set[str]:  # noqa: ANN401 - JSON
    """Of one line of the transcript."""
    told = datetime.fromisoformat(document["timestamp"].replace("Z", "+00:00"))
    if (now - told).total_seconds() < SETTLING_S:
        return set()
    return {
        block["tool_use_id"]
        for block in document["message"]["content"]
        if block["type"] == "tool_result" and block.get("is_error") is not True and _ID.fullmatch(block["tool_use_id"])
    }
