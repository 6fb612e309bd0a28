"""What git's hooks let through, by their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vibe_gate.domain.provenance import Record


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


def changes_let_through(records: Iterable[Record]) -> dict[str, set[str]]:
    """Tree -> the trees from which a hook let a change lead to it, or git made it by itself (`during`).

    `records` are oldest first; a record that stopped git takes back what earlier ones say of the tree.
    """
    changes: dict[str, set[str]] = {}
    for record in records:
        is_hook = record.kind in ("reviewed", "not-reviewed") and record.stage != "pre-push"
        if is_hook and record.blocked:
            changes.pop(record.tree, None)
        elif record.before and (is_hook or (record.kind == "bypassed" and record.during)):
            changes.setdefault(record.tree, set()).add(record.before)
    return changes


def trees_before(changes: Mapping[str, set[str]], tree: str) -> set[str]:
    """The trees from which `changes` lead to `tree`, in one step or in several; the tree itself is one."""
    found, left = set[str](), {tree}
    while left:
        found |= left
        left = {before for tree in left for before in changes.get(tree, ())} - found
    return found
