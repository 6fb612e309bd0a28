"""The git door: the only importer of pygit2, and the only caller of the git program.

`open_repository` finds the repository without loading libgit2; the rest is loaded when the
`Repository` is made, while git already walks the working tree (see `walk`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_gate.adapters.git import detect, status

if TYPE_CHECKING:
    from vibe_gate.adapters.git.export import Export
    from vibe_gate.adapters.git.repository import Repository
    from vibe_gate.adapters.git.tree import Tree

__all__ = ["Export", "Repository", "Tree", "open_repository"]

_HOMES = {"Export": "export", "Repository": "repository", "Tree": "tree"}


def open_repository(start: Path, environ: Mapping[str, str], *, walk: bool = False) -> Repository:
    """The repository around `start`, as git would find it there with this environment.

    `walk` says that a snapshot will be asked for: git starts looking at the working tree
    at once, while libgit2 is still being loaded.

    UsageError: no repository, a bare one, another owner's. UnsupportedRepository: a format
    that libgit2 cannot read. One sentence each.
    """
    place = detect.find(start, environ)
    early = status.begin(place.git) if walk else None
    made: Repository = import_module(f"{__name__}.repository").Repository(place, early)
    return made


def __getattr__(name: str) -> Any:  # noqa: ANN401 (what a module holds)
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
