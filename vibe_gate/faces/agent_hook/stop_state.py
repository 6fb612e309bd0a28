"""What the stop hook remembers of a session between two turns, in the session's spool folder.

    stop.json     the last review: up to where the calls were read, what it found, the round
    calls.ndjson  what `spool` wrote of calls that may have written files

Both are hints: lost or damaged, a turn is reviewed once more, or the person is told that it was not.
"""

import json
import os
import time

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


def record_stop(folder: bytes, state: dict[str, object]) -> str:
    """Note the end of a turn among the session's calls, where these have to be recorded, too.

    Returns: why they cannot have been; "" if they can. What lies there then is due again.
    """
    if calls_size(folder) < offset_of(state.get("calls_bytes")):
        try:  # noqa: SIM105  contextlib would cost its import
            write_state(folder, {**state, "calls_bytes": 0, "unread": {}, "holds": False})
        except OSError:  # then the person is told at the next stop, too
            pass
        return "calls.ndjson is shorter than it was"
    captures, session = os.path.split(folder)
    line = b'{"stop": %d}\n' % (time.time_ns() // 1_000_000)
    try:
        spool.append(captures, session, line, spool.CALLS)
    except (OSError, ValueError) as error:
        return f"calls.ndjson: {getattr(error, 'strerror', None) or error}"
    return ""


def offset_of(value: object) -> int:
    """A place in the file that the state names; 0 if it is none."""
    return value if type(value) is int and value > 0 else 0


def unread_calls(folder: bytes, state: dict[str, object]) -> list[dict[str, object]]:
    """The calls that no review has read: since the last one, and in trees that it did not see."""
    start = offset_of(state.get("calls_bytes"))
    trees = state.get("unread")
    offsets = {}
    if isinstance(trees, dict):
        offsets = {tree: offset_of(offset) for tree, offset in trees.items()}
    calls = read_calls(folder, min([start, *offsets.values()]), calls_size(folder))
    unread = []
    for call in calls:
        if offset_of(call["at"]) >= offsets.get(spool.text_of(call, "tree"), start):
            unread.append(call)
    return unread


def read_calls(folder: bytes, start: int, end: int) -> list[dict[str, object]]:
    """The calls between two bytes of the file, each with the byte `at` which it stands.

    A damaged line is left out.
    """
    start = max(start, end - MAX_CALLS_BYTES)
    try:
        descriptor = os.open(
            folder + spool.CALLS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return []
    try:
        text = os.pread(descriptor, max(end - start, 0), start)
    finally:
        os.close(descriptor)
    calls = []
    position = start
    for line in text.split(b"\n"):
        line_start = position
        position += len(line) + 1
        try:
            call = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(call, dict):
            calls.append({**call, "at": line_start})
    return calls


def running_tasks(event: dict[str, object]) -> set[str]:
    """The kinds of tasks that go on in the background of the agent, as Claude Code tells."""
    tasks = event.get("background_tasks")
    if not isinstance(tasks, list):
        return set()
    kinds = set()
    for task in tasks:
        if isinstance(task, dict) and task.get("status") == "running":
            kinds.add(str(task.get("type")))
    return kinds
