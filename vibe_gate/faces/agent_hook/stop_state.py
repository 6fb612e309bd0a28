"""What the stop hook remembers of a session between two turns, in the session's spool folder.

    stop.json     the last review: up to where the calls were read, what it found, the round
    calls.ndjson  what `spool` wrote of calls that may have written files

Both are hints: lost or damaged, a turn is reviewed once more.
"""

import json
import os

from vibe_gate.faces.agent_hook import spool

STATE = b"/stop.json"

MAX_STATE_BYTES = 1 << 20
MAX_CALLS_BYTES = 64 << 20
"""Of the calls of one session that are read; the oldest are left out."""


def read_state(folder: bytes) -> dict[str, object]:
    """What the last review left; {} if there was none."""
    try:
        state = json.loads(spool.beginning(folder + STATE, MAX_STATE_BYTES))
    except (ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(folder: bytes, state: dict[str, object]) -> None:
    """Keep what a review leaves, whole or not at all. OSError: it cannot be read back."""
    text = json.dumps(state).encode()
    if len(text) > MAX_STATE_BYTES:
        raise OSError("it is too large")
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
    remove_leftovers(folder)
    temporary = folder + b"/stop." + os.urandom(8).hex().encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)
        os.replace(temporary, folder + STATE)  # noqa: PTH105
    except OSError:
        os.unlink(temporary)  # noqa: PTH108
        raise
    if spool.beginning(folder + STATE, MAX_STATE_BYTES) != text:
        raise OSError("it is not what was written")


def remove_leftovers(folder: bytes) -> None:
    """Remove what reviews left that were killed while they wrote."""
    for name in os.listdir(folder):  # noqa: PTH208
        if name.startswith(b"stop.") and folder + b"/" + name != folder + STATE:
            try:
                os.unlink(folder + b"/" + name)  # noqa: PTH108
            except OSError:  # a folder, say: it is in nobody's way
                continue


def calls_size(folder: bytes) -> int:
    """Bytes of the session's calls until now."""
    try:
        return os.stat(folder + spool.CALLS).st_size  # noqa: PTH116
    except OSError:
        return 0


def calls_since(folder: bytes, state: dict[str, object]) -> list[dict[str, object]]:
    """The calls that the last review had not read."""
    offset = state.get("calls_bytes")
    size = calls_size(folder)
    if not isinstance(offset, int) or offset > size:
        offset = 0
    return read_calls(folder, offset, size)


def read_calls(folder: bytes, start: int, end: int) -> list[dict[str, object]]:
    """The calls between two bytes of the file; a damaged line is left out."""
    start = max(start, end - MAX_CALLS_BYTES)
    try:
        descriptor = os.open(
            folder + spool.CALLS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return []
    try:
        text = os.pread(descriptor, end - start, start)
    finally:
        os.close(descriptor)
    calls = []
    for line in text.split(b"\n"):
        try:
            call = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(call, dict):
            calls.append(call)
    return calls


def running_tasks(event: dict[str, object]) -> set[str]:
    """The kinds of tasks that go on in the background of the agent, as Claude Code tells."""
    tasks = event.get("background_tasks")
    kinds = set()
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, dict) and task.get("status") == "running":
            kinds.add(str(task.get("type")))
    return kinds
