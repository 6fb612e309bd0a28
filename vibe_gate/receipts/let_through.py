"""What git's hooks let through, by their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vibe_gate.domain.provenance import Record


def let_through(records: Iterable[Record], tree: str) -> Record | None:
    """The newest record of a hook that saw this tree and let it pass, or None.

    `records` are oldest first. A tree that was stopped and committed all the same is
    not let through, whatever an earlier record says of it.
    """
    newest = None
    for record in records:
        if record.tree == tree and _is_of_commit_hook(record):
            newest = None if record.blocked else record
    return newest


def _is_of_commit_hook(record: Record) -> bool:
    """Whether a hook wrote it that saw one commit, not a push."""
    return record.kind in ("reviewed", "not-reviewed") and record.stage != "pre-push"


def changes_let_through(records: Iterable[Record]) -> dict[str, set[str]]:
    """Tree -> the trees from which a hook let a change lead to it, or git made it by itself
    (`during`).

    `records` are oldest first; a record that stopped git takes back what earlier ones say of the
    tree.
    """
    changes: dict[str, set[str]] = {}
    for record in records:
        is_hook = _is_of_commit_hook(record)
        if is_hook and record.blocked:
            changes.pop(record.tree, None)
        elif record.before and (is_hook or (record.kind == "bypassed" and record.during)):
            changes.setdefault(record.tree, set()).add(record.before)
    return changes


def trees_before(changes: Mapping[str, set[str]], tree: str) -> set[str]:
    """The trees from which `changes` lead to `tree`, in one step or in several; the tree itself is
    one.
    """
    reached: set[str] = set()
    waiting = [tree]
    while waiting:
        reached_tree = waiting.pop()
        if reached_tree not in reached:
            reached.add(reached_tree)
            waiting += changes.get(reached_tree, ())
    return reached
