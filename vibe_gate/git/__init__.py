"""The git door: the only importer of pygit2, and the only caller of the git program.

`open_repository` finds the repository and lets git walk the working tree at once; the rest
is loaded meanwhile, and libgit2 only when there is something to diff.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_gate.errors import UsageError
from vibe_gate.git import detect, status

if TYPE_CHECKING:
    from vibe_gate.git import authors, changes, compiled, fetching, hooks, library, merging, patch, renames
    from vibe_gate.git.export import Export
    from vibe_gate.git.repository import Repository
    from vibe_gate.git.tree import Tree
    from vibe_gate.git.updates import Updates

__all__ = [
    "Export", "Repository", "Tree", "Updates", "authors", "changes", "compiled", "fetching", "hooks", "library",
    "merging", "open_repository", "patch", "renames",
]  # fmt: skip

_HOMES = {"Export": "export", "Repository": "repository", "Tree": "tree", "Updates": "updates"}
_LATE = (
    "authors",
    "changes",
    "compiled",
    "fetching",
    "hooks",
    "library",
    "merging",
    "patch",
    "renames",
)  # modules that load libgit2 or more than a snapshot or an ordinary diff needs


def open_repository(start: Path, environ: Mapping[str, str], *, walk: bool = False) -> Repository:
    """The repository around `start`, as git would find it there with this environment.

    `walk` says that a snapshot will be asked for next: git starts looking at the working tree
    at once, while the rest of the program is still being loaded.

    UsageError: no repository, a bare one, another owner's. UnsupportedRepository: a format
    that libgit2 cannot read. One sentence each.
    """
    place = detect.find(start, environ)
    early = status.begin(place) if walk else None
    try:
        flags = detect.read_index(place)
    except UsageError:
        if early is not None:
            status.forget(early)
        raise
    made: Repository = import_module(f"{__name__}.repository").Repository(place, early and (early, flags))
    return made


def __getattr__(name: str) -> Any:  # noqa: ANN401 (what a module holds)
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _LATE:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
