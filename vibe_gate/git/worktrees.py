"""The working trees of one repository, and which of them has the store.

A folder is a linked worktree only if the common git directory registers it and the folder's `.git`
points back: files of a reviewed tree can fake the second, never the first, and a folder whose
`.git` is gone holds plain files.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from msgspec import Struct

from vibe_gate.domain import paths
from vibe_gate.domain.bundles import STORE
from vibe_gate.git.program import PATTERNS, Program
from vibe_gate.git.repository_place import RepositoryPlace, is_true, read_git_settings

_REGISTRY = "worktrees"
"""Folder of the common git directory with one folder for each linked worktree."""

_POINTER_BYTES = 1 << 16
"""Of a file that holds one path, read at most."""

_PROBE = ".vibe-gate-probe-"
"""How the name of an empty folder begins that is made and removed at once, to see whether that is
possible.
"""


class LinkedWorktree(Struct, frozen=True):
    """A linked worktree that the repository registers and that is still where it says."""

    name: str
    """Git's own name of it: that of its folder in the common git directory."""
    top: Path


class StoreRoot(Struct, frozen=True):
    """Where a working tree's store is."""

    root: Path
    """The folder with `.vibe-artifacts`: the top of a working tree, or the common git directory."""
    remark: str = ""
    """Why a linked worktree keeps its own store, as a sentence; or ""."""


def linked_worktrees(common_dir: Path) -> list[LinkedWorktree]:
    """The linked worktrees of a repository that are there, by name."""
    registry = common_dir / _REGISTRY
    try:
        names = sorted(entry.name for entry in registry.iterdir())
    except OSError:
        return []
    worktrees = []
    for name in names:
        registered_file = _path_in(registry / name / "gitdir", "")
        if registered_file is None or registered_file.name != ".git":
            continue
        pointer = _path_in(registered_file, "gitdir: ")
        if pointer is not None and os.path.realpath(pointer) == os.path.realpath(registry / name):
            worktrees.append(LinkedWorktree(name, registered_file.parent))
    return worktrees


def worktree_name(git_dir: Path, common_dir: Path) -> str:
    """Git's own name of the linked worktree with this git directory; "" for the main working
    tree.
    """
    if os.path.realpath(git_dir.parent) != os.path.realpath(common_dir / _REGISTRY):
        return ""
    return git_dir.name


def main_working_tree(common_dir: Path, git: Program) -> Path | None:
    """The top of the main working tree; None if there is none, or git cannot say where.

    Git itself knows it only by the place of the git directory, or by `core.worktree`.
    """
    settings = read_git_settings(
        git.elsewhere(common_dir).start("--git-dir=.", "config", "--list", "-z", "--show-scope")
    )
    configured = settings.value("core.worktree")
    if configured:
        top = common_dir / configured
    elif common_dir.name == ".git" and not is_true(settings.value("core.bare") or ""):
        top = common_dir.parent
    else:
        return None
    if not os.path.isdir(top):  # noqa: PTH112 (says no where nobody may look)
        return None
    return Path(os.path.realpath(top))


def inner_worktrees(place: RepositoryPlace) -> list[bytes]:
    """The other working trees of the repository inside of this one, as paths from its top."""
    root = os.path.realpath(place.root)
    tops = [os.path.realpath(worktree.top) for worktree in linked_worktrees(place.common_dir)]
    is_main = place.common_dir == place.git_dir == place.root / ".git"
    is_elsewhere = place.settings.value("core.worktree") is not None
    # Else the main working tree is this one, or not inside of it.
    if (is_elsewhere or not is_main) and _is_inside(os.path.realpath(place.common_dir), root):
        main = main_working_tree(place.common_dir, place.git)
        if main is not None:
            tops.append(os.fspath(main))
    inner_paths = []
    for top in tops:
        if top != root and _is_inside(top, root):
            inner_paths.append(os.fsencode(os.path.relpath(top, root)))
    return sorted(inner_paths)


def store_root_of(place: RepositoryPlace) -> StoreRoot:
    """Where the working tree's store is: one for all working trees, unless that one cannot be
    written.
    """
    if not worktree_name(place.git_dir, place.common_dir):
        return StoreRoot(place.root)
    main = main_working_tree(place.common_dir, place.git)
    shared = place.common_dir if main is None else main
    reason = _why_unwritable(shared)
    if not reason and main is not None and tracks_store(place.git.elsewhere(main)):
        reason = f"git tracks files of {STORE}"
    if not reason:
        return StoreRoot(shared)
    store = paths.quote(os.fspath(shared / STORE))
    remark = f"{store} cannot be written ({reason}), so this worktree keeps its own {STORE}."
    return StoreRoot(place.root, remark)


def tracks_store(git: Program) -> bool:
    """Whether git tracks a file of the store in the working tree that it runs in, or cannot say
    so.
    """
    if not os.path.lexists(git.folder / STORE):
        return False
    listed = git.run("ls-files", "-z", "--", f":(top,icase,literal){STORE}", variables=PATTERNS)
    return bool(listed.code or listed.out)


def _why_unwritable(folder: Path) -> str:
    """Why no store can be written in a folder; "" if one can.

    It is tried: a sandbox may forbid what the permissions allow.
    """
    store = folder / STORE
    if os.path.lexists(store) and not _is_directory(store):
        return "it is not a directory"
    probe = (store if os.path.lexists(store) else folder) / (_PROBE + secrets.token_hex(8))
    try:
        os.mkdir(probe, 0o700)  # noqa: PTH102
        os.rmdir(probe)  # noqa: PTH106
    except OSError as error:
        return error.strerror or "it cannot be written"
    return ""


def _is_directory(path: Path) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


def _path_in(file: Path, prefix: str) -> Path | None:
    """The absolute path that a file of git's holds after a prefix; None if it holds none."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            content = opened.read(_POINTER_BYTES)
    except (OSError, ValueError):
        return None
    text = os.fsdecode(content)
    if not text.startswith(prefix):
        return None
    path = text.removeprefix(prefix).rstrip("\n")
    if path and "\0" not in path:
        return Path(os.path.normpath(file.parent / path))
    return None


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
