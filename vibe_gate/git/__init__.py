"""The git door: the only importer of pygit2, and but for `doctor`, which asks its version, the only
caller of the git program.

`open_repository` finds a repository; everything else is a method of `Repository`. pygit2 is loaded
when the first object is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_gate.domain.environment import Environment
from vibe_gate.git import repository_place
from vibe_gate.git.commit_log import commit_columns
from vibe_gate.git.export import Export
from vibe_gate.git.fetch import Credentials
from vibe_gate.git.hooks import HeadCommit, Pushed
from vibe_gate.git.program import Program, run_as_user
from vibe_gate.git.repository import Repository
from vibe_gate.git.repository_copy import RepositoryCopy
from vibe_gate.git.trees import Tree
from vibe_gate.git.updates import NewCommit, Updates
from vibe_gate.git.workspace import Workspace

if TYPE_CHECKING:
    from vibe_gate.git.new_repository import Draft, make_repository

__all__ = [
    "Credentials",
    "Draft",
    "Export",
    "HeadCommit",
    "NewCommit",
    "Pushed",
    "Repository",
    "RepositoryCopy",
    "Tree",
    "Updates",
    "Workspace",
    "commit_columns",
    "make_repository",
    "open_repository",
    "run_as_user",
]


def open_repository(start: Path, environment: Environment) -> Repository:
    """The repository around `start`, as git would find it there with this environment.

    UsageError: no repository, a bare one, another owner's. UnsupportedRepository: a format
    that vibe-gate cannot read. One sentence each.
    """
    git = Program(start, environment.variables)
    return Repository(repository_place.find_repository(git, environment))


def __getattr__(name: str) -> Any:  # noqa: ANN401 (what a module holds)
    if name in ("Draft", "make_repository"):
        from vibe_gate.git import new_repository

        return getattr(new_repository, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
