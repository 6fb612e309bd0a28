"""Whose a line is: the commit that brought it, and the turn of a captured session that wrote it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Author = Literal["agent", "person", "unknown"]
"""`person`: there is no sign of an agent, and sessions were captured at that time. `unknown`:
neither is known.
"""


class LineOrigin(Struct, frozen=True, kw_only=True):
    """Who wrote a line (from 1) of a file, and in which commit ("": it is not committed).

    Of an agent's line: the agent, its captured session, the turn (0: before the first prompt), the
    first line of what was asked, the tool and its call. `at` is when: of the call, else of the
    commit (its author's clock), ISO 8601 in UTC, "" if that is not known. `source` is "captured",
    "applied" (the agent is one of the gate's, and `--apply` put what it wrote into the working
    tree), or "". Of an agent's line that only an Agent Trace record claims, it is the tool that
    wrote the record, and `agent` the model that the record names. `why` is the sign of an agent
    because of which nobody is named, or "".
    """

    line: int
    commit: str
    by: Author
    agent: str = ""
    session: str = ""
    turn: int = 0
    asked: str = ""
    tool: str = ""
    tool_use_id: str = ""
    at: str = ""
    source: str = ""
    why: str = ""


class BlamedLine(Struct, frozen=True):
    """What `git blame` says of a line: the commit that brought it, the file's path and the line's
    number there.

    `before` and `before_path` are the commit and the path that it was compared with, "" if the file
    was new.
    """

    line: int
    commit: str
    path: str
    number: int
    before: str = ""
    before_path: str = ""


class FileAt(Struct, frozen=True):
    """A commit that changed a file; times are seconds since 1970."""

    commit: str
    authored: int
    committed: int
    path: str
