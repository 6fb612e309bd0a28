"""A record: one line of what git's hooks saw, kept in `<common git dir>/vibe-gate/records.ndjson`.

A record says that a hook ran, or that it should have and did not. It is local and
unsigned: whoever can write the git directory can write records. `verify` shows
them; nothing that must hold is decided by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from vibe_gate.domain.model import Model

RecordKind = Literal["reviewed", "not-reviewed", "bypassed", "rewritten"]
"""`reviewed`: a hook held the tree against the gate, and it passed or failed. `not-reviewed`: a hook ran but
reached no verdict. `bypassed`: a commit appeared whose tree no hook let through. `rewritten`: commit `old` became
`commit`."""

RecordStage = Literal[
    "pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "manual", "post-commit", "post-rewrite"
]

Operation = Literal["", "rebase", "cherry-pick", "revert", "merge", "am"]
"""What git was in the middle of. For some of its own commits git runs no pre-commit hook; "" with a bypass is
`--no-verify`, or a hook that was switched off."""


class Record(Model):
    """One line.

    `ts` is ISO, UTC. `commit` is "" while there is none (the index was reviewed);
    `tree` is that of the commit, or of the index. `run` is the run id in
    `.vibe-artifacts`, "" without one. `exit_code` is the CLI's code for the verdict
    and `blocked` whether the hook stopped git. `judged`: a model's answer took part.
    `hints` say why the change was held for an agent's. `old` is the commit that was
    rewritten. `reason` is a sentence where there is no verdict.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    ts: str
    kind: RecordKind
    stage: RecordStage
    commit: str = ""
    tree: str = ""
    run: str = ""
    exit_code: int = 0
    blocked: bool = False
    judged: bool = False
    hints: tuple[str, ...] = ()
    during: Operation = ""
    old: str = ""
    reason: str = ""

    def to_line(self) -> bytes:
        """The record as one line of JSON; what is left at its default is left out."""
        said = self.model_dump_json(by_alias=True, exclude_defaults=True, exclude={"schema_"})
        return b'{"schema":1,' + said.removeprefix("{").encode() + b"\n"


def let_through(records: Iterable[Record], tree: str) -> Record | None:
    """The newest record of a hook that saw this tree and let it pass, or None.

    `records` are oldest first. A tree that was stopped and committed all the same is
    not let through, whatever an earlier record says of it.
    """
    found = None
    for record in records:
        if record.tree == tree and record.kind in ("reviewed", "not-reviewed") and record.stage != "pre-push":
            found = None if record.blocked else record
    return found
