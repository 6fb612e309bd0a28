"""A project's own conventions, as `AGENTS.md` and `CLAUDE.md` of the trusted revision say them.

A change cannot rewrite what it is judged by: its own version of these files is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def read_guidance(change: Change, gate: Gate, repository: Repository) -> str:
    """What these files say about the changed files, each under its path; "" if there are none.

    If the gate comes with the change, they are read before it.
    """
    tree = repository.tree(change.before)
    # A labelled case has no history.
    if gate.is_trusted and gate.revision and repository.has(gate.revision):
        tree = repository.tree(gate.revision)
    folders = _folders_above(change)
    sections: list[str] = []
    left_letters = MAX_GUIDANCE
    for path, text in _guidance_files(tree, folders[:MAX_FOLDERS]):
        shown_text = text[: max(left_letters, 0)]
        left_letters -= len(text)
        section = f"==== {paths.quote(path)}\n{shown_text}"
        missing_letters = len(text) - len(shown_text)
        if missing_letters:
            section += f"\n[{counted(missing_letters, 'character')} left out here]"
        sections.append(section)
    unread_folders = folders[MAX_FOLDERS:]
    if unread_folders:
        sections.append(f"[{counted(len(unread_folders), 'folder')} not looked into]")
    return "\n\n".join(sections)


def _folders_above(change: Change) -> list[str]:
    """The root ("") and every folder that a changed file is or was in, the nearest to the root
    first.
    """
    folders = {""}
    for file in change.files:
        for path in filter(None, (file.old_path, file.path)):
            names = path.split("/")[:-1]
            for depth in range(1, len(names) + 1):
                folders.add("/".join(names[:depth]) + "/")
    return sorted(folders, key=lambda folder: (folder.count("/"), folder))


def _guidance_files(tree: Tree, folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files that are there, each with its text. Of two that are one, the other is a link, which
    is not read.
    """
    for folder in folders:
        for name in NAMES:
            path = f"{folder}{name}"
            content = tree.read(path)
            if content and content.strip():
                yield path, content.decode("utf-8", "replace").strip()
