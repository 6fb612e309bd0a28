"""Whether git may track something of a store, told without git. Imports next to nothing, for `bundles list`."""

from __future__ import annotations

import os
import sys

_SIGNATURE = b"DIRC"
_WHOLE_NAMES = (b"\0\0\0\2", b"\0\0\0\3")
"""Versions of git's index that write every path out; version 4 leaves out what it shares with the path before."""


_LONGEST_PATH = 4096


def may_be_tracked(root: str) -> bool:
    """Whether the index of the repository at `root` may name `.vibe-artifacts`; False where there is no repository.

    Every doubt is True: an index of another version or in two parts, a disk that may
    ignore case.
    """
    git = os.path.join(root, ".git")  # noqa: PTH118  pathlib would cost its import
    if not os.path.lexists(git):
        return False
    try:
        if os.path.isfile(git):  # noqa: PTH113  a linked working tree, or a submodule
            git = _folder_of(root, git)
        if sys.platform != "linux" or not os.path.isdir(git):  # noqa: PTH112
            return True
        if any(name.startswith("sharedindex.") for name in os.listdir(git)):  # noqa: PTH208
            return True
        with open(os.path.join(git, "index"), "rb") as file:  # noqa: PTH118
            data = file.read()
    except FileNotFoundError:
        return False  # nothing was ever added
    except OSError:
        return True
    return data[:4] != _SIGNATURE or data[4:8] not in _WHOLE_NAMES or b"vibe-artifacts" in data


def _folder_of(root: str, git: str) -> str:
    """The folder that a `.git` file names. OSError."""
    with open(git, "rb") as file:
        words = file.read(_LONGEST_PATH)
    name = os.fsdecode(words.removeprefix(b"gitdir:").strip()) if words.startswith(b"gitdir:") else "."
    return os.path.join(root, name)  # noqa: PTH118
