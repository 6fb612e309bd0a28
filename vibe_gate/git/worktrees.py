"""The other working trees of a repository: the main one, and those that `git worktree add` linked to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MAX_WORKTREES = 100
"""Linked working trees that are looked at."""

_MAX_BYTES = 10_000

_REDIRECTIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""What a hook's environment says of the working tree that git runs it in."""


def others(common_dir: Path, root: Path) -> list[Path]:
    """The roots of all working trees but the one at `root`; what is not there any more is left out."""
    found = [common_dir.parent] if common_dir.name == ".git" else []
    for file in sorted(common_dir.glob("worktrees/*/gitdir"))[:MAX_WORKTREES]:
        if file.is_file() and file.stat().st_size <= _MAX_BYTES:
            # Absolute, or from where it stands, as newer gits write it on request.
            found.append((file.parent / file.read_bytes().decode("utf-8", "surrogateescape").rstrip("\n")).parent)
    own = root.resolve()
    return [place for place in dict.fromkeys(found) if (place / ".git").exists() and place.resolve() != own]


def environ_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which another working tree can be opened."""
    return {name: value for name, value in environ.items() if name not in _REDIRECTIONS}
