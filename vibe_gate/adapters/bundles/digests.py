"""sha-256 of every log and document that a summary vouches for."""

from __future__ import annotations

import hashlib

from vibe_gate.adapters.bundles import names
from vibe_gate.adapters.bundles.folder import Folder

_OF_THE_RUN = (names.EVENTS, names.RUN, names.GRAPH, names.SESSIONS, names.PATCH)


def digests(bundle: Folder) -> dict[str, str]:
    """By name relative to the bundle: the run's own files, and every file of every turn but its contents.

    Contents under `files/` vouch for themselves: they are named by their hash. OSError.
    """
    present = set(bundle.files())
    found = {name: _digest(bundle, name) for name in _OF_THE_RUN if name in present}
    if "nodes" not in bundle.folders():
        return found
    nodes = bundle.folder("nodes")
    for node_id in nodes.folders():
        node = nodes.folder(node_id)
        for turn_name in node.folders():
            turn = node.folder(turn_name)
            found |= {f"nodes/{node_id}/{turn_name}/{name}": _digest(turn, name) for name in turn.files()}
    return found


def _digest(folder: Folder, name: str) -> str:
    with open(folder.reading(name), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
