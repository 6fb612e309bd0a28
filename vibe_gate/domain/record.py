"""A record: what one of git's hooks saw, kept in `<common git dir>/vibe-gate/state.db`.

A record says that a hook ran, or that it should have and did not. It is local and
unsigned: whoever can write the git directory can write records. `verify` shows
them; nothing is let pass because of them. Hints in them can make a later review stricter.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Literal

from pydantic import Field

from vibe_gate.domain.model import Model

RecordKind = Literal["reviewed", "not-reviewed", "bypassed", "rewritten", "unseen"]
"""`reviewed`: a hook held the tree against the gate, and it passed or failed. `not-reviewed`: a hook ran but
reached no verdict. `bypassed`: a commit appeared whose tree no hook let through. `rewritten`: commit `old` became
`commit`. `unseen`: of a commit that a push brings, or that was rewritten, and no hook saw being made, or of a merge
that differs in nothing from its first parent: only its hints count."""

RecordStage = Literal[
    "pre-commit", "pre-merge-commit", "commit-msg", "pre-push", "manual", "post-commit", "post-rewrite",
    "reference-transaction",
]  # fmt: skip

Operation = Literal["", "rebase", "cherry-pick", "revert", "merge", "am"]
"""What git was in the middle of. For some of its own commits git runs no pre-commit hook: with a bypass, what it made
by itself, as its content shows; "" is `--no-verify`, a hook that was switched off, a conflict that somebody solved."""


class Record(Model):
    """One line.

    `ts` is ISO, UTC. `commit` is "" while there is none (the index was reviewed);
    `tree` is that of the commit, or of the index. `run` is the run id in
    `.vibe-artifacts`, "" without one. `exit_code` is the CLI's code for the verdict
    and `blocked` whether the hook stopped git. `judged`: a model's answer took part.
    `hints` say why the change was held for an agent's. `old` is the commit that was
    rewritten. `reason` says why there is no verdict, or what a bypass claimed to be. `again`: the gate wants
    commit-msg to ask a judge whatever the message says.
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
    again: bool = False

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


MAX_HINTS = 20
"""Recorded hints that are told of one commit: one is enough to be strict."""


class Hints:
    """What hooks wrote down about who made a commit, or a tree that became one.

    A later review cannot see the environment in which a commit was made; the hooks
    did. What the review of a push recorded is left out: it speaks of a whole range.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_object: dict[str, list[str]] = {}
        self._before: dict[str, set[str]] = {}
        for record in records:
            if record.kind == "rewritten":
                self._before.setdefault(record.commit, set()).add(record.old)
            elif (record.stage != "pre-push" or record.kind == "unseen") and record.hints:
                for name in filter(None, {record.commit, record.tree}):
                    self._by_object.setdefault(name, []).extend(record.hints)

    def of(self, commit: str, tree: str, known: Container[str] = ()) -> tuple[str, ...]:
        """The hints about a commit ("": one that is about to be made), those it was rewritten from, and its tree.

        What is `known` already is left out.
        """
        names, waiting = {tree}, [commit]
        while waiting:
            name = waiting.pop()
            if name and name not in names:
                names.add(name)
                waiting += sorted(self._before.get(name, ()))
        # A hook that reviewed a range recorded what other commits say, too.
        own_names = tuple(f"commit {name[:12]}: " for name in names)
        own = f"commit {commit[:12]}" if commit else "this commit"
        found = [
            hint
            for name in sorted(names)
            for hint in self._by_object.get(name, ())
            if not hint.startswith("commit ") or hint.startswith(own_names)
        ]
        said = dict.fromkeys(_of_commit(own, hint) for hint in found if hint not in known)
        return tuple(hint for hint in said if hint not in known)[:MAX_HINTS]


def _of_commit(own: str, hint: str) -> str:
    """The hint as it reads later: of the commit by its name, as `provenance` words it, or as what a hook recorded."""
    if hint.startswith("commit "):
        return hint
    if hint.startswith("this commit: "):
        return f"{own}: {hint.removeprefix('this commit: ')}"
    return f"{own}: recorded: {hint}"
