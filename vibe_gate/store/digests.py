"""sha-256 of every log and document that a summary vouches for."""

from __future__ import annotations

import hashlib

from vibe_gate.store import names
from vibe_gate.store.folder import Folder


def digests(bundle: Folder) -> dict[str, str]:
    """By name relative to the bundle: the run's own files, and every file of every turn but its contents.

    Contents under `files/` vouch for themselves: they are named by their hash. OSError.
    """
    present = set(bundle.files())
    found = {name: digest(bundle, name) for name in names.VOUCHED if name in present}
    if "nodes" not in bundle.folders():
        return found
    nodes = bundle.folder("nodes")
    for node_id in nodes.folders():
        node = nodes.folder(node_id)
        for turn_name in node.folders():
            turn = node.folder(turn_name)
            found |= {f"nodes/{node_id}/{turn_name}/{name}": digest(turn, name) for name in turn.files()}
    return found


def digest(folder: Folder, name: str) -> str:
    """sha-256 in hex of a regular file, streamed. OSError."""
    with open(folder.reading(name), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
