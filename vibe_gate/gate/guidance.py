"""A project's own conventions, as `AGENTS.md` and `CLAUDE.md` of the trusted revision say them.

A change cannot rewrite what it is judged by: its own version of these files is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from vibe_gate.domain import paths
from vibe_gate.domain.change import Change
from vibe_gate.domain.escape import counted
from vibe_gate.domain.gate import Gate
from vibe_gate.git import Repository, Tree

NAMES = ("AGENTS.md", "CLAUDE.md")
"""Of the root, and of each folder above a changed file."""

MAX_GUIDANCE = 20_000
"""Letters that a judge is shown of all of them, the root's first."""

MAX_FOLDERS = 200
"""Folders that are looked into, those nearest to the root first."""


def guidance(change: Change, gate: Gate, repository: Repository) -> str:
    """What these files say about the changed files, each under its path; "" if there are none.

    If the gate comes with the change, they are read before it.
    """
    is_here = (
        gate.is_trusted and gate.revision and repository.has(gate.revision)
    )  # a labelled case has no history
    tree = repository.tree(gate.revision if is_here else change.before)
    folders = _folders_above(
        path for file in change.files for path in (file.old_path, file.path) if path
    )
    texts: list[str] = []
    left, unread = MAX_GUIDANCE, len(folders[MAX_FOLDERS:])
    for path, text in _files(tree, folders[:MAX_FOLDERS]):
        kept = text[: max(left, 0)]
        left -= len(text)
        cut = (
            f"\n[{counted(len(text) - len(kept), 'character')} left out here]"
            if len(kept) < len(text)
            else ""
        )
        texts.append(f"==== {paths.quote(path)}\n{kept}{cut}")
    texts += [f"[{counted(unread, 'folder')} not looked into]"] if unread else []
    return "\n\n".join(texts)


def _folders_above(changed: Iterable[str]) -> list[str]:
    """The root ("") and every folder that a changed file is in, the nearest to the root first."""
    found = {""}
    for path in changed:
        found.update(f"{folder}/" for folder in accumulate(path.split("/")[:-1], "{}/{}".format))
    return sorted(found, key=lambda folder: (folder.count("/"), folder))


def _files(tree: Tree, folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for name in NAMES:
            content = tree.read(
                f"{folder}{name}"
            )  # of two that are one, the other is a link, which is not read
            if content and content.strip():
                yield f"{folder}{name}", content.decode("utf-8", "replace").strip()
