"""The barrier before something is vouched for: what was written must not be missing after a power cut."""

from __future__ import annotations

import os

from vibe_gate.adapters.bundles.folder import Folder

_SYNC_ONE_BY_ONE = 200
"""Files that are made durable one by one; for more, one sync of everything is faster."""


def make_durable(folder: Folder) -> None:
    """Everything below `folder` is on disk when this returns, names included. OSError."""
    folders, files = [folder], []
    for inside in folders:  # grows while it is walked
        folders += [inside.folder(name) for name in inside.folders()]
        files += [(inside, name) for name in inside.files()]
    if len(files) > _SYNC_ONE_BY_ONE:
        os.sync()
        return
    for inside, name in files:
        descriptor = inside.reading(name)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    for inside in folders:
        inside.sync()
