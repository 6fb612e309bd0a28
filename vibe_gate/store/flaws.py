"""What `verify` finds: one flaw is one thing in one place, with a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["corrupt", "foreign", "untidy", "incomplete", "running"]
"""How bad a flaw is.

`corrupt` and `foreign` are integrity errors. `untidy` loses nothing: a crash left it, or
a copy made without links. `incomplete` and `running` are states that a run may have.
"""

What = Literal[
    "run", "entry", "temporary", "digest", "document", "log", "torn", "graph", "sessions", "turn", "content",
    "missing", "unlinked", "object", "unreadable", "tracked",
]  # fmt: skip

WRONG: frozenset[State] = frozenset({"corrupt", "foreign"})


@dataclass(frozen=True, slots=True)
class Flaw:
    """`place` is relative to the store, with "/"; `run` is `<key>/<run id>`, "" where it is about no run."""

    state: State
    what: What
    place: str
    why: str
    run: str = ""
