"""Refuse, before the tool runs, what would go around the gate; say nothing about everything else.

    python -I -S .../guard.py < event.json

Most calls end after a search for a few words in the event; only where one of them
stands is it parsed and held against the rules. Whatever cannot be understood goes
through, and is noted as a gap.
"""

import os
import sys

MARKS = (
    b"git", b"hook", b"vibe", b"no-v", b"noverify", b"no_verify", b"pre-", b"post-", b"commit", b"prek", b"husky",
    b"settings", b".claude", b"patch",
)  # fmt: skip
"""One of them stands in everything that is refused, once quotes and backslashes are left out,"""

MAKING = (b"$'", b"$(", b"${", b"`")
"""or one of these, which may make them,"""

PATTERN = (b"*", b"?", b"[", b"{")
DOTTED = (b".g", b".v", b".p", b".c", b".*", b".?", b".[", b".{")
"""or one of each of these, which may mean them."""

CONTINUED = b"\\\\\\n"  # a backslash and a line feed, as JSON writes them
QUOTING = b"'\"\\"
LONGEST_PATH = 5000
EDITING = {"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}


def main() -> int:
    """Judge the event on stdin; the decision, if there is one, goes to stdout."""
    try:
        event = read_all()
        if worth_a_look(event):
            judge(event)
    except BaseException:  # noqa: BLE001, S110  the agent goes on whatever happens here
        pass
    return 0


def worth_a_look(event: bytes) -> bool:
    """Whether the tool's input may hold something to refuse."""
    # A key is written with bare quotes, which no text inside the event can hold.
    start = max(event.find(b'"tool_input":'), 0)
    asked = event[start:].lower()
    if (path := edited(asked)) and b'"tool_name":"mcp__' not in event[:start]:
        return any(mark in path for mark in MARKS)
    if any(mark in asked for mark in MARKS) or any(mark in asked for mark in MAKING):
        return True
    inside = asked[len(b'"tool_input":{') :]
    if any(mark in inside for mark in PATTERN) and any(mark in inside for mark in DOTTED):
        return True
    plain = asked.replace(CONTINUED, b"").translate(None, QUOTING)
    return any(mark in plain for mark in MARKS)


def edited(asked: bytes) -> bytes:
    """The path of the file that a tool would write, of which alone it depends; b"" where all must be looked at."""
    for key in (b'"file_path":', b'"notebook_path":'):
        at = asked.find(key)
        if at >= 0:
            _, _, rest = asked[at + len(key) : at + len(key) + LONGEST_PATH].partition(b'"')
            path, closed, _ = rest.partition(b'"')
            return path if closed and b"\\" not in path else b""
    return b""


def judge(event: bytes) -> None:
    """Refuse the call, if it is one to refuse; note what cannot be understood."""
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))  # noqa: PTH100, PTH120
    try:
        if refusal := load("verdict").refusal(event, os.environ):
            refuse(event, refusal)
    except BaseException as error:  # noqa: BLE001
        spool = load("spool")
        if folder := spool.spool_folder(os.environ):
            spool.note_gap(folder, f"guard: {type(error).__name__}: {error}")


def refuse(event: bytes, reason: str) -> None:
    """Say so, and keep it with the session: a refused call has no event of its own afterwards."""
    words, spool = load("refusal"), load("spool")
    os.write(1, words.decision(reason))
    if folder := spool.spool_folder(os.environ):
        spool.keep(folder, words.noted(event, reason))


def load(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """A module of this package, now that it is needed."""
    return __import__("vibe_gate.faces.claude_hook." + name, fromlist=["_"])


def read_all() -> bytes:
    """All of stdin."""
    parts = []
    while part := os.read(0, 1 << 20):
        parts.append(part)
    return b"".join(parts)


if __name__ == "__main__":
    main()
    os._exit(0)  # nothing is left to be flushed or cleaned up
