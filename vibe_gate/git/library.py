"""libgit2, given objects and nothing else.

It opens a bare repository of our own in the scratch folder, so it never sees the user's
configuration, attributes, refs, index or grafts, and whatever it writes goes to scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel, ObjectType

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlooseCompression = 0\n"
_USER_LEVELS = (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL)


def open_objects(folder: Path, alternates: Sequence[str]) -> pygit2.Repository:
    """A repository in `folder` that reads the objects of `folder`/objects and of the alternates."""
    for name in ("objects/info", "objects/pack", "refs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "config").write_text(_CONFIG)
    for level in _USER_LEVELS:
        pygit2.settings.search_path[level] = ""  # diff.noprefix and the like must not bend a patch
    repository = pygit2.Repository(str(folder))
    repository.write(ObjectType.TREE, b"")  # the empty tree, which git knows without having it
    for path in alternates:
        repository.odb.add_disk_alternate(path)
    return repository
